/* The device and its contexts. The default context is there from the first aclrtSetDevice to the last aclrtResetDevice. */
#include <stdio.h>

#include "queue.h"

enum { OPTIONS = 3 };
typedef struct { int64_t value[OPTIONS]; uint8_t is_set[OPTIONS]; } options;
typedef struct { nonpu_stream *stream; int is_default; options options; } context;

static char *chunks[NONPU_CHUNKS];
nonpu_pool nonpu_contexts = { .tag = 0x6e75u, .record_bytes = sizeof(context), .chunk_slots = 16, .chunks = chunks,
                              .lock = PTHREAD_MUTEX_INITIALIZER };

static int device_uses;             /* aclrtSetDevice calls not yet undone */
static uintptr_t default_context;   /* 0 while the device is not set */
static options process_options;
static __thread uintptr_t thread_context;
__thread int nonpu_in_callback;

uintptr_t nonpu_current_context(void)
{
    return thread_context && nonpu_find(&nonpu_contexts, thread_context) ? thread_context : 0;
}

nonpu_stream *nonpu_context_stream(void)
{
    const context *c = thread_context ? nonpu_find(&nonpu_contexts, thread_context) : NULL;
    return c ? c->stream : NULL;
}

int nonpu_has_context(void) { return nonpu_current_context() != 0; }

int nonpu_no_context(const char *api)
{
    return nonpu_fail(ACL_ERROR_RT_CONTEXT_NULL, api, "the context of this thread", "set, by aclrtSetDevice", "none");
}

int32_t nonpu_may_wait(const char *api)
{
    return nonpu_in_callback ? nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "the caller", "outside callbacks and host functions", "inside one")
                             : ACL_SUCCESS;
}

static int bad_device(const char *api, const char *what, int32_t id)
{
    return nonpu_fail(ACL_ERROR_RT_INVALID_DEVICEID, api, what, "0", nonpu_number(id).text);
}

/* ---- the device; the lock is held by what is static here ---- */

static uintptr_t make_context(nonpu_stream *stream, int is_default)
{
    context *c = stream ? nonpu_take(&nonpu_contexts) : NULL;
    if (!c)
        return 0;
    *c = (context){ .stream = stream, .is_default = is_default };
    stream->context = nonpu_publish(&nonpu_contexts, c);
    return stream->context;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    if (deviceId)
        return bad_device("aclrtSetDevice", "deviceId", deviceId);
    pthread_mutex_lock(&nonpu_queues);
    if (!default_context)
        default_context = make_context(nonpu_default_stream(), 1);
    device_uses += default_context != 0;
    uintptr_t made = default_context;
    NONPU_NOTE(NONPU_DEVICE, "aclrtSetDevice", (uint64_t)device_uses, 0, 0, 0);
    pthread_mutex_unlock(&nonpu_queues);
    if (!made)
        return nonpu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtSetDevice", "memory for a context", "available", "none");
    thread_context = made;
    return ACL_SUCCESS;
}

/* Wait for what a context's streams have to do, and release them. The default stream of the process stays, under another handle. */
static void end_context(uintptr_t handle)
{
    context *c = nonpu_claim(&nonpu_contexts, handle);
    nonpu_stream *s, *keep = c->is_default ? c->stream : NULL;
    for (uint32_t i = 0; (s = nonpu_slot(&nonpu_streams, i)); i++) {
        uintptr_t stream = nonpu_handle(&nonpu_streams, s);
        if (stream && s->context == handle && s != keep && nonpu_claim(&nonpu_streams, stream))
            nonpu_end_stream(s);
    }
    if (keep)
        nonpu_await(nonpu_here(keep), NULL);
    if (keep && keep->context == handle) {      /* the device may have been set anew meanwhile */
        nonpu_unsubscribe(keep);
        nonpu_claim(&nonpu_streams, nonpu_handle(&nonpu_streams, keep));
        nonpu_publish(&nonpu_streams, keep);
        keep->failure = 0;
        keep->context = 0;
    }
    nonpu_recycle(&nonpu_contexts, c);
}

