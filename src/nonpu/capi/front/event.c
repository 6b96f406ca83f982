/* Events. A recording is a point in a stream's queue; what waits for it needs the point only, so that an event may be
   recorded again or destroyed at any time. */
#include "queue.h"

enum { KNOWN_FLAGS = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_DEVICE_USE_ONLY
                   | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC };

typedef struct {
    nonpu_point point;              /* of the last recording; its stream is NULL before the first */
    uint64_t record;                /* counts the recordings */
    uint64_t waits;                 /* queued waits that have not passed */
    int64_t nanoseconds;            /* when the last recording was reached */
    int32_t is_timed, can_reset;
} event_state;

static char *chunks[NONPU_CHUNKS];
nonpu_pool nonpu_events = { .tag = 0x6e76u, .record_bytes = sizeof(event_state), .chunk_slots = 256, .chunks = chunks,
                            .lock = PTHREAD_MUTEX_INITIALIZER };

static void stamp(event_state *e)
{
    e->nanoseconds = nonpu_now();
    e->is_timed = 1;
}

void nonpu_event_recorded(const nonpu_record *record)
{
    event_state *e = nonpu_find(&nonpu_events, record->event);
    if (e && e->record == record->record)
        stamp(e);
}

void nonpu_event_passed(const nonpu_wait *wait)
{
    event_state *e = nonpu_find(&nonpu_events, wait->event);
    if (e)
        e->waits--;
}

/* ---- lives ---- */

static aclError create(const char *api, aclrtEvent *out, uint32_t flags, int can_reset)
{
    int32_t status = out ? ACL_SUCCESS : nonpu_null(api, "event");
    if (!status && flags & ~(uint32_t)KNOWN_FLAGS)
        return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "flag", "a combination of ACL_EVENT_*", nonpu_number(flags).text);
    if (!status)
        status = nonpu_wanted(api, out, "event");
    if (status)
        return status;
    event_state *e = nonpu_take(&nonpu_events);
    if (!e)
        return nonpu_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, api, "the number of events", "within the memory of this machine", "no memory");
    *e = (event_state){ .can_reset = can_reset };
    *out = (aclrtEvent)nonpu_publish(&nonpu_events, e);
    NONPU_NOTE(NONPU_MADE, api, (uintptr_t)*out, nonpu_events.tag, 0, 0);
    return ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent *event) { return create("aclrtCreateEvent", event, 0, 0); }

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    return create("aclrtCreateEventWithFlag", event, flag, (flag & ACL_EVENT_SYNC) != 0);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    return create("aclrtCreateEventExWithFlag", event, flag, 0);
}

static int32_t no_event(const char *api, const char *what, uintptr_t handle)
{
    return handle ? nonpu_fail(ACL_ERROR_RT_INVALID_HANDLE, api, what, "a live event", nonpu_describe(&nonpu_events, handle).text)
                  : nonpu_fail(ACL_ERROR_INVALID_PARAM, api, what, "a live event", "null");
}

aclError aclrtDestroyEvent(aclrtEvent handle)
{
    pthread_mutex_lock(&nonpu_queues);
    event_state *e = nonpu_claim(&nonpu_events, (uintptr_t)handle);
    pthread_mutex_unlock(&nonpu_queues);
    if (!e)
        return no_event("aclrtDestroyEvent", "event", (uintptr_t)handle);
    nonpu_recycle(&nonpu_events, e);
    return ACL_SUCCESS;
}

/* ---- in streams ---- */

/* Hold the lock and find both; on failure the lock is not held, and NULL is returned with a status. */
static event_state *enter(const char *api, uintptr_t handle, uintptr_t stream, nonpu_stream **s, int32_t *status)
{
    *status = handle ? nonpu_wanted(api, (const void *)handle, "event") : no_event(api, "event", handle);
    if (*status)
        return NULL;
    pthread_mutex_lock(&nonpu_queues);
    event_state *e = nonpu_find(&nonpu_events, handle);
    if (!e)
        *status = no_event(api, "event", handle);
    else if (s && !(*s = nonpu_stream_of(stream)))
        *status = nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, stream);
    if (!*status)
        return e;
    pthread_mutex_unlock(&nonpu_queues);
    return NULL;
}

