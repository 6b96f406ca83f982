/* Programs with one mistake each, for --check; what must be found is in tests/test_run_check.py. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_sigmoid_backward.h"
#include "aclnnop/aclnn_swish_backward.h"

enum { N = 6, BYTES = N * sizeof(float) };

static aclrtStream stream;
static void *memory[3], *workspace;
static aclTensor *tensors[3];
static uint64_t size;
static aclOpExecutor *executor;
static float host[64];

static void begin(void)
{
    aclInit(NULL);
    aclrtSetDevice(0);
    aclrtCreateStream(&stream);
}

static aclTensor *tensor(void *address)
{
    int64_t shape[] = { N };
    return aclCreateTensor(shape, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 1, address);
}

static void make(void)
{
    for (int i = 0; i < 3; i++) {
        aclrtMalloc(&memory[i], BYTES, ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtMemcpy(memory[i], BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE);
        tensors[i] = tensor(memory[i]);
    }
}

static int plan(void) { return aclnnSigmoidBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], &size, &executor); }
static void run(void) { aclnnSigmoidBackward(NULL, 0, executor, stream); }
static void wait_for(void) { aclrtSynchronizeStream(stream); }
static void read_result(void) { aclrtMemcpy(host, BYTES, memory[2], BYTES, ACL_MEMCPY_DEVICE_TO_HOST); }

static void unmake(void)
{
    for (int i = 0; i < 3; i++) {
        aclDestroyTensor(tensors[i]);
        aclrtFree(memory[i]);
    }
}

static void end(void)
{
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
}

static void compute(void)
{
    plan();
    run();
    wait_for();
    read_result();
}

/* Everything around what a case does with the three tensors. */
#define AROUND(name, ...) static void name(void) { begin(); make(); __VA_ARGS__ unmake(); end(); }

/* ---- no mistake ---- */
AROUND(clean, compute();)
AROUND(clean_repeatable, plan(); aclSetAclOpExecutorRepeatable(executor); run(); run(); wait_for(); read_result(); aclDestroyAclOpExecutor(executor);)
AROUND(clean_unused_executor, plan(); aclDestroyAclOpExecutor(executor);)
AROUND(clean_query, plan(); run(); aclrtStreamStatus s; do aclrtStreamQuery(stream, &s); while (s != ACL_STREAM_STATUS_COMPLETE); read_result();)
AROUND(clean_device, plan(); run(); aclrtSynchronizeDevice(); read_result();)
AROUND(clean_early_destroy, plan(); run(); for (int i = 0; i < 3; i++) aclDestroyTensor(tensors[i]), tensors[i] = NULL; wait_for(); read_result();)
AROUND(clean_async, void *pinned; aclrtMallocHost(&pinned, BYTES); plan(); run();
       aclrtMemcpyAsync(pinned, BYTES, memory[2], BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream); wait_for(); aclrtFreeHost(pinned);)
AROUND(clean_pageable, plan(); run(); aclrtMemcpyAsync(host, BYTES, memory[2], BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream); read_result();)
AROUND(clean_list, aclTensor *list[] = { tensor(memory[0]), NULL }; aclDestroyTensorList(aclCreateTensorList((const aclTensor *const *)list, 2));
       aclDestroyIntArray(aclCreateIntArray((int64_t[]){ 1 }, 1));)
AROUND(clean_initialised_twice, aclInit(NULL);)

static void signal_program(void *done) { __atomic_store_n((int *)done, 1, __ATOMIC_RELEASE); }
AROUND(clean_host_function, int done = 0; plan(); run(); aclrtLaunchHostFunc(stream, signal_program, &done);
       while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) usleep(100); read_result();)