/* Undo one call of aclrtSetDevice, or all of them. */
static aclError release(const char *api, int32_t id, int all)
{
    if (id)
        return bad_device(api, "deviceId", id);
    int32_t status = nonpu_may_wait(api);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    int was = device_uses;
    device_uses = all || !was ? 0 : was - 1;
    if (was)
        NONPU_NOTE(NONPU_DEVICE, api, (uint64_t)device_uses, 0, 0, 0);
    if (was && !device_uses) {
        uintptr_t ended = default_context;
        default_context = 0;
        end_context(ended);
    }
    pthread_mutex_unlock(&nonpu_queues);
    return was ? ACL_SUCCESS : nonpu_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, api, "the device", "set", "one that is not set or already reset");
}

aclError aclrtResetDevice(int32_t deviceId) { return release("aclrtResetDevice", deviceId, 0); }
aclError aclrtResetDeviceForce(int32_t deviceId) { return release("aclrtResetDeviceForce", deviceId, 1); }

aclError aclrtGetDevice(int32_t *deviceId)
{
    int32_t status = nonpu_wanted("aclrtGetDevice", deviceId, "deviceId");
    if (!status)
        *deviceId = 0;
    return status;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    if (!count)
        return nonpu_null("aclrtGetDeviceCount", "count");
    *count = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    if (!runMode)
        return nonpu_null("aclrtGetRunMode", "runMode");
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    if (!deviceStatus)
        return nonpu_null("aclrtQueryDeviceStatus", "deviceStatus");
    if (deviceId)
        return bad_device("aclrtQueryDeviceStatus", "deviceId", deviceId);
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

static aclError synchronize_device(const char *api, int32_t milliseconds)
{
    struct timespec space;
    const struct timespec *deadline = nonpu_deadline(&space, milliseconds);
    int32_t status = nonpu_has_context() ? nonpu_may_wait(api) : nonpu_no_context(api);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    status = nonpu_settle_all(api, deadline);
    pthread_mutex_unlock(&nonpu_queues);
    if (status != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
        NONPU_NOTE(NONPU_SYNCHRONIZED, api, 0, 0, 0, 0);
    NONPU_CHECKED(nonpu_check_guards(api, NULL));
    return status;
}

aclError aclrtSynchronizeDevice(void) { return synchronize_device("aclrtSynchronizeDevice", -1); }

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    static const char api[] = "aclrtSynchronizeDeviceWithTimeout";
    return timeout < -1 ? nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "timeout", "-1 or more", nonpu_number(timeout).text)
                        : synchronize_device(api, timeout);
}

/* ---- contexts ---- */

aclError aclrtCreateContext(aclrtContext *out, int32_t deviceId)
{
    if (!out)
        return nonpu_null("aclrtCreateContext", "context");
    if (deviceId)
        return bad_device("aclrtCreateContext", "deviceId", deviceId);
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_make_stream(0);
    uintptr_t handle = make_context(s, 0);
    if (handle) {
        s->is_default = 1;
        nonpu_publish(&nonpu_streams, s);
    } else if (s) {
        nonpu_recycle(&nonpu_streams, s);
    }
    pthread_mutex_unlock(&nonpu_queues);
    if (!handle)
        return nonpu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "aclrtCreateContext", "memory for a context", "available", "none");
    thread_context = handle;
    *out = (aclrtContext)handle;
    NONPU_NOTE(NONPU_MADE, "aclrtCreateContext", handle, nonpu_contexts.tag, 0, 0);
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext handle)
{
    static const char api[] = "aclrtDestroyContext", expected[] = "a live context of aclrtCreateContext";
    int32_t status = handle ? nonpu_may_wait(api) : nonpu_null(api, "context");
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    const context *c = nonpu_find(&nonpu_contexts, (uintptr_t)handle);
    if (!c)
        status = nonpu_fail(ACL_ERROR_RT_CONTEXT_NULL, api, "context", expected, nonpu_describe(&nonpu_contexts, (uintptr_t)handle).text);
    else if (c->is_default)
        status = nonpu_fail(ACL_ERROR_RT_CONTEXT_NULL, api, "context", expected, "a default context, which aclrtResetDevice ends");
    else
        end_context((uintptr_t)handle);
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtSetCurrentContext(aclrtContext handle)
{
    static const char api[] = "aclrtSetCurrentContext";
    if (!handle)
        return nonpu_null(api, "context");
    if (!nonpu_find(&nonpu_contexts, (uintptr_t)handle))
        return nonpu_fail(ACL_ERROR_RT_PARAM_INVALID, api, "context", "a live context", nonpu_describe(&nonpu_contexts, (uintptr_t)handle).text);
    thread_context = (uintptr_t)handle;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *out)
{
    int32_t status = nonpu_wanted("aclrtGetCurrentContext", out, "context");
    if (!status)
        *out = (aclrtContext)thread_context;
    return status;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
    int32_t status = nonpu_wanted("aclrtCtxGetCurrentDefaultStream", stream, "stream");
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    nonpu_stream *s = nonpu_context_stream();
    if (s)
        *stream = (aclrtStream)nonpu_handle(&nonpu_streams, s);
    pthread_mutex_unlock(&nonpu_queues);
    return s ? ACL_SUCCESS : nonpu_no_context("aclrtCtxGetCurrentDefaultStream");
}

/* ---- settings ---- */

static aclError check_option(const char *api, aclSysParamOpt opt, const void *pointer)
{
    if (!pointer)
        return nonpu_null(api, "value");
    return (unsigned)opt < OPTIONS ? ACL_SUCCESS : nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "opt", "0 to 2", nonpu_number((int)opt).text);
}

