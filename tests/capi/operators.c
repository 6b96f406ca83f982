/* Both phases of the operators: executors, streams, lifetimes. The values are judged elsewhere. */
#include "case.h"

#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_ops_nn.h"
#include "gate.h"

enum { LARGE = 1 << 22 };

static aclTensor *tensor_of(const float *data, int64_t count)
{
    return aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, (void *)(uintptr_t)data);
}

static void begin(void)
{
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
}

/* gradInput = gradOutput * output * (1 - output) */
static aclOpExecutor *plan(const float *grad, const float *output, float *result, int64_t count)
{
    uint64_t workspace = 99;
    aclOpExecutor *executor = NULL;
    aclTensor *g = tensor_of(grad, count), *y = tensor_of(output, count), *r = tensor_of(result, count);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, y, r, &workspace, &executor), 0);
    EXPECT_IS(workspace, 0);
    EXPECT(executor != NULL);
    aclDestroyTensor(g);
    aclDestroyTensor(y);
    aclDestroyTensor(r);
    return executor;
}

static const float ones[4] = { 1, 1, 1, 1 };
static const float outputs[4] = { 1, 2, 3, 4 };

CASE(the_documents_example)
{
    float result[4] = { 9, 9, 9, 9 };
    begin();
    aclOpExecutor *executor = plan(ones, outputs, result, 4);
    EXPECT(result[0] == 9);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT(result[0] == 0 && result[1] == -2 && result[2] == -6 && result[3] == -12);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

static void sigmoid_of(aclDataType type, const void *grad, const void *output, void *result, int64_t count)
{
    uint64_t workspace = 99;
    aclOpExecutor *executor = NULL;
    const void *data[3] = { grad, output, result };
    aclTensor *t[3];
    for (int i = 0; i < 3; i++)
        t[i] = aclCreateTensor(&count, 1, type, NULL, 0, ACL_FORMAT_ND, &count, 1, (void *)(uintptr_t)data[i]);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(t[0], t[1], t[2], &workspace, &executor), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    for (int i = 0; i < 3; i++)
        aclDestroyTensor(t[i]);
}

/* Kernels rely on the processor to say so. */
CASE(what_overflows_or_underflows_on_the_way_is_noticed)
{
    /* Infinite; an overflow; 1e-9 squared does not count; (1 + 2**-7) 1.5 2**-40 is halfway and a little less is meant. */
    const uint16_t grad[6] = { 0x7F80, 0x7F00, 0x3F80, 0x3F81, 0x3F80, 0x8000 };
    const uint16_t output[6] = { 0x3F00, 0x4040, 0x3089, 0x2BC0, 0x3F00, 0x3F00 };
    const uint16_t expected[6] = { 0x7F80, 0xFF80, 0x3089, 0x2BC1, 0x3E80, 0x8000 };
    uint16_t result[6] = { 0 };
    /* The square of 1e-30 i is -1e-60, which 1e30 brings back. */
    const float complex_grad[4] = { 1e30f, 0, 1e30f, 0 }, complex_output[4] = { 0, 1e-30f, 1e10f, 0 };
    float complex_result[4] = { 9, 9, 9, 9 };
    begin();
    sigmoid_of(ACL_BF16, grad, output, result, 6);
    for (int i = 0; i < 6; i++)
        EXPECT_IS(result[i], expected[i]);
    sigmoid_of(ACL_COMPLEX64, complex_grad, complex_output, complex_result, 2);
    EXPECT(fabsf(complex_result[0] / 1e-30f - 1) < 1e-6f && fabsf(complex_result[1] + 1) < 1e-6f);
    EXPECT(complex_result[2] == -INFINITY && complex_result[3] == 0);
}

CASE(out_pointers_come_first_and_stay_untouched_on_failure)
{
    uint64_t workspace = 77;
    aclOpExecutor *executor = (aclOpExecutor *)0x77;
    begin();
    EXPECT_IS(aclnnSwishBackwardGetWorkspaceSize(NULL, NULL, NULL, NULL, NULL, &executor), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclnnSwishBackwardGetWorkspaceSize", "workspaceSize", "null");
    EXPECT_IS(aclnnSwishBackwardGetWorkspaceSize(NULL, NULL, NULL, NULL, &workspace, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclnnSwishBackwardGetWorkspaceSize", "executor", "null");
    EXPECT_IS(aclnnSwishBackwardGetWorkspaceSize(NULL, NULL, NULL, NULL, &workspace, &executor), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclnnSwishBackwardGetWorkspaceSize", "gradOutput", "null");
    EXPECT(workspace == 77 && executor == (aclOpExecutor *)0x77);
}

CASE(operators_want_initialisation)
{
    float result[4] = { 9, 9, 9, 9 };
    uint64_t workspace = 77;
    aclOpExecutor *executor = NULL;
    aclTensor *g = tensor_of(ones, 4), *y = tensor_of(outputs, 4), *r = tensor_of(result, 4);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, y, r, &workspace, &executor), ACLNN_ERR_INNER);
    EXPECT_TEXT("aclnnSigmoidBackwardGetWorkspaceSize", "aclInit");
    EXPECT_IS(aclnnInit("/nonexistent/dump.json"), 0);
    EXPECT_IS(aclnnInit(NULL), 0);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, y, r, &workspace, &executor), 0);
    /* Without a context nobody could wait for the default stream: the result is there at once. */
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
    EXPECT(result[3] == -12);
    EXPECT_IS(aclnnFinalize(), 0);
    EXPECT_IS(aclnnFinalize(), 0);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, y, r, &workspace, &executor), ACLNN_ERR_INNER);
}

