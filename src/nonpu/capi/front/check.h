/* NONPU_CHECK=1: C notes what the program does, and watches the borders of its memory; nonpu.capi.check judges. Without
   the variable each place below costs one branch, which is never taken. */
#ifndef NONPU_CHECK_H
#define NONPU_CHECK_H

#include <stddef.h>
#include <stdint.h>

struct nonpu_task;

extern int nonpu_checking;          /* facts are noted */
extern int nonpu_guarding;          /* blocks have guards: as above, but in a forked child too */

#define NONPU_CHECKED(statement) do { if (__builtin_expect(nonpu_checking, 0)) statement; } while (0)
#define NONPU_NOTE(...) NONPU_CHECKED(nonpu_note(__VA_ARGS__))

/* Add a fact; whatever locks are held. `api` must stay. */
void nonpu_note(int32_t kind, const char *api, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
void nonpu_note_failure_text(const char *text);
void nonpu_note_described(uintptr_t handle);              /* the object that the next failure of this thread is about */
void nonpu_note_arguments(uintptr_t executor, int32_t count, const nonpu_argument *arguments);
/* What work that a stream has accepted will read and write; stream 0: at once. */
void nonpu_note_plan(const char *api, uintptr_t stream, const nonpu_plan *plan);
void nonpu_note_task(const char *api, uintptr_t stream, const struct nonpu_task *task);
void nonpu_note_copy(const char *api, const void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height);
void nonpu_note_list(const uintptr_t *elements, uint64_t count);      /* what a list owns */
/* Let Python look at the facts if there are many; no lock may be held. */
void nonpu_digest(void);

/* Blocks with guards before and behind them (guard.c). */
void *nonpu_guarded(size_t bytes, size_t capacity);       /* aligned to a page, or NULL */
void nonpu_check_guards(const char *api, const void *block);          /* of this block, or near all of them (NULL) */
void nonpu_release_guarded(void *block);                  /* poisoned, and kept for a while */
void nonpu_check_released(void);                          /* whether somebody wrote to what is kept */
void nonpu_forget_guards(void);                           /* in a forked child */

#endif