/* Of the current context, or of the process. */
static aclError option(const char *api, aclSysParamOpt opt, int64_t *value, int of_context, int set)
{
    int32_t status = check_option(api, opt, value);
    if (status)
        return status;
    pthread_mutex_lock(&nonpu_queues);
    context *c = of_context && thread_context ? nonpu_find(&nonpu_contexts, thread_context) : NULL;
    options *o = c ? &c->options : &process_options;
    if (of_context && !c) {
        status = nonpu_no_context(api);
    } else if (set) {
        o->value[opt] = *value;
        o->is_set[opt] = 1;
    } else if (o->is_set[opt]) {
        *value = o->value[opt];
    } else {
        status = nonpu_fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, api, "opt", "an option that was set", nonpu_number((int)opt).text);
    }
    pthread_mutex_unlock(&nonpu_queues);
    return status;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return option("aclrtSetSysParamOpt", opt, &value, 0, 1); }
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value) { return option("aclrtGetSysParamOpt", opt, value, 0, 0); }
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) { return option("aclrtCtxSetSysParamOpt", opt, &value, 1, 1); }
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value) { return option("aclrtCtxGetSysParamOpt", opt, value, 1, 0); }

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    static const char api[] = "aclrtSetDeviceSatMode";
    if ((unsigned)mode > ACL_RT_OVERFLOW_MODE_INFNAN)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "mode", "0 or 1", nonpu_number((int)mode).text);
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    return mode == ACL_RT_OVERFLOW_MODE_INFNAN ? ACL_SUCCESS
         : nonpu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, api, "mode", "ACL_RT_OVERFLOW_MODE_INFNAN, the only one there is", "saturation");
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    int32_t status = nonpu_wanted("aclrtGetDeviceSatMode", mode, "mode");
    if (!status)
        *mode = ACL_RT_OVERFLOW_MODE_INFNAN;
    return status;
}

/* ---- the only device has no peers ---- */

aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)
{
    static const char api[] = "aclrtDeviceCanAccessPeer";
    if (!canAccessPeer)
        return nonpu_null(api, "canAccessPeer");
    if (deviceId || peerDeviceId)
        return bad_device(api, deviceId ? "deviceId" : "peerDeviceId", deviceId ? deviceId : peerDeviceId);
    *canAccessPeer = 0;
    return ACL_SUCCESS;
}

static aclError no_peer(const char *api, int32_t id)
{
    if (!nonpu_has_context())
        return nonpu_no_context(api);
    return id ? bad_device(api, "peerDeviceId", id)
              : nonpu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, api, "peerDeviceId", "another device than the current one", "the only device");
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    static const char api[] = "aclrtDeviceEnablePeerAccess";
    return flags ? nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "flags", "0", nonpu_number(flags).text) : no_peer(api, peerDeviceId);
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) { return no_peer("aclrtDeviceDisablePeerAccess", peerDeviceId); }
