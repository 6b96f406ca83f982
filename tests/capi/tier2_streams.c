/* Tier 2: streams, their queues and what ends them. */
#include "case.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "gate.h"

static int steps[16], taken;
static pthread_t runner;

static void step(void *number)
{
    steps[__atomic_fetch_add(&taken, 1, __ATOMIC_SEQ_CST)] = (int)(intptr_t)number;
    runner = pthread_self();
}

static void launch(aclrtStream stream, int number)
{
    EXPECT_IS(aclrtLaunchHostFunc(stream, step, (void *)(intptr_t)number), 0);
}

CASE(work_runs_in_order_while_the_caller_goes_on)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_held_stream(&g);
    for (int i = 0; i < 10; i++)
        launch(stream, i);
    EXPECT_IS(taken, 0);
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    EXPECT_IS(aclrtStreamQuery(stream, &status), 0);
    EXPECT_IS(status, ACL_STREAM_STATUS_NOT_READY);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(aclrtStreamQuery(stream, &status), 0);
    EXPECT_IS(status, ACL_STREAM_STATUS_COMPLETE);
    EXPECT_IS(taken, 10);
    for (int i = 0; i < 10; i++)
        EXPECT_IS(steps[i], i);
    EXPECT(!pthread_equal(runner, pthread_self()));
}

CASE(streams_run_beside_each_other)
{
    gate first, second;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream(), b = new_stream();
    gate_close(&first, a);
    gate_close(&second, b);
    gate_open(&second);
    EXPECT_IS(aclrtSynchronizeStream(b), 0);
    launch(b, 1);
    EXPECT_IS(aclrtSynchronizeStream(b), 0);
    EXPECT_IS(taken, 1);
    gate_open(&first);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

CASE(waits_may_have_a_limit)
{
    gate g;
    int64_t start = milliseconds();
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(NULL, -2), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtSynchronizeStreamWithTimeout", "timeout", "-2");
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(NULL, 0), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtSynchronizeDeviceWithTimeout(-2), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtSynchronizeDeviceWithTimeout", "timeout");
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(NULL, 5), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSynchronizeDeviceWithTimeout(5), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSynchronizeDeviceWithTimeout(0), 0);
    aclrtStream stream = new_held_stream(&g);
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(stream, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    EXPECT_TEXT("aclrtSynchronizeStreamWithTimeout", "timeout");
    EXPECT_IS(aclrtSynchronizeDeviceWithTimeout(30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    EXPECT_IS(aclrtSynchronizeDeviceWithTimeout(0), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    EXPECT(milliseconds() - start >= 60);
    THREAD(other, open_later, &g);
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(stream, 60000), 0);
    EXPECT_IS(aclrtSynchronizeStreamWithTimeout(stream, -1), 0);
    EXPECT_IS(aclrtSynchronizeDeviceWithTimeout(-1), 0);
    JOIN(other);
}

CASE(destroying_waits_and_forcing_discards)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_held_stream(&g);
    launch(stream, 1);
    THREAD(other, open_later, &g);
    EXPECT_IS(aclrtDestroyStream(stream), 0);
    EXPECT_IS(taken, 1);
    JOIN(other);
    stream = new_held_stream(&g);
    launch(stream, 2);
    EXPECT_IS(aclrtDestroyStreamForce(stream), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_TEXT("aclrtSynchronizeStream", "destroyed");
    EXPECT_IS(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtDestroyStreamForce(NULL), ACL_ERROR_INVALID_PARAM);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    usleep(20000);
    EXPECT_IS(taken, 1);
    EXPECT_IS(aclrtDestroyStreamForce(new_stream()), 0);
}

CASE(places_of_discarded_streams_are_used_again)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int i = 0; i < 200; i++) {
        aclrtStream stream = new_stream();
        taken = 0;
        launch(stream, 1);
        launch(stream, 2);
        EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        EXPECT_IS(taken, 2);
        EXPECT_IS(aclrtDestroyStreamForce(stream), 0);
    }
}

/* In the child nobody works for the stream, and it goes back to its pool. */
CASE(a_process_forks_while_a_discarded_stream_works)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_held_stream(&g);
    launch(stream, 1);
    EXPECT_IS(aclrtDestroyStreamForce(stream), 0);
    int status = -1;
    pid_t child = fork();
    if (!child) {
        alarm(20);
        stream = new_stream();
        launch(stream, 2);
        EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        EXPECT_IS(taken, 1);
        EXPECT_IS(steps[0], 2);
        _exit(failures);
    }
    int ended = 0;
    for (int i = 0; i < 200 && !ended; i++) {   /* a child that hangs before its alarm hangs in fork itself */
        usleep(100000);
        ended = waitpid(child, &status, WNOHANG) == child;
    }
    if (!ended)
        kill(child, SIGKILL);
    EXPECT(ended);
    EXPECT_IS(status, 0);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    EXPECT_IS(taken, 0);
}

