/* What the files of the front library share. Nothing here knows an operator. */
#ifndef NONPU_FRONT_H
#define NONPU_FRONT_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"

#pragma GCC visibility push(default)
#include "native.h"
#pragma GCC visibility pop
#include "table.h" /* generated: the functions that Python implements */
#include "check.h"

/* ---- error texts (error.c) ---- */
/* Record "<api>: <what> must be <expected> (got <actual>)" and return the status. */
int nonpu_fail(int status, const char *api, const char *what, const char *expected, const char *actual);
typedef struct { char text[64]; } nonpu_text;
nonpu_text nonpu_number(int64_t number);
int nonpu_unsupported(const char *api);                   /* a function that is exported without working: 200001 */

/* ---- handles (handle.c) ---- */
/* A pool of equal records behind handles: tag (16 bits), slot (24), generation (24). A generation is odd while the
   record lives, so that a destroyed, foreign or invented handle never matches. Slots are reused first in, first out. */
typedef struct {
    uint64_t tag;
    size_t record_bytes;
    uint32_t chunk_slots;           /* a power of two */
    uint32_t capacity, first, last; /* of the free list; slot numbers + 1, 0 = none */
    pthread_mutex_t lock;
    char **chunks;
} nonpu_pool;

extern nonpu_pool nonpu_tensors, nonpu_scalars, nonpu_executors, nonpu_streams;
/* Arrays, lists, data buffers (meta.c), in the order of their tags. */
enum { NONPU_INT_ARRAYS, NONPU_FLOAT_ARRAYS, NONPU_BOOL_ARRAYS, NONPU_TENSOR_LISTS, NONPU_SCALAR_LISTS, NONPU_BUFFERS, NONPU_BLOCKS };
typedef struct { uint64_t size; void *data; } nonpu_block;      /* of a list: the handles */
extern nonpu_pool nonpu_blocks[NONPU_BLOCKS];

enum { NONPU_STREAM_BYTES = 256, NONPU_CHUNKS = 4096 };   /* room for a record that only queue.h knows; chunks of a pool */

void *nonpu_take(nonpu_pool *pool);                       /* a record, not yet live; NULL when memory ends */
uintptr_t nonpu_publish(nonpu_pool *pool, void *record);  /* make it live: its handle */
void *nonpu_find(nonpu_pool *pool, uintptr_t handle);     /* the live record, or NULL */
void *nonpu_claim(nonpu_pool *pool, uintptr_t handle);    /* end its life; one caller wins, others get NULL */
void nonpu_recycle(nonpu_pool *pool, void *record);       /* a claimed record may be taken again */
void nonpu_set_owned(void *record, uint32_t owned);      /* by a list, which alone may destroy it; until it is published anew */
int nonpu_is_owned(const void *record);
void *nonpu_slot(nonpu_pool *pool, uint32_t index);       /* for walks over all records, live or not */
uintptr_t nonpu_handle(nonpu_pool *pool, void *record);   /* 0 unless live */
uint32_t nonpu_index(const void *record);                 /* the number of its slot */
nonpu_text nonpu_describe(nonpu_pool *pool, uintptr_t handle);  /* for messages: what this handle is instead */

nonpu_argument nonpu_tensor_argument(const aclTensor *tensor);
nonpu_argument nonpu_scalar_argument(const aclScalar *scalar);

/* Copies of a call's arguments: of one that is judged, so that it stays as it is, and of one that may be judged again with
   other addresses, since the objects may be gone by then. */
enum { NONPU_PASSED = 12 };
typedef struct {
    int32_t count;
    nonpu_argument arguments[NONPU_PASSED];
    union { nonpu_tensor tensor; nonpu_scalar scalar; } records[NONPU_PASSED];
} nonpu_kept;
void nonpu_copy_arguments(nonpu_kept *to, int32_t count, const nonpu_argument *arguments);  /* at most NONPU_PASSED */

typedef struct {
    int32_t repeatable;
    int32_t operator_index;         /* -1: made by Python, which keeps operators apart itself */
    nonpu_kept *kept;               /* from the time when it was made repeatable or was rebound; else null */
    uint64_t frees;                 /* nonpu_frees when the plan's memory was last known to be live */
    uint64_t passed[NONPU_PASSED];  /* what phase one was given: handles and flags */
    nonpu_plan plan;
} nonpu_executor;

/* ---- both phases (phase.c) ---- */
/* By operator, a letter per argument: i input, o output, s scalar, f flag. Generated. */
extern const char *const nonpu_signatures[];
/* Judge a call, or recall its judgement, and fill the plan. */
int32_t nonpu_plan_call(int32_t operator_index, const char *api, int32_t count, const nonpu_argument *arguments, nonpu_plan *plan);
int32_t nonpu_no_executor(int32_t status, const char *api, uintptr_t handle);
int32_t nonpu_phase_one(int32_t operator_index, const char *api, int32_t count, nonpu_argument *arguments,
                        uint64_t *workspace_size, aclOpExecutor **executor);
