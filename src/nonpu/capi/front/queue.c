/* Queues of work: how it gets in, and how streams begin and end. Each has a worker of its own once it needs one. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

/* Nanoseconds. Below INLINE_COST, handing work to another thread costs more than the work. Where a thread waits for each
   piece of work within PROMPT anyway, it does more of it itself: nothing is woken, nothing moves to the cache of
   another processor. PROMPT_COST bounds what that costs a client which changes its ways, and one whose wait has a limit. */
enum { INLINE_COST = 50000, PROMPT_COST = 2000000, PROMPT = 20000 };

pthread_mutex_t nonpu_queues = PTHREAD_MUTEX_INITIALIZER;
int nonpu_ending;
/* ---- waiting ---- */

void nonpu_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

const struct timespec *nonpu_deadline(struct timespec *space, int32_t milliseconds)
{
    if (milliseconds < 0)
        return NULL;
    clock_gettime(CLOCK_MONOTONIC, space);
    space->tv_sec += milliseconds / 1000;
    space->tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (space->tv_nsec >= 1000000000) {
        space->tv_nsec -= 1000000000;
        space->tv_sec++;
    }
    return space;
}

static int32_t take_failure(const char *api, nonpu_stream *s)
{
    int32_t status = s->failure;
    if (status)
        nonpu_fail(status, api, "the work of the stream", "able to run", s->failure_text);
    if (!s->stops)
        s->failure = 0;
    return status;
}

/* What a thread is used to. `pieces`: of work that it has handed in since it last waited. `offered`: when, in nanoseconds, it
   handed in or did larger ones; 0: none. `is_prompt`: last time it waited at once, and for a single one. */
static __thread struct { uint64_t pieces; int64_t offered; int is_prompt; } habit;

static void learn(void)
{
    if (habit.offered)
        habit.is_prompt = habit.pieces == 1 && nonpu_now() - habit.offered < PROMPT;
    habit.offered = 0;
    habit.pieces = 0;
}

int32_t nonpu_settle(const char *api, nonpu_point point, int32_t timeout_status, const struct timespec *deadline)
{
    uintptr_t handle = nonpu_handle(&nonpu_streams, point.stream);
    learn();
    int32_t status = nonpu_await(point, deadline);
    if (status == ACL_ERROR_RT_WAIT_TIMEOUT)
        return nonpu_fail(timeout_status, api, "the work queued so far", "done within the timeout", "work that is not");
    if (status)
        return nonpu_fail(status, api, "the stream", "left to do its work", "one that was aborted or destroyed meanwhile");
    return nonpu_handle(&nonpu_streams, point.stream) == handle ? take_failure(api, point.stream) : ACL_SUCCESS;
}

int32_t nonpu_settle_all(const char *api, const struct timespec *deadline)
{
    int32_t first = 0;
    nonpu_stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++) {
        int32_t status = nonpu_settle(api, nonpu_here(s), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, deadline);
        if (status == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
            return status;
        first = first ? first : status;
    }
    return first;
}

/* ---- adding ---- */

static nonpu_task *new_task(int32_t kind)
{
    static const size_t sizes[] = { sizeof(nonpu_plan), sizeof(nonpu_copy), sizeof(nonpu_set), sizeof(nonpu_call_back),
                                    sizeof(nonpu_call_back), sizeof(nonpu_record), sizeof(nonpu_wait) };
    nonpu_task *t = malloc(offsetof(nonpu_task, of) + sizes[kind]);
    if (t)
        t->kind = kind;
    return t;
}

static uint64_t begin(nonpu_stream *s)
{
    habit.pieces++;
    return nonpu_begin(s);
}

static void append(nonpu_stream *s, nonpu_task *t)
{
    t->next = NULL;
    if (s->head)
        s->tail->next = t;
    else
        s->head = t;
    s->tail = t;
    t->number = begin(s);
    if (!s->has_worker)
        s->has_worker = !nonpu_start_thread(&s->worker, nonpu_work, s);
    if (s->has_worker)
        pthread_cond_broadcast(&s->changed);
    else
        nonpu_await(nonpu_here(s), NULL);
}

/* 0, or the status with which a stream refuses work that it was told to discard after a failure. */
static int32_t refuse(const char *api, const nonpu_stream *s)
{
    return s->stops && s->failure ? nonpu_fail(s->failure, api, "the stream", "without a failure of earlier work", s->failure_text) : 0;
}

int32_t nonpu_append(const char *api, nonpu_stream *s, const nonpu_task *task)
{
    int32_t status = refuse(api, s);
    if (status)
        return status;
    nonpu_task *t = new_task(task->kind);
    if (!t)
        return nonpu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, api, "memory for the queue", "available", "none");
    size_t bytes = task->kind == NONPU_COPY ? sizeof task->of.copy : task->kind == NONPU_SET ? sizeof task->of.set
                 : task->kind == NONPU_RECORD ? sizeof task->of.record : task->kind == NONPU_WAIT ? sizeof task->of.wait
                 : sizeof task->of.call;
    memcpy(&t->of, &task->of, bytes);
    append(s, t);
    return ACL_SUCCESS;
}

static int is_idle(const nonpu_stream *s) { return !s->busy && !s->head; }

