// Facts about the headers that a compiler can judge. Compiled, never run.
#include <cstddef>
#include <type_traits>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_leaky_relu_backward.h"
#include "aclnnop/aclnn_sigmoid_backward.h"
#include "aclnnop/aclnn_swish_backward.h"

#define SAME(name, ...) static_assert(std::is_same<decltype(name), __VA_ARGS__>::value, #name)

SAME(aclInit, aclError(const char *));
SAME(aclFinalize, aclError());
SAME(aclrtSetDevice, aclError(int32_t));
SAME(aclrtResetDevice, aclError(int32_t));
SAME(aclrtCreateStream, aclError(aclrtStream *));
SAME(aclrtDestroyStream, aclError(aclrtStream));
SAME(aclrtSynchronizeStream, aclError(aclrtStream));
SAME(aclrtMalloc, aclError(void **, size_t, aclrtMemMallocPolicy));
SAME(aclrtFree, aclError(void *));
SAME(aclrtMemcpy, aclError(void *, size_t, const void *, size_t, aclrtMemcpyKind));
SAME(aclFinalizeReference, aclError(uint64_t *));
SAME(aclrtPeekAtLastError, aclError(aclrtLastErrLevel));
SAME(aclrtGetLastError, aclError(aclrtLastErrLevel));
SAME(aclrtGetVersion, aclError(int32_t *, int32_t *, int32_t *));
SAME(aclsysGetVersionStr, aclError(char *, char *));
SAME(aclsysGetVersionNum, aclError(char *, int32_t *));
SAME(aclrtSynchronizeDevice, aclError());
SAME(aclrtSynchronizeDeviceWithTimeout, aclError(int32_t));
SAME(aclrtCreateContext, aclError(aclrtContext *, int32_t));
SAME(aclrtDestroyContext, aclError(aclrtContext));
SAME(aclrtSetCurrentContext, aclError(aclrtContext));
SAME(aclrtGetCurrentContext, aclError(aclrtContext *));
SAME(aclrtCtxGetCurrentDefaultStream, aclError(aclrtStream *));
SAME(aclrtGetDeviceInfo, aclError(uint32_t, aclrtDevAttr, int64_t *));
SAME(aclrtQueryDeviceStatus, aclError(int32_t, aclrtDeviceStatus *));
SAME(aclrtDeviceCanAccessPeer, aclError(int32_t *, int32_t, int32_t));
SAME(aclrtSetDeviceSatMode, aclError(aclrtFloatOverflowMode));
SAME(aclrtGetDeviceSatMode, aclError(aclrtFloatOverflowMode *));
SAME(aclrtSetSysParamOpt, aclError(aclSysParamOpt, int64_t));
SAME(aclrtGetSysParamOpt, aclError(aclSysParamOpt, int64_t *));
SAME(aclrtCtxSetSysParamOpt, aclError(aclSysParamOpt, int64_t));
SAME(aclrtCtxGetSysParamOpt, aclError(aclSysParamOpt, int64_t *));
SAME(aclrtCreateStreamWithConfig, aclError(aclrtStream *, uint32_t, uint32_t));
SAME(aclrtDestroyStreamForce, aclError(aclrtStream));
SAME(aclrtSynchronizeStreamWithTimeout, aclError(aclrtStream, int32_t));
SAME(aclrtStreamQuery, aclError(aclrtStream, aclrtStreamStatus *));
SAME(aclrtStreamGetId, aclError(aclrtStream, int32_t *));
SAME(aclrtStreamGetPriority, aclError(aclrtStream, uint32_t *));
SAME(aclrtStreamGetFlags, aclError(aclrtStream, uint32_t *));
SAME(aclrtGetStreamAvailableNum, aclError(uint32_t *));
SAME(aclrtStreamAbort, aclError(aclrtStream));
SAME(aclrtSetStreamFailureMode, aclError(aclrtStream, uint64_t));
SAME(aclrtStreamWaitEvent, aclError(aclrtStream, aclrtEvent));
SAME(aclrtCreateEvent, aclError(aclrtEvent *));
SAME(aclrtCreateEventWithFlag, aclError(aclrtEvent *, uint32_t));
SAME(aclrtCreateEventExWithFlag, aclError(aclrtEvent *, uint32_t));
SAME(aclrtDestroyEvent, aclError(aclrtEvent));
SAME(aclrtRecordEvent, aclError(aclrtEvent, aclrtStream));
SAME(aclrtResetEvent, aclError(aclrtEvent, aclrtStream));
SAME(aclrtQueryEvent, aclError(aclrtEvent, aclrtEventStatus *));
SAME(aclrtQueryEventStatus, aclError(aclrtEvent, aclrtEventRecordedStatus *));
SAME(aclrtQueryEventWaitStatus, aclError(aclrtEvent, aclrtEventWaitStatus *));
SAME(aclrtSynchronizeEvent, aclError(aclrtEvent));
SAME(aclrtSynchronizeEventWithTimeout, aclError(aclrtEvent, int32_t));
SAME(aclrtEventElapsedTime, aclError(float *, aclrtEvent, aclrtEvent));
SAME(aclrtEventGetTimestamp, aclError(aclrtEvent, uint64_t *));
SAME(aclrtMallocAlign32, aclError(void **, size_t, aclrtMemMallocPolicy));
SAME(aclrtMallocCached, aclError(void **, size_t, aclrtMemMallocPolicy));
SAME(aclrtMallocWithCfg, aclError(void **, size_t, aclrtMemMallocPolicy, aclrtMallocConfig *));
SAME(aclrtFreeWithDevSync, aclError(void *));
SAME(aclrtMemcpyAsync, aclError(void *, size_t, const void *, size_t, aclrtMemcpyKind, aclrtStream));
SAME(aclrtMemsetAsync, aclError(void *, size_t, int32_t, size_t, aclrtStream));
SAME(aclrtMemcpy2d, aclError(void *, size_t, const void *, size_t, size_t, size_t, aclrtMemcpyKind));
SAME(aclrtMemcpy2dAsync, aclError(void *, size_t, const void *, size_t, size_t, size_t, aclrtMemcpyKind, aclrtStream));
SAME(aclrtGetMemInfo, aclError(aclrtMemAttr, size_t *, size_t *));
SAME(aclrtPointerGetAttributes, aclError(const void *, aclrtPtrAttributes *));
SAME(aclrtSubscribeReport, aclError(uint64_t, aclrtStream));
SAME(aclrtUnSubscribeReport, aclError(uint64_t, aclrtStream));
SAME(aclrtProcessReport, aclError(int32_t));
SAME(aclrtLaunchCallback, aclError(aclrtCallback, void *, aclrtCallbackBlockType, aclrtStream));
SAME(aclrtLaunchHostFunc, aclError(aclrtStream, aclrtHostFunc, void *));
SAME(aclGetRecentErrMsg, const char *());
SAME(aclrtGetSocName, const char *());
SAME(aclFloat16ToFloat, float(aclFloat16));
SAME(aclFloatToFloat16, aclFloat16(float));
SAME(aclCreateTensor, aclTensor *(const int64_t *, uint64_t, aclDataType, const int64_t *, int64_t, aclFormat, const int64_t *, uint64_t, void *));
SAME(aclDestroyTensor, aclnnStatus(const aclTensor *));
SAME(aclCreateScalar, aclScalar *(void *, aclDataType));
SAME(aclDestroyScalar, aclnnStatus(const aclScalar *));
SAME(aclSetAclOpExecutorRepeatable, aclnnStatus(aclOpExecutor *));
SAME(aclDestroyAclOpExecutor, aclnnStatus(aclOpExecutor *));
SAME(aclnnLeakyReluBackwardGetWorkspaceSize, aclnnStatus(const aclTensor *, const aclTensor *, const aclScalar *, bool, aclTensor *, uint64_t *, aclOpExecutor **));
SAME(aclnnLeakyReluBackward, aclnnStatus(void *, uint64_t, aclOpExecutor *, aclrtStream));
SAME(aclnnSigmoidBackwardGetWorkspaceSize, aclnnStatus(const aclTensor *, const aclTensor *, aclTensor *, uint64_t *, aclOpExecutor **));
SAME(aclnnSigmoidBackward, aclnnStatus(void *, uint64_t, aclOpExecutor *, const aclrtStream));
SAME(aclnnSwishBackwardGetWorkspaceSize, aclnnStatus(const aclTensor *, const aclTensor *, const aclScalar *, aclTensor *, uint64_t *, aclOpExecutor **));
SAME(aclnnSwishBackward, aclnnStatus(void *, uint64_t, aclOpExecutor *, aclrtStream));