int32_t nonpu_phase_two(int32_t operator_index, const char *api, const void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                        aclrtStream stream);

/* ---- other addresses for a planned call (rebind.c) ---- */
void nonpu_keep_arguments(nonpu_executor *executor);      /* unless they are gone already */
void nonpu_drop_arguments(nonpu_executor *executor);

/* ---- calls judged before (memo.c) ---- */
typedef struct {
    uint64_t hash, key[256];
    uint32_t words;
} nonpu_call;

void nonpu_copy_plan(nonpu_plan *to, const nonpu_plan *from);
/* Describe a call; 1 and its plan if the judge has accepted it before. */
int nonpu_recall(nonpu_call *call, int32_t operator_index, int32_t count, const nonpu_argument *arguments, nonpu_plan *plan);
void nonpu_remember(const nonpu_call *call, const nonpu_plan *plan);

/* ---- device, contexts, streams (context.c, queue.c) ---- */
int nonpu_has_context(void);
int nonpu_no_context(const char *api);                    /* records the text, returns 107002 */
/* Queue the plan, or run it at once if it is small and the stream idle. The plan is copied. */
int32_t nonpu_submit(const char *api, uintptr_t stream, const nonpu_plan *plan);
int nonpu_is_busy(void);                                  /* work is queued or running somewhere */
uint64_t nonpu_issued(void);                              /* the number of the last piece of work that was accepted */

/* ---- threads (team.c) ---- */
int nonpu_start_thread(pthread_t *thread, void *(*body)(void *), void *argument);   /* an error number, or 0 */

/* ---- stacks (stack.c) ---- */
#define NONPU_FOREIGN_STACK SIZE_MAX
/* Bytes below the caller; NONPU_FOREIGN_STACK on one that the thread was not started with, a coroutine's say. */
size_t nonpu_stack_left(void);
int nonpu_lacks_stack(const char *api, size_t wanted);    /* 1, and a text, if that many bytes are not there */

/* ---- memory (memory.c) ---- */
extern size_t nonpu_deferred;                             /* blocks that aclrtFree has put aside; read it atomically */
void nonpu_release_deferred(uint64_t oldest);             /* free what only work numbered below this could use */
/* Whether the address lies in memory of aclrtMallocHost (1), other memory of ours (2) or neither (0). */
int nonpu_memory_kind(const void *address);
extern uint64_t nonpu_frees;                              /* blocks given back so far */

/* ---- the interpreter (start.c) ---- */
extern nonpu_table nonpu_python;
/* 0 when nonpu_python may be called; otherwise records why not for this function and returns -1. */
int nonpu_enter(const char *api);
/* Behind every call through nonpu_python. */
void nonpu_leave(void);

/* ---- fork: each file brings its state into the child (start.c calls these) ---- */
void nonpu_fork_errors(int step), nonpu_fork_handles(int step), nonpu_fork_memory(int step), nonpu_fork_streams(int step),
    nonpu_fork_team(int step), nonpu_fork_memo(int step);
void nonpu_restart_streams(void);   /* in the child, when it has all locks: a stream that nobody has any more goes back to its pool */
enum { FORK_PREPARE, FORK_PARENT, FORK_CHILD };
/* The usual answer for a lock: hold it over the fork, so that what it guards is whole in the child. */
void nonpu_fork_lock(pthread_mutex_t *lock, int step);

/* ---- floating-point mode ----
   The host may run with another rounding mode or with subnormals flushed; kernels and Python must not see it. */
#if defined(__x86_64__)
typedef unsigned int nonpu_float_mode;
static inline nonpu_float_mode nonpu_float_enter(void)
{
    nonpu_float_mode mode = __builtin_ia32_stmxcsr();
    if ((mode & ~0x3fu) != 0x1f80u)
        __builtin_ia32_ldmxcsr(0x1f80u);
    return mode;
}
static inline void nonpu_float_leave(nonpu_float_mode mode)
{
    if ((mode & ~0x3fu) != 0x1f80u)
        __builtin_ia32_ldmxcsr(mode);
}
#else
#include <fenv.h>
typedef fenv_t nonpu_float_mode;
static inline nonpu_float_mode nonpu_float_enter(void)
{
    nonpu_float_mode mode;
    fegetenv(&mode);
    fesetenv(FE_DFL_ENV);
    return mode;
}
static inline void nonpu_float_leave(nonpu_float_mode mode)
{
    fesetenv(&mode);
}
#endif

#define NONPU_LIKELY(condition) __builtin_expect(!!(condition), 1)

#endif
