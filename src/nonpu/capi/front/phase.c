/* Both phases of every operator. Phase one asks the judge, which is Python; phase two is all C. */
#include <string.h>

#include "front.h"

void nonpu_copy_plan(nonpu_plan *to, const nonpu_plan *from)
{
    if (from->launches > 1) {
        *to = *from;
        return;
    }
    to->main = from->main;
    to->temporary = from->temporary;
    to->launches = from->launches;
}

int32_t nonpu_no_executor(int32_t status, const char *api, uintptr_t handle)
{
    return nonpu_fail(status, api, "executor", "a live executor of phase one", nonpu_describe(&nonpu_executors, handle).text);
}

static uintptr_t make_executor(int32_t operator_index, int32_t count, const nonpu_argument *arguments, const nonpu_plan *plan)
{
    nonpu_executor *e = nonpu_take(&nonpu_executors);
    if (!e)
        return 0;
    e->repeatable = 0;
    e->operator_index = operator_index;
    e->kept = NULL;
    e->frees = __atomic_load_n(&nonpu_frees, __ATOMIC_ACQUIRE);
    for (int32_t i = 0; i < count; i++)
        e->passed[i] = (uint64_t)arguments[i].integer;
    nonpu_copy_plan(&e->plan, plan);
    return nonpu_publish(&nonpu_executors, e);
}

uintptr_t nonpu_executor_create(const nonpu_plan *plan) { return make_executor(-1, 0, NULL, plan); }

static void recycle(nonpu_executor *e)
{
    if (e->kept)
        nonpu_drop_arguments(e);
    nonpu_recycle(&nonpu_executors, e);
}

/* Judge copies: whatever other threads do to the objects meanwhile, what is remembered is what was judged. */
static __attribute__((noinline)) int32_t judge(int32_t operator_index, int32_t count, const nonpu_argument *arguments, nonpu_plan *plan)
{
    nonpu_kept copies;
    nonpu_call call;
    plan->launches = plan->temporary = 0;
    nonpu_copy_arguments(&copies, count, arguments);
    if (nonpu_recall(&call, operator_index, count, copies.arguments, plan))
        return ACLNN_SUCCESS;
    nonpu_float_mode mode = nonpu_float_enter();
    int32_t status = nonpu_python.judge(operator_index, count, copies.arguments, plan);
    nonpu_float_leave(mode);
    nonpu_leave();
    if (!status)
        nonpu_remember(&call, plan);
    return status;
}

int32_t nonpu_plan_call(int32_t operator_index, const char *api, int32_t count, const nonpu_argument *arguments, nonpu_plan *plan)
{
    nonpu_call call;
    if (nonpu_recall(&call, operator_index, count, arguments, plan))
        return ACLNN_SUCCESS;
    return nonpu_enter(api) ? ACLNN_ERR_INNER : judge(operator_index, count, arguments, plan);
}

int32_t nonpu_phase_one(int32_t operator_index, const char *api, int32_t count, nonpu_argument *arguments,
                        uint64_t *workspace_size, aclOpExecutor **executor)
{
    if (!workspace_size || !executor)
        return nonpu_fail(ACLNN_ERR_PARAM_NULLPTR, api, workspace_size ? "executor" : "workspaceSize", "a pointer", "null");
    nonpu_plan plan;
    int32_t status = nonpu_plan_call(operator_index, api, count, arguments, &plan);
    if (status)
        return status;
    uintptr_t handle = make_executor(operator_index, count, arguments, &plan);
    if (!handle)
        return nonpu_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, api, "the number of live executors", "within the memory of this machine", "no memory");
    *workspace_size = 0;
    *executor = (aclOpExecutor *)handle;
    NONPU_NOTE(NONPU_PLANNED, api, handle, (uint64_t)operator_index, 0, 0);
    NONPU_CHECKED(nonpu_note_arguments(handle, count, arguments));
    return ACLNN_SUCCESS;
}

/* Whether an operand of a launch lies in a block that was given back lately. */
static int is_stale(const nonpu_launch *launch)
{
    for (int64_t i = 0; i < launch->operands; i++) {
        uintptr_t base;
        uint64_t bytes;
        if (launch->operand[i].data && nonpu_find_block(launch->operand[i].data, &base, &bytes, NULL) && !bytes)
            return 1;
    }
    return 0;
}

