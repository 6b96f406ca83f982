/* Arrays, lists, data buffers, what tensors tell about themselves, and logging. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "front.h"

enum { CHUNKS = 4096 };
static char *chunks[NONPU_BLOCKS][CHUNKS];
#define POOL(which, number) \
    [which] = { .tag = 0x6e70u + number, .record_bytes = sizeof(nonpu_block), .chunk_slots = 256, .chunks = chunks[which], \
                .lock = PTHREAD_MUTEX_INITIALIZER }
nonpu_pool nonpu_blocks[NONPU_BLOCKS] = {
    POOL(NONPU_INT_ARRAYS, 0x10), POOL(NONPU_FLOAT_ARRAYS, 0x11), POOL(NONPU_BOOL_ARRAYS, 0x12),
    POOL(NONPU_TENSOR_LISTS, 0x13), POOL(NONPU_SCALAR_LISTS, 0x14), POOL(NONPU_BUFFERS, 0x15) };
static const char *const expected[NONPU_BLOCKS] = { "a live int array", "a live float array", "a live bool array", "a live tensor list",
                                                    "a live scalar list", "a live data buffer" };

/* What lists own. */
static nonpu_pool *const elements_of[NONPU_BLOCKS] = { [NONPU_TENSOR_LISTS] = &nonpu_tensors, [NONPU_SCALAR_LISTS] = &nonpu_scalars };

static int32_t no_block(int32_t status, const char *api, int which, const char *what, uintptr_t handle)
{
    return nonpu_fail(status, api, what, expected[which], nonpu_describe(&nonpu_blocks[which], handle).text);
}

/* ---- arrays and lists ---- */

/* Objects in a list are destroyed with it and not before. */
static void own(nonpu_pool *pool, const nonpu_block *b)
{
    for (uint64_t i = 0; i < b->size; i++) {
        void *record = nonpu_find(pool, ((const uintptr_t *)b->data)[i]);
        if (record)
            nonpu_set_owned(record, 1);
    }
}

static uintptr_t create(const char *api, int which, const void *values, uint64_t size, size_t item)
{
    size = values ? size : 0;
    nonpu_block *b = NULL;
    void *copy = size > SIZE_MAX / item ? NULL : malloc(size ? size * item : 1);
    if (copy)
        b = nonpu_take(&nonpu_blocks[which]);
    if (!b) {
        free(copy);
        nonpu_fail(0, api, "size", "within the memory of this machine", nonpu_number((int64_t)size).text);
        return 0;
    }
    if (size)
        memcpy(copy, values, size * item);
    *b = (nonpu_block){ size, copy };
    if (elements_of[which])
        own(elements_of[which], b);
    uintptr_t handle = nonpu_publish(&nonpu_blocks[which], b);
    NONPU_NOTE(NONPU_MADE, api, handle, nonpu_blocks[which].tag, 0, 0);
    if (elements_of[which])
        NONPU_CHECKED(nonpu_note_list(copy, size));
    return handle;
}

static int32_t destroy(const char *api, int which, const void *object)
{
    nonpu_pool *elements = elements_of[which];
    uintptr_t handle = (uintptr_t)object;
    nonpu_block *b = handle ? nonpu_claim(&nonpu_blocks[which], handle) : NULL;
    int32_t status = ACLNN_SUCCESS;
    if (!b)
        return handle ? no_block(ACLNN_ERR_PARAM_INVALID, api, which, "array", handle) : ACLNN_SUCCESS;
    for (uint64_t i = 0; elements && i < b->size; i++) {
        uintptr_t element = ((const uintptr_t *)b->data)[i];
        void *record = element ? nonpu_claim(elements, element) : NULL;
        if (record)
            nonpu_recycle(elements, record);
        else if (element)
            status = nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, "each element", "live or null", nonpu_describe(elements, element).text);
    }
    /* Who reads a list holds the lock of its pool while doing so. */
    pthread_mutex_lock(&nonpu_blocks[which].lock);
    void *data = b->data;
    *b = (nonpu_block){ 0, NULL };
    pthread_mutex_unlock(&nonpu_blocks[which].lock);
    free(data);
    nonpu_recycle(&nonpu_blocks[which], b);
    return status;
}

static int32_t size_of(const char *api, int which, const void *object, uint64_t *size)
{
    const nonpu_block *b = nonpu_find(&nonpu_blocks[which], (uintptr_t)object);
    if (!object || !size)
        return nonpu_fail(ACLNN_ERR_PARAM_NULLPTR, api, object ? "size" : "array", object ? "a pointer" : expected[which], "null");
    if (!b)
        return no_block(ACLNN_ERR_PARAM_INVALID, api, which, "array", (uintptr_t)object);
    *size = b->size;
    return ACLNN_SUCCESS;
}

