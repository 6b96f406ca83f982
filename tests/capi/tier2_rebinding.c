/* Repeatable executors and other addresses for them; memory and objects that go too early. */
#include "case.h"

#include <pthread.h>
#include <sys/mman.h>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_ops_nn.h"

typedef struct { aclTensor *grad, *output, *result; aclOpExecutor *executor; } call;

static void begin(void)
{
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
}

static float *device(int64_t count, float value)
{
    float *memory = NULL;
    EXPECT_IS(aclrtMalloc((void **)&memory, (size_t)count * sizeof *memory, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    for (int64_t i = 0; i < count; i++)
        memory[i] = value;
    return memory;
}

static aclTensor *tensor_of(float *data, int64_t count)
{
    return aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, data);
}

/* gradInput = gradOutput * output * (1 - output) */
static call plan(float *grad, float *output, float *result, int64_t count)
{
    uint64_t workspace = 99;
    call c = { tensor_of(grad, count), tensor_of(output, count), tensor_of(result, count), NULL };
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(c.grad, c.output, c.result, &workspace, &c.executor), 0);
    return c;
}

static void run(const call *c)
{
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, c->executor, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
}

CASE(new_addresses_take_effect_at_the_next_run)
{
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3), *elsewhere = device(8, 9);
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    run(&c);
    EXPECT(result[0] == -2 && result[7] == -2);
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 1, c.output, other), 0);
    EXPECT(result[0] == -2);
    run(&c);
    EXPECT(result[0] == -6 && result[7] == -6);
    EXPECT_IS(aclSetOutputTensorAddr(c.executor, 0, c.result, elsewhere), 0);
    result[0] = 5;
    run(&c);
    EXPECT(elsewhere[0] == -6 && elsewhere[7] == -6 && result[0] == 5);
    grad[0] = 10;
    EXPECT_IS(aclSetTensorAddr(c.executor, 2, c.result, result), 0);
    EXPECT_IS(aclSetTensorAddr(c.executor, 1, c.output, output), 0);
    run(&c);
    EXPECT(result[0] == -20 && result[1] == -2 && elsewhere[0] == -6);
    void *address = NULL;
    EXPECT_IS(aclGetRawTensorAddr(c.output, &address), 0);
    EXPECT(address == output);
    EXPECT_IS(aclDestroyAclOpExecutor(c.executor), 0);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

CASE(the_reserved_names_do_the_same)
{
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3), *elsewhere = device(8, 9);
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    EXPECT_IS(AclSetInputTensorAddr(c.executor, 0, c.grad, other), 0);
    EXPECT_IS(AclSetOutputTensorAddr(c.executor, 0, c.result, elsewhere), 0);
    EXPECT_IS(AclSetTensorAddr(c.executor, 0, c.grad, other), 0);
    run(&c);
    EXPECT(elsewhere[0] == -6 && result[0] == 9);
    EXPECT_IS(AclSetTensorAddr(NULL, 0, c.grad, other), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_TEXT("AclSetTensorAddr");
}

CASE(a_scalar_may_be_gone_when_an_address_changes)
{
    begin();
    float *grad = device(8, 3), *self = device(8, -1), *out = device(8, 9), *other = device(8, 5), slope = 0.5f;
    aclTensor *g = tensor_of(grad, 8), *x = tensor_of(self, 8), *o = tensor_of(out, 8);
    aclScalar *s = aclCreateScalar(&slope, ACL_FLOAT);
    aclOpExecutor *executor = NULL;
    uint64_t workspace;
    EXPECT_IS(aclnnLeakyReluBackwardGetWorkspaceSize(g, x, s, false, o, &workspace, &executor), 0);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(executor), 0);
    EXPECT_IS(aclDestroyScalar(s), 0);
    EXPECT_IS(aclSetInputTensorAddr(executor, 0, g, other), 0);
    EXPECT_IS(aclnnLeakyReluBackward(NULL, 0, executor, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT(out[0] == 2.5f && out[7] == 2.5f);
}

CASE(a_shared_tensor_moves_everywhere)
{
    begin();
    float *grad = device(8, 1), *memory = device(8, 2), *other = device(8, 3);
    uint64_t workspace;
    aclOpExecutor *executor = NULL;
    aclTensor *g = tensor_of(grad, 8), *both = tensor_of(memory, 8);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(g, both, both, &workspace, &executor), 0);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(executor), 0);
    EXPECT_IS(aclSetInputTensorAddr(executor, 1, both, other), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, executor, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT(other[0] == -6 && other[7] == -6 && memory[0] == 2);
}