static void two_streams(int with_event, int through_host)
{
    aclrtStream other;
    aclrtEvent event;
    aclrtCreateStream(&other);
    aclrtCreateEvent(&event);
    plan();
    run();
    aclrtRecordEvent(event, stream);
    if (through_host)
        aclrtSynchronizeEvent(event);
    if (with_event)
        aclrtStreamWaitEvent(other, event);
    aclrtMemsetAsync(memory[2], BYTES, 0, BYTES, other);
    aclrtSynchronizeStream(other);
    if (with_event || through_host)
        read_result();              /* what the other stream waited for is done as well */
    wait_for();
    aclrtDestroyEvent(event);
    aclrtDestroyStream(other);
}
AROUND(clean_event, two_streams(1, 0);)
AROUND(clean_host_event, two_streams(0, 1);)

/* ---- left behind ---- */
AROUND(leaks_tensor, tensor(memory[0]); tensor(memory[0]);)
AROUND(leaks_scalar, float one = 1; aclCreateScalar(&one, ACL_FLOAT);)
AROUND(leaks_array, aclCreateBoolArray((bool[]){ 1 }, 1);)
AROUND(leaks_list, aclTensor *list[] = { tensor(memory[0]) }; aclCreateTensorList((const aclTensor *const *)list, 1);)
AROUND(leaks_memory, void *more; aclrtMalloc(&more, 24, 0);)
AROUND(leaks_host_memory, void *more; aclrtMallocHost(&more, 24);)
AROUND(leaks_executor, plan();)
AROUND(leaks_repeatable, plan(); aclSetAclOpExecutorRepeatable(executor); run(); wait_for();)
AROUND(leaks_stream, aclrtStream more; aclrtCreateStream(&more);)
AROUND(leaks_event, aclrtEvent event; aclrtCreateEvent(&event);)
AROUND(leaks_context, aclrtContext own, old; aclrtGetCurrentContext(&old); aclrtCreateContext(&own, 0); aclrtSetCurrentContext(old);)
AROUND(leaks_stream_of_context, aclrtContext own, old; aclrtStream more; aclrtGetCurrentContext(&old); aclrtCreateContext(&own, 0);
       aclrtCreateStream(&more); aclrtDestroyContext(own); aclrtSetCurrentContext(old);)
static void leaks_device(void) { begin(); aclrtDestroyStream(stream); aclFinalize(); }
static void leaks_initialisation(void) { begin(); aclrtDestroyStream(stream); aclrtResetDevice(0); }

/* ---- order ---- */
AROUND(reads_early, plan(); run(); read_result(); wait_for();)
static void reads_large_early(void)
{
    enum { COUNT = 1 << 20 };
    int64_t shape[] = { COUNT };
    float first;
    begin();
    aclrtMalloc(&memory[0], COUNT * sizeof(float), 0);
    aclrtMemset(memory[0], COUNT * sizeof(float), 0, COUNT * sizeof(float));
    tensors[0] = aclCreateTensor(shape, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 1, memory[0]);
    aclnnSigmoidBackwardGetWorkspaceSize(tensors[0], tensors[0], tensors[0], &size, &executor);
    run();
    aclrtMemcpy(&first, sizeof first, (float *)memory[0] + COUNT / 2, sizeof first, ACL_MEMCPY_DEVICE_TO_HOST);
    wait_for();
    aclDestroyTensor(tensors[0]);
    aclrtFree(memory[0]);
    end();
}
AROUND(overwrites, plan(); run(); aclrtMemset(memory[0], BYTES, 0, BYTES); wait_for();)
AROUND(frees_early, plan(); run(); aclrtFree(memory[2]); wait_for(); aclrtMalloc(&memory[2], 4, 0);)
AROUND(frees_workspace, aclrtMalloc(&workspace, 64, 0); plan(); aclnnSigmoidBackward(workspace, 64, executor, stream); aclrtFree(workspace); wait_for();)
AROUND(small_workspace, aclrtMalloc(&workspace, 64, 0); plan(); aclnnSigmoidBackward(workspace, 128, executor, stream); wait_for(); aclrtFree(workspace);)
AROUND(host_workspace, aclrtMallocHost(&workspace, 64); plan(); aclnnSigmoidBackward(workspace, 64, executor, stream); wait_for(); aclrtFreeHost(workspace);)
AROUND(unordered, two_streams(0, 0);)
AROUND(destroys_between, plan(); aclDestroyTensor(tensors[1]); tensors[1] = NULL; run(); wait_for();)
AROUND(destroys_scalar_between, float one = 1; aclScalar *beta = aclCreateScalar(&one, ACL_FLOAT);
       aclnnSwishBackwardGetWorkspaceSize(tensors[0], tensors[1], beta, tensors[2], &size, &executor); aclDestroyScalar(beta);
       aclnnSwishBackward(NULL, 0, executor, stream); wait_for();)