static_assert(std::is_same<aclError, int>::value && std::is_same<aclnnStatus, int32_t>::value && std::is_same<aclFloat16, uint16_t>::value, "");
static_assert(std::is_same<aclrtStream, void *>::value && std::is_same<aclrtEvent, void *>::value && std::is_same<aclrtContext, void *>::value, "");
static_assert(sizeof(aclDataType) == 4 && sizeof(aclFormat) == 4 && sizeof(aclrtMemcpyKind) == 4 && sizeof(bool) == 1, "");
static_assert(aclDataType::ACL_FLOAT == 0 && ACL_FLOAT16 == 1 && ACL_BF16 == 27 && ACL_DT_UNDEFINED == -1 && ACL_FLOAT4_E1M2 == 41, "");
static_assert(aclFormat::ACL_FORMAT_ND == 2 && ACL_FRACTAL_Z_3D == 33 && ACL_FORMAT_UNDEFINED == -1 && ACL_FORMAT_FRACTAL_NZ_C0_8 == 54, "");
static_assert(ACL_MEM_MALLOC_HUGE_FIRST == 0 && ACL_MEM_ACCESS_USER_SPACE_READONLY == 0x100000, "");
static_assert(ACL_MEMCPY_HOST_TO_DEVICE == 1 && ACL_MEMCPY_DEVICE_TO_HOST == 2 && ACL_MEMCPY_INTER_DEVICE_TO_DEVICE == 7, "");
static_assert(ACL_SUCCESS == 0 && ACL_ERROR_NONE == 0 && ACL_ERROR_INVALID_PARAM == 100000 && ACL_ERROR_FAILURE == 500001, "");
static_assert(ACL_ERROR_RT_INVALID_HANDLE == 107017 && ACL_RT_SUCCESS == 0 && ACL_ERROR_RT_DRV_INTERNAL_ERROR == 507899, "");
static_assert(sizeof(aclrtPtrAttributes) == 28 && sizeof(aclrtMallocConfig) == 16 && sizeof(aclrtMallocAttribute) == 12, "");
static_assert(ACL_EVENT_SYNC == 1 && ACL_EVENT_CAPTURE_STREAM_PROGRESS == 2 && ACL_EVENT_TIME_LINE == 8 && ACL_EVENT_IPC == 64, "");
static_assert(ACL_STREAM_PERSISTENT == 4 && ACL_STREAM_DEVICE_USE_ONLY == 32 && ACL_STOP_ON_FAILURE == 1, "");
static_assert(ACL_DEV_ATTR_AICORE_CORE_NUM == 101 && ACL_DEV_ATTR_NPU_ARCH == 601 && ACL_HBM_MEM_NORMAL == 5, "");
static_assert(ACL_EVENT_RECORDED_STATUS_COMPLETE == 1 && ACL_EVENT_STATUS_COMPLETE == 0 && ACL_EVENT_WAIT_STATUS_COMPLETE == 0, "");
static_assert(OK == 0 && ACLNN_SUCCESS == 0 && ACLNN_ERR_PARAM_NULLPTR == 161001 && ACLNN_ERR_PARAM_INVALID == 161002, "");
static_assert(ACL_MAJOR_VERSION == 1 && ACL_MINOR_VERSION == 17 && ACL_PATCH_VERSION == 0, "");

