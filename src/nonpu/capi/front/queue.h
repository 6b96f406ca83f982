/* Queues of work, as the files about streams, contexts, events, copies and callbacks share them. */
#ifndef NONPU_QUEUE_H
#define NONPU_QUEUE_H

#include <time.h>

#include "front.h"

typedef struct nonpu_stream nonpu_stream;
typedef struct nonpu_reporter nonpu_reporter;
typedef struct nonpu_report nonpu_report;

/* A point in a queue: reached once so many pieces of work are done. It stays valid when the stream is destroyed, and when
   its place is taken by another, because `finished` never goes back. */
typedef struct { nonpu_stream *stream; uint64_t count; } nonpu_point;

enum { NONPU_PLAN, NONPU_COPY, NONPU_SET, NONPU_HOST, NONPU_CALLBACK, NONPU_RECORD, NONPU_WAIT };

typedef struct { char *to; const char *from; size_t to_pitch, from_pitch, width, height; } nonpu_copy;
typedef struct { void *to; size_t count; int32_t value; } nonpu_set;
typedef struct { void (*function)(void *); void *data; int32_t blocks; } nonpu_call_back;
typedef struct { uintptr_t event; uint64_t record; } nonpu_record;          /* which recording of the event */
typedef struct { uintptr_t event; nonpu_point until; } nonpu_wait;

typedef struct nonpu_task {
    struct nonpu_task *next;
    uint64_t number;                /* counts the work of all streams */
    int32_t kind;
    union {
        nonpu_copy copy;
        nonpu_set set;
        nonpu_call_back call;
        nonpu_record record;
        nonpu_wait wait;
        nonpu_plan plan;            /* last, and longest: other tasks are allocated without it */
    } of;
} nonpu_task;

struct nonpu_stream {
    nonpu_task *head, *tail;
    uint64_t queued, finished;      /* work accepted and done; never reset, so that a late waiter sees the end */
    uint64_t running;               /* number of the work under way, while busy */
    uint64_t skipped;               /* work discarded behind it, counted as done with it */
    pthread_t worker;
    pthread_cond_t changed;
    uintptr_t context;              /* it was made in; 0: of none */
    nonpu_stream *parked, *next_parked, *parked_at;     /* streams whose next work waits for this one */
    nonpu_reporter *reporter;       /* of the thread subscribed to it */
    nonpu_report *held;             /* the callback that it waits for */
    const char *failure_text;
    int32_t failure;                /* first failure of its work since somebody was told */
    uint32_t priority, flags, aborts;
    uint32_t waiters;               /* threads that sleep until something is done here, its worker not counted */
    uint8_t busy, has_worker, closing, orphan, is_default, stops, has_condition;
};

_Static_assert(sizeof(nonpu_stream) <= NONPU_STREAM_BYTES, "a stream must fit its pool");

extern nonpu_pool nonpu_contexts, nonpu_events;

/* ---- queue.c. All of these, but nonpu_add and nonpu_deadline, want nonpu_queues held, and hold it when they return. ---- */
extern pthread_mutex_t nonpu_queues;                           /* guards all streams, contexts, events and reporters */

void nonpu_init_condition(pthread_cond_t *condition);          /* for waits that end at a nonpu_deadline */
/* So many milliseconds from now; NULL, which is no limit, for -1. */
const struct timespec *nonpu_deadline(struct timespec *space, int32_t milliseconds);

static inline int64_t nonpu_now(void)                          /* nanoseconds of the clock that deadlines go by */
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

nonpu_stream *nonpu_make_stream(uintptr_t context);            /* not yet published */
void nonpu_end_stream(nonpu_stream *s);                        /* claimed: do its work, then recycle it */
void nonpu_leave_stream(nonpu_stream *s);                      /* claimed: its worker does the work and recycles it */
void nonpu_drop_stream(nonpu_stream *s);                       /* claimed: discard its work; recycled when it stands still */