AROUND(runs_twice, plan(); run(); run(); wait_for();)
AROUND(other_operator, plan(); aclnnSwishBackward(NULL, 0, executor, stream); aclDestroyAclOpExecutor(executor);)
AROUND(ignores_status, aclTensor *right = tensors[1]; tensors[1] = NULL; plan(); tensors[1] = right; run(); wait_for();)
AROUND(frees_late, aclrtDestroyStream(stream); aclrtResetDevice(0); aclrtFree(memory[0]); aclrtSetDevice(0); aclrtCreateStream(&stream);
       aclrtMalloc(&memory[0], 4, 0);)
static void no_init(void) { aclrtSetDevice(0); aclrtResetDevice(0); }
static void after_finalize(void) { begin(); void *more; aclrtMalloc(&more, 4, 0); end(); aclrtFree(more); }
static void no_device(void) { aclInit(NULL); void *more; aclrtMalloc(&more, 4, 0); aclFinalize(); }

/* ---- memory ---- */
AROUND(overruns, ((char *)memory[0])[BYTES] = 1;)
AROUND(underruns, ((char *)memory[0])[-1] = 1;)
AROUND(overruns_host, char *more; aclrtMallocHost((void **)&more, 24); more[25] = 1; aclrtFreeHost(more);)
AROUND(copies_past, aclrtMemcpy(host, sizeof host, memory[0], 2 * BYTES, ACL_MEMCPY_DEVICE_TO_HOST);)
AROUND(fills_past, aclrtMemset(memory[0], BYTES + 4, 0, BYTES + 4);)
AROUND(reads_freed, void *old = memory[0]; aclrtFree(old); aclrtMemcpy(host, BYTES, old, BYTES, ACL_MEMCPY_DEVICE_TO_HOST);
       aclrtMalloc(&memory[0], 4, 0);)
AROUND(writes_freed, char *old = memory[0]; aclrtFree(old); old[3] = 1; aclrtMalloc(&memory[0], 4, 0);)
AROUND(plans_freed, void *old = memory[0]; aclrtFree(old); plan(); aclrtMalloc(&memory[0], 4, 0);)
AROUND(view_past, int64_t shape[] = { N + 1 }; aclTensor *t = aclCreateTensor(shape, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 1, memory[0]);
       aclnnSigmoidBackwardGetWorkspaceSize(t, t, t, &size, &executor); aclDestroyTensor(t);)
AROUND(host_tensor, aclDestroyTensor(tensors[0]); tensors[0] = tensor(host); compute();)

/* ---- wrong arguments ---- */
AROUND(destroys_twice, aclTensor *t = tensor(memory[0]); aclDestroyTensor(t); aclDestroyTensor(t);)
AROUND(destroys_element, aclTensor *t = tensor(memory[0]); aclTensorList *l = aclCreateTensorList((const aclTensor *const *)&t, 1); aclDestroyTensor(t);
       aclDestroyTensorList(l);)
AROUND(uses_destroyed, aclTensor *t = tensors[0]; tensors[0] = tensor(memory[0]); aclDestroyTensor(t);
       aclnnSigmoidBackwardGetWorkspaceSize(t, tensors[1], tensors[2], &size, &executor);)
