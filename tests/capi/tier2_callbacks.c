/* Tier 2: functions of the client in streams. */
#include "case.h"

#include <pthread.h>

#include "gate.h"

static int ran[8], stop, processed_status;
static pthread_t ran_in;

static void run(void *number)
{
    ran_in = pthread_self();
    __atomic_add_fetch(&ran[(intptr_t)number], 1, __ATOMIC_SEQ_CST);
}

static int count(int number) { return __atomic_load_n(&ran[number], __ATOMIC_SEQ_CST); }

static void *process(void *unused)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
        int status = aclrtProcessReport(20);
        if (status && status != ACL_ERROR_RT_REPORT_TIMEOUT && status != ACL_ERROR_RT_THREAD_SUBSCRIBE)
            processed_status = status;
        if (status == ACL_ERROR_RT_THREAD_SUBSCRIBE)
            usleep(1000);
    }
    EXPECT_IS(aclrtResetDevice(0), 0);
    return unused;
}

#define SUBSCRIBE(thread, stream) EXPECT_IS(aclrtSubscribeReport((uint64_t)(thread), stream), 0)
#define UNSUBSCRIBE(thread, stream) EXPECT_IS(aclrtUnSubscribeReport((uint64_t)(thread), stream), 0)

CASE(callbacks_run_in_the_subscribed_thread)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    THREAD(thread, process, NULL);
    SUBSCRIBE(thread, stream);
    EXPECT_IS(aclrtLaunchCallback(run, (void *)1, ACL_CALLBACK_BLOCK, stream), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(count(1), 1);
    EXPECT(pthread_equal(ran_in, thread));
    for (int i = 0; i < 100; i++)
        EXPECT_IS(aclrtLaunchCallback(run, (void *)2, i % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, stream), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(count(2), 100);
    UNSUBSCRIBE(thread, stream);
    EXPECT_IS(aclrtLaunchCallback(run, (void *)3, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_TEXT("aclrtLaunchCallback", "stream");
    SUBSCRIBE(thread, NULL);
    EXPECT_IS(aclrtLaunchCallback(run, (void *)4, ACL_CALLBACK_BLOCK, NULL), 0);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    EXPECT_IS(count(4), 1);
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    JOIN(thread);
    EXPECT_IS(processed_status, 0);
    EXPECT_IS(aclrtResetDevice(0), 0);
}

CASE(a_blocking_callback_holds_its_stream_and_another_does_not)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    SUBSCRIBE(pthread_self(), stream);
    EXPECT_IS(aclrtLaunchCallback(run, (void *)1, ACL_CALLBACK_NO_BLOCK, stream), 0);
    EXPECT_IS(aclrtLaunchHostFunc(stream, run, (void *)2), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(count(2), 1);
    EXPECT_IS(count(1), 0);
    EXPECT_IS(aclrtProcessReport(-1), 0);
    EXPECT_IS(count(1), 1);
    EXPECT(pthread_equal(ran_in, pthread_self()));
    EXPECT_IS(aclrtLaunchCallback(run, (void *)3, ACL_CALLBACK_BLOCK, stream), 0);
    EXPECT_IS(aclrtLaunchHostFunc(stream, run, (void *)4), 0);
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    EXPECT_IS(count(4), 0);
    EXPECT_IS(aclrtProcessReport(1000), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT(count(3) == 1 && count(4) == 1);
    EXPECT_IS(aclrtProcessReport(10), ACL_ERROR_RT_REPORT_TIMEOUT);
    EXPECT_TEXT("aclrtProcessReport", "callback");
}

CASE(subscriptions_are_checked)
{
    const uint64_t self = (uint64_t)pthread_self();
    EXPECT_IS(aclrtProcessReport(0), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtProcessReport", "timeout", "0");
    EXPECT_IS(aclrtProcessReport(-2), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    EXPECT_TEXT("aclrtProcessReport", "thread", "subscribed");
    EXPECT_IS(aclrtSubscribeReport(self, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtUnSubscribeReport(self, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtLaunchCallback(run, NULL, ACL_CALLBACK_BLOCK, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtLaunchHostFunc(NULL, run, NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    EXPECT_IS(aclrtUnSubscribeReport(self, stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    EXPECT_TEXT("aclrtUnSubscribeReport", "stream");
    EXPECT_IS(aclrtSubscribeReport(self, (aclrtStream)3), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtUnSubscribeReport(self, (aclrtStream)3), ACL_ERROR_RT_INVALID_HANDLE);
    SUBSCRIBE(self, stream);
    EXPECT_IS(aclrtSubscribeReport(self, stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
    EXPECT_TEXT("aclrtSubscribeReport", "stream");
    EXPECT_IS(aclrtUnSubscribeReport(self + 1, stream), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    EXPECT_TEXT("aclrtUnSubscribeReport", "threadId");
    EXPECT_IS(aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, stream), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtLaunchCallback", "fn", "null");
    EXPECT_IS(aclrtLaunchCallback(run, NULL, (aclrtCallbackBlockType)2, stream), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtLaunchCallback", "blockType", "2");
    EXPECT_IS(aclrtLaunchCallback(run, NULL, ACL_CALLBACK_BLOCK, (aclrtStream)3), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtLaunchHostFunc(stream, NULL, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtLaunchHostFunc", "fn", "null");
    EXPECT_IS(aclrtLaunchHostFunc((aclrtStream)3, run, NULL), ACL_ERROR_RT_INVALID_HANDLE);
    UNSUBSCRIBE(self, stream);
    EXPECT_IS(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    EXPECT_IS(ran[0], 0);
}

CASE(a_subscription_that_ends_frees_the_stream)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    SUBSCRIBE(pthread_self(), stream);
    EXPECT_IS(aclrtLaunchCallback(run, (void *)1, ACL_CALLBACK_BLOCK, stream), 0);
    EXPECT_IS(aclrtLaunchHostFunc(stream, run, (void *)2), 0);
    usleep(10000);
    UNSUBSCRIBE(pthread_self(), stream);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_TEXT("aclrtSynchronizeStream", "callback");
    EXPECT(count(1) == 0 && count(2) == 1);
}

CASE(callbacks_that_hold_a_stream_go_with_it)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int forced = 0; forced < 2; forced++) {
        aclrtStream stream = new_stream(), other = new_stream();
        SUBSCRIBE(pthread_self(), stream);
        SUBSCRIBE(pthread_self(), other);
        EXPECT_IS(aclrtLaunchCallback(run, (void *)1, ACL_CALLBACK_NO_BLOCK, other), 0);
        EXPECT_IS(aclrtSynchronizeStream(other), 0);
        EXPECT_IS(aclrtLaunchCallback(run, (void *)2, ACL_CALLBACK_BLOCK, stream), 0);
        usleep(10000);
        EXPECT_IS(forced ? aclrtDestroyStreamForce(stream) : aclrtStreamAbort(stream), 0);
        EXPECT_IS(aclrtProcessReport(1000), 0);
        EXPECT(count(1) == forced + 1 && count(2) == 0);
        EXPECT_IS(aclrtDestroyStream(other), 0);
        if (!forced)
            EXPECT_IS(aclrtDestroyStream(stream), 0);
        EXPECT_IS(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    }
}

static int inside[16];
static aclrtStream used;
static aclrtEvent marked;
static void call_everything(void *unused)
{
    void *memory = NULL;
    char local[4] = "abc";
    (void)unused;
    aclrtSetDevice(0);
    inside[0] = aclrtSynchronizeStream(used);
    inside[1] = aclrtSynchronizeStreamWithTimeout(used, 10);
    inside[2] = aclrtSynchronizeDevice();
    inside[3] = aclrtSynchronizeDeviceWithTimeout(10);
    inside[4] = aclrtSynchronizeEvent(marked);
    inside[5] = aclrtDestroyStream(used);
    inside[6] = aclrtResetDevice(0);
    inside[7] = aclrtStreamAbort(used);
    inside[8] = aclrtProcessReport(1);
    inside[9] = aclrtFreeWithDevSync(&memory);
    inside[10] = aclrtMemcpyAsync(local, 4, local + 1, 2, ACL_MEMCPY_DEVICE_TO_HOST, used);
    inside[11] = aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST);
    inside[12] = aclrtFree(memory);
}

static void expect_refusals(void)
{
    for (int i = 0; i < 11; i++)
        EXPECT_IS(inside[i], ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(inside[11] == 0 && inside[12] == 0);
    memset(inside, 0, sizeof inside);
}

CASE(waiting_inside_a_callback_is_refused_and_hangs_nothing)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    used = new_stream();
    marked = new_event();
    EXPECT_IS(aclrtLaunchHostFunc(used, call_everything, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(used), 0);
    expect_refusals();
    SUBSCRIBE(pthread_self(), used);
    EXPECT_IS(aclrtLaunchCallback(call_everything, NULL, ACL_CALLBACK_BLOCK, used), 0);
    EXPECT_IS(aclrtProcessReport(-1), 0);
    expect_refusals();
    EXPECT_TEXT("callback");
    EXPECT_IS(aclrtSynchronizeStream(used), 0);
}

static void *process_once(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)aclrtProcessReport(-1);
}

CASE(a_thread_that_waits_for_callbacks_is_woken_when_its_subscription_ends)
{
    void *status;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    pthread_t thread;
    for (int early = 0; early < 2; early++) {
        pthread_create(&thread, NULL, process_once, NULL);
        SUBSCRIBE(thread, stream);
        usleep(early ? 0 : 10000);
        UNSUBSCRIBE(thread, stream);
        pthread_join(thread, &status);
        EXPECT_IS((intptr_t)status, ACL_ERROR_RT_THREAD_SUBSCRIBE);
    }
}

/* The process must be able to end although nobody will run the callback. */
CASE(a_program_may_end_with_a_callback_that_nobody_runs)
{
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream(), other = new_stream();
    aclrtEvent event = new_event();
    SUBSCRIBE(pthread_self(), stream);
    EXPECT_IS(aclrtLaunchCallback(run, (void *)1, ACL_CALLBACK_BLOCK, stream), 0);
    EXPECT_IS(aclrtRecordEvent(event, stream), 0);
    EXPECT_IS(aclrtStreamWaitEvent(other, event), 0);
    EXPECT_IS(aclFinalize(), 0);
}

RUN(ENTRY(callbacks_run_in_the_subscribed_thread), ENTRY(a_blocking_callback_holds_its_stream_and_another_does_not),
    ENTRY(subscriptions_are_checked), ENTRY(a_subscription_that_ends_frees_the_stream),
    ENTRY(callbacks_that_hold_a_stream_go_with_it), ENTRY(waiting_inside_a_callback_is_refused_and_hangs_nothing),
    ENTRY(a_thread_that_waits_for_callbacks_is_woken_when_its_subscription_ends),
    ENTRY(a_program_may_end_with_a_callback_that_nobody_runs))