CASE(destroyed_and_foreign_tensors_are_refused)
{
    float result[4] = { 9, 9, 9, 9 };
    float slope = 0.5f;
    int local;
    uint64_t workspace = 77;
    aclOpExecutor *executor = NULL;
    begin();
    aclTensor *g = tensor_of(ones, 4), *y = tensor_of(outputs, 4), *r = tensor_of(result, 4);
    aclScalar *s = aclCreateScalar(&slope, ACL_FLOAT);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, (aclTensor *)&local, r, &workspace, &executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnSigmoidBackwardGetWorkspaceSize", "output");
    EXPECT_IS(aclnnLeakyReluBackwardGetWorkspaceSize(g, y, (aclScalar *)g, false, r, &workspace, &executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnLeakyReluBackwardGetWorkspaceSize", "negativeSlope");
    aclDestroyScalar(s);
    EXPECT_IS(aclnnLeakyReluBackwardGetWorkspaceSize(g, y, s, false, r, &workspace, &executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnLeakyReluBackwardGetWorkspaceSize", "negativeSlope");
    aclDestroyTensor(g);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, y, r, &workspace, &executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnSigmoidBackwardGetWorkspaceSize", "gradOutput");
    EXPECT(workspace == 77 && executor == NULL && result[0] == 9);
}

CASE(an_executor_runs_once)
{
    float result[4] = { 9, 9, 9, 9 };
    begin();
    aclOpExecutor *executor = plan(ones, outputs, result, 4);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
    result[3] = 7;
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnSigmoidBackward", "executor", "consumed");
    EXPECT(result[3] == 7);
    EXPECT_IS(aclDestroyAclOpExecutor(executor), ACLNN_ERR_INNER);
    EXPECT_TEXT("aclDestroyAclOpExecutor", "consumed");
    EXPECT_IS(aclSetAclOpExecutorRepeatable(executor), ACLNN_ERR_INNER);
    executor = plan(ones, outputs, result, 4);
    EXPECT_IS(aclDestroyAclOpExecutor(executor), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID);
    EXPECT(result[3] == 7);
}

CASE(phase_two_checks_in_order)
{
    float result[4] = { 9, 9, 9, 9 };
    int local;
    begin();
    EXPECT_IS(aclnnSigmoidBackward(NULL, 8, NULL, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclnnSigmoidBackward", "executor", "null");
    aclOpExecutor *executor = plan(ones, outputs, result, 4);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 8, executor, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclnnSigmoidBackward", "workspace", "null");
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, (aclOpExecutor *)&local, NULL), ACLNN_ERR_PARAM_INVALID);
    executor = plan(ones, outputs, result, 4);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, (aclrtStream)&local), ACLNN_ERR_RUNTIME_ERROR);
    EXPECT_TEXT("aclnnSigmoidBackward", "stream");
    EXPECT(result[0] == 9);
    executor = plan(ones, outputs, result, 4);
    EXPECT_IS(aclnnSigmoidBackward(result, 16, executor, NULL), 0);
    EXPECT(result[3] == -12);
}

CASE(a_repeatable_executor_reads_new_data_in_every_run)
{
    float output[4] = { 1, 2, 3, 4 }, result[4];
    begin();
    aclOpExecutor *executor = plan(ones, output, result, 4);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(executor), 0);
    for (int run = 0; run < 3; run++) {
        output[0] = (float)run;
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
        EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
        EXPECT(result[0] == (float)(run * (1 - run)) && result[3] == -12);
    }
    EXPECT_IS(aclDestroyAclOpExecutor(executor), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyAclOpExecutor(executor), ACLNN_ERR_INNER);
}

CASE(an_empty_tensor_needs_no_memory)
{
    begin();
    aclOpExecutor *executor = plan(NULL, NULL, NULL, 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), ACLNN_ERR_PARAM_INVALID);
}