AROUND(foreign_handle, aclDestroyTensor((aclTensor *)host);)
AROUND(frees_host_as_device, void *more; aclrtMallocHost(&more, 24); aclrtFree(more); aclrtFreeHost(more);)
AROUND(frees_device_as_host, aclrtFreeHost(memory[0]);)
AROUND(frees_twice, void *old = memory[0]; aclrtFree(old); aclrtFree(old); aclrtMalloc(&memory[0], 4, 0);)
AROUND(frees_inside, aclrtFree((char *)memory[0] + 4);)
AROUND(wrong_direction, aclrtMemcpy(host, BYTES, memory[0], BYTES, ACL_MEMCPY_HOST_TO_DEVICE);)
AROUND(count_past_room, aclrtMemcpy(host, 4, memory[0], BYTES, ACL_MEMCPY_DEVICE_TO_HOST);)
AROUND(bad_device, aclrtSetDevice(7);)
AROUND(incomplete_event, aclrtEvent a, b; float ms; aclrtCreateEvent(&a); aclrtCreateEvent(&b);
       aclrtEventElapsedTime(&ms, a, b); aclrtDestroyEvent(a); aclrtDestroyEvent(b);)

/* ---- ends ---- */
static void returns_three(void) { begin(); exit(3); }
static void forks(void)
{
    begin();
    make();
    fflush(stdout);
    if (!fork()) {
        aclrtFree(memory[0]);
        exit(0);
    }
    unmake();
    end();
}
static void writes_without_newline(void) { begin(); printf("not flushed yet"); }

static void many(void)
{
    begin();
    make();
    for (int i = 0; i < 5000; i++)
        compute();
    tensor(memory[0]);
    unmake();
    end();
}

static void *work(void *unused)
{
    aclrtSetDevice(0);
    for (int i = 0; i < 300; i++) {
        void *block;
        aclrtMalloc(&block, 100, 0);
        aclrtMemset(block, 100, 1, 100);
        aclTensor *t = tensor(block);
        aclDestroyTensor(t);
        aclrtFree(block);
    }
    aclrtResetDevice(0);
    return unused;
}

static void threads(void)
{
    pthread_t thread[4];
    begin();
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    end();
}

#define CASE(name) { #name, name }
static const struct { const char *name; void (*run)(void); } cases[] = {
    CASE(clean), CASE(clean_repeatable), CASE(clean_unused_executor), CASE(clean_query), CASE(clean_device), CASE(clean_early_destroy),
    CASE(clean_async), CASE(clean_pageable), CASE(clean_list), CASE(clean_initialised_twice), CASE(clean_host_function), CASE(clean_event),
    CASE(clean_host_event), CASE(leaks_tensor), CASE(leaks_scalar), CASE(leaks_array), CASE(leaks_list), CASE(leaks_memory),
    CASE(leaks_host_memory), CASE(leaks_executor), CASE(leaks_repeatable), CASE(leaks_stream), CASE(leaks_event), CASE(leaks_context), CASE(leaks_stream_of_context), CASE(leaks_device),
    CASE(leaks_initialisation), CASE(reads_early), CASE(reads_large_early), CASE(overwrites), CASE(frees_early), CASE(frees_workspace), CASE(small_workspace), CASE(host_workspace),
    CASE(unordered), CASE(destroys_between), CASE(destroys_scalar_between), CASE(runs_twice), CASE(other_operator), CASE(ignores_status), CASE(frees_late), CASE(no_init),
    CASE(after_finalize), CASE(no_device), CASE(overruns), CASE(underruns), CASE(overruns_host), CASE(copies_past), CASE(fills_past),
    CASE(reads_freed), CASE(writes_freed), CASE(plans_freed), CASE(view_past), CASE(host_tensor), CASE(destroys_twice), CASE(destroys_element),
    CASE(uses_destroyed), CASE(foreign_handle), CASE(frees_host_as_device), CASE(frees_device_as_host), CASE(frees_twice), CASE(frees_inside),
    CASE(wrong_direction), CASE(count_past_room), CASE(bad_device), CASE(incomplete_event), CASE(returns_three), CASE(forks),
    CASE(writes_without_newline), CASE(many), CASE(threads),
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            return 0;
        }
    fprintf(stderr, "no such case\n");
    return 2;
}