/* Memory was freed since the plan was last looked at: is it the plan's? */
static __attribute__((noinline, cold)) int32_t check_memory(const char *api, nonpu_executor *e)
{
    uint64_t frees = __atomic_load_n(&nonpu_frees, __ATOMIC_ACQUIRE);
    const nonpu_plan *plan = &e->plan;
    /* Python keeps the memory of its tensors alive; arrays may lie where a block was once. */
    if (e->operator_index >= 0 && ((plan->launches > 0 && is_stale(&plan->main)) || (plan->launches > 1 && is_stale(&plan->tail))))
        return nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, "the memory of the tensors", "live until this call", "memory that was given back");
    e->frees = frees;
    return ACLNN_SUCCESS;
}

static inline int32_t submit(const char *api, uintptr_t stream, nonpu_executor *e)
{
    int32_t status = NONPU_LIKELY(e->frees == __atomic_load_n(&nonpu_frees, __ATOMIC_ACQUIRE)) ? 0 : check_memory(api, e);
    return status ? status : nonpu_submit(api, stream, &e->plan);
}

static int32_t execute(const char *api, uintptr_t handle, uintptr_t stream)
{
    nonpu_executor *e = nonpu_find(&nonpu_executors, handle);
    if (e && e->repeatable)
        return submit(api, stream, e);
    e = e ? nonpu_claim(&nonpu_executors, handle) : NULL;      /* one run, whatever comes of it */
    if (!e)
        return nonpu_no_executor(ACLNN_ERR_PARAM_INVALID, api, handle);
    int32_t status = submit(api, stream, e);
    recycle(e);
    return status;
}

int32_t nonpu_execute(uintptr_t executor, uintptr_t stream) { return execute("nonpu_execute", executor, stream); }

int32_t nonpu_phase_two(int32_t operator_index, const char *api, const void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                        aclrtStream stream)
{
    uintptr_t handle = (uintptr_t)executor;
    NONPU_CHECKED(nonpu_digest());
    NONPU_NOTE(NONPU_PHASE_TWO, api, handle, (uintptr_t)workspace, workspace_size, 0);
    if (!handle)
        return nonpu_no_executor(ACLNN_ERR_PARAM_NULLPTR, api, handle);
    const nonpu_executor *live = nonpu_find(&nonpu_executors, handle);
    if (live && live->operator_index >= 0 && live->operator_index != operator_index)
        return nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, "executor", "one that phase one of this operator made", "one of another operator");
    if (workspace_size && !workspace) {
        nonpu_executor *e = nonpu_claim(&nonpu_executors, handle);
        if (e)
            recycle(e);
        return nonpu_fail(ACLNN_ERR_PARAM_NULLPTR, api, "workspace", "an address, since workspaceSize is not 0", "null");
    }
    int32_t status = execute(api, handle, (uintptr_t)stream);
    if (!status && !stream && !nonpu_has_context())
        nonpu_stream_synchronize(0);    /* such a thread has no way to wait for the default stream later */
    return status;
}

static int32_t set_repeatable(const char *api, uintptr_t handle)
{
    nonpu_executor *e = nonpu_find(&nonpu_executors, handle);
    if (!e)
        return nonpu_no_executor(handle ? ACLNN_ERR_INNER : ACLNN_ERR_INNER_NULLPTR, api, handle);
    e->repeatable = 1;
    NONPU_NOTE(NONPU_REPEATABLE, api, handle, 0, 0, 0);
    nonpu_keep_arguments(e);
    return ACLNN_SUCCESS;
}

static int32_t destroy(const char *api, uintptr_t handle)
{
    nonpu_executor *e = nonpu_claim(&nonpu_executors, handle);
    if (!e)
        return nonpu_no_executor(handle ? ACLNN_ERR_INNER : ACLNN_ERR_INNER_NULLPTR, api, handle);
    recycle(e);
    return ACLNN_SUCCESS;
}

int32_t nonpu_executor_set_repeatable(uintptr_t executor) { return set_repeatable("nonpu_executor_set_repeatable", executor); }
int32_t nonpu_executor_destroy(uintptr_t executor) { return destroy("nonpu_executor_destroy", executor); }

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor)
{
    return set_repeatable("aclSetAclOpExecutorRepeatable", (uintptr_t)executor);
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    return destroy("aclDestroyAclOpExecutor", (uintptr_t)executor);
}