CASE(overlap_that_a_new_address_brings_is_handled)
{
    begin();
    float *grad = device(8, 1), *long_one = device(12, 2), *result = device(8, 9);
    for (int i = 0; i < 12; i++)
        long_one[i] = (float)i;
    call c = plan(grad, long_one, result, 8);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    EXPECT_IS(aclSetOutputTensorAddr(c.executor, 0, c.result, long_one + 1), 0);
    run(&c);
    for (int i = 0; i < 8; i++)
        EXPECT(long_one[i + 1] == (float)(i * (1 - i)));
}

CASE(addresses_are_judged_as_in_phase_one)
{
    begin();
    float *grad = device(2048, 1), *output = device(2048, 2), *result = device(2048, 9), *gone = device(4096, 1);
    EXPECT_IS(aclrtFree(gone), 0);
    call c = plan(grad, output, result, 2048);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    EXPECT_IS(aclSetOutputTensorAddr(c.executor, 0, c.result, result + 1), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetOutputTensorAddr: addr", "gradInput", "inside its memory");
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, c.grad, NULL), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("gradOutput", "null");
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, c.grad, gone), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("gradOutput", "given back");
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, c.grad, (void *)(uintptr_t)0x1000), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("gradOutput", "0x1000");
    void *address = NULL;
    EXPECT_IS(aclGetRawTensorAddr(c.grad, &address), 0);
    EXPECT(address == grad);
    run(&c);
    EXPECT(result[0] == -2 && result[2047] == -2);
}

CASE(arguments_are_checked)
{
    int local = 0;
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3);
    call c = plan(grad, output, result, 8);
    aclTensor *stranger = tensor_of(other, 8), *dead = tensor_of(other, 8);
    EXPECT_IS(aclDestroyTensor(dead), 0);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    EXPECT_IS(aclSetInputTensorAddr(NULL, 0, c.grad, other), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_TEXT("aclSetInputTensorAddr", "executor", "null");
    EXPECT_IS(aclSetInputTensorAddr((aclOpExecutor *)&local, 0, c.grad, other), ACLNN_ERR_INNER);
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, NULL, other), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_TEXT("aclSetInputTensorAddr", "tensor", "null");
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, dead, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetInputTensorAddr", "tensor", "destroyed");
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, stranger, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetInputTensorAddr", "tensor", "phase one");
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 2, c.grad, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetInputTensorAddr", "index", "2");
    EXPECT_IS(aclSetOutputTensorAddr(c.executor, 1, c.result, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclSetTensorAddr(c.executor, 3, c.grad, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclSetTensorAddr(c.executor, SIZE_MAX, c.grad, other), ACLNN_ERR_PARAM_INVALID);
    run(&c);
    EXPECT(result[0] == -2);
    EXPECT_IS(aclDestroyAclOpExecutor(c.executor), 0);
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, c.grad, other), ACLNN_ERR_INNER);
    EXPECT_TEXT("aclSetInputTensorAddr", "destroyed");
}

CASE(tensors_of_lists)
{
    int local = 0;
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3);
    call c = plan(grad, output, result, 8);
    const aclTensor *elements[3] = { c.grad, c.output, NULL };
    aclTensorList *list = aclCreateTensorList(elements, 3);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    EXPECT_IS(aclSetDynamicInputTensorAddr(c.executor, 0, 1, list, other), 0);
    run(&c);
    EXPECT(result[0] == -6);
    EXPECT_IS(AclSetDynamicTensorAddr(c.executor, 0, 1, list, output), 0);
    run(&c);
    EXPECT(result[0] == -2);
    EXPECT_IS(aclSetDynamicInputTensorAddr(c.executor, 0, 3, list, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetDynamicInputTensorAddr", "relativeIndex");
    EXPECT_IS(aclSetDynamicOutputTensorAddr(c.executor, 0, SIZE_MAX, list, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclSetDynamicTensorAddr(c.executor, 0, 2, list, other), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_IS(aclSetDynamicTensorAddr(c.executor, 0, 0, NULL, other), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_TEXT("aclSetDynamicTensorAddr", "tensors", "null");
    EXPECT_IS(AclSetDynamicInputTensorAddr(NULL, 0, 0, list, other), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_IS(AclSetDynamicOutputTensorAddr(c.executor, 0, 0, (aclTensorList *)&local, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclSetDynamicInputTensorAddr(c.executor, 2, 0, list, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetDynamicInputTensorAddr", "irIndex");
    EXPECT_IS(aclDestroyTensorList(list), 0);
}

CASE(tensors_that_went_too_early_cannot_move)
{
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3);
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclDestroyTensor(c.output), 0);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 0, c.grad, other), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclSetInputTensorAddr", "executor", "live");
    run(&c);
    EXPECT(result[0] == -2);
}

CASE(an_executor_that_runs_once_can_move_before)
{
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3);
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 1, c.output, other), 0);
    run(&c);
    EXPECT(result[0] == -6);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, c.executor, NULL), ACLNN_ERR_PARAM_INVALID);
    c = plan(grad, output, result, 8);
    EXPECT_IS(aclSetInputTensorAddr(c.executor, 1, c.output, other), 0);
    EXPECT_IS(aclDestroyAclOpExecutor(c.executor), 0);
}

