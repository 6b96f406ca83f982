// The meta interface from C++: arrays that are released with delete[], the macro of the log, dim3, overloads.
#include <cstdio>
#include <cstring>

#include "acl/acl.h"
#include "acl/acl_rt_api.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/op_errno.h"

static int failures;
#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

static void getters() {
    const int64_t shape[2] = {3, 5};
    for (int rank = 0; rank <= 2; rank++) {
        aclTensor *tensor = aclCreateTensor(shape, rank, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, rank, nullptr);
        int64_t *array = nullptr;
        uint64_t size = 99;
        EXPECT(aclGetViewShape(tensor, &array, &size) == ACLNN_SUCCESS);
        EXPECT(array != nullptr && size == static_cast<uint64_t>(rank) && (rank == 0 || array[0] == 3));
        delete[] array;
        EXPECT(aclGetViewStrides(tensor, &array, &size) == ACLNN_SUCCESS);
        EXPECT(rank < 2 || (array[0] == 5 && array[1] == 1));
        delete[] array;
        EXPECT(aclGetStorageShape(tensor, &array, &size) == ACLNN_SUCCESS);
        delete[] array;
        EXPECT(aclDestroyTensor(tensor) == ACLNN_SUCCESS);
    }
}

static void lists() {
    const int64_t shape[1] = {4};
    aclTensor *tensors[2];
    for (auto &tensor : tensors)
        tensor = aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr);
    // The call of the documents: an array of pointers to tensors that are not const.
    aclTensorList *list = aclCreateTensorList(tensors, 2);
    float value = 1;
    aclScalar *scalars[1] = {aclCreateScalar(&value, ACL_FLOAT)};
    aclScalarList *others = aclCreateScalarList(scalars, 1);
    uint64_t size = 0;
    EXPECT(aclGetTensorListSize(list, &size) == 0 && size == 2);
    EXPECT(aclDestroyTensorList(list) == 0 && aclDestroyScalarList(others) == 0);
}

static void names() {
    // Whatever arguments the real function takes.
    int value = 0;
    EXPECT(aclrtCreateNotify(&value, 0) == ACL_ERROR_API_NOT_SUPPORT);
    const char *text = aclGetRecentErrMsg();
    EXPECT(text != nullptr && std::strstr(text, "aclrtCreateNotify: ") == text);
    EXPECT(aclmdlRICaptureEnd(static_cast<aclrtStream>(nullptr), &value, 1.5) == ACL_ERROR_API_NOT_SUPPORT);
    EXPECT(aclrtSubscribeHostFunc(1ULL, nullptr) == ACL_ERROR_API_NOT_SUPPORT);
    aclrtStreamConfigHandle *handle = aclrtCreateStreamConfigHandle();
    EXPECT(handle == nullptr && aclGetRecentErrMsg() != nullptr);
    EXPECT(aclrtCreateBinary("data", sizeof "data") == nullptr);
    EXPECT(aclrtLaunchKernel(nullptr, dim3(8), nullptr, 0, nullptr) == ACL_ERROR_API_NOT_SUPPORT);
}

static void logging() {
    ACL_APP_LOG(ACL_ERROR, "no values");
    ACL_APP_LOG(ACL_ERROR, "%s %d", "two values", 2);
    ACL_APP_LOG(ACL_INFO, "of a lower level");
    char wide[3000];
    std::memset(wide, 'x', sizeof wide);
    wide[sizeof wide - 1] = 0;
    ACL_APP_LOG(ACL_ERROR, "%s", wide);
    aclAppLog(static_cast<aclLogLevel>(7), "f", "f", 1, "of no level");
    aclAppLog(ACL_ERROR, nullptr, nullptr, 1, nullptr);
}

int main() {
    dim3 one, two(2), three{1, 2, 3};
    dim3 four = {4, 5, 6};
    EXPECT(one.x == 1 && one.z == 1 && two.x == 2 && two.y == 1 && three.z == 3 && four.y == 5);
    getters();
    lists();
    names();
    logging();
    return failures != 0;
}
