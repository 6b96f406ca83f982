/* Other addresses for a planned call: it is judged again as phase one would, and the executor gets the new plan. */
#include <stdlib.h>
#include <string.h>

#include "front.h"

void nonpu_copy_arguments(nonpu_kept *to, int32_t count, const nonpu_argument *arguments)
{
    to->count = count;
    for (int32_t i = 0; i < count; i++) {
        to->arguments[i] = arguments[i];
        if (!arguments[i].record)
            continue;
        memcpy(&to->records[i], arguments[i].record, arguments[i].kind == 1 ? sizeof(nonpu_tensor) : sizeof(nonpu_scalar));
        to->arguments[i].record = &to->records[i];
    }
}

static int is_tensor(char letter) { return letter == 'i' || letter == 'o'; }

/* What phase one was given, or null if something of it is destroyed. */
static nonpu_kept *copy_passed(const nonpu_executor *e)
{
    const char *signature = e->operator_index < 0 ? "" : nonpu_signatures[e->operator_index];
    int32_t count = (int32_t)strlen(signature);
    nonpu_argument arguments[NONPU_PASSED];
    for (int32_t i = 0; i < count && i < NONPU_PASSED; i++) {
        uintptr_t passed = (uintptr_t)e->passed[i];
        arguments[i] = is_tensor(signature[i]) ? nonpu_tensor_argument((const aclTensor *)passed)
                     : signature[i] == 's' ? nonpu_scalar_argument((const aclScalar *)passed)
                     : (nonpu_argument){ .kind = 3, .state = 1, .integer = (int64_t)passed };
        if (arguments[i].state == 2)
            return NULL;
    }
    nonpu_kept *kept = count && count <= NONPU_PASSED ? malloc(sizeof *kept) : NULL;
    if (kept)
        nonpu_copy_arguments(kept, count, arguments);
    return kept;
}

/* The copies have one owner at a time: the executor, or who works on them. */
static nonpu_kept *take(nonpu_executor *e) { return __atomic_exchange_n(&e->kept, NULL, __ATOMIC_ACQ_REL); }

static void put(nonpu_executor *e, nonpu_kept *kept) { free(__atomic_exchange_n(&e->kept, kept, __ATOMIC_ACQ_REL)); }

void nonpu_keep_arguments(nonpu_executor *e)
{
    if (!__atomic_load_n(&e->kept, __ATOMIC_ACQUIRE))
        put(e, copy_passed(e));
}

void nonpu_drop_arguments(nonpu_executor *e) { put(e, NULL); }

static int32_t invalid(const char *api, const char *what, const char *expected, const char *actual)
{
    return nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, what, expected, actual);
}

/* The index counts the tensors of these letters in turn; the one that it means must not have been null. */
static int32_t check_index(const char *api, const char *what, const nonpu_kept *kept, const char *signature, const char *letters, size_t index)
{
    size_t seen = 0;
    for (; *letters; letters++)
        for (int32_t i = 0; i < kept->count; i++)
            if (signature[i] == *letters && seen++ == index)
                return kept->arguments[i].state ? 0 : invalid(api, what, "that of a tensor that phase one was given", "that of a null tensor");
    return invalid(api, what, "below the number of these tensors", nonpu_number((int64_t)index).text);
}

/* Give every argument that is this tensor the address; how many there are. */
static int move(nonpu_kept *kept, uintptr_t tensor, uintptr_t address)
{
    int moved = 0;
    for (int32_t i = 0; i < kept->count; i++)
        if (kept->arguments[i].kind == 1 && (uintptr_t)kept->arguments[i].integer == tensor) {
            kept->records[i].tensor.data = address;
            moved++;
        }
    return moved;
}

