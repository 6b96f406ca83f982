/* Functions of the client in streams: callbacks, which a subscribed thread of the client runs, and host functions, which
   the stream's worker runs. */
#include <errno.h>
#include <stdlib.h>

#include "queue.h"

struct nonpu_report {
    nonpu_report *next;
    nonpu_call_back call;
    nonpu_stream *holds;            /* the stream that waits for it, or NULL */
};

/* A thread of the client that was named in aclrtSubscribeReport. */
struct nonpu_reporter {
    nonpu_reporter *next;
    uint64_t thread;
    uint32_t streams, inside;       /* subscriptions; calls of aclrtProcessReport under way */
    nonpu_report *head, *tail;
    pthread_cond_t arrived;
};

static nonpu_reporter *reporters;   /* guarded by nonpu_queues, as all that follows */

static nonpu_reporter *reporter_of(uint64_t thread)
{
    nonpu_reporter *r = reporters;
    while (r && r->thread != thread)
        r = r->next;
    return r;
}

static nonpu_reporter *new_reporter(uint64_t thread)
{
    nonpu_reporter *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->thread = thread;
    nonpu_init_condition(&r->arrived);
    r->next = reporters;
    return reporters = r;
}

/* Forget a thread that nothing needs any more. Reports that nobody waits for stay until it asks for them. */
static void forget(nonpu_reporter *r)
{
    if (r->streams || r->inside || r->head)
        return;
    nonpu_reporter **link = &reporters;
    while (*link != r)
        link = &(*link)->next;
    *link = r->next;
    pthread_cond_destroy(&r->arrived);
    free(r);
}

static void push(nonpu_reporter *r, nonpu_report *report)
{
    report->next = NULL;
    if (r->head)
        r->tail->next = report;
    else
        r->head = report;
    r->tail = report;
    pthread_cond_broadcast(&r->arrived);
}

static nonpu_report *pop(nonpu_reporter *r)
{
    nonpu_report *first = r->head;
    r->head = first->next;
    return first;
}

void nonpu_hand_over(nonpu_stream *s, const nonpu_call_back *call)
{
    nonpu_report *report = nonpu_ending || !s->reporter ? NULL : malloc(sizeof *report);
    if (report) {
        *report = (nonpu_report){ .call = *call, .holds = call->blocks ? s : NULL };
        push(s->reporter, report);
        if (call->blocks) {
            s->held = report;
            return;
        }
    } else if (!nonpu_ending) {
        nonpu_note_failure(s, ACL_ERROR_RT_STREAM_NO_CB_REG, "a callback for which no thread is subscribed");
    }
    nonpu_finish(s);
}

void nonpu_withdraw(nonpu_stream *s)
{
    nonpu_report *held = s->held, *last = NULL;
    nonpu_reporter *r = s->reporter;
    if (!held)
        return;
    for (nonpu_report *report = r->head; report != held; report = report->next)
        last = report;
    if (last)
        last->next = held->next;
    else
        r->head = held->next;
    if (r->tail == held)
        r->tail = last;
    free(held);
    s->held = NULL;
    nonpu_finish(s);
}

void nonpu_unsubscribe(nonpu_stream *s)
{
    nonpu_reporter *r = s->reporter;
    if (!r)
        return;
    if (s->held)
        nonpu_note_failure(s, ACL_ERROR_RT_STREAM_NO_CB_REG, "a callback whose thread is no longer subscribed");
    nonpu_withdraw(s);
    s->reporter = NULL;
    r->streams--;
    pthread_cond_broadcast(&r->arrived);
    forget(r);
}

/* ---- the calls ---- */

static int32_t subscribe(const char *api, uint64_t thread, nonpu_stream *s)
{
    nonpu_reporter *r;
    if (s->reporter)
        return nonpu_fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, api, "stream", "without a subscribed thread", "one that has it");
    if (!(r = reporter_of(thread)) && !(r = new_reporter(thread)))
        return nonpu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, api, "memory for a subscription", "available", "none");
    r->streams++;
    s->reporter = r;
    return ACL_SUCCESS;
}

