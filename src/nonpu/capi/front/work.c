/* Doing the work of streams: in their workers, and in whoever waits. Nothing here blocks in the middle of a piece of work:
   what cannot go on yet, a wait for another stream or a callback, stays where it is until it can. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

/* Written with nonpu_queues held, read without: stored whole, and no dearer operation is needed. */
static uint64_t pending;            /* pieces of work in all streams that are not done */
static uint64_t issued;             /* pieces of work ever accepted: the number of the last one */

static inline void set(uint64_t *counter, uint64_t value) { __atomic_store_n(counter, value, __ATOMIC_RELEASE); }

int nonpu_is_busy(void) { return __atomic_load_n(&pending, __ATOMIC_ACQUIRE) != 0; }
uint64_t nonpu_issued(void) { return __atomic_load_n(&issued, __ATOMIC_ACQUIRE); }

/* ---- plans ---- */

/* A plan with a temporary block: both launches get its address. 0 when memory ends. */
static int attach(nonpu_plan *plan)
{
    if (plan->temporary <= 0)
        return 1;
    void *block = aligned_alloc(64, ((size_t)plan->temporary + 63) / 64 * 64);
    plan->main.operand[0].data = plan->tail.operand[1].data = (uintptr_t)block;
    return block != NULL;
}

/* 0 when memory ends. */
static int run_attached(const nonpu_plan *plan)
{
    int failed = plan->launches > 0 && nonpu_run(&plan->main);
    failed = failed || (plan->launches > 1 && nonpu_run(&plan->tail));
    if (plan->temporary > 0)
        free((void *)plan->tail.operand[1].data);
    return !failed;
}

int32_t nonpu_no_temporary(const char *api)
{
    return nonpu_fail(ACLNN_ERR_RUNTIME_ERROR, api, "temporary memory", "available", "none");
}

int32_t nonpu_run_now(const char *api, const nonpu_plan *plan)
{
    nonpu_plan own;
    if (plan->temporary > 0) {
        own = *plan;
        plan = &own;
        if (!attach(&own))
            return nonpu_no_temporary(api);
    }
    return run_attached(plan) ? ACLNN_SUCCESS : nonpu_no_temporary(api);
}

int32_t nonpu_run_plan(const nonpu_plan *plan) { return nonpu_run_now("nonpu_run_plan", plan); }

/* ---- streams that wait for each other ---- */

static void park(nonpu_stream *s, nonpu_stream *at)
{
    if (s->parked_at)
        return;
    s->parked_at = at;
    s->next_parked = at->parked;
    at->parked = s;
}

static void unpark(nonpu_stream *s)
{
    if (!s->parked_at)
        return;
    nonpu_stream **link = &s->parked_at->parked;
    while (*link != s)
        link = &(*link)->next_parked;
    *link = s->next_parked;
    s->parked_at = NULL;
}

/* Something has been done: whoever waits here looks again. A worker without work stays asleep: after a piece of work that
   the caller did himself, waking it would cost more than the work. */
static void wake(nonpu_stream *s)
{
    for (nonpu_stream *p; (p = s->parked);) {
        s->parked = p->next_parked;
        p->parked_at = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    if (s->waiters || s->head || s->closing)
        pthread_cond_broadcast(&s->changed);
}

/* Whether the next piece of work can be done now. */
static int is_runnable(nonpu_stream *s)
{
    if (s->busy || !s->head)
        return 0;
    if (s->head->kind != NONPU_WAIT || nonpu_reached(s->head->of.wait.until))
        return 1;
    park(s, s->head->of.wait.until.stream);
    return 0;
}

/* ---- running ---- */

uint64_t nonpu_begin(nonpu_stream *s)
{
    s->queued++;
    set(&pending, pending + 1);
    set(&issued, issued + 1);
    return issued;
}

void nonpu_retire(nonpu_stream *s)
{
    nonpu_unsubscribe(s);
    s->orphan = s->closing = 0;
    nonpu_recycle(&nonpu_streams, s);
}

void nonpu_finish(nonpu_stream *s)
{
    s->busy = 0;
    s->finished += 1 + s->skipped;
    s->skipped = 0;
    set(&pending, pending - 1);
    wake(s);
    if (s->orphan && !s->has_worker)
        nonpu_retire(s);
}

void nonpu_collect_deferred(void)
{
    uint64_t oldest = nonpu_issued() + 1;
    nonpu_stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++) {
        uint64_t number = s->busy ? s->running : s->head ? s->head->number : oldest;
        oldest = number < oldest ? number : oldest;
    }
    pthread_mutex_unlock(&nonpu_queues);
    nonpu_release_deferred(oldest);
    pthread_mutex_lock(&nonpu_queues);
}

