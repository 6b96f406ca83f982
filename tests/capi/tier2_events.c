/* Tier 2: events, which order streams. */
#include "case.h"

#include <pthread.h>

#include "gate.h"

static int order[64], taken;

static void step(void *number) { order[__atomic_fetch_add(&taken, 1, __ATOMIC_SEQ_CST)] = (int)(intptr_t)number; }

static void launch(aclrtStream stream, int number)
{
    EXPECT_IS(aclrtLaunchHostFunc(stream, step, (void *)(intptr_t)number), 0);
}

static int recorded(aclrtEvent event)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)9;
    aclrtEventStatus older = ACL_EVENT_STATUS_RESERVED;
    EXPECT_IS(aclrtQueryEventStatus(event, &status), 0);
    EXPECT_IS(aclrtQueryEvent(event, &older), 0);
    EXPECT_IS(older == ACL_EVENT_STATUS_COMPLETE, status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    return status;
}

static int passed(aclrtEvent event)
{
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
    EXPECT_IS(aclrtQueryEventWaitStatus(event, &status), 0);
    return status == ACL_EVENT_WAIT_STATUS_COMPLETE;
}

CASE(events_order_streams)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream(), b = new_stream();
    aclrtEvent event = new_event();
    EXPECT_IS(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    gate_close(&g, a);
    launch(a, 1);
    EXPECT_IS(aclrtRecordEvent(event, a), 0);
    launch(a, 2);
    EXPECT_IS(aclrtStreamWaitEvent(b, event), 0);
    launch(b, 3);
    EXPECT_IS(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT(!passed(event));
    usleep(20000);
    EXPECT_IS(taken, 0);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(b), 0);
    EXPECT(order[0] == 1 && (order[1] == 3 || order[2] == 3));
    EXPECT(passed(event));
    EXPECT_IS(recorded(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
    EXPECT_IS(taken, 3);
}

CASE(a_wait_is_for_the_record_before_it)
{
    gate first, second;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream(), b = new_stream(), c = new_stream();
    aclrtEvent event = new_event();
    EXPECT_IS(aclrtStreamWaitEvent(b, event), 0);   /* never recorded: passes */
    EXPECT_IS(aclrtSynchronizeStream(b), 0);
    gate_close(&first, a);
    EXPECT_IS(aclrtRecordEvent(event, a), 0);
    EXPECT_IS(aclrtStreamWaitEvent(b, event), 0);
    launch(b, 1);
    gate_close(&second, c);
    EXPECT_IS(aclrtRecordEvent(event, c), 0);
    gate_open(&first);
    EXPECT_IS(aclrtSynchronizeStream(b), 0);
    EXPECT_IS(taken, 1);
    EXPECT_IS(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT_IS(aclrtDestroyEvent(event), 0);         /* does not block */
    gate_open(&second);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

CASE(an_event_may_be_destroyed_while_streams_wait_for_it)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream(), b = new_stream();
    aclrtEvent event = new_event();
    gate_close(&g, a);
    EXPECT_IS(aclrtRecordEvent(event, a), 0);
    EXPECT_IS(aclrtStreamWaitEvent(b, event), 0);
    launch(b, 1);
    EXPECT_IS(aclrtDestroyEvent(event), 0);
    usleep(10000);
    EXPECT_IS(taken, 0);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(b), 0);
    EXPECT_IS(taken, 1);
}

CASE(a_stream_that_is_discarded_lets_its_waiters_go)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int forced = 0; forced < 2; forced++) {
        aclrtStream a = new_stream(), b = new_stream(), c = new_stream();
        aclrtEvent event = new_event();
        gate_close(&g, a);
        launch(a, 1);
        EXPECT_IS(aclrtRecordEvent(event, a), 0);
        EXPECT_IS(aclrtStreamWaitEvent(b, event), 0);
        EXPECT_IS(aclrtStreamWaitEvent(c, event), 0);
        usleep(5000);
        EXPECT_IS(aclrtDestroyStreamForce(c), 0);   /* one that waits may go as well */
        THREAD(other, open_later, &g);
        EXPECT_IS(forced ? aclrtDestroyStreamForce(a) : aclrtStreamAbort(a), 0);
        EXPECT_IS(aclrtSynchronizeStream(b), 0);
        EXPECT_IS(taken, 0);
        float ms;
        EXPECT_IS(aclrtEventElapsedTime(&ms, event, event), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
        EXPECT_TEXT("aclrtEventElapsedTime", "startEvent", "discarded");
        JOIN(other);
    }
}

CASE(waiting_for_events)
{
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream();
    aclrtEvent event = new_event();
    EXPECT_IS(aclrtSynchronizeEvent(event), 0);     /* never recorded */
    gate_close(&g, a);
    EXPECT_IS(aclrtRecordEvent(event, a), 0);
    gate later;
    gate_init(&later);
    EXPECT_IS(aclrtLaunchHostFunc(a, hold, &later), 0);
    EXPECT_IS(aclrtSynchronizeEventWithTimeout(event, -2), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtSynchronizeEventWithTimeout", "timeout");
    EXPECT_IS(aclrtSynchronizeEventWithTimeout(event, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    EXPECT_TEXT("aclrtSynchronizeEventWithTimeout");
    THREAD(other, open_later, &g);
    EXPECT_IS(aclrtSynchronizeEvent(event), 0);     /* what is queued behind it does not matter */
    EXPECT_IS(aclrtSynchronizeEventWithTimeout(event, 1), 0);
    JOIN(other);
    gate_open(&later);
    EXPECT_IS(aclrtSynchronizeStream(a), 0);
}

CASE(times_of_events)
{
    gate g;
    float ms = -1;
    uint64_t first = 0, second = 0;
    EXPECT_IS(aclrtEventElapsedTime(NULL, NULL, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream();
    aclrtEvent start = new_event(), end = new_event();
    EXPECT_IS(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    EXPECT_TEXT("aclrtEventElapsedTime", "startEvent", "never recorded");
    EXPECT_IS(aclrtEventGetTimestamp(start, &first), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    EXPECT_IS(aclrtRecordEvent(start, a), 0);
    gate_close(&g, a);
    EXPECT_IS(aclrtRecordEvent(end, a), 0);
    EXPECT_IS(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    EXPECT_TEXT("aclrtEventElapsedTime", "endEvent", "not complete");
    EXPECT(ms == -1);
    usleep(30000);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(a), 0);
    EXPECT_IS(aclrtEventElapsedTime(&ms, start, end), 0);
    EXPECT(ms >= 30 && ms < 30000);
    EXPECT_IS(aclrtEventElapsedTime(&ms, end, start), 0);
    EXPECT(ms <= -30);
    EXPECT_IS(aclrtEventGetTimestamp(start, &first), 0);
    EXPECT_IS(aclrtEventGetTimestamp(end, &second), 0);
    EXPECT(second - first >= 30000 && second - first < 30000000);
    EXPECT_IS(aclrtEventGetTimestamp(end, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtEventGetTimestamp", "timestamp");
}

CASE(only_some_events_can_be_reset)
{
    aclrtEvent plain, ex, sync;
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream();
    EXPECT_IS(aclrtCreateEventWithFlag(&sync, ACL_EVENT_SYNC), 0);
    EXPECT_IS(aclrtCreateEventWithFlag(&plain, ACL_EVENT_TIME_LINE), 0);
    EXPECT_IS(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_SYNC), 0);
    EXPECT_IS(aclrtRecordEvent(sync, a), 0);
    EXPECT_IS(recorded(sync), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_IS(aclrtResetEvent(sync, a), 0);
    EXPECT_IS(recorded(sync), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT_IS(aclrtRecordEvent(sync, a), 0);
    EXPECT_IS(aclrtSynchronizeEvent(sync), 0);
    EXPECT_IS(recorded(sync), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_IS(aclrtResetEvent(plain, a), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_TEXT("aclrtResetEvent", "event", "ACL_EVENT_SYNC");
    EXPECT_IS(aclrtResetEvent(ex, a), ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_IS(aclrtResetEvent(sync, (aclrtStream)5), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtResetEvent(NULL, a), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtResetEvent((aclrtEvent)5, a), ACL_ERROR_RT_INVALID_HANDLE);
    for (unsigned bit = 0; bit < 32; bit++) {
        aclrtEvent event = NULL;
        int known = bit < 7 && bit != 2;
        EXPECT_IS(aclrtCreateEventWithFlag(&event, 1u << bit), known ? 0 : ACL_ERROR_RT_PARAM_INVALID);
        EXPECT_IS(event != NULL, known);
        EXPECT_IS(aclrtCreateEventExWithFlag(&event, 1u << bit), known ? 0 : ACL_ERROR_RT_PARAM_INVALID);
    }
    EXPECT_TEXT("aclrtCreateEventExWithFlag", "flag");
}

CASE(events_are_validated)
{
    float ms;
    uint64_t us;
    aclrtEvent event = NULL;
    aclrtEventStatus older;
    aclrtEventRecordedStatus status;
    aclrtEventWaitStatus waits;
    EXPECT_IS(aclrtCreateEvent(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtCreateEventWithFlag(NULL, 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtCreateEventExWithFlag(NULL, 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtCreateEventExWithFlag", "event", "null");
    EXPECT_IS(aclrtCreateEvent(&event), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(event == NULL);
    EXPECT_IS(aclrtSetDevice(0), 0);
    aclrtStream a = new_stream();
    event = new_event();
    EXPECT_IS(aclrtRecordEvent(event, event), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_TEXT("aclrtRecordEvent", "stream");
    EXPECT_IS(aclrtStreamWaitEvent(event, event), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_IS(aclrtQueryEvent(event, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtQueryEventStatus(event, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclrtQueryEventWaitStatus(event, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclrtQueryEventWaitStatus", "status", "null");
    EXPECT_IS(aclrtDestroyEvent(event), 0);
    const aclrtEvent bad[] = { NULL, event, a, &ms, (aclrtEvent)UINTPTR_MAX };
    for (int i = 0; i < 5; i++) {
        int expected = i ? ACL_ERROR_RT_INVALID_HANDLE : ACL_ERROR_INVALID_PARAM;
        EXPECT_IS(aclrtDestroyEvent(bad[i]), expected);
        EXPECT_TEXT("aclrtDestroyEvent", "event", !i ? "null" : i == 1 ? "destroyed" : "none");
        EXPECT_IS(aclrtRecordEvent(bad[i], a), expected);
        EXPECT_TEXT("aclrtRecordEvent", "event");
        EXPECT_IS(aclrtStreamWaitEvent(a, bad[i]), expected);
        EXPECT_IS(aclrtQueryEvent(bad[i], &older), expected);
        EXPECT_IS(aclrtQueryEventStatus(bad[i], &status), expected);
        EXPECT_IS(aclrtQueryEventWaitStatus(bad[i], &waits), expected);
        EXPECT_IS(aclrtSynchronizeEvent(bad[i]), expected);
        EXPECT_IS(aclrtSynchronizeEventWithTimeout(bad[i], 5), expected);
        EXPECT_IS(aclrtEventElapsedTime(&ms, bad[i], bad[i]), expected);
        EXPECT_IS(aclrtEventGetTimestamp(bad[i], &us), expected);
        EXPECT_TEXT("aclrtEventGetTimestamp", "event");
    }
}

/* A ring of streams, each waiting for the one before: the waiter at the end sets everything in motion. */
CASE(long_chains_of_waits_come_to_their_end)
{
    enum { STREAMS = 6, ROUNDS = 200 };
    aclrtStream streams[STREAMS];
    static int counter;
    gate g;
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int i = 0; i < STREAMS; i++)
        streams[i] = new_stream();
    int *memory;
    EXPECT_IS(aclrtMalloc((void **)&memory, 4 * STREAMS * ROUNDS, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    gate_close(&g, streams[0]);
    for (int i = 0; i < STREAMS * ROUNDS; i++) {
        aclrtEvent event = new_event();
        aclrtStream from = streams[i % STREAMS], to = streams[(i + 1) % STREAMS];
        EXPECT_IS(aclrtMemsetAsync(memory + i, 4, i, 4, from), 0);
        if (i)
            EXPECT_IS(aclrtMemcpyAsync(memory + i - 1, 4, memory + i, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, from), 0);
        EXPECT_IS(aclrtRecordEvent(event, from), 0);
        EXPECT_IS(aclrtStreamWaitEvent(to, event), 0);
        EXPECT_IS(aclrtDestroyEvent(event), 0);
    }
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(streams[(STREAMS * ROUNDS) % STREAMS]), 0);
    for (int i = 0; i + 1 < STREAMS * ROUNDS; i++)
        counter += memory[i] != (int)(((unsigned)(i + 1) & 255) * 0x01010101u);
    EXPECT_IS(counter, 0);
}

RUN(ENTRY(events_order_streams), ENTRY(a_wait_is_for_the_record_before_it), ENTRY(an_event_may_be_destroyed_while_streams_wait_for_it),
    ENTRY(a_stream_that_is_discarded_lets_its_waiters_go), ENTRY(waiting_for_events), ENTRY(times_of_events),
    ENTRY(only_some_events_can_be_reset), ENTRY(events_are_validated), ENTRY(long_chains_of_waits_come_to_their_end))
