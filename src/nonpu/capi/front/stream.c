/* Streams as clients see them. */
#include <stdio.h>

#include "queue.h"

enum { MOST_STREAMS = 2000, FLAGS = 0x3f };    /* the hardware's limit; ACL_STREAM_* */

int32_t nonpu_null(const char *api, const char *what)
{
    return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, what, "a pointer", "null");
}

int32_t nonpu_wanted(const char *api, const void *pointer, const char *what)
{
    if (!pointer)
        return nonpu_null(api, what);
    return nonpu_has_context() ? ACL_SUCCESS : nonpu_no_context(api);
}

/* ---- handles; nonpu_queues is held ---- */

nonpu_stream *nonpu_default_stream(void)
{
    static nonpu_stream *stream;
    if (!stream && (stream = nonpu_make_stream(0))) {
        stream->is_default = 1;
        nonpu_publish(&nonpu_streams, stream);
    }
    return stream;
}

nonpu_stream *nonpu_stream_of_null(void)
{
    nonpu_stream *s = nonpu_context_stream();
    return s ? s : nonpu_default_stream();
}

int32_t nonpu_no_stream(int32_t status, const char *api, uintptr_t handle)
{
    return nonpu_fail(status, api, "stream", "a live stream", nonpu_describe(&nonpu_streams, handle).text);
}

static uint32_t live_streams(void)
{
    uint32_t count = 0;
    nonpu_stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
        count += nonpu_handle(&nonpu_streams, s) && s->context && !s->is_default;
    return count;
}

/* ---- what Python uses ---- */

uintptr_t nonpu_stream_create(void)
{
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_make_stream(0);
    uintptr_t handle = s ? nonpu_publish(&nonpu_streams, s) : 0;
    pthread_mutex_unlock(&nonpu_queues);
    return handle;
}

int32_t nonpu_stream_destroy(uintptr_t handle)
{
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_claim(&nonpu_streams, handle);
    if (s && nonpu_in_callback)     /* of a garbage collection there, say: must not wait, perhaps for itself */
        nonpu_leave_stream(s);
    else if (s)
        nonpu_end_stream(s);
    pthread_mutex_unlock(&nonpu_queues);
    if (s && nonpu_in_callback)
        return ACL_ERROR_RT_PARAM_INVALID;
    return s ? ACL_SUCCESS : nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, "nonpu_stream_destroy", handle);
}

static int32_t synchronize(const char *api, uintptr_t handle, int32_t milliseconds)
{
    struct timespec space;
    const struct timespec *deadline = nonpu_deadline(&space, milliseconds);
    int32_t status = nonpu_may_wait(api);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of(handle);
    status = s ? nonpu_settle(api, nonpu_here(s), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, deadline)
               : nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, handle);
    if (s && status != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
        NONPU_NOTE(NONPU_SYNCHRONIZED, api, nonpu_handle(&nonpu_streams, s), 0, 0, 0);
    pthread_mutex_unlock(&nonpu_queues);
    NONPU_CHECKED(nonpu_check_guards(api, NULL));
    return status;
}

int32_t nonpu_stream_synchronize(uintptr_t handle) { return synchronize("nonpu_stream_synchronize", handle, -1); }

int32_t nonpu_stream_idle(uintptr_t handle)
{
    if (!nonpu_is_busy())
        return 1;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of(handle);
    int idle = !s || s->finished == s->queued;
    pthread_mutex_unlock(&nonpu_queues);
    return idle;
}

void nonpu_synchronize_all(void)
{
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
        nonpu_await(nonpu_here(s), NULL);
    pthread_mutex_unlock(&nonpu_queues);
}

/* The threads that run callbacks may be gone: their callbacks are left out, so that nothing waits for them. */
void nonpu_end_queues(void)
{
    pthread_mutex_lock(&nonpu_queues);
    nonpu_ending = 1;
    nonpu_stream *s;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++)
        nonpu_withdraw(s);
    pthread_mutex_unlock(&nonpu_queues);
    nonpu_synchronize_all();
}

/* ---- making and releasing ---- */

static aclError create(const char *api, aclrtStream *out, uint32_t priority, uint32_t flags)
{
    int32_t status = nonpu_wanted(api, out, "stream");
    if (status)
        return status;
    uintptr_t handle = 0;
    pthread_mutex_lock(&nonpu_queues);
    uint32_t count = live_streams();
    nonpu_stream *s = count < MOST_STREAMS ? nonpu_make_stream(nonpu_current_context()) : NULL;
    if (s) {
        s->priority = priority;
        s->flags = flags & FLAGS;
        handle = nonpu_publish(&nonpu_streams, s);
        NONPU_NOTE(NONPU_MADE, api, handle, nonpu_streams.tag, s->context, 0);
    }
    pthread_mutex_unlock(&nonpu_queues);
    if (!handle)
        return nonpu_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, api, "the number of streams", "at most 2000, and within the memory of this machine",
                          nonpu_number((int64_t)count + 1).text);
    *out = (aclrtStream)handle;
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream) { return create("aclrtCreateStream", stream, 0, 0); }

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    return create("aclrtCreateStreamWithConfig", stream, priority, flag);
}