static float *device_floats(int64_t count, float value)
{
    float *memory = NULL;
    EXPECT_IS(aclrtMalloc((void **)&memory, (size_t)count * sizeof *memory, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    for (int64_t i = 0; i < count; i++)
        memory[i] = value;
    return memory;
}

CASE(queued_work_is_done_in_order_and_waited_for)
{
    begin();
    aclrtStream stream;
    EXPECT_IS(aclrtCreateStream(&stream), 0);
    float *grad = device_floats(LARGE, 1), *output = device_floats(LARGE, 2), *middle = device_floats(LARGE, 9), *result = device_floats(LARGE, 9);
    for (int round = 0; round < 5; round++) {
        aclOpExecutor *first = plan(grad, output, middle, LARGE), *second = plan(middle, output, result, LARGE);
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, first, stream), 0);
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, second, stream), 0);
        if (round == 2)
            EXPECT_IS(aclrtSynchronizeDevice(), 0);
        else if (round == 3)
            EXPECT_IS(aclrtResetDevice(0), 0);
        else if (round == 4)
            EXPECT_IS(aclrtDestroyStream(stream), 0);
        else
            EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        int wrong = 0;
        for (int64_t i = 0; i < LARGE; i++) {
            wrong += middle[i] != -2 || result[i] != 4;
            middle[i] = result[i] = 9;
        }
        EXPECT_IS(wrong, 0);
        if (round == 3) {
            EXPECT_IS(aclrtSetDevice(0), 0);
            EXPECT_IS(aclrtCreateStream(&stream), 0);
        }
    }
}

CASE(memory_freed_too_early_stays_until_the_queue_is_empty)
{
    begin();
    for (int round = 0; round < 20; round++) {
        float *grad = device_floats(LARGE, 1), *output = device_floats(LARGE, 2), *result = device_floats(LARGE, 9);
        aclOpExecutor *executor = plan(grad, output, result, LARGE);
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
        EXPECT_IS(aclrtFree(grad), 0);
        EXPECT_IS(aclrtFree(output), 0);
        EXPECT_IS(aclrtFree(result), 0);
        EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    }
}

/* Inputs that overlap the output partly need a temporary block, which may not be there when the work's turn comes. */
CASE(queued_work_without_memory_fails_when_somebody_waits)
{
    enum { SHIFT = 16 };
    struct rlimit limit;
    long pages = 0;
    gate g;
    begin();
    aclrtStream stream = new_stream();
    float *grad = device_floats(LARGE, 1), *both = device_floats(LARGE + SHIFT, 2);
    aclOpExecutor *executor = plan(grad, both, both + SHIFT, LARGE);
    gate_close(&g, stream);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, stream), 0);
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT_IS(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    getrlimit(RLIMIT_AS, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 20);
    EXPECT_IS(setrlimit(RLIMIT_AS, &limit), 0);
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeStream(stream), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_TEXT("aclrtSynchronizeStream", "work", "temporary");
    limit.rlim_cur = before;
    EXPECT_IS(setrlimit(RLIMIT_AS, &limit), 0);
    EXPECT(both[SHIFT] == 2);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, plan(grad, both, both + SHIFT, LARGE), stream), 0);
    EXPECT_IS(aclrtSynchronizeStream(stream), 0);
    EXPECT(both[0] == 2 && both[SHIFT] == -2 && both[LARGE + SHIFT - 1] == -2);
}