CASE(moving_over_and_over)
{
    begin();
    float *grad = device(8, 1), *output = device(64, 0), *result = device(8, 9);
    for (int i = 0; i < 64; i++)
        output[i] = (float)(i / 8);
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    for (int round = 0; round < rounds_of(20000); round++) {
        int at = round % 8;
        EXPECT_IS(aclSetInputTensorAddr(c.executor, 1, c.output, output + 8 * at), 0);
        run(&c);
        EXPECT(result[3] == (float)(at * (1 - at)));
    }
}

static void *keep_moving(void *unused)
{
    EXPECT_IS(aclrtSetDevice(0), 0);
    float *grad = device(8, 1), *output = device(16, 0), *result = device(8, 9);
    for (int i = 0; i < 16; i++)
        output[i] = (float)(i / 8 + 2);
    call c = plan(grad, output, result, 8);
    aclrtStream stream = NULL;
    EXPECT_IS(aclrtCreateStream(&stream), 0);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    for (int round = 0; round < rounds_of(500); round++) {
        int at = round % 2;
        EXPECT_IS(aclSetInputTensorAddr(c.executor, 1, c.output, output + 8 * at), 0);
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, c.executor, stream), 0);
        EXPECT_IS(aclrtSynchronizeStream(stream), 0);
        EXPECT(result[7] == (at ? -6 : -2));
    }
    EXPECT_IS(aclDestroyAclOpExecutor(c.executor), 0);
    EXPECT_IS(aclrtDestroyStream(stream), 0);
    return unused;
}

CASE(threads_move_their_own_executors)
{
    pthread_t threads[8];
    begin();
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, keep_moving, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

CASE(a_raw_address_counts_from_the_next_phase_one)
{
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *other = device(8, 3);
    uint64_t workspace;
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclSetRawTensorAddr(c.output, other), 0);
    run(&c);
    EXPECT(result[0] == -2);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(c.grad, c.output, c.result, &workspace, &c.executor), 0);
    run(&c);
    EXPECT(result[0] == -6);
    int64_t count = 4;
    EXPECT_IS(aclInitTensor(c.output, &count, 1, ACL_FLOAT, NULL, 4, ACL_FORMAT_ND, NULL, 0, output), 0);
    EXPECT_IS(aclnnSigmoidBackwardGetWorkspaceSize(c.grad, c.output, c.result, &workspace, &c.executor), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnSigmoidBackwardGetWorkspaceSize", "shape");
}

CASE(memory_that_is_freed_between_the_phases_is_noticed)
{
    begin();
    enum { COUNT = 1 << 20 };
    float *grad = device(COUNT, 1), *output = device(COUNT, 2), *result = device(COUNT, 9), *unrelated = device(8, 1);
    call c = plan(grad, output, result, COUNT);
    EXPECT_IS(aclrtFree(unrelated), 0);
    run(&c);
    EXPECT(result[COUNT - 1] == -2);
    c = plan(grad, output, result, COUNT);
    EXPECT_IS(aclrtFree(output), 0);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, c.executor, NULL), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclnnSigmoidBackward", "memory", "given back");
    EXPECT_IS(aclnnSigmoidBackward(NULL, 0, c.executor, NULL), ACLNN_ERR_PARAM_INVALID);
    output = device(COUNT, 2);
    c = plan(grad, output, result, COUNT);
    EXPECT_IS(aclSetAclOpExecutorRepeatable(c.executor), 0);
    run(&c);
    EXPECT_IS(aclrtFree(result), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_IS(aclnnSigmoidBackward(NULL, 0, c.executor, NULL), ACLNN_ERR_PARAM_INVALID);
    result = device(COUNT, 9);
    EXPECT_IS(aclSetOutputTensorAddr(c.executor, 0, c.result, result), 0);
    run(&c);
    EXPECT(result[COUNT - 1] == -2);
}