// Objects, not macros; the runtime module's codes are macros.
extern const int *const address;
const int *const address = &ACL_ERROR_INVALID_PARAM;
#ifdef ACL_SUCCESS
#error ACL_SUCCESS is a macro
#endif
#if !defined(ACL_ERROR_RT_PARAM_INVALID) || ACL_ERROR_RT_PARAM_INVALID != 107000
#error ACL_ERROR_RT_PARAM_INVALID is no macro
#endif
#ifndef ACLNN_META
#error ACLNN_META is not defined
#endif
ACLNN_API int visible();

SAME(aclCreateIntArray, aclIntArray *(const int64_t *, uint64_t));
SAME(aclCreateFloatArray, aclFloatArray *(const float *, uint64_t));
SAME(aclCreateBoolArray, aclBoolArray *(const bool *, uint64_t));
SAME(aclCreateTensorList, aclTensorList *(const aclTensor *const *, uint64_t));
SAME(aclCreateScalarList, aclScalarList *(const aclScalar *const *, uint64_t));
SAME(aclDestroyTensorList, aclnnStatus(const aclTensorList *));
SAME(aclDestroyBoolArray, aclnnStatus(const aclBoolArray *));
SAME(aclGetTensorListSize, aclnnStatus(const aclTensorList *, uint64_t *));
SAME(aclGetViewShape, aclnnStatus(const aclTensor *, int64_t **, uint64_t *));
SAME(aclGetViewOffset, aclnnStatus(const aclTensor *, int64_t *));
SAME(aclGetFormat, aclnnStatus(const aclTensor *, aclFormat *));
SAME(aclGetDataType, aclnnStatus(const aclTensor *, aclDataType *));
SAME(aclInitTensor, aclnnStatus(aclTensor *, const int64_t *, uint64_t, aclDataType, const int64_t *, int64_t, aclFormat, const int64_t *, uint64_t, void *));
SAME(aclSetRawTensorAddr, aclnnStatus(aclTensor *, void *));
SAME(aclGetRawTensorAddr, aclnnStatus(const aclTensor *, void **));
SAME(aclSetInputTensorAddr, aclnnStatus(aclOpExecutor *, size_t, aclTensor *, void *));
SAME(AclSetDynamicTensorAddr, aclnnStatus(aclOpExecutor *, size_t, size_t, aclTensorList *, void *));
SAME(aclDumpOpTensors, aclnnStatus(const char *, const char *, aclTensor **, size_t, size_t, aclrtStream));
SAME(aclCreateDataBuffer, aclDataBuffer *(void *, size_t));
SAME(aclDestroyDataBuffer, aclError(const aclDataBuffer *));
SAME(aclGetDataBufferAddr, void *(const aclDataBuffer *));
SAME(aclDataTypeSize, size_t(aclDataType));
SAME(aclAppLog, void(aclLogLevel, const char *, const char *, uint32_t, const char *, ...));
SAME(aclGetCannAttributeList, aclError(const aclCannAttr **, size_t *));
SAME(aclGetDeviceCapability, aclError(uint32_t, aclDeviceInfo, int64_t *));