/* A thread that is planning, in Python, and a worker that runs do not wait for each other. */
CASE(planning_goes_on_while_a_stream_is_held)
{
    float result[4] = { 9, 9, 9, 9 };
    gate g;
    begin();
    aclrtStream held = new_stream(), other = new_stream();
    gate_close(&g, held);
    for (int i = 0; i < 20; i++) {
        result[3] = 9;
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, plan(ones, outputs, result, 4 - i % 4), other), 0);
        EXPECT_IS(aclrtSynchronizeStream(other), 0);
        EXPECT_IS(result[3], i % 4 ? 9 : -12);
    }
    gate_open(&g);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

static void *use_streams(void *unused)
{
    aclrtStream stream;
    EXPECT_IS(aclrtSetDevice(0), 0);
    EXPECT_IS(aclrtCreateStream(&stream), 0);
    float *grad = device_floats(LARGE / 4, 1), *output = device_floats(LARGE / 4, 2), *result = device_floats(LARGE / 4, 9);
    for (int round = 0; round < 30; round++) {
        int64_t count = round % 2 ? LARGE / 4 : 100;
        memset(result, 0, (size_t)count * 4);
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, plan(grad, output, result, count), stream), 0);
        EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        EXPECT(result[0] == -2 && result[count - 1] == -2);
    }
    EXPECT_IS(aclrtDestroyStream(stream), 0);
    return unused;
}

CASE(threads_use_streams_of_their_own)
{
    pthread_t threads[4];
    begin();
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_streams, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

CASE(a_forked_child_has_the_executor_too)
{
    float result[4] = { 9, 9, 9, 9 };
    begin();
    aclOpExecutor *executor = plan(ones, outputs, result, 4);
    int other;
    pid_t child = fork();
    if (!child) {
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
        EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
        EXPECT(result[3] == -12);
        _exit(failures);
    }
    waitpid(child, &other, 0);
    EXPECT_IS(other, 0);
    EXPECT(result[3] == 9);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
}

/* Work queued by the parent, and workers and helpers that exist only there, must not disturb the child. */
CASE(a_forked_child_goes_on)
{
    begin();
    float *grad = device_floats(LARGE, 1), *output = device_floats(LARGE, 2), *result = device_floats(LARGE, 9);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, plan(grad, output, result, LARGE), NULL), 0);
    for (int round = 0; round < 10; round++) {
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, plan(grad, output, result, LARGE), NULL), 0);
        int status = -1;
        pid_t child = fork();
        if (!child) {
            alarm(20);
            memset(result, 0, LARGE * sizeof *result);
            EXPECT_IS(aclnnSigmoidBackward(NULL, 0, plan(grad, output, result, LARGE), NULL), 0);
            EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
            EXPECT(result[0] == -2 && result[LARGE - 1] == -2);
            EXPECT_IS(aclrtResetDevice(0), 0);
            EXPECT_IS(aclFinalize(), 0);
            _exit(failures);
        }
        waitpid(child, &status, 0);
        EXPECT_IS(status, 0);
    }
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT(result[0] == -2 && result[LARGE - 1] == -2);
}

RUN(ENTRY(the_documents_example), ENTRY(out_pointers_come_first_and_stay_untouched_on_failure),
    ENTRY(what_overflows_or_underflows_on_the_way_is_noticed),
    ENTRY(operators_want_initialisation), ENTRY(destroyed_and_foreign_tensors_are_refused), ENTRY(an_executor_runs_once),
    ENTRY(phase_two_checks_in_order), ENTRY(a_repeatable_executor_reads_new_data_in_every_run),
    ENTRY(an_empty_tensor_needs_no_memory), ENTRY(queued_work_is_done_in_order_and_waited_for),
    ENTRY(memory_freed_too_early_stays_until_the_queue_is_empty), ENTRY(queued_work_without_memory_fails_when_somebody_waits),
    ENTRY(planning_goes_on_while_a_stream_is_held), ENTRY(threads_use_streams_of_their_own),
    ENTRY(a_forked_child_has_the_executor_too), ENTRY(a_forked_child_goes_on))