static inline nonpu_point nonpu_here(nonpu_stream *s) { return (nonpu_point){ s, s->queued }; }
static inline int nonpu_reached(nonpu_point point) { return point.stream->finished >= point.count; }
/* Wait for a point and hand out the failure of the work, if any. */
int32_t nonpu_settle(const char *api, nonpu_point point, int32_t timeout_status, const struct timespec *deadline);
int32_t nonpu_settle_all(const char *api, const struct timespec *deadline);

/* Append a copy of the task; 0, or a status with its text. */
int32_t nonpu_append(const char *api, nonpu_stream *s, const nonpu_task *task);
/* Append, or run at once if the cost in nanoseconds is small and the stream idle. `until_done`: wait for it. */
int32_t nonpu_add(const char *api, uintptr_t stream, const nonpu_task *task, int64_t cost, int until_done);
extern int nonpu_ending;                                       /* the process ends: nobody will run callbacks */

/* ---- work.c; nonpu_queues held unless it says otherwise ---- */
uint64_t nonpu_begin(nonpu_stream *s);                         /* one more piece of work: its number */
void nonpu_finish(nonpu_stream *s);                            /* the work under way is done */
void nonpu_collect_deferred(void);
/* Free what aclrtFree put aside and no work accepted before can still use. The lock is given up meanwhile. */
static inline void nonpu_collect(void)
{
    if (__builtin_expect(__atomic_load_n(&nonpu_deferred, __ATOMIC_ACQUIRE) != 0, 0))
        nonpu_collect_deferred();
}
void nonpu_discard(nonpu_stream *s);                           /* what is queued; not the work under way */
void nonpu_retire(nonpu_stream *s);                            /* recycle a stream that stands still */
void nonpu_note_failure(nonpu_stream *s, int32_t status, const char *text);
/* Wait for a point: 0, 107023 if the stream was aborted meanwhile, 107019 at the deadline. */
int32_t nonpu_await(nonpu_point point, const struct timespec *deadline);
void *nonpu_work(void *stream);                                /* a worker's life; the lock is not held */
int32_t nonpu_do(nonpu_task *task);                            /* work that needs no lock: 0 or a status; not held */
int32_t nonpu_run_now(const char *api, const nonpu_plan *plan);   /* a status with its text; not held */
int32_t nonpu_no_temporary(const char *api);                   /* records the text, returns 361001 */
void nonpu_copy_rows(const nonpu_copy *c);                     /* not held */
void nonpu_fork_work(void);                                    /* in the child */

/* ---- stream.c ---- */
nonpu_stream *nonpu_default_stream(void);                      /* of the process and of its default context */
nonpu_stream *nonpu_stream_of_null(void);                      /* default stream of the current context, else of the process */
/* NULL if the handle is none. */
static inline nonpu_stream *nonpu_stream_of(uintptr_t handle)
{
    return handle ? nonpu_find(&nonpu_streams, handle) : nonpu_stream_of_null();
}
int32_t nonpu_no_stream(int32_t status, const char *api, uintptr_t handle);
int32_t nonpu_null(const char *api, const char *what);         /* record that a pointer is null; 100000 */
/* A pointer that must not be null, and a context that must be there: 0, or a status with its text. */
int32_t nonpu_wanted(const char *api, const void *pointer, const char *what);

/* ---- context.c ---- */
uintptr_t nonpu_current_context(void);                         /* live, or 0 */
nonpu_stream *nonpu_context_stream(void);                      /* default stream of the current context, or NULL */
/* Waiting inside a callback would wait for itself: 107000 and a text there, else 0. */
int32_t nonpu_may_wait(const char *api);
extern __thread int nonpu_in_callback;

/* ---- event.c; nonpu_queues held ---- */
void nonpu_event_recorded(const nonpu_record *record);
void nonpu_event_passed(const nonpu_wait *wait);

/* ---- callback.c; nonpu_queues held ---- */
/* Give a callback to its thread. A blocking one holds the stream until it has run; else this piece of work is done. */
void nonpu_hand_over(nonpu_stream *s, const nonpu_call_back *call);
void nonpu_withdraw(nonpu_stream *s);                          /* take back the callback that holds the stream, if not begun */
void nonpu_unsubscribe(nonpu_stream *s);                       /* whoever is */
void nonpu_fork_callbacks(void);                               /* in the child */

#endif