/* The stream if this thread may destroy it; else NULL, and the status with its text. */
static nonpu_stream *destructible(const char *api, uintptr_t handle, int32_t *status)
{
    nonpu_stream *s = nonpu_find(&nonpu_streams, handle);
    if (!s)
        *status = nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, handle);
    else if (s->is_default)
        *status = nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "stream", "one that was created", "a default stream");
    else if (s->context && s->context != nonpu_current_context())
        *status = nonpu_fail(ACL_ERROR_RT_STREAM_CONTEXT, api, "stream", "one of the current context", "one of another context");
    return *status ? NULL : nonpu_claim(&nonpu_streams, handle);
}

static aclError destroy(const char *api, aclrtStream stream, void end(nonpu_stream *), int waits)
{
    int32_t status = nonpu_wanted(api, stream, "stream");
    if (!status && waits)
        status = nonpu_may_wait(api);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = destructible(api, (uintptr_t)stream, &status);
    if (s)
        end(s);
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtDestroyStream(aclrtStream stream) { return destroy("aclrtDestroyStream", stream, nonpu_end_stream, 1); }

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    return destroy("aclrtDestroyStreamForce", stream, nonpu_drop_stream, 0);
}

/* ---- waiting and asking ---- */

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    if (!nonpu_has_context())
        return nonpu_no_context("aclrtSynchronizeStream");
    return synchronize("aclrtSynchronizeStream", (uintptr_t)stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    static const char api[] = "aclrtSynchronizeStreamWithTimeout";
    if (timeout < -1 || !timeout)
        return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "timeout", "-1 or positive", nonpu_number(timeout).text);
    return nonpu_has_context() ? synchronize(api, (uintptr_t)stream, timeout) : nonpu_no_context(api);
}

typedef enum { STATUS, ID, PRIORITY, STREAM_FLAGS } question;

static aclError ask(const char *api, uintptr_t handle, question fact, const char *what, uint32_t *out)
{
    int32_t status = nonpu_wanted(api, out, what);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of(handle);
    if (!s)
        status = nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, handle);
    else if (fact == STATUS)
        *out = s->finished == s->queued ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    else
        *out = fact == ID ? nonpu_index(s) : fact == PRIORITY ? s->priority : s->flags;
    if (s && fact == STATUS && *out == ACL_STREAM_STATUS_COMPLETE)
        NONPU_NOTE(NONPU_SYNCHRONIZED, api, nonpu_handle(&nonpu_streams, s), 0, 0, 0);
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    uint32_t value = 0;
    aclError error = ask("aclrtStreamQuery", (uintptr_t)stream, STATUS, "status", status ? &value : NULL);
    if (!error)
        *status = (aclrtStreamStatus)value;
    return error;
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId)
{
    uint32_t value = 0;
    aclError error = ask("aclrtStreamGetId", (uintptr_t)stream, ID, "streamId", streamId ? &value : NULL);
    if (!error)
        *streamId = (int32_t)value;
    return error;
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    return ask("aclrtStreamGetPriority", (uintptr_t)stream, PRIORITY, "priority", priority);
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    return ask("aclrtStreamGetFlags", (uintptr_t)stream, STREAM_FLAGS, "flags", flags);
}

aclError aclrtGetStreamAvailableNum(uint32_t *streamCount)
{
    int32_t status = nonpu_wanted("aclrtGetStreamAvailableNum", streamCount, "streamCount");
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    *streamCount = MOST_STREAMS - live_streams();
    pthread_mutex_unlock(&nonpu_queues);
    return ACL_SUCCESS;
}

/* ---- failures ---- */

aclError aclrtStreamAbort(aclrtStream stream)
{
    static const char api[] = "aclrtStreamAbort";
    int32_t status = nonpu_has_context() ? nonpu_may_wait(api) : nonpu_no_context(api);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of((uintptr_t)stream);
    if (s) {
        s->aborts++;
        nonpu_discard(s);
        nonpu_withdraw(s);
        s->failure = 0;
        nonpu_point point = { s, s->finished + (s->busy ? 1 : 0) };
        nonpu_await(point, NULL);
        NONPU_NOTE(NONPU_SYNCHRONIZED, api, nonpu_handle(&nonpu_streams, s), 0, 0, 0);
    }
    pthread_mutex_unlock(&nonpu_queues);
    return s ? ACL_SUCCESS : nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, (uintptr_t)stream);
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    static const char api[] = "aclrtSetStreamFailureMode";
    if (mode > ACL_STOP_ON_FAILURE)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "mode", "0 or 1", nonpu_number((int64_t)mode).text);
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    int32_t status = ACL_SUCCESS;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_stream_of((uintptr_t)stream);
    if (!s)
        status = nonpu_no_stream(ACL_ERROR_RT_INVALID_HANDLE, api, (uintptr_t)stream);
    else if (s->is_default)
        status = nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "stream", "one that was created", "a default stream");
    else
        s->stops = mode == ACL_STOP_ON_FAILURE;
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}
