/* Every function of the meta interface with live, destroyed, foreign, null and invented arguments, in random order. */
#include "case.h"

#include <pthread.h>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_ops_nn.h"

enum { KEPT = 64, ELEMENTS = 16 };

static __thread uint64_t state;
static uintptr_t kept[KEPT];       /* handles of every kind, live or not, which all threads use */
static float *memory[4];

static unsigned random_below(unsigned count)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % count;
}

/* Mostly something that was a handle once. */
static void *any(void)
{
    static char local[64];
    switch (random_below(16)) {
    case 0:
        return NULL;
    case 1:
        return local;
    case 2:
        return (void *)(uintptr_t)random_below(1 << 30);
    case 3:
        return (void *)(__atomic_load_n(&kept[random_below(KEPT)], __ATOMIC_RELAXED) ^ (uintptr_t)1 << random_below(64));
    case 4:
        return (void *)(uintptr_t)(state * 0x9e3779b97f4a7c15u);
    default:
        return (void *)__atomic_load_n(&kept[random_below(KEPT)], __ATOMIC_RELAXED);
    }
}

static void keep(const void *handle)
{
    if (handle)
        __atomic_store_n(&kept[random_below(KEPT)], (uintptr_t)handle, __ATOMIC_RELAXED);
}

static void *address(void)
{
    switch (random_below(8)) {
    case 0:
        return NULL;
    case 1:
        return (void *)(uintptr_t)(state | 1);
    case 2:
        return memory[random_below(4)] + random_below(32);
    default:
        return memory[random_below(4)];
    }
}

static aclTensor *tensor(void)
{
    int64_t shape[32] = { random_below(8) ? ELEMENTS : random_below(40), 1, 2 };
    aclDataType type = random_below(8) ? ACL_FLOAT : (aclDataType)random_below(45);
    return aclCreateTensor(shape, random_below(16) ? 1 : random_below(30), type, NULL, (int64_t)(random_below(16) ? 0 : random_below(9)),
                           ACL_FORMAT_ND, shape, 1, address());
}

static void create(void)
{
    static const int64_t ints[4] = { 1, 2, 3, 4 };
    const void *elements[3] = { any(), any(), any() };
    float value = 0.5f;
    switch (random_below(10)) {
    case 0:
        keep(aclCreateIntArray(ints, random_below(5)));
        break;
    case 1:
        keep(aclCreateFloatArray(&value, random_below(2)));
        break;
    case 2:
        keep(aclCreateBoolArray((const bool *)"\1\0\1", random_below(4)));
        break;
    case 3:
        keep(aclCreateTensorList((const aclTensor *const *)elements, random_below(4)));
        break;
    case 4:
        keep(aclCreateScalarList((const aclScalar *const *)elements, random_below(4)));
        break;
    case 5:
        keep(aclCreateDataBuffer(memory[0], 8));
        break;
    case 6:
        keep(aclCreateScalar(&value, ACL_FLOAT));
        break;
    default:
        keep(tensor());
    }
}

static int destroy(void)
{
    switch (random_below(10)) {
    case 0:
        return aclDestroyIntArray(any());
    case 1:
        return aclDestroyFloatArray(any());
    case 2:
        return aclDestroyBoolArray(any());
    case 3:
        return aclDestroyTensorList(any());
    case 4:
        return aclDestroyScalarList(any());
    case 5:
        return aclDestroyDataBuffer(any());
    case 6:
        return aclDestroyScalar(any());
    case 7:
        return aclDestroyAclOpExecutor(any());
    default:
        return aclDestroyTensor(any());
    }
}

static int ask(void)
{
    int64_t *dims = NULL, offset;
    uint64_t size;
    aclFormat format;
    aclDataType type;
    void *place;
    int status;
    switch (random_below(14)) {
    case 0:
        status = aclGetViewShape(any(), &dims, &size);
        break;
    case 1:
        status = aclGetViewStrides(any(), &dims, &size);
        break;
    case 2:
        status = aclGetStorageShape(any(), &dims, random_below(9) ? &size : NULL);
        break;
    case 3:
        return aclGetViewOffset(any(), &offset);
    case 4:
        return aclGetFormat(any(), &format);
    case 5:
        return aclGetDataType(any(), random_below(9) ? &type : NULL);
    case 6:
        return aclGetRawTensorAddr(any(), &place);
    case 7:
        return aclSetRawTensorAddr(any(), address());
    case 8:
        return aclGetTensorListSize(any(), &size);
    case 9:
        return aclGetScalarListSize(any(), &size);
    case 10:
        return aclGetIntArraySize(any(), &size);
    case 11:
        return aclUpdateDataBuffer(any(), memory[1], random_below(99));
    case 12:
        aclGetDataBufferAddr(any());
        aclGetDataBufferSizeV2(any());
        return ACL_SUCCESS;
    default:
        return aclGetBoolArraySize(any(), &size);
    }
    free(dims);
    return status;
}

