/* Tier 2: devices and contexts, per thread. */
#include "case.h"

#include <pthread.h>

#include "gate.h"

static aclrtContext current(void)
{
    aclrtContext context = NULL;
    EXPECT_IS(aclrtGetCurrentContext(&context), 0);
    return context;
}

static aclrtContext new_context(void)
{
    aclrtContext context = NULL;
    EXPECT_IS(aclrtCreateContext(&context, 0), 0);
    return context;
}

CASE(a_created_context_is_current_at_once)
{
    aclrtContext context = NULL;
    int32_t id = 7;
    EXPECT_IS(aclrtCreateContext(NULL, 0), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtCreateContext", "context", "null");
    EXPECT_IS(aclrtCreateContext(&context, 1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_TEXT("aclrtCreateContext", "deviceId", "1");
    EXPECT_IS(aclrtCreateContext(&context, -1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT(context == NULL);
    EXPECT_IS(aclrtGetCurrentContext(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtCreateContext(&context, 0), 0);
    EXPECT(context != NULL && current() == context);
    EXPECT_IS(aclrtGetDevice(&id), 0);
    EXPECT_IS(id, 0);
    aclrtContext other = new_context();
    EXPECT(other != context && current() == other);
    EXPECT_IS(aclrtSetCurrentContext(context), 0);
    EXPECT(current() == context);
    EXPECT_IS(aclrtSetCurrentContext(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtSetCurrentContext(&context), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtSetCurrentContext", "context");
    EXPECT_IS(aclrtDestroyContext(other), 0);
    EXPECT_IS(aclrtSetCurrentContext(other), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtSetCurrentContext", "context", "destroyed");
    EXPECT(current() == context);
    EXPECT_IS(aclrtDestroyContext(context), 0);
    EXPECT_IS(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
}

CASE(only_created_contexts_can_be_destroyed)
{
    EXPECT_IS(aclrtDestroyContext(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtDestroyContext(current()), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_TEXT("aclrtDestroyContext", "context", "default");
    aclrtContext context = new_context();
    EXPECT_IS(aclrtDestroyContext(context), 0);
    EXPECT_IS(aclrtDestroyContext(context), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_TEXT("aclrtDestroyContext", "context", "destroyed");
    EXPECT_IS(aclrtDestroyContext((aclrtContext)9), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtDestroyContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
}

static void *see_default(void *unused)
{
    aclrtContext context = NULL;
    EXPECT_IS(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    (void)unused;
    return current();
}

CASE(threads_share_the_default_context_of_a_device)
{
    void *seen = NULL;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtContext shared = current();
    THREAD(other, see_default, NULL);
    pthread_join(other, &seen);
    EXPECT(seen == shared);
    new_context();
    EXPECT(current() != shared);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT(current() == shared);
    EXPECT_IS(aclrtResetDeviceForce(0), 0);
    EXPECT_IS(aclrtSetCurrentContext(shared), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT(current() != shared);
}

static int taken;
static void count(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&taken, 1, __ATOMIC_SEQ_CST);
}

CASE(contexts_have_default_streams_of_their_own)
{
    gate g;
    aclrtStream of_default = NULL, own = NULL;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtContext first = current();
    EXPECT_IS(aclrtCtxGetCurrentDefaultStream(&of_default), 0);
    gate_close(&g, NULL);
    aclrtContext second = new_context();
    EXPECT_IS(aclrtCtxGetCurrentDefaultStream(&own), 0);
    EXPECT(own != of_default);
    EXPECT_IS(aclrtLaunchHostFunc(NULL, count, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT_IS(taken, 1);
    EXPECT_IS(aclrtDestroyStream(own), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtSetCurrentContext(first), 0);
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(NULL, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT_IS(aclrtDestroyContext(second), 0);
    EXPECT_IS(aclrtSynchronizeStream(own), ACL_ERROR_RT_INVALID_HANDLE);
}

CASE(streams_are_destroyed_in_their_context)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtContext first = current();
    aclrtStream stream = new_stream();
    new_context();
    EXPECT_IS(aclrtLaunchHostFunc(stream, count, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(taken, 1);
    EXPECT_IS(aclrtDestroyStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
    EXPECT_TEXT("aclrtDestroyStream", "stream", "context");
    EXPECT_IS(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_STREAM_CONTEXT);
    EXPECT_IS(aclrtSetCurrentContext(first), 0);
    EXPECT_IS(aclrtDestroyStream(stream), 0);
}

CASE(a_context_ends_with_its_streams_when_their_work_is_done)
{
    gate g, other_gate;
    aclrtContext context = new_context();
    aclrtStream stream = new_held_stream(&g);
    gate_close(&other_gate, NULL);
    EXPECT_IS(aclrtLaunchHostFunc(stream, count, NULL), 0);
    EXPECT_IS(aclrtLaunchHostFunc(NULL, count, NULL), 0);
    THREAD(first, open_later, &g);
    THREAD(second, open_later, &other_gate);
    EXPECT_IS(aclrtDestroyContext(context), 0);
    EXPECT_IS(taken, 2);
    JOIN(first);
    JOIN(second);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
}

CASE(contexts_outlive_the_reset_of_the_device)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtContext context = new_context();
    aclrtStream stream = new_stream();
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT(current() == context);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(aclrtDestroyContext(context), 0);
}

static void *churn(void *unused)
{
    for (int round = 0; round < 200; round++) {
        aclrtContext context = new_context();
        aclrtStream stream = new_stream();
        EXPECT_IS(aclrtLaunchHostFunc(round % 2 ? stream : NULL, count, NULL), 0);
        if (round % 3)
            EXPECT_IS(aclrtDestroyStream(stream), 0);
        EXPECT_IS(aclrtDestroyContext(context), 0);
    }
    return unused;
}

static void *set_and_reset(void *unused)
{
    for (int round = 0; round < 200; round++) {
        EXPECT_IS(aclrtSetDevice(0), 0);
        EXPECT_IS(aclrtLaunchHostFunc(NULL, count, NULL), 0);
        EXPECT_IS(aclrtResetDevice(0), 0);
    }
    return unused;
}

CASE(threads_make_and_end_contexts_at_once)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    THREAD(a, churn, NULL);
    THREAD(b, churn, NULL);
    THREAD(c, set_and_reset, NULL);
    JOIN(a);
    JOIN(b);
    JOIN(c);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    EXPECT_IS(taken, 600);
}

CASE(options_belong_to_the_context_or_the_process)
{
    int64_t value = 5;
    EXPECT_IS(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    EXPECT_TEXT("aclrtGetSysParamOpt", "opt");
    EXPECT_IS(value, 5);
    EXPECT_IS(aclrtSetSysParamOpt((aclSysParamOpt)3, 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtSetSysParamOpt", "opt", "3");
    EXPECT_IS(aclrtGetSysParamOpt((aclSysParamOpt)-1, &value), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
    EXPECT_IS(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 0);
    EXPECT_IS(value, 1);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtCtxGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
    EXPECT_IS(aclrtCtxSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 7), 0);
    EXPECT_IS(aclrtCtxGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value), 0);
    EXPECT_IS(value, 7);
    EXPECT_IS(aclrtCtxSetSysParamOpt((aclSysParamOpt)9, 7), ACL_ERROR_INVALID_PARAM);
    new_context();
    EXPECT_IS(aclrtCtxGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
}

CASE(overflow_gives_infinities)
{
    aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;
    EXPECT_IS(aclrtGetDeviceSatMode(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetDeviceSatMode(&mode), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN), 0);
    EXPECT_IS(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EXPECT_TEXT("aclrtSetDeviceSatMode", "mode", "saturation");
    EXPECT_IS(aclrtGetDeviceSatMode(&mode), 0);
    EXPECT_IS(mode, ACL_RT_OVERFLOW_MODE_INFNAN);
}

CASE(there_is_one_device)
{
    int32_t can = 5;
    aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
    EXPECT_IS(aclrtDeviceCanAccessPeer(NULL, 0, 0), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtDeviceCanAccessPeer(&can, 0, 1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_TEXT("aclrtDeviceCanAccessPeer", "peerDeviceId", "1");
    EXPECT_IS(aclrtDeviceCanAccessPeer(&can, -1, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtDeviceCanAccessPeer(&can, 0, 0), 0);
    EXPECT_IS(can, 0);
    EXPECT_IS(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtDeviceEnablePeerAccess(0, 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtDeviceEnablePeerAccess(0, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EXPECT_TEXT("aclrtDeviceEnablePeerAccess", "peerDeviceId");
    EXPECT_IS(aclrtDeviceDisablePeerAccess(0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    EXPECT_IS(aclrtQueryDeviceStatus(0, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtQueryDeviceStatus(1, &status), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclrtQueryDeviceStatus(0, &status), 0);
    EXPECT_IS(status, ACL_RT_DEVICE_STATUS_NORMAL);
}

RUN(ENTRY(a_created_context_is_current_at_once), ENTRY(only_created_contexts_can_be_destroyed),
    ENTRY(threads_share_the_default_context_of_a_device), ENTRY(contexts_have_default_streams_of_their_own),
    ENTRY(streams_are_destroyed_in_their_context), ENTRY(a_context_ends_with_its_streams_when_their_work_is_done),
    ENTRY(contexts_outlive_the_reset_of_the_device), ENTRY(threads_make_and_end_contexts_at_once),
    ENTRY(options_belong_to_the_context_or_the_process), ENTRY(overflow_gives_infinities), ENTRY(there_is_one_device))