/* Whether the calling thread does work of this cost itself. */
static int is_small(const nonpu_stream *s, int64_t cost)
{
    return is_idle(s) && (cost < INLINE_COST || (cost < PROMPT_COST && habit.is_prompt && !habit.pieces));
}

static void start_inline(nonpu_stream *s)
{
    s->running = begin(s);
    s->busy = 1;
    pthread_mutex_unlock(&nonpu_queues);
}

static void finish_inline(nonpu_stream *s)
{
    pthread_mutex_lock(&nonpu_queues);
    nonpu_finish(s);
    nonpu_collect();
}

int32_t nonpu_add(const char *api, uintptr_t handle, const nonpu_task *task, int64_t cost, int until_done)
{
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of(handle);
    int32_t status = s ? refuse(api, s) : nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, handle);
    if (!status)
        NONPU_CHECKED(nonpu_note_task(api, nonpu_handle(&nonpu_streams, s), task));
    if (!status && cost < INLINE_COST && is_idle(s)) {
        nonpu_task own;
        memcpy(&own, task, offsetof(nonpu_task, of) + sizeof task->of.copy);
        start_inline(s);
        nonpu_do(&own);
        finish_inline(s);
    } else if (!status) {
        status = nonpu_append(api, s, task);
        if (!status && until_done)
            nonpu_await(nonpu_here(s), NULL);
    }
    if (!status && until_done)
        NONPU_NOTE(NONPU_SYNCHRONIZED, api, nonpu_handle(&nonpu_streams, s), 0, 0, 0);
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

int32_t nonpu_submit(const char *api, uintptr_t handle, const nonpu_plan *plan)
{
    int32_t status = ACLNN_SUCCESS;
    int64_t cost = plan->launches > 0 ? plan->main.cost : 0;
    cost += plan->launches > 1 ? plan->tail.cost : 0;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of(handle);
    if (s)
        NONPU_CHECKED(nonpu_note_plan(api, nonpu_handle(&nonpu_streams, s), plan));
    if (!s || (s->stops && s->failure)) {
        status = s ? refuse(api, s) : nonpu_no_stream(ACLNN_ERR_RUNTIME_ERROR, api, handle);
        status = ACLNN_ERR_RUNTIME_ERROR;
    } else if (plan->launches > 0 && is_small(s, cost)) {
        start_inline(s);
        status = nonpu_run_now(api, plan);
        finish_inline(s);
    } else if (plan->launches > 0) {
        nonpu_task *t = new_task(NONPU_PLAN);
        if (t) {
            nonpu_copy_plan(&t->of.plan, plan);
            append(s, t);
        } else {
            status = nonpu_no_temporary(api);
        }
    }
    pthread_mutex_unlock(&nonpu_queues);
    if (cost >= INLINE_COST)
        habit.offered = nonpu_now();
    return status;
}

/* ---- lives of streams ---- */

nonpu_stream *nonpu_make_stream(uintptr_t context)
{
    nonpu_stream *s = nonpu_take(&nonpu_streams);     /* all zero, or as its last life left it: idle */
    if (!s)
        return NULL;
    if (!s->has_condition)
        nonpu_init_condition(&s->changed);
    s->has_condition = 1;
    s->context = context;
    s->failure = 0;
    s->priority = s->flags = 0;
    s->is_default = s->stops = 0;
    return s;
}

void nonpu_end_stream(nonpu_stream *s)
{
    nonpu_await(nonpu_here(s), NULL);
    nonpu_unsubscribe(s);
    if (s->has_worker) {
        s->closing = 1;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&nonpu_queues);
        pthread_join(s->worker, NULL);
        pthread_mutex_lock(&nonpu_queues);
        s->closing = s->has_worker = 0;
    }
    nonpu_recycle(&nonpu_streams, s);
}

void nonpu_leave_stream(nonpu_stream *s)
{
    s->orphan = 1;
    if (s->has_worker) {
        s->closing = 1;
        pthread_detach(s->worker);
        pthread_cond_broadcast(&s->changed);
    } else if (!s->busy) {
        nonpu_retire(s);
    }
}

void nonpu_drop_stream(nonpu_stream *s)
{
    s->aborts++;
    nonpu_discard(s);
    nonpu_unsubscribe(s);
    nonpu_leave_stream(s);
}

/* ---- fork: the child has no workers, and what was queued is the parent's to do ---- */

static void restart(nonpu_stream *s)
{
    s->head = NULL;
    s->parked = s->parked_at = NULL;
    s->reporter = NULL;
    s->held = NULL;
    s->skipped = s->waiters = 0;
    s->busy = s->has_worker = s->closing = 0;
    s->finished = s->queued;
    if (s->has_condition)
        nonpu_init_condition(&s->changed);
    if (s->orphan)
        nonpu_retire(s);
}

void nonpu_fork_streams(int step)
{
    nonpu_fork_lock(&nonpu_queues, step);
    nonpu_fork_lock(&nonpu_contexts.lock, step);
    nonpu_fork_lock(&nonpu_events.lock, step);
}

void nonpu_restart_streams(void)
{
    nonpu_fork_work();
    nonpu_fork_callbacks();
    nonpu_stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
        restart(s);
}