static int operate(void)
{
    uint64_t workspace = 0;
    aclOpExecutor *executor = NULL;
    int status;
    switch (random_below(12)) {
    case 0:
        status = aclnnSigmoidBackwardGetWorkspaceSize(any(), any(), any(), &workspace, &executor);
        break;
    case 1: {
        aclTensor *t[3] = { tensor(), tensor(), tensor() };
        status = aclnnSigmoidBackwardGetWorkspaceSize(t[0], t[1], t[2], &workspace, &executor);
        for (int i = 0; i < 3; i++)
            keep(t[i]);
        break;
    }
    case 2:
        status = aclnnSwishBackwardGetWorkspaceSize(any(), any(), any(), any(), &workspace, random_below(9) ? &executor : NULL);
        break;
    case 3:
        return aclnnSigmoidBackward(NULL, random_below(9) == 0, any(), NULL);
    case 4:
        return aclnnSwishBackward(NULL, 0, any(), random_below(9) ? NULL : any());
    case 5:
        return aclSetAclOpExecutorRepeatable(any());
    case 6:
        return aclSetInputTensorAddr(any(), random_below(4), any(), address());
    case 7:
        return aclSetOutputTensorAddr(any(), random_below(2), any(), address());
    case 8:
        return AclSetTensorAddr(any(), random_below(5), any(), address());
    case 9:
        return aclSetDynamicInputTensorAddr(any(), random_below(3), random_below(4), any(), address());
    case 10: {
        int64_t count = ELEMENTS;
        return aclInitTensor(any(), &count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, address());
    }
    default: {
        aclTensor *list[2] = { any(), any() };
        return aclDumpOpTensors("type", "name", list, 1, 1, NULL);
    }
    }
    EXPECT((status == 0) == (executor != NULL));
    keep(executor);
    return status;
}

/* One of the documented codes, with a text if it is a failure. */
static void judge(int status)
{
    static const int known[] = { 0, ACLNN_ERR_PARAM_NULLPTR, ACLNN_ERR_PARAM_INVALID, ACLNN_ERR_RUNTIME_ERROR, ACLNN_ERR_INNER,
                                 ACLNN_ERR_INNER_NULLPTR, ACL_ERROR_INVALID_PARAM };
    int found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= status == known[i];
    EXPECT(found);
    if (!found)
        printf("status %d\n", status);
    const char *text = aclGetRecentErrMsg();
    EXPECT(!status || text);
}

static void *misuse(void *number)
{
    const char *seed = getenv("SEED"), *rounds = getenv("ROUNDS");
    state = (seed ? strtoull(seed, NULL, 10) : 1) + (uintptr_t)number * 1000003;
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (long i = rounds ? atol(rounds) : 20000; i > 0 && !failures; i--) {
        switch (random_below(8)) {
        case 0:
        case 1:
            create();
            aclGetRecentErrMsg();
            break;
        case 2:
            judge(destroy());
            break;
        case 3:
            judge(ask());
            break;
        default:
            judge(operate());
        }
    }
    return NULL;
}

static void begin(void)
{
    EXPECT_IS(aclInit(NULL), 0);
    EXPECT_IS(aclrtSetDevice(0), 0);
    for (int i = 0; i < 4; i++) {
        EXPECT_IS(aclrtMalloc((void **)&memory[i], ELEMENTS * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST), 0);
        memset(memory[i], 0, ELEMENTS * sizeof(float));
    }
}

CASE(nothing_crashes)
{
    begin();
    misuse(NULL);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

CASE(nothing_crashes_whoever_else_uses_the_objects)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    begin();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, misuse, (void *)(uintptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_IS(aclrtSynchronizeDevice(), 0);
}

RUN(ENTRY(nothing_crashes), ENTRY(nothing_crashes_whoever_else_uses_the_objects))
