/* Arrays, lists, data buffers, getters and setters: tier 2 of the meta interface. */
#include "case.h"

#include <pthread.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"

static int64_t shape[3] = { 2, 3, 4 };
static int local;

static aclTensor *tensor(void *data)
{
    static const int64_t strides[2] = { 6, 2 }, storage[3] = { 1, 2, 12 };
    return aclCreateTensor(shape, 2, ACL_FLOAT16, strides, 5, ACL_FORMAT_NCHW, storage, 3, data);
}

CASE(arrays_copy_their_values)
{
    const int64_t ints[3] = { 1, -2, INT64_MAX };
    const float floats[2] = { 1.5f, -2 };
    const bool bools[5] = { true, false, true, true, false };
    aclIntArray *i = aclCreateIntArray(ints, 3);
    aclFloatArray *f = aclCreateFloatArray(floats, 2);
    aclBoolArray *b = aclCreateBoolArray(bools, 5);
    uint64_t size = 99;
    EXPECT(i && f && b);
    EXPECT_IS(aclGetIntArraySize(i, &size), 0);
    EXPECT_IS(size, 3);
    EXPECT_IS(aclGetFloatArraySize(f, &size), 0);
    EXPECT_IS(size, 2);
    EXPECT_IS(aclGetBoolArraySize(b, &size), 0);
    EXPECT_IS(size, 5);
    EXPECT_IS(aclDestroyIntArray(i), 0);
    EXPECT_IS(aclDestroyFloatArray(f), 0);
    EXPECT_IS(aclDestroyBoolArray(b), 0);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

CASE(null_or_no_values_give_an_empty_array)
{
    uint64_t size = 99;
    aclIntArray *empty[3] = { aclCreateIntArray(NULL, 7), aclCreateIntArray(shape, 0), aclCreateIntArray(NULL, 0) };
    for (int i = 0; i < 3; i++) {
        EXPECT(empty[i] != NULL);
        EXPECT_IS(aclGetIntArraySize(empty[i], &size), 0);
        EXPECT_IS(size, 0);
        EXPECT_IS(aclDestroyIntArray(empty[i]), 0);
    }
    aclTensorList *list = aclCreateTensorList(NULL, 3);
    EXPECT_IS(aclGetTensorListSize(list, &size), 0);
    EXPECT_IS(size, 0);
    EXPECT_IS(aclDestroyTensorList(list), 0);
    EXPECT(aclGetRecentErrMsg() == NULL);
    EXPECT(aclCreateIntArray(shape, UINT64_MAX) == NULL);
    EXPECT_TEXT("aclCreateIntArray", "size");
    EXPECT(aclCreateBoolArray((const bool *)shape, UINT64_MAX / 2) == NULL);
    EXPECT_TEXT("aclCreateBoolArray", "size");
}

CASE(collections_refuse_what_is_none)
{
    uint64_t size = 99;
    aclIntArray *i = aclCreateIntArray(shape, 3);
    EXPECT_IS(aclDestroyIntArray(NULL), 0);
    EXPECT_IS(aclDestroyFloatArray(NULL), 0);
    EXPECT_IS(aclDestroyBoolArray(NULL), 0);
    EXPECT_IS(aclDestroyTensorList(NULL), 0);
    EXPECT_IS(aclDestroyScalarList(NULL), 0);
    EXPECT(aclGetRecentErrMsg() == NULL);
    EXPECT_IS(aclGetIntArraySize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclGetIntArraySize", "array", "null");
    EXPECT_IS(aclGetIntArraySize(i, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclGetIntArraySize", "size", "null");
    EXPECT_IS(aclGetFloatArraySize((aclFloatArray *)i, &size), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclGetFloatArraySize", "a live float array");
    EXPECT_IS(aclGetBoolArraySize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetTensorListSize(NULL, &size), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetScalarListSize(NULL, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclDestroyIntArray((aclIntArray *)&local), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyIntArray", "a live int array");
    EXPECT_IS(aclDestroyIntArray(i), 0);
    aclGetRecentErrMsg();
    EXPECT_IS(aclDestroyIntArray(i), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyIntArray", "destroyed");
    EXPECT_IS(aclGetIntArraySize(i, &size), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(size, 99);
    EXPECT_IS(aclDestroyTensorList((aclTensorList *)tensor(NULL)), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyScalarList((aclScalarList *)(uintptr_t)0x10), ACLNN_ERR_PARAM_INVALID);
}

CASE(a_list_owns_its_elements)
{
    float value = 2;
    const aclTensor *tensors[3] = { tensor(NULL), NULL, tensor(NULL) };
    const aclScalar *scalars[2] = { aclCreateScalar(&value, ACL_FLOAT), aclCreateScalar(&value, ACL_FLOAT) };
    aclTensorList *t = aclCreateTensorList(tensors, 3);
    aclScalarList *s = aclCreateScalarList(scalars, 2);
    uint64_t size = 99;
    EXPECT_IS(aclGetTensorListSize(t, &size), 0);
    EXPECT_IS(size, 3);
    EXPECT_IS(aclGetScalarListSize(s, &size), 0);
    EXPECT_IS(size, 2);
    EXPECT_IS(aclDestroyTensor(tensors[0]), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensor", "list");
    EXPECT_IS(aclDestroyScalar(scalars[1]), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyScalar", "list");
    EXPECT_IS(aclDestroyTensorList(t), 0);
    EXPECT_IS(aclDestroyScalarList(s), 0);
    EXPECT(aclGetRecentErrMsg() == NULL);
    EXPECT_IS(aclDestroyTensor(tensors[0]), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensor", "destroyed");
    EXPECT_IS(aclDestroyScalar(scalars[1]), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclDestroyTensorList(t), ACLNN_ERR_PARAM_INVALID);
    /* Their places are used again, without an owner. */
    for (int i = 0; i < 5000; i++)
        EXPECT_IS(aclDestroyTensor(tensor(NULL)), 0);
}

CASE(a_list_of_dead_or_shared_elements_says_so_and_goes)
{
    aclTensor *dead = tensor(NULL), *shared = tensor(NULL);
    EXPECT_IS(aclDestroyTensor(dead), 0);
    const aclTensor *elements[3] = { shared, dead, (aclTensor *)&local };
    aclTensorList *first = aclCreateTensorList(elements, 3), *second = aclCreateTensorList(elements, 1);
    EXPECT(first && second);
    EXPECT_IS(aclDestroyTensorList(first), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensorList", "element", "destroyed");
    EXPECT_IS(aclDestroyTensorList(second), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensorList", "element");
    EXPECT_IS(aclDestroyTensorList(second), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclDestroyTensorList", "a live tensor list");
}

CASE(getters_tell_what_the_tensor_was_told)
{
    aclTensor *t = tensor(&local);
    int64_t *dims = NULL, offset = 0;
    uint64_t count = 0;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    aclDataType type = ACL_DT_UNDEFINED;
    void *address = NULL;
    EXPECT_IS(aclGetViewShape(t, &dims, &count), 0);
    EXPECT(count == 2 && dims[0] == 2 && dims[1] == 3);
    free(dims);
    EXPECT_IS(aclGetViewStrides(t, &dims, &count), 0);
    EXPECT(count == 2 && dims[0] == 6 && dims[1] == 2);
    free(dims);
    EXPECT_IS(aclGetStorageShape(t, &dims, &count), 0);
    EXPECT(count == 3 && dims[0] == 1 && dims[1] == 2 && dims[2] == 12);
    free(dims);
    EXPECT_IS(aclGetViewOffset(t, &offset), 0);
    EXPECT_IS(offset, 5);
    EXPECT_IS(aclGetFormat(t, &format), 0);
    EXPECT_IS(format, ACL_FORMAT_NCHW);
    EXPECT_IS(aclGetDataType(t, &type), 0);
    EXPECT_IS(type, ACL_FLOAT16);
    EXPECT_IS(aclGetRawTensorAddr(t, &address), 0);
    EXPECT(address == &local);
    EXPECT_IS(aclSetRawTensorAddr(t, shape), 0);
    EXPECT_IS(aclGetRawTensorAddr(t, &address), 0);
    EXPECT(address == shape);
    EXPECT(aclGetRecentErrMsg() == NULL);
}

CASE(rank_0_gives_a_pointer_to_release)
{
    aclTensor *t = aclCreateTensor(NULL, 0, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, NULL);
    int64_t *dims = NULL;
    uint64_t count = 9;
    EXPECT_IS(aclGetViewShape(t, &dims, &count), 0);
    EXPECT(dims != NULL && count == 0);
    free(dims);
    dims = NULL;
    EXPECT_IS(aclGetStorageShape(t, &dims, &count), 0);
    EXPECT(dims != NULL && count == 0);
    free(dims);
}

CASE(getters_check_their_pointers)
{
    aclTensor *t = tensor(NULL), *dead = tensor(NULL);
    int64_t *dims = (int64_t *)0x77;
    uint64_t count = 77;
    int64_t offset = 77;
    void *address = (void *)0x77;
    EXPECT_IS(aclDestroyTensor(dead), 0);
    EXPECT_IS(aclGetViewShape(NULL, &dims, &count), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclGetViewShape", "tensor", "null");
    EXPECT_IS(aclGetViewShape(t, NULL, &count), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetViewShape(t, &dims, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetViewStrides(t, &dims, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetStorageShape(NULL, NULL, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetViewOffset(t, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetViewOffset(NULL, &offset), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetFormat(t, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetDataType(t, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclSetRawTensorAddr(NULL, &local), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclSetRawTensorAddr(t, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetRawTensorAddr(t, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclGetRawTensorAddr(NULL, &address), ACLNN_ERR_PARAM_NULLPTR);
    aclGetRecentErrMsg();
    EXPECT_IS(aclGetViewShape(dead, &dims, &count), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclGetViewShape", "destroyed");
    EXPECT_IS(aclGetViewOffset((aclTensor *)&local, &offset), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclSetRawTensorAddr(dead, &local), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclGetRawTensorAddr(dead, &address), ACLNN_ERR_PARAM_INVALID);
    EXPECT(dims == (int64_t *)0x77 && count == 77 && offset == 77 && address == (void *)0x77);
}

CASE(a_tensor_can_be_initialised_anew)
{
    aclTensor *t = tensor(NULL);
    int64_t *dims = NULL;
    uint64_t count = 0;
    aclDataType type = ACL_DT_UNDEFINED;
    EXPECT_IS(aclInitTensor(NULL, shape, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 3, &local), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclInitTensor", "tensor", "null");
    EXPECT_IS(aclInitTensor((aclTensor *)&local, shape, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 3, &local), ACLNN_ERR_PARAM_INVALID);
    EXPECT_IS(aclInitTensor(t, NULL, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 3, &local), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclInitTensor(t, shape, 3, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, shape, 26, &local), ACLNN_ERR_PARAM_INVALID);
    EXPECT_TEXT("aclInitTensor", "storageDimsNum");
    EXPECT_IS(aclGetDataType(t, &type), 0);
    EXPECT_IS(type, ACL_FLOAT16);
    EXPECT_IS(aclInitTensor(t, shape, 3, ACL_INT8, NULL, 0, ACL_FORMAT_ND, shape, 3, &local), 0);
    EXPECT_IS(aclGetViewStrides(t, &dims, &count), 0);
    EXPECT(count == 3 && dims[0] == 12 && dims[1] == 4 && dims[2] == 1);
    free(dims);
    EXPECT_IS(aclGetDataType(t, &type), 0);
    EXPECT_IS(type, ACL_INT8);
}

CASE(a_dump_checks_its_arguments)
{
    aclTensor *tensors[2] = { tensor(NULL), tensor(NULL) };
    EXPECT_IS(aclDumpOpTensors("op", "name", tensors, 1, 1, NULL), 0);
    EXPECT_IS(aclDumpOpTensors(NULL, "name", tensors, 1, 1, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_TEXT("aclDumpOpTensors", "opType");
    EXPECT_IS(aclDumpOpTensors("op", NULL, tensors, 1, 1, NULL), ACLNN_ERR_PARAM_NULLPTR);
    EXPECT_IS(aclDumpOpTensors("op", "name", NULL, 1, 1, NULL), ACLNN_ERR_PARAM_NULLPTR);
    tensors[1] = NULL;
    EXPECT_IS(aclDumpOpTensors("op", "name", tensors, 1, 1, NULL), ACLNN_ERR_PARAM_NULLPTR);
    tensors[1] = (aclTensor *)&local;
    EXPECT_IS(aclDumpOpTensors("op", "name", tensors, 1, 1, NULL), ACLNN_ERR_PARAM_INVALID);
}

CASE(data_buffers_are_an_address_and_a_size)
{
    aclDataBuffer *b = aclCreateDataBuffer(&local, (size_t)5 << 32 | 7);
    EXPECT(b != NULL);
    EXPECT(aclGetDataBufferAddr(b) == &local);
    EXPECT_IS(aclGetDataBufferSizeV2(b), (size_t)5 << 32 | 7);
    EXPECT_IS(aclGetDataBufferSize(b), 7);
    EXPECT_IS(aclUpdateDataBuffer(b, shape, sizeof shape), ACL_SUCCESS);
    EXPECT(aclGetDataBufferAddr(b) == shape);
    EXPECT_IS(aclGetDataBufferSizeV2(b), sizeof shape);
    EXPECT(aclGetRecentErrMsg() == NULL);
    EXPECT_IS(aclDestroyDataBuffer(NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclDestroyDataBuffer", "dataBuffer", "null");
    EXPECT_IS(aclUpdateDataBuffer(NULL, shape, 1), ACL_ERROR_INVALID_PARAM);
    EXPECT(aclGetDataBufferAddr(NULL) == NULL);
    EXPECT_IS(aclGetDataBufferSizeV2(NULL), 0);
    EXPECT_IS(aclGetDataBufferSize(NULL), 0);
    EXPECT_IS(aclDestroyDataBuffer(b), ACL_SUCCESS);
    EXPECT_IS(aclDestroyDataBuffer(b), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclDestroyDataBuffer", "destroyed");
    EXPECT(aclGetDataBufferAddr(b) == NULL);
    EXPECT_IS(aclDestroyDataBuffer((aclDataBuffer *)&local), ACL_ERROR_INVALID_PARAM);
    b = aclCreateDataBuffer(NULL, 0);
    EXPECT(b != NULL && aclGetDataBufferAddr(b) == NULL);
}

CASE(types_have_their_documented_sizes)
{
    const struct { int type; size_t bytes; } sizes[] = {
        { -1, 0 }, { 0, 4 }, { 1, 2 }, { 2, 1 }, { 3, 4 }, { 4, 1 }, { 6, 2 }, { 7, 2 }, { 8, 4 }, { 9, 8 }, { 10, 8 }, { 11, 8 },
        { 12, 1 }, { 13, 0 }, { 16, 8 }, { 17, 16 }, { 27, 2 }, { 29, 1 }, { 30, 1 }, { 33, 4 }, { 34, 1 }, { 35, 1 }, { 36, 1 },
        { 37, 1 }, { 38, 8 }, { 39, 8 }, { 40, 8 }, { 41, 8 }, { 1000, 8 }, { -2, 8 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        EXPECT_IS(aclDataTypeSize((aclDataType)sizes[i].type), sizes[i].bytes);
}

CASE(attributes_and_capabilities)
{
    const aclCannAttr *list = NULL;
    size_t count = 0;
    int32_t value = 77;
    int64_t number = 77;
    EXPECT_IS(aclGetCannAttributeList(&list, &count), 0);
    EXPECT_IS(count, 2);
    EXPECT(list && list[0] == ACL_CANN_ATTR_INF_NAN && list[1] == ACL_CANN_ATTR_BF16);
    EXPECT_IS(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &value), 0);
    EXPECT_IS(value, 1);
    setenv("NONPU_PRODUCT", "910", 1);
    EXPECT_IS(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &value), 0);
    EXPECT_IS(value, 0);
    EXPECT_IS(aclGetCannAttributeList(&list, &count), 0);
    EXPECT(count == 1 && list[0] == ACL_CANN_ATTR_INF_NAN);
    EXPECT_IS(aclGetCannAttribute(ACL_CANN_ATTR_JIT_COMPILE, &value), 0);
    EXPECT_IS(value, 0);
    EXPECT_IS(aclGetCannAttribute((aclCannAttr)3, &value), ACL_ERROR_INVALID_PARAM);
    EXPECT_TEXT("aclGetCannAttribute", "cannAttr");
    EXPECT_IS(aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &value), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclGetCannAttribute(ACL_CANN_ATTR_BF16, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclGetCannAttributeList(NULL, &count), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclGetCannAttributeList(&list, NULL), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &number), 0);
    EXPECT(number >= 1);
    EXPECT_IS(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &number), 0);
    EXPECT(number >= 1);
    EXPECT_IS(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &number), 0);
    EXPECT(number >= 0);
    EXPECT_IS(aclGetDeviceCapability(1, ACL_DEVICE_INFO_L2_SIZE, &number), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_IS(aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &number), ACL_ERROR_INVALID_PARAM);
    EXPECT_IS(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, NULL), ACL_ERROR_INVALID_PARAM);
}

static void *churn(void *unused)
{
    for (int round = 0; round < 3000; round++) {
        const aclTensor *elements[4];
        for (int i = 0; i < 4; i++)
            elements[i] = tensor(NULL);
        aclTensorList *list = aclCreateTensorList(elements, 4);
        aclIntArray *array = aclCreateIntArray(shape, 3);
        uint64_t size = 0;
        EXPECT_IS(aclGetTensorListSize(list, &size), 0);
        EXPECT_IS(size, 4);
        EXPECT_IS(aclDestroyTensorList(list), 0);
        EXPECT_IS(aclDestroyIntArray(array), 0);
        EXPECT_IS(aclDestroyTensor(elements[round % 4]), ACLNN_ERR_PARAM_INVALID);
    }
    return unused;
}

CASE(threads_create_and_destroy_collections_at_once)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

RUN(ENTRY(arrays_copy_their_values), ENTRY(null_or_no_values_give_an_empty_array), ENTRY(collections_refuse_what_is_none),
    ENTRY(a_list_owns_its_elements), ENTRY(a_list_of_dead_or_shared_elements_says_so_and_goes),
    ENTRY(getters_tell_what_the_tensor_was_told), ENTRY(rank_0_gives_a_pointer_to_release), ENTRY(getters_check_their_pointers),
    ENTRY(a_tensor_can_be_initialised_anew), ENTRY(a_dump_checks_its_arguments), ENTRY(data_buffers_are_an_address_and_a_size),
    ENTRY(types_have_their_documented_sizes), ENTRY(attributes_and_capabilities),
    ENTRY(threads_create_and_destroy_collections_at_once))