CASE(a_workspace_that_goes_early_does_not_matter)
{
    begin();
    float *grad = device(8, 1), *output = device(8, 2), *result = device(8, 9), *workspace = device(8, 0);
    call c = plan(grad, output, result, 8);
    EXPECT_IS(aclrtFree(workspace), 0);
    EXPECT_IS(aclnnSigmoidBackward(workspace, 32, c.executor, NULL), 0);
    c = plan(grad, output, result, 8);
    EXPECT_IS(aclnnSigmoidBackward((void *)(uintptr_t)0x10, 1, c.executor, NULL), 0);
    EXPECT_IS(aclrtSynchronizeStream(NULL), 0);
    EXPECT(result[0] == -2);
    c = plan(grad, output, result, 8);
    EXPECT_IS(aclnnSigmoidBackward(NULL, 32, c.executor, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclnnSigmoidBackward", "workspace", "null");
}

/* Phase one of a call in which one tensor, 0 to 2, has this address. */
static int32_t judge(int which, void *address, int64_t count)
{
    float *good = device(count, 1);
    aclTensor *tensors[3];
    uint64_t workspace = 77;
    aclOpExecutor *executor = NULL;
    for (int i = 0; i < 3; i++)
        tensors[i] = tensor_of(i == which ? address : good, count);
    int32_t status = aclnnSigmoidBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], &workspace, &executor);
    EXPECT((executor == NULL) == (status != 0) && (workspace == 77) == (status != 0));
    aclrtFree(good);
    return status;
}

CASE(addresses_that_are_not_mapped_are_refused)
{
    static const char *const names[3] = { "gradOutput", "output", "gradInput" };
    begin();
    for (int which = 0; which < 3; which++) {
        EXPECT_IS(judge(which, (void *)(uintptr_t)8, 8), ACLNN_ERR_PARAM_INVALID);
        EXPECT_TEXT(names[which], "memory of this process", "0x8");
        EXPECT_IS(judge(which, (void *)(uintptr_t)0xdead0000beef0000, 8), ACLNN_ERR_PARAM_INVALID);
        EXPECT_IS(judge(which, (void *)(uintptr_t)0x7ffffffff000, 8), ACLNN_ERR_PARAM_INVALID);
        EXPECT_IS(judge(which, (void *)(UINTPTR_MAX - 63), 8), ACLNN_ERR_PARAM_INVALID);
    }
}

CASE(memory_that_ends_too_early_is_refused)
{
    begin();
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_IS(munmap(pages + 4096, 4096), 0);
    for (int which = 0; which < 3; which++) {
        EXPECT_IS(judge(which, pages, 1024), 0);
        EXPECT_IS(judge(which, pages + 4, 1024), ACLNN_ERR_PARAM_INVALID);
        EXPECT_IS(judge(which, pages, 3 * 1024), ACLNN_ERR_PARAM_INVALID);
        EXPECT_IS(judge(which, pages + 2 * 4096, 1024), 0);
    }
}

CASE(memory_without_permission_is_refused)
{
    static const float constants[1024] = { 1, 2, 3 };
    begin();
    char *none = mmap(NULL, 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int which = 0; which < 3; which++) {
        EXPECT_IS(judge(which, none, 1024), ACLNN_ERR_PARAM_INVALID);
        EXPECT_IS(judge(which, (void *)(uintptr_t)constants, 1024), which == 2 ? ACLNN_ERR_PARAM_INVALID : 0);
    }
    EXPECT_TEXT("gradInput");
}

RUN(ENTRY(new_addresses_take_effect_at_the_next_run), ENTRY(the_reserved_names_do_the_same),
    ENTRY(a_scalar_may_be_gone_when_an_address_changes), ENTRY(a_shared_tensor_moves_everywhere),
    ENTRY(overlap_that_a_new_address_brings_is_handled), ENTRY(addresses_are_judged_as_in_phase_one), ENTRY(arguments_are_checked),
    ENTRY(tensors_of_lists), ENTRY(tensors_that_went_too_early_cannot_move), ENTRY(an_executor_that_runs_once_can_move_before),
    ENTRY(moving_over_and_over),
    ENTRY(threads_move_their_own_executors), ENTRY(a_raw_address_counts_from_the_next_phase_one),
    ENTRY(memory_that_is_freed_between_the_phases_is_noticed),
    ENTRY(a_workspace_that_goes_early_does_not_matter), ENTRY(addresses_that_are_not_mapped_are_refused),
    ENTRY(memory_that_ends_too_early_is_refused), ENTRY(memory_without_permission_is_refused))