#define COLLECTION(name, which, type) \
    acl##name *aclCreate##name(type const *value, uint64_t size) \
    { \
        return (acl##name *)create("aclCreate" #name, which, value, size, sizeof *value); \
    } \
    aclnnStatus aclDestroy##name(const acl##name *array) { return destroy("aclDestroy" #name, which, array); } \
    aclnnStatus aclGet##name##Size(const acl##name *array, uint64_t *size) { return size_of("aclGet" #name "Size", which, array, size); }

COLLECTION(IntArray, NONPU_INT_ARRAYS, int64_t)
COLLECTION(FloatArray, NONPU_FLOAT_ARRAYS, float)
COLLECTION(BoolArray, NONPU_BOOL_ARRAYS, bool)
COLLECTION(TensorList, NONPU_TENSOR_LISTS, const aclTensor *)
COLLECTION(ScalarList, NONPU_SCALAR_LISTS, const aclScalar *)

/* ---- tensors ---- */

/* The live tensor, if the pointers that go with it are there as well; otherwise null and the status of the failure. */
static nonpu_tensor *tensor_of(const char *api, const aclTensor *tensor, const void *a, const void *b, int32_t *status)
{
    nonpu_tensor *t = nonpu_find(&nonpu_tensors, (uintptr_t)tensor);
    if (!tensor || !a || !b)
        *status = nonpu_fail(ACLNN_ERR_PARAM_NULLPTR, api, tensor ? "every pointer" : "tensor", tensor ? "given" : "a live tensor", "null");
    else if (!t)
        *status = nonpu_fail(ACLNN_ERR_PARAM_INVALID, api, "tensor", "a live tensor", nonpu_describe(&nonpu_tensors, (uintptr_t)tensor).text);
    else
        *status = ACLNN_SUCCESS;
    return *status ? NULL : t;
}

/* The caller releases the array with delete[]: in a C++ program it comes from that program's operator new[]. */
static int64_t *fresh_array(size_t count)
{
    typedef void *operator_new(size_t, const void *);
    static const char nothrow;
    size_t bytes = (count ? count : 1) * sizeof(int64_t);
    operator_new *allocate = (operator_new *)dlsym(RTLD_DEFAULT, "_ZnamRKSt9nothrow_t");
    return allocate ? allocate(bytes, &nothrow) : malloc(bytes);
}

static int32_t hand_out(const char *api, const int64_t *values, int32_t count, int64_t **array, uint64_t *size)
{
    size_t length = count > 0 ? (size_t)count : 0;
    int64_t *fresh = fresh_array(length);
    if (!fresh)
        return nonpu_fail(ACLNN_ERR_INNER_NULLPTR, api, "memory for the array", "available", "none");
    memcpy(fresh, values, length * sizeof *fresh);
    *array = fresh;
    *size = length;
    return ACLNN_SUCCESS;
}

#define ARRAY_GETTER(name, values, count) \
    aclnnStatus name(const aclTensor *tensor, int64_t **array, uint64_t *size) \
    { \
        int32_t status; \
        const nonpu_tensor *t = tensor_of(#name, tensor, array, size, &status); \
        return t ? hand_out(#name, t->values, t->count, array, size) : status; \
    }
ARRAY_GETTER(aclGetViewShape, dims, rank)
ARRAY_GETTER(aclGetViewStrides, strides, rank)
ARRAY_GETTER(aclGetStorageShape, storage, storage_rank)

#define VALUE_GETTER(name, type, field) \
    aclnnStatus name(const aclTensor *tensor, type *value) \
    { \
        int32_t status; \
        const nonpu_tensor *t = tensor_of(#name, tensor, value, value, &status); \
        if (t) \
            *value = (type)t->field; \
        return status; \
    }
VALUE_GETTER(aclGetViewOffset, int64_t, offset)
VALUE_GETTER(aclGetFormat, aclFormat, format)
VALUE_GETTER(aclGetDataType, aclDataType, dtype)
VALUE_GETTER(aclGetRawTensorAddr, void *, data)

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr)
{
    int32_t status;
    nonpu_tensor *t = tensor_of("aclSetRawTensorAddr", tensor, addr, addr, &status);
    if (t)
        t->data = (uintptr_t)addr;
    return status;
}

aclnnStatus aclDumpOpTensors(const char *opType, const char *opName, aclTensor **tensors, size_t inputTensorNum, size_t outputTensorNum,
                             aclrtStream stream)
{
    static const char api[] = "aclDumpOpTensors";
    (void)stream;                   /* null is the default stream, as everywhere */
    if (!opType || !opName || !tensors)
        return nonpu_fail(ACLNN_ERR_PARAM_NULLPTR, api, !opType ? "opType" : !opName ? "opName" : "tensors", "a pointer", "null");
    for (size_t i = 0; i < inputTensorNum + outputTensorNum; i++)
        if (!nonpu_find(&nonpu_tensors, (uintptr_t)tensors[i]))
            return nonpu_fail(tensors[i] ? ACLNN_ERR_PARAM_INVALID : ACLNN_ERR_PARAM_NULLPTR, api, "each of tensors", "a live tensor",
                              nonpu_describe(&nonpu_tensors, (uintptr_t)tensors[i]).text);
    return ACLNN_SUCCESS;
}

/* ---- data buffers: the pair does not own the memory ---- */

static nonpu_block *buffer_of(const char *api, const aclDataBuffer *buffer)
{
    nonpu_block *b = nonpu_find(&nonpu_blocks[NONPU_BUFFERS], (uintptr_t)buffer);
    if (!b)
        no_block(0, api, NONPU_BUFFERS, "dataBuffer", (uintptr_t)buffer);
    return b;
}

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size)
{
    nonpu_block *b = nonpu_take(&nonpu_blocks[NONPU_BUFFERS]);
    if (!b) {
        nonpu_fail(0, "aclCreateDataBuffer", "the number of live data buffers", "within the memory of this machine", "no memory");
        return NULL;
    }
    *b = (nonpu_block){ size, data };
    uintptr_t handle = nonpu_publish(&nonpu_blocks[NONPU_BUFFERS], b);
    NONPU_NOTE(NONPU_MADE, "aclCreateDataBuffer", handle, nonpu_blocks[NONPU_BUFFERS].tag, 0, 0);
    return (aclDataBuffer *)handle;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *buffer)
{
    nonpu_block *b = nonpu_claim(&nonpu_blocks[NONPU_BUFFERS], (uintptr_t)buffer);
    if (!b)
        return no_block(ACL_ERROR_INVALID_PARAM, "aclDestroyDataBuffer", NONPU_BUFFERS, "dataBuffer", (uintptr_t)buffer);
    nonpu_recycle(&nonpu_blocks[NONPU_BUFFERS], b);
    return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer *buffer, void *data, size_t size)
{
    nonpu_block *b = buffer_of("aclUpdateDataBuffer", buffer);
    if (!b)
        return ACL_ERROR_INVALID_PARAM;
    *b = (nonpu_block){ size, data };
    return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *buffer)
{
    const nonpu_block *b = buffer_of("aclGetDataBufferAddr", buffer);
    return b ? b->data : NULL;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *buffer)
{
    const nonpu_block *b = buffer_of("aclGetDataBufferSizeV2", buffer);
    return b ? b->size : 0;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer *buffer)
{
    const nonpu_block *b = buffer_of("aclGetDataBufferSize", buffer);
    return b ? (uint32_t)b->size : 0;
}

/* ---- types, logging, the machine ---- */

size_t aclDataTypeSize(aclDataType dataType)
{
    static const uint8_t bytes[] = NONPU_TYPE_BYTES;        /* generated: by data type */
    return dataType == ACL_DT_UNDEFINED ? 0 : (size_t)dataType < sizeof bytes ? bytes[dataType] : 8;
}

static int is_on(const char *name)
{
    const char *value = getenv(name);
    return value && !strcmp(value, "1");
}

/* The device's logs go to files of its host; here they are printed, if the switch for that is on. */
void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)
{
    static const char *const words[] = { "DEBUG", "INFO", "WARNING", "ERROR" };
    const char *least = getenv("ASCEND_GLOBAL_LOG_LEVEL");
    int lowest = least && *least >= '0' && *least <= '4' && !least[1] ? *least - '0' : ACL_ERROR;
    if ((unsigned)logLevel > ACL_ERROR || (int)logLevel < lowest || !fmt
        || !(is_on("ASCEND_SLOG_PRINT_TO_STDOUT") || is_on("ASCEND_LOG_PRINT_TO_STDOUT")))
        return;
    char text[1024];
    va_list values;
    va_start(values, fmt);
    vsnprintf(text, sizeof text, fmt, values);
    va_end(values);
    printf("[%s] APP %s:%u %s: %s\n", words[logLevel], file ? file : "", (unsigned)line, func ? func : "", text);
    fflush(stdout);
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
    static const char api[] = "aclGetDeviceCapability";
    if (!value)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "value", "a pointer", "null");
    if (deviceId)
        return nonpu_fail(ACL_ERROR_RT_INVALID_DEVICEID, api, "deviceId", "0", nonpu_number(deviceId).text);
    if ((unsigned)deviceInfo > ACL_DEVICE_INFO_L2_SIZE)
        return nonpu_fail(ACL_ERROR_INVALID_PARAM, api, "deviceInfo", "0 to 2", nonpu_number((int64_t)deviceInfo).text);
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    *value = deviceInfo != ACL_DEVICE_INFO_L2_SIZE ? nonpu_get_threads() : cache > 0 ? cache : 0;
    return ACL_SUCCESS;
}
