/* Objects of the two-phase interface: what is created, what is refused, what is noticed. */
#include "case.h"

#include <pthread.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"

static int64_t shape[30] = { 2, 3 };

static aclTensor *tensor(void)
{
    return aclCreateTensor(shape, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 2, NULL);
}

CASE(tensors_are_refused_only_for_missing_dimensions)
{
    EXPECT(aclCreateTensor(NULL, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 2, NULL) == NULL);
    EXPECT_TEXT("aclCreateTensor", "viewDims");
    EXPECT(aclCreateTensor(shape, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 2, NULL) == NULL);
    EXPECT_TEXT("aclCreateTensor", "storageDims");
    EXPECT(aclCreateTensor(shape, 26, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 2, NULL) == NULL);
    EXPECT_TEXT("aclCreateTensor", "viewDimsNum");
    EXPECT(aclCreateTensor(shape, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, UINT64_MAX, NULL) == NULL);
    EXPECT_TEXT("aclCreateTensor", "storageDimsNum");
    EXPECT(aclCreateTensor(NULL, 0, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, NULL) != NULL);
    EXPECT(aclCreateTensor(shape, 25, (aclDataType)1000, NULL, -5, (aclFormat)99, NULL, 0, NULL) != NULL);
    int64_t odd[2] = { -1, INT64_MAX };
    EXPECT(aclCreateTensor(odd, 2, ACL_DT_UNDEFINED, odd, INT64_MIN, ACL_FORMAT_UNDEFINED, odd, 2, (void *)1) != NULL);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

CASE(destroying_nothing_succeeds)
{
    EXPECT_IS(aclDestroyTensor(NULL), ACLNN_SUCCESS);
    EXPECT_IS(aclDestroyScalar(NULL), ACLNN_SUCCESS);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

CASE(destroyed_foreign_and_invented_objects_are_refused)
{
    int local = 0;
    float value = 1;
    aclTensor *t = tensor();
    aclScalar *s = aclCreateScalar(&value, ACL_FLOAT);
    EXPECT_IS(aclDestroyTensor((aclTensor *)s), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensor", "tensor");
    EXPECT_IS(aclDestroyScalar((aclScalar *)t), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyTensor((aclTensor *)&local), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyTensor((aclTensor *)(uintptr_t)0x10), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyTensor((aclTensor *)UINTPTR_MAX), ACLNN_ERR_PARAM_INVALID);
    for (int bit = 0; bit < 64; bit++)
        EXPECT_IS(aclDestroyTensor((aclTensor *)((uintptr_t)t ^ (uintptr_t)1 << bit)), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyTensor(t), ACLNN_SUCCESS);
    aclGetRecentErrMsg();
    EXPECT_IS(aclDestroyTensor(t), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensor", "destroyed");
    EXPECT_IS(aclDestroyScalar(s), ACLNN_SUCCESS);
    EXPECT_IS(aclDestroyScalar(s), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyScalar", "destroyed");
}

CASE(a_destroyed_handle_stays_dead_while_its_place_is_used_again)
{
    aclTensor *old = tensor();
    EXPECT_IS(aclDestroyTensor(old), 0);
    for (int i = 0; i < 5000000; i++)
        aclDestroyTensor(tensor());
    EXPECT_IS(aclDestroyTensor(old), ACLNN_ERR_PARAM_INVALID);
}

CASE(a_hundred_thousand_objects_live_at_once)
{
    enum { COUNT = 100000 };
    static aclTensor *all[COUNT];
    for (int i = 0; i < COUNT; i++)
        EXPECT((all[i] = tensor()) != NULL);
    for (int i = 0; i < COUNT; i++)
        EXPECT_IS(aclDestroyTensor(all[COUNT - 1 - i]), 0);
}

CASE(scalars_have_the_documented_types)
{
    double value[2] = { 1, 2 };
    const int yes[] = { 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 16, 17, 27, 34, 35, 36, 37, 38, 39, 40, 41 };
    for (int type = -2; type < 50; type++) {
        int possible = 0;
        for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
            possible |= yes[i] == type;
        aclScalar *s = aclCreateScalar(value, (aclDataType)type);
        EXPECT_IS(s != NULL, possible);
        EXPECT_IS(aclGetRecentErrMsg() != NULL, !possible);
        EXPECT_IS(aclDestroyScalar(s), 0);
    }
    EXPECT(aclCreateScalar(NULL, ACL_FLOAT) == NULL);
    EXPECT_TEXT("aclCreateScalar", "value", "null");
}

static int won;
static aclTensor *contested;
static pthread_barrier_t gate;

static void *destroy(void *unused)
{
    for (int i = 0; i < 2000; i++) {
        pthread_barrier_wait(&gate);
        int status = aclDestroyTensor(contested);
        __atomic_add_fetch(&won, status == 0, __ATOMIC_RELAXED);
        pthread_barrier_wait(&gate);
    }
    return unused;
}

CASE(one_of_several_threads_destroys_an_object)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&gate, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, destroy, NULL);
    for (int i = 0; i < 2000; i++) {
        contested = tensor();
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_IS(won, 2000);
}

static void *churn(void *unused)
{
    aclTensor *mine[50];
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 50; i++)
            mine[i] = tensor();
        for (int i = 0; i < 50; i++)
            EXPECT_IS(aclDestroyTensor(mine[i]), 0);
    }
    return unused;
}

CASE(threads_create_and_destroy_at_once)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

CASE(executors_are_validated)
{
    int local;
    EXPECT_IS(aclSetAclOpExecutorRepeatable(NULL), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_TEXT("aclSetAclOpExecutorRepeatable", "executor", "null");
    EXPECT_IS(aclDestroyAclOpExecutor(NULL), ACLNN_ERR_INNER_NULLPTR);
    EXPECT_TEXT("aclDestroyAclOpExecutor", "executor", "null");
    EXPECT_IS(aclSetAclOpExecutorRepeatable((aclOpExecutor *)&local), ACLNN_ERR_INNER);
    EXPECT_IS(aclDestroyAclOpExecutor((aclOpExecutor *)tensor()), ACLNN_ERR_INNER);
    EXPECT_TEXT("aclDestroyAclOpExecutor", "executor");
}

RUN(ENTRY(tensors_are_refused_only_for_missing_dimensions), ENTRY(destroying_nothing_succeeds),
    ENTRY(destroyed_foreign_and_invented_objects_are_refused),
    ENTRY(a_destroyed_handle_stays_dead_while_its_place_is_used_again), ENTRY(a_hundred_thousand_objects_live_at_once),
    ENTRY(scalars_have_the_documented_types), ENTRY(one_of_several_threads_destroys_an_object),
    ENTRY(threads_create_and_destroy_at_once), ENTRY(executors_are_validated))