static int32_t leave(int32_t status)
{
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtRecordEvent(aclrtEvent handle, aclrtStream stream)
{
    static const char api[] = "aclrtRecordEvent";
    int32_t status;
    nonpu_stream *s;
    event_state *e = enter(api, (uintptr_t)handle, (uintptr_t)stream, &s, &status);
    if (!e)
        return status;
    if (nonpu_reached(nonpu_here(s))) {
        stamp(e);
    } else {
        nonpu_task task = { .kind = NONPU_RECORD, .of.record = { (uintptr_t)handle, e->record + 1 } };
        status = nonpu_append(api, s, &task);
        if (status)
            return leave(status);
        e->is_timed = 0;
    }
    e->record++;
    e->point = nonpu_here(s);
    NONPU_NOTE(NONPU_RECORDED, api, (uintptr_t)handle, nonpu_handle(&nonpu_streams, s), 0, 0);
    return leave(ACL_SUCCESS);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent handle)
{
    static const char api[] = "aclrtStreamWaitEvent";
    int32_t status;
    nonpu_stream *s;
    event_state *e = enter(api, (uintptr_t)handle, (uintptr_t)stream, &s, &status);
    if (!e)
        return status;
    NONPU_NOTE(NONPU_WAITED, api, (uintptr_t)handle, nonpu_handle(&nonpu_streams, s), 0, 0);
    if (!e->point.stream || e->point.stream == s || nonpu_reached(e->point))
        return leave(ACL_SUCCESS);
    nonpu_task task = { .kind = NONPU_WAIT, .of.wait = { (uintptr_t)handle, e->point } };
    e->waits++;
    status = nonpu_append(api, s, &task);
    if (status)
        e->waits--;
    return leave(status);
}

aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream)
{
    static const char api[] = "aclrtResetEvent";
    int32_t status;
    nonpu_stream *s;
    event_state *e = enter(api, (uintptr_t)handle, (uintptr_t)stream, &s, &status);
    if (!e)
        return status;
    if (!e->can_reset)
        return leave(nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "event", "one of aclrtCreateEventWithFlag with ACL_EVENT_SYNC", "another one"));
    e->point.stream = NULL;         /* queued waits keep the point */
    e->record++;
    e->is_timed = 0;
    return leave(ACL_SUCCESS);
}

/* ---- questions ---- */

static int is_complete(const event_state *e) { return e->point.stream && nonpu_reached(e->point); }

typedef enum { RECORDED, PASSED } question;

static aclError query(const char *api, aclrtEvent handle, const void *out, question asked, int *yes)
{
    int32_t status = handle ? ACL_SUCCESS : no_event(api, "event", 0);
    if (!status && !out)
        status = nonpu_null(api, "status");
    event_state *e = status ? NULL : enter(api, (uintptr_t)handle, 0, NULL, &status);
    if (!e)
        return status;
    *yes = asked == RECORDED ? is_complete(e) : !e->waits;
    if (*yes && asked == RECORDED)
        NONPU_NOTE(NONPU_EVENT_REACHED, api, (uintptr_t)handle, 0, 0, 0);
    return leave(ACL_SUCCESS);
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    int yes;
    aclError error = query("aclrtQueryEvent", event, status, RECORDED, &yes);
    if (!error)
        *status = yes ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return error;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    int yes;
    aclError error = query("aclrtQueryEventStatus", event, status, RECORDED, &yes);
    if (!error)
        *status = yes ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return error;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    int yes;
    aclError error = query("aclrtQueryEventWaitStatus", event, status, PASSED, &yes);
    if (!error)
        *status = yes ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return error;
}

static aclError synchronize(const char *api, aclrtEvent handle, int32_t milliseconds)
{
    struct timespec space;
    const struct timespec *deadline = nonpu_deadline(&space, milliseconds);
    int32_t status = nonpu_may_wait(api);
    event_state *e = status ? NULL : enter(api, (uintptr_t)handle, 0, NULL, &status);
    if (!e)
        return status;
    status = e->point.stream ? nonpu_settle(api, e->point, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, deadline) : ACL_SUCCESS;
    if (status != ACL_ERROR_RT_EVENT_SYNC_TIMEOUT)
        NONPU_NOTE(NONPU_EVENT_REACHED, api, (uintptr_t)handle, 0, 0, 0);
    return leave(status);
}

aclError aclrtSynchronizeEvent(aclrtEvent event) { return synchronize("aclrtSynchronizeEvent", event, -1); }

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    static const char api[] = "aclrtSynchronizeEventWithTimeout";
    return timeout < -1 ? nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "timeout", "-1 or more", nonpu_number(timeout).text)
                        : synchronize(api, event, timeout);
}

/* When the event completed; or a status with its text. */
static int32_t completed(const char *api, const char *what, uintptr_t handle, int64_t *nanoseconds)
{
    const event_state *e = nonpu_find(&nonpu_events, handle);
    if (!e)
        return no_event(api, what, handle);
    if (!is_complete(e) || !e->is_timed)
        return nonpu_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, api, what, "recorded and complete",
                          !e->point.stream ? "one that was never recorded" : is_complete(e) ? "one whose recording was discarded" : "one that is not complete");
    *nanoseconds = e->nanoseconds;
    NONPU_NOTE(NONPU_EVENT_REACHED, api, handle, 0, 0, 0);
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    static const char api[] = "aclrtEventElapsedTime";
    int64_t start = 0, end = 0;
    int32_t status = nonpu_wanted(api, ms, "ms");
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    status = completed(api, "startEvent", (uintptr_t)startEvent, &start);
    if (!status)
        status = completed(api, "endEvent", (uintptr_t)endEvent, &end);
    if (!status)
        *ms = (float)((double)(end - start) * 1e-6);
    return leave(status);
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    static const char api[] = "aclrtEventGetTimestamp";
    int64_t nanoseconds = 0;
    int32_t status = nonpu_wanted(api, timestamp, "timestamp");
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    status = completed(api, "event", (uintptr_t)event, &nanoseconds);
    if (!status)
        *timestamp = (uint64_t)nanoseconds / 1000;
    return leave(status);
}