static int32_t unsubscribe(const char *api, uint64_t thread, nonpu_stream *s)
{
    if (!s->reporter)
        return nonpu_fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, api, "stream", "with a subscribed thread", "one without");
    if (s->reporter->thread != thread)
        return nonpu_fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, api, "threadId", "the thread that is subscribed to the stream", "another one");
    nonpu_unsubscribe(s);
    return ACL_SUCCESS;
}

static aclError change(const char *api, uint64_t thread, aclrtStream stream, int32_t how(const char *, uint64_t, nonpu_stream *))
{
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of((uintptr_t)stream);
    int32_t status = s ? how(api, thread, s) : nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, (uintptr_t)stream);
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    return change("aclrtSubscribeReport", threadId, stream, subscribe);
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream)
{
    return change("aclrtUnSubscribeReport", threadId, stream, unsubscribe);
}

/* Run what is due now; reports that come meanwhile are the next call's. */
static void process(nonpu_reporter *r)
{
    uint32_t due = 0;
    for (const nonpu_report *report = r->head; report; report = report->next)
        due++;
    while (due-- && r->head) {
        nonpu_report *report = pop(r);
        if (report->holds)
            report->holds->held = NULL;     /* begun: nobody can take it back */
        pthread_mutex_unlock(&nonpu_queues);
        nonpu_in_callback++;
        report->call.function(report->call.data);
        nonpu_in_callback--;
        pthread_mutex_lock(&nonpu_queues);
        if (report->holds)
            nonpu_finish(report->holds);
        free(report);
    }
}

static int32_t wait_for_reports(const char *api, nonpu_reporter *r, const struct timespec *deadline)
{
    while (!r->head) {
        if (!r->streams)
            return nonpu_fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, api, "the calling thread", "subscribed to a stream", "one that is not any more");
        if (!deadline)
            pthread_cond_wait(&r->arrived, &nonpu_queues);
        else if (pthread_cond_timedwait(&r->arrived, &nonpu_queues, deadline) == ETIMEDOUT && !r->head)
            return nonpu_fail(ACL_ERROR_RT_REPORT_TIMEOUT, api, "a callback", "due within the timeout", "none");
    }
    return ACL_SUCCESS;
}

aclError aclrtProcessReport(int32_t timeout)
{
    static const char api[] = "aclrtProcessReport";
    struct timespec space;
    const struct timespec *deadline = nonpu_deadline(&space, timeout);
    if (timeout < -1 || !timeout)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "timeout", "-1 or positive", nonpu_number(timeout).text);
    int32_t status = nonpu_may_wait(api);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_reporter *r = reporter_of((uint64_t)pthread_self());
    if (r) {
        r->inside++;
        status = wait_for_reports(api, r, deadline);
        if (!status)
            process(r);
        r->inside--;
        forget(r);
    } else {
        status = nonpu_fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, api, "the calling thread", "subscribed to a stream", "one that is not");
    }
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

/* ---- launching ---- */

static aclError launch(const char *api, aclrtStream stream, const nonpu_task *task)
{
    int32_t status;
    if (!task->of.call.function)
        return nonpu_null(api, "fn");
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of((uintptr_t)stream);
    if (!s)
        status = nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, (uintptr_t)stream);
    else if (task->kind == NONPU_CALLBACK && !s->reporter)
        status = nonpu_fail(ACL_ERROR_RT_STREAM_NO_CB_REG, api, "stream", "one that a thread is subscribed to", "one without");
    else
        status = nonpu_append(api, s, task);
    if (!status)                    /* the function may tell the program that the work before it is done */
        NONPU_NOTE(NONPU_SYNCHRONIZED, api, nonpu_handle(&nonpu_streams, s), 0, 0, 0);
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream)
{
    static const char api[] = "aclrtLaunchCallback";
    nonpu_task task = { .kind = NONPU_CALLBACK, .of.call = { fn, userData, blockType == ACL_CALLBACK_BLOCK } };
    if ((unsigned)blockType > ACL_CALLBACK_BLOCK)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "blockType", "0 or 1", nonpu_number((int)blockType).text);
    return launch(api, stream, &task);
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
    nonpu_task task = { .kind = NONPU_HOST, .of.call = { fn, args, 0 } };
    return launch("aclrtLaunchHostFunc", stream, &task);
}

/* The child's threads are other ones. */
void nonpu_fork_callbacks(void) { reporters = NULL; }