/* On success the executor has another plan; on failure nothing has changed. */
static int32_t plan_again(const char *api, nonpu_executor *e, nonpu_kept *kept, nonpu_tensor *t, uintptr_t tensor, uintptr_t address)
{
    nonpu_plan plan;
    if (!move(kept, tensor, address))
        return invalid(api, "tensor", "one that phase one of this executor was given", "another one");
    uint64_t frees = __atomic_load_n(&nonpu_frees, __ATOMIC_ACQUIRE);
    int32_t status = nonpu_plan_call(e->operator_index, api, kept->count, kept->arguments, &plan);
    if (status) {
        move(kept, tensor, t->data);
        return nonpu_fail(status, api, "addr", "one that phase one accepts for this tensor", "one that it refuses, see the next line");
    }
    nonpu_copy_plan(&e->plan, &plan);
    e->frees = frees;
    t->data = address;
    return ACLNN_SUCCESS;
}

static int32_t rebind(const char *api, const char *letters, aclOpExecutor *executor, const char *what, size_t index, uintptr_t tensor, void *addr)
{
    nonpu_executor *e = nonpu_find(&nonpu_executors, (uintptr_t)executor);
    nonpu_tensor *t = nonpu_find(&nonpu_tensors, tensor);
    if (!e)
        return nonpu_no_executor(executor ? ACLNN_ERR_INNER : ACLNN_ERR_INNER_NULLPTR, api, (uintptr_t)executor);
    if (!t)
        return nonpu_fail(tensor ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_INNER_NULLPTR, api, "tensor", "a live tensor",
                          nonpu_describe(&nonpu_tensors, tensor).text);
    nonpu_keep_arguments(e);
    nonpu_kept *kept = take(e);
    if (!kept)
        return invalid(api, "executor", "one whose tensors and scalars were live when it was made repeatable", "one without them");
    int32_t status = check_index(api, what, kept, nonpu_signatures[e->operator_index], letters, index);
    if (!status)
        status = plan_again(api, e, kept, t, tensor, (uintptr_t)addr);
    if (e == nonpu_find(&nonpu_executors, (uintptr_t)executor))
        put(e, kept);
    else
        free(kept);                 /* destroyed meanwhile */
    return status;
}

static int32_t rebind_element(const char *api, const char *letters, aclOpExecutor *executor, size_t index, size_t element, aclTensorList *list,
                              void *addr)
{
    nonpu_pool *pool = &nonpu_blocks[NONPU_TENSOR_LISTS];
    pthread_mutex_lock(&pool->lock);        /* another thread may destroy the list */
    const nonpu_block *tensors = nonpu_find(pool, (uintptr_t)list);
    int inside = tensors && element < tensors->size;
    uintptr_t tensor = inside ? ((const uintptr_t *)tensors->data)[element] : 0;
    pthread_mutex_unlock(&pool->lock);
    if (!executor)
        return nonpu_no_executor(ACLNN_ERR_INNER_NULLPTR, api, 0);
    if (!tensors)
        return nonpu_fail(list ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_INNER_NULLPTR, api, "tensors", "a live tensor list",
                          nonpu_describe(pool, (uintptr_t)list).text);
    if (!inside)
        return invalid(api, "relativeIndex", "below the size of the list", nonpu_number((int64_t)element).text);
    return rebind(api, letters, executor, "irIndex", index, tensor, addr);
}

/* Each under its name and the reserved one, which begins with a capital. */
#define REBIND(prefix, word, letters) \
    aclnnStatus prefix##Set##word##TensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) \
    { \
        return rebind(#prefix "Set" #word "TensorAddr", letters, executor, "index", index, (uintptr_t)tensor, addr); \
    } \
    aclnnStatus prefix##SetDynamic##word##TensorAddr(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex, \
                                                     aclTensorList *tensors, void *addr) \
    { \
        return rebind_element(#prefix "SetDynamic" #word "TensorAddr", letters, executor, irIndex, relativeIndex, tensors, addr); \
    }
REBIND(acl, Input, "i")
REBIND(acl, Output, "o")
REBIND(acl, , "io")
REBIND(Acl, Input, "i")
REBIND(Acl, Output, "o")
REBIND(Acl, , "io")
