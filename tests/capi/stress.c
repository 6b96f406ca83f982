/* Everything at once, for a bounded number of rounds: threads that share streams, events, callbacks and copies, and that make
   and destroy them under each other's hands. A chain of copies per thread is checked at the end of each round. */
#include "case.h"

#include <pthread.h>

#include "aclnnop/aclnn_ops_nn.h"
#include "gate.h"

enum { THREADS = 8, SHARED = 4, COUNT = 1024, LARGE_COUNT = 1 << 16, STEPS = 12 };

static int rounds = 40, stop, refused, ran;
static aclrtStream shared[SHARED];
static aclrtEvent marks[SHARED];
static pthread_t reporter;

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u, *state >> 10; }

static void count_run(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
}

/* Shared objects are destroyed by other threads, so these outcomes are right and no others are. */
static void expect_ok_or_gone(int status)
{
    if (status == ACL_ERROR_RT_INVALID_HANDLE || status == ACL_ERROR_RT_STREAM_ABORT || status == ACL_ERROR_RT_STREAM_NO_CB_REG)
        __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
    else
        EXPECT_IS(status, 0);
}

static void use_shared(uint32_t *state)
{
    int i = (int)(next(state) % SHARED), j = (int)(next(state) % SHARED);
    aclrtStream stream = __atomic_load_n(&shared[i], __ATOMIC_ACQUIRE);
    aclrtEvent event = __atomic_load_n(&marks[j], __ATOMIC_ACQUIRE);
    float ms;
    switch (next(state) % 9) {
    case 0:
        expect_ok_or_gone(aclrtRecordEvent(event, stream));
        break;
    case 1:
        expect_ok_or_gone(aclrtStreamWaitEvent(stream, event));
        break;
    case 2:
        expect_ok_or_gone(aclrtLaunchHostFunc(stream, count_run, NULL));
        break;
    case 3:
        expect_ok_or_gone(aclrtSynchronizeStream(stream));
        break;
    case 4:
        expect_ok_or_gone(aclrtSynchronizeEvent(event));
        break;
    case 5:
        if (aclrtEventElapsedTime(&ms, event, event) == 0)
            EXPECT(ms == 0);
        break;
    case 6: {
        aclrtStream fresh = new_stream();
        aclrtStream old = __atomic_exchange_n(&shared[i], fresh, __ATOMIC_ACQ_REL);
        expect_ok_or_gone(next(state) % 2 ? aclrtDestroyStream(old) : aclrtDestroyStreamForce(old));
        break;
    }
    case 7: {
        aclrtEvent fresh = new_event();
        expect_ok_or_gone(aclrtDestroyEvent(__atomic_exchange_n(&marks[j], fresh, __ATOMIC_ACQ_REL)));
        break;
    }
    default:
        expect_ok_or_gone(aclrtLaunchCallback(count_run, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    }
}

static void *allocate(size_t size, int host)
{
    void *memory = NULL;
    EXPECT_IS(host ? aclrtMallocHost(&memory, size) : aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    return memory;
}

/* gradInput = 1 * y * (1 - y) with y = 2 everywhere: -2. */
static void run_operator(const float *y, float *out, const float *ones, int64_t count, aclrtStream stream)
{
    uint64_t workspace = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *t[3];
    const void *data[3] = { ones, y, out };
    for (int i = 0; i < 3; i++)
        t[i] = aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, (void *)(uintptr_t)data[i]);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(t[0], t[1], t[2], &workspace, &executor), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, stream), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_IS(aclDestroyTensor(t[i]), 0);
}

/* One chain over two streams: copy in, operator, copy across, copy out; events order the steps. */
static void run_chain(uint32_t *state, int blocking)
{
    int64_t count = next(state) % 4 ? COUNT : LARGE_COUNT;
    size_t bytes = (size_t)count * sizeof(float);
    aclrtStream a = new_stream(), b = new_stream();
    aclrtEvent event = new_event(), last = new_event();
    float *host = allocate(bytes, 1), *back = allocate(bytes, 1), *ones = allocate(bytes, 0), *y = allocate(bytes, 0), *out = allocate(bytes, 0);
    for (int64_t i = 0; i < count; i++) {
        host[i] = 2;
        ones[i] = 1;
        back[i] = 9;
    }
    if (blocking) {
        EXPECT_IS(aclrtSubscribeReport((uint64_t)reporter, a), 0);
        EXPECT_IS(aclrtLaunchCallback(count_run, NULL, ACL_CALLBACK_BLOCK, a), 0);
    }
    EXPECT_IS(aclrtMemcpyAsync(y, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE, a), 0);
    EXPECT_IS(aclrtRecordEvent(event, a), 0);
    EXPECT_IS(aclrtStreamWaitEvent(b, event), 0);
    EXPECT_IS(aclrtMemsetAsync(out, bytes, 0, bytes, b), 0);
    run_operator(y, out, ones, count, b);
    EXPECT_IS(aclrtRecordEvent(event, b), 0);
    EXPECT_IS(aclrtStreamWaitEvent(a, event), 0);
    EXPECT_IS(aclrtMemcpyAsync(back, bytes, out, bytes, ACL_MEMCPY_DEVICE_TO_HOST, a), 0);
    EXPECT_IS(aclrtFree(out), 0);       /* too early on purpose */
    EXPECT_IS(aclrtRecordEvent(last, a), 0);
    EXPECT_IS(aclrtDestroyEvent(event), 0);
    for (int i = 0; i < STEPS; i++)
        use_shared(state);
    if (next(state) % 2)
        EXPECT_IS(aclrtSynchronizeEvent(last), 0);
    else
        EXPECT_IS(aclrtSynchronizeStream(a), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += back[i] != -2;
    EXPECT_IS(wrong, 0);
    EXPECT_IS(aclrtDestroyEvent(last), 0);
    EXPECT_IS(aclrtDestroyStream(b), 0);
    EXPECT_IS(aclrtDestroyStream(a), 0);
    EXPECT(aclrtFree(y) == 0 && aclrtFree(ones) == 0 && aclrtFreeHost(host) == 0 && aclrtFreeHost(back) == 0);
}

static void *client(void *number)
{
    uint32_t state = 77u + (uint32_t)(uintptr_t)number;
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int round = 0; round < rounds; round++) {
        run_chain(&state, round % 3 == 0);
        if (next(&state) % 8 == 0)
            expect_ok_or_gone(aclrtSynchronizeDevice());
        aclGetRecentErrMsg();
    }
    EXPECT_IS(aclrtResetDevice(0), 0);
    return NULL;
}

static void *report(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
        if (aclrtProcessReport(50) == ACL_ERROR_RT_THREAD_SUBSCRIBE)
            usleep(200);
    return unused;
}

CASE(eight_threads_mix_everything)
{
    pthread_t threads[THREADS];
    if (getenv("STRESS_ROUNDS"))
        rounds = atoi(getenv("STRESS_ROUNDS"));
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    pthread_create(&reporter, NULL, report, NULL);
    for (int i = 0; i < SHARED; i++) {
        shared[i] = new_stream();
        marks[i] = new_event();
        EXPECT_IS(aclrtSubscribeReport((uint64_t)reporter, shared[i]), 0);
    }
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, client, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT(__atomic_load_n(&ran, __ATOMIC_RELAXED) >= THREADS * rounds / 3);
    for (int i = 0; i < SHARED; i++) {
        expect_ok_or_gone(aclrtSynchronizeStream(shared[i]));
        EXPECT_IS(aclrtDestroyStream(shared[i]), 0);
        EXPECT_IS(aclrtDestroyEvent(marks[i]), 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(reporter, NULL);
    uint32_t available = 0;
    EXPECT_IS(aclrtGetStreamAvailableNum(&available), 0);
    EXPECT_IS(available, 2000);
    EXPECT_IS(aclrtResetDevice(0), 0);
    EXPECT_IS(aclFinalize(), 0);
}

RUN(ENTRY(eight_threads_mix_everything))