static void *wait_for(void *stream)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    return (void *)(intptr_t)aclrtSynchronizeStream(stream);
}

CASE(aborting_discards_and_tells_whoever_waits)
{
    gate g;
    void *result;
    EXPECT_IS(aclrtStreamAbort(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    EXPECT_IS(aclrtStreamAbort(stream), 0);
    EXPECT_IS(aclrtStreamAbort(NULL), 0);
    EXPECT_IS(aclrtStreamAbort((aclrtStream)7), ACL_ERROR_RT_INVALID_HANDLE);
    gate_close(&g, stream);
    launch(stream, 1);
    THREAD(waiter, wait_for, stream);
    usleep(20000);
    THREAD(other, open_later, &g);
    EXPECT_IS(aclrtStreamAbort(stream), 0);
    pthread_join(waiter, &result);
    EXPECT_IS((intptr_t)result, ACL_ERROR_RT_STREAM_ABORT);
    JOIN(other);
    EXPECT_IS(taken, 0);
    launch(stream, 2);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(taken, 1);
}

CASE(facts_about_streams)
{
    int32_t id = -1, other_id = -1;
    uint32_t number = 99, count = 0;
    aclrtStream stream = NULL;
    EXPECT_IS(aclrtCreateStreamWithConfig(NULL, 0, 0), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtCreateStreamWithConfig(&stream, 0, 0), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtStreamGetId(NULL, &id), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtGetStreamAvailableNum(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtGetStreamAvailableNum(&count), 0);
    EXPECT_IS(count, 2000);
    EXPECT_IS(aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | 0x8000), 0);
    EXPECT_IS(aclrtGetStreamAvailableNum(&count), 0);
    EXPECT_IS(count, 1999);
    EXPECT_IS(aclrtStreamGetPriority(stream, &number), 0);
    EXPECT_IS(number, 3);
    EXPECT_IS(aclrtStreamGetFlags(stream, &number), 0);
    EXPECT_IS(number, 3);
    EXPECT_IS(aclrtStreamGetFlags(new_stream(), &number), 0);
    EXPECT_IS(number, 0);
    EXPECT_IS(aclrtStreamGetPriority(NULL, &number), 0);
    EXPECT_IS(aclrtStreamGetId(stream, &id), 0);
    EXPECT_IS(aclrtStreamGetId(NULL, &other_id), 0);
    EXPECT(id >= 0 && other_id >= 0 && id != other_id);
    EXPECT_IS(aclrtStreamGetId(stream, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtStreamGetId", "streamId", "null");
    EXPECT_IS(aclrtStreamGetPriority(stream, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtStreamGetFlags(stream, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtStreamQuery(stream, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtDestroyStream(stream), 0);
    aclrtStreamStatus status;
    EXPECT_IS(aclrtStreamGetId(stream, &id), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtStreamGetPriority(stream, &number), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtStreamGetFlags(&id, &number), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtStreamQuery((aclrtStream)1, &status), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_TEXT("aclrtStreamQuery", "stream", "0x1");
}

CASE(streams_are_limited)
{
    uint32_t count = 1;
    aclrtStream stream = NULL;
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int i = 0; i < 2000; i++)
        new_stream();
    EXPECT_IS(aclrtGetStreamAvailableNum(&count), 0);
    EXPECT_IS(count, 0);
    EXPECT_IS(aclrtCreateStream(&stream), ACL_ERROR_RT_NO_STREAM_RESOURCE);
    EXPECT_TEXT("aclrtCreateStream", "2000");
    EXPECT(stream == NULL);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    new_stream();
}

/* A callback whose thread has gone is a failure of queued work. */
static void fail_queued(aclrtStream stream)
{
    static gate gates[16];
    static int used;
    gate *g = &gates[used++];       /* the worker may leave it after this function has returned */
    gate_close(g, stream);
    EXPECT_IS(aclrtSubscribeReport((uint64_t)pthread_self(), stream), 0);
    EXPECT_IS(aclrtLaunchCallback(step, NULL, ACL_CALLBACK_NO_BLOCK, stream), 0);
    launch(stream, 7);
    EXPECT_IS(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream), 0);
    gate_open(g);
}

CASE(failures_of_queued_work_appear_when_somebody_waits)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_stream();
    aclrtEvent event = new_event();
    fail_queued(stream);
    EXPECT(aclGetRecentErrMsg() == NULL);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_TEXT("aclrtSynchronizeStream", "work", "callback");
    EXPECT_IS(taken, 1);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    fail_queued(stream);
    EXPECT_IS(aclrtSynchronizeDevice(), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    fail_queued(stream);
    EXPECT_IS(aclrtRecordEvent(event, stream), 0);
    EXPECT_IS(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_TEXT("aclrtSynchronizeEvent", "callback");
    EXPECT_IS(aclrtSynchronizeEvent(event), 0);
    EXPECT_IS(taken, 3);
    fail_queued(stream);
    EXPECT_IS(aclrtDestroyStream(stream), 0);
    EXPECT_IS(aclrtSynchronizeStream(new_stream()), 0);
}

CASE(a_failure_may_stop_a_stream)
{
    EXPECT_IS(aclrtSetStreamFailureMode(NULL, 2), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtSetStreamFailureMode", "mode", "2");
    EXPECT_IS(aclrtSetStreamFailureMode(NULL, 1), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtSetStreamFailureMode", "stream", "default");
    EXPECT_IS(aclrtSetStreamFailureMode((aclrtStream)3, 1), ACL_ERROR_RT_INVALID_HANDLE);
    aclrtStream stream = new_stream();
    EXPECT_IS(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE), 0);
    fail_queued(stream);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_IS(taken, 0);
    EXPECT_IS(aclrtLaunchHostFunc(stream, step, NULL), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_TEXT("aclrtLaunchHostFunc", "stream", "failure");
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_IS(aclrtStreamAbort(stream), 0);
    launch(stream, 1);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(taken, 1);
    EXPECT_IS(aclrtSetStreamFailureMode(stream, ACL_CONTINUE_ON_FAILURE), 0);
    fail_queued(stream);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_NO_CB_REG);
    EXPECT_IS(taken, 2);
}

CASE(the_default_stream_has_a_handle_and_cannot_be_destroyed)
{
    gate g;
    aclrtStream stream = NULL, later = NULL;
    EXPECT_IS(aclrtCtxGetCurrentDefaultStream(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtCtxGetCurrentDefaultStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtCtxGetCurrentDefaultStream(&stream), 0);
    EXPECT(stream != NULL);
    gate_close(&g, stream);
    launch(NULL, 1);
    EXPECT_IS(taken, 0);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT_IS(taken, 1);
    EXPECT_IS(aclrtDestroyStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtDestroyStream", "stream", "default");
    EXPECT_IS(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtCtxGetCurrentDefaultStream(&later), 0);
    EXPECT(later != stream);
    EXPECT_IS(aclrtSynchronizeStream(later), 0);
}

CASE(reset_waits_for_queued_work)
{
    gate g, other_gate;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream stream = new_held_stream(&g);
    gate_close(&other_gate, NULL);
    launch(stream, 1);
    launch(NULL, 2);
    THREAD(first, open_later, &g);
    THREAD(second, open_later, &other_gate);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(taken, 2);
    JOIN(first);
    JOIN(second);
}

RUN(ENTRY(work_runs_in_order_while_the_caller_goes_on), ENTRY(streams_run_beside_each_other), ENTRY(waits_may_have_a_limit),
    ENTRY(destroying_waits_and_forcing_discards), ENTRY(aborting_discards_and_tells_whoever_waits), ENTRY(facts_about_streams),
    ENTRY(places_of_discarded_streams_are_used_again), ENTRY(streams_are_limited), ENTRY(failures_of_queued_work_appear_when_somebody_waits), ENTRY(a_failure_may_stop_a_stream),
    ENTRY(the_default_stream_has_a_handle_and_cannot_be_destroyed), ENTRY(a_process_forks_while_a_discarded_stream_works), ENTRY(reset_waits_for_queued_work))