void nonpu_discard(nonpu_stream *s)
{
    uint64_t count = 0;
    unpark(s);
    for (nonpu_task *t; (t = s->head); count++) {
        s->head = t->next;
        if (t->kind == NONPU_WAIT)
            nonpu_event_passed(&t->of.wait);
        free(t);
    }
    set(&pending, pending - count);
    if (s->busy) {
        s->skipped += count;        /* done only when the work before it is */
        return;
    }
    s->finished += count;
    wake(s);
}

void nonpu_note_failure(nonpu_stream *s, int32_t status, const char *text)
{
    if (!s->failure) {
        s->failure = status;
        s->failure_text = text;
    }
    if (s->stops)
        nonpu_discard(s);
}

void nonpu_copy_rows(const nonpu_copy *c)
{
    if (c->height == 1 || (c->to_pitch == c->width && c->from_pitch == c->width)) {
        memmove(c->to, c->from, c->width * c->height);
        return;
    }
    for (size_t row = 0; row < c->height; row++)
        memmove(c->to + row * c->to_pitch, c->from + row * c->from_pitch, c->width);
}

/* What needs no lock. */
int32_t nonpu_do(nonpu_task *t)
{
    if (t->kind == NONPU_PLAN) {
        if (!attach(&t->of.plan) || !run_attached(&t->of.plan))
            return ACL_ERROR_RT_MEMORY_ALLOCATION;
    } else if (t->kind == NONPU_COPY) {
        nonpu_copy_rows(&t->of.copy);
    } else if (t->kind == NONPU_SET) {
        memset(t->of.set.to, t->of.set.value, t->of.set.count);
    } else {
        nonpu_in_callback++;
        t->of.call.function(t->of.call.data);
        nonpu_in_callback--;
    }
    return 0;
}

static void run_next(nonpu_stream *s)
{
    nonpu_task *t = s->head;
    int32_t status = 0;
    s->head = t->next;
    s->busy = 1;
    s->running = t->number;
    if (t->kind == NONPU_CALLBACK) {
        nonpu_hand_over(s, &t->of.call);
        free(t);
        return;
    } else if (t->kind == NONPU_RECORD || t->kind == NONPU_WAIT) {
        if (t->kind == NONPU_RECORD)
            nonpu_event_recorded(&t->of.record);
        else
            nonpu_event_passed(&t->of.wait);
        free(t);
    } else {
        pthread_mutex_unlock(&nonpu_queues);
        status = nonpu_do(t);
        free(t);
        pthread_mutex_lock(&nonpu_queues);
    }
    if (status)
        nonpu_note_failure(s, status, "an operator without memory for its temporary block");
    nonpu_finish(s);
    nonpu_collect();
}

void *nonpu_work(void *stream)
{
    nonpu_stream *s = stream;
    pthread_mutex_lock(&nonpu_queues);
    while (!s->closing || s->head) {
        if (is_runnable(s))
            run_next(s);
        else
            pthread_cond_wait(&s->changed, &nonpu_queues);
    }
    if (s->orphan) {
        s->has_worker = 0;
        if (!s->busy)
            nonpu_retire(s);
    }
    pthread_mutex_unlock(&nonpu_queues);
    return NULL;
}

/* Whoever waits works: the worker may still be waking up. Host functions are the worker's alone, and work has no time limit. */
int32_t nonpu_await(nonpu_point point, const struct timespec *deadline)
{
    nonpu_stream *s = point.stream;
    uint32_t aborts = s->aborts;
    while (!nonpu_reached(point)) {
        if (!deadline && is_runnable(s) && (s->head->kind != NONPU_HOST || !s->has_worker)) {
            run_next(s);
            continue;
        }
        int late = 0;
        s->waiters++;
        if (deadline)
            late = pthread_cond_timedwait(&s->changed, &nonpu_queues, deadline) == ETIMEDOUT;
        else
            pthread_cond_wait(&s->changed, &nonpu_queues);
        s->waiters--;
        if (late && !nonpu_reached(point))
            return ACL_ERROR_RT_WAIT_TIMEOUT;
    }
    return aborts == s->aborts ? 0 : ACL_ERROR_RT_STREAM_ABORT;
}

void nonpu_fork_work(void) { pending = 0; }
