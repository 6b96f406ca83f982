/* Other addresses for a planned call: it is judged again as phase one would, and the executor gets the new plan. */
#include <stdlib.h>
#include <string.h>

#include "front.h"

/* Copies, because the objects may be gone by then: scalars may be destroyed once phase one has read them. */
struct nonpu_kept {
    int32_t count;
    nonpu_argument arguments[NONPU_PASSED];
    union { nonpu_tensor tensor; nonpu_scalar scalar; } records[NONPU_PASSED];
};

static int is_tensor(char letter) { return letter == 'i' || letter == 'o'; }

static nonpu_kept *copy_arguments(const nonpu_executor *e)
{
    const char *signature = e->operator_index < 0 ? "" : nonpu_signatures[e->operator_index];
    size_t count = strlen(signature);
    nonpu_kept *kept = count && count <= NONPU_PASSED ? calloc(1, sizeof *kept) : NULL;
    if (!kept)
        return NULL;
    kept->count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        uintptr_t passed = (uintptr_t)e->passed[i];
        nonpu_argument *a = &kept->arguments[i];
        *a = is_tensor(signature[i]) ? nonpu_tensor_argument((const aclTensor *)passed)
           : signature[i] == 's' ? nonpu_scalar_argument((const aclScalar *)passed)
           : (nonpu_argument){ .kind = 3, .state = 1, .integer = (int64_t)passed };
        if (a->state == 2) {        /* destroyed since phase one */
            free(kept);
            return NULL;
        }
        if (a->record) {
            memcpy(&kept->records[i], a->record, a->kind == 1 ? sizeof(nonpu_tensor) : sizeof(nonpu_scalar));
            a->record = &kept->records[i];
        }
    }
    return kept;
}

/* The copies have one owner at a time: the executor, or who works on them. */
static nonpu_kept *take(nonpu_executor *e) { return __atomic_exchange_n(&e->kept, NULL, __ATOMIC_ACQ_REL); }

static void put(nonpu_executor *e, nonpu_kept *kept) { free(__atomic_exchange_n(&e->kept, kept, __ATOMIC_ACQ_REL)); }

void nonpu_keep_arguments(nonpu_executor *e)
{
    if (!__atomic_load_n(&e->kept, __ATOMIC_ACQUIRE))
        put(e, copy_arguments(e));
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
    const nonpu_block *tensors = nonpu_find(&nonpu_blocks[NONPU_TENSOR_LISTS], (uintptr_t)list);
    if (!executor)
        return nonpu_no_executor(ACLNN_ERR_INNER_NULLPTR, api, 0);
    if (!tensors)
        return nonpu_fail(list ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_INNER_NULLPTR, api, "tensors", "a live tensor list",
                          nonpu_describe(&nonpu_blocks[NONPU_TENSOR_LISTS], (uintptr_t)list).text);
    if (element >= tensors->size)
        return invalid(api, "relativeIndex", "below the size of the list", nonpu_number((int64_t)element).text);
    return rebind(api, letters, executor, "irIndex", index, ((const uintptr_t *)tensors->data)[element], addr);
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