// Sizes that were measured with the public headers.
static_assert(sizeof(aclrtPtrAttributes) == 28 && sizeof(aclrtMallocConfig) == 16 && sizeof(aclrtMallocAttribute) == 12, "");
static_assert(alignof(aclrtMallocAttrValue) == 4 && sizeof(aclrtMallocAttrValue) == 8, "");
static_assert(sizeof(aclrtMemUsageInfo) == 112 && sizeof(aclrtUtilizationInfo) == 24 && sizeof(aclrtStreamConfigHandle) == 32, "");
static_assert(sizeof(aclCANNPackageVersion) == 512 && sizeof(aclCANNPackageVersion().version) == 128, "");
static_assert(ACL_PKG_VERSION_MAX_SIZE == 128 && ACL_PKG_VERSION_PARTS_MAX_SIZE == 64, "");
static_assert(sizeof(dim3) == 12, "");
static_assert(ACL_EVENT_SYNC == 1 && ACL_EVENT_TIME_LINE == 8 && ACL_EVENT_IPC == 64, "");
static_assert(ACL_STREAM_FAST_LAUNCH == 1 && ACL_STREAM_FAST_SYNC == 2 && ACL_STREAM_DEVICE_USE_ONLY == 32, "");
static_assert(ACL_DEBUG == 0 && ACL_ERROR == 3 && ACL_CANN_ATTR_JIT_COMPILE == 2 && ACL_DEVICE_INFO_L2_SIZE == 2, "");
#ifndef ACL_APP_LOG
#error ACL_APP_LOG is not defined
#endif
