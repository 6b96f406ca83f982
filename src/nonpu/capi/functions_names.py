"""Names of the runtime's headers that single-operator programs do not need: exported, so that a larger program links.

Each returns ACL_ERROR_API_NOT_SUPPORT, or null where the real function's result is a pointer, and records a text.
Their parameter lists are not among the facts that this stand-in is made from, so the headers declare them for any
arguments.

Source: the public headers of the runtime, and the dynamic symbols of the meta library.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final


class Name:
    """One name that is exported without working.

    Attributes
    ----------
    name, group : str
        The function, and what it is for.
    result : str
        C type of the result.
    header : str
        Header that declares it; empty for what only clients with ``dlsym`` look up.
    """

    __slots__ = ("group", "header", "name", "result")

    def __init__(self, group: str, name: str) -> None:
        self.group = group
        self.name = name
        self.result = POINTERS.get(name, "aclError")
        self.header = "" if group == META_SYMBOLS else "acl/acl_rt.h"


META_SYMBOLS: Final = "meta library, undocumented"
POINTERS: Final = {
    "aclrtAllocatorCreateDesc": "void *",
    "aclrtCreateBinary": "void *",
    "aclrtCreateGroupInfo": "void *",
    "aclrtCreateStreamConfigHandle": "aclrtStreamConfigHandle *",
    "PTAFindExecCache": "void *",
    "PTAGetExecCache": "void *",
}
# Blank-separated, by what they are for.
_GROUPS: Final = {
    "graph and capture": """
        aclmdlFinalizeDump aclmdlInitDump aclmdlRIAbort aclmdlRIAddCondTask aclmdlRIBindStream
        aclmdlRIBuildBegin aclmdlRIBuildEnd aclmdlRICaptureBegin aclmdlRICaptureEnd aclmdlRICaptureGetInfo
        aclmdlRICaptureTaskGrpBegin aclmdlRICaptureTaskGrpEnd aclmdlRICaptureTaskUpdateBegin
        aclmdlRICaptureTaskUpdateEnd aclmdlRICaptureThreadExchangeMode aclmdlRICaptureToModelRIBegin
        aclmdlRICondHandleCreate aclmdlRICondHandleGetCondPtr aclmdlRIDebugJsonPrint aclmdlRIDebugPrint
        aclmdlRIDestroy aclmdlRIDestroyRegisterCallback aclmdlRIDestroyUnregisterCallback aclmdlRIEndTask
        aclmdlRIExecute aclmdlRIExecuteAsync aclmdlRIGetId aclmdlRIGetName aclmdlRIGetStreams
        aclmdlRIGetTasksByStream aclmdlRIKernelTaskGetAttribute aclmdlRISetName aclmdlRITaskDisable
        aclmdlRITaskGetParams aclmdlRITaskGetSeqId aclmdlRITaskGetType aclmdlRITaskSetParams
        aclmdlRIUnbindStream aclmdlRIUpdate aclmdlSetDump
    """,
    "IPC, notify, count-notify": """
        aclrtCntNotifyCreate aclrtCntNotifyDestroy aclrtCntNotifyGetId aclrtCntNotifyRecord aclrtCntNotifyReset
        aclrtCntNotifyWaitWithTimeout aclrtCreateNotify aclrtDestroyNotify aclrtGetNotifyId
        aclrtIpcGetEventHandle aclrtIpcMemClose aclrtIpcMemGetExportKey aclrtIpcMemImportByKey
        aclrtIpcMemImportPidInterServer aclrtIpcMemSetAttr aclrtIpcMemSetImportPid aclrtIpcOpenEventHandle
        aclrtNotifyBatchReset aclrtNotifyGetExportKey aclrtNotifyImportByKey aclrtNotifySetImportPid
        aclrtNotifySetImportPidInterServer aclrtRecordNotify aclrtWaitAndResetNotify
    """,
    "kernel binaries, arguments, launch": """
        aclrtBinaryGetDevAddress aclrtBinaryGetFunction aclrtBinaryGetFunctionByEntry aclrtBinaryGetGlobal
        aclrtBinaryLoad aclrtBinaryLoadFromData aclrtBinaryLoadFromFile aclrtBinarySetExceptionCallback
        aclrtBinaryUnLoad aclrtCreateBinary aclrtDestroyBinary aclrtFunctionGetAvailDynUbufPerBlock
        aclrtFunctionGetBinary aclrtFunctionGetParamCount aclrtFunctionGetParamInfo aclrtGetFuncBySymbol
        aclrtGetFuncHandleFromExceptionInfo aclrtGetFunctionAddr aclrtGetFunctionAttribute aclrtGetFunctionName
        aclrtGetFunctionSize aclrtGetSymbolAddress aclrtGetSymbolSize aclrtKernelArgsAppend
        aclrtKernelArgsAppendPlaceHolder aclrtKernelArgsFinalize aclrtKernelArgsGetHandleMemSize
        aclrtKernelArgsGetMemSize aclrtKernelArgsGetPlaceHolderBuffer aclrtKernelArgsInit
        aclrtKernelArgsInitByUserMem aclrtKernelArgsParaUpdate aclrtLaunchKernel aclrtLaunchKernelV2
        aclrtLaunchKernelWithArgsArray aclrtLaunchKernelWithConfig aclrtLaunchKernelWithHostArgs
        aclrtLaunchSIMTKernelWithArgsArray aclrtLaunchSIMTKernelWithHostArgs aclrtMemcpyFromSymbol
        aclrtMemcpyFromSymbolAsync aclrtMemcpyToSymbol aclrtMemcpyToSymbolAsync aclrtRegisterCpuFunc
    """,
    "virtual, managed and shared memory": """
        aclrtCheckMemType aclrtFreeHostWithDevSync aclrtFreePhysical aclrtGetMemUsageInfo
        aclrtHostGetDevicePointer aclrtHostMemMapCapabilities aclrtHostRegister aclrtHostRegisterV2
        aclrtHostUnregister aclrtMallocForTaskScheduler aclrtMallocHostWithCfg aclrtMallocPhysical aclrtMapMem
        aclrtMemAllocManaged aclrtMemExportToShareableHandle aclrtMemExportToShareableHandleV2 aclrtMemFlush
        aclrtMemGetAccess aclrtMemGetAddressRange aclrtMemGetAllocationGranularity
        aclrtMemGetAllocationPropertiesFromHandle aclrtMemImportFromShareableHandle
        aclrtMemImportFromShareableHandleV2 aclrtMemInvalidate aclrtMemManagedAdvise aclrtMemManagedGetAttr
        aclrtMemManagedGetAttrs aclrtMemManagedPrefetchAsync aclrtMemManagedPrefetchBatchAsync
        aclrtMemMapNoAccess aclrtMemMapSelectedLink aclrtMemMapSetLink aclrtMemP2PMap
        aclrtMemRetainAllocationHandle aclrtMemSetAccess aclrtMemSetPidToShareableHandle
        aclrtMemSetPidToShareableHandleV2 aclrtMemUceRepair aclrtReleaseMemAddress aclrtReserveMemAddress
        aclrtReserveMemAddressNoUCMemory aclrtUnmapMem
    """,
    "allocator registration": """
        aclrtAllocatorCreateDesc aclrtAllocatorDestroyDesc aclrtAllocatorGetByStream aclrtAllocatorRegister
        aclrtAllocatorSetAllocAdviseFuncToDesc aclrtAllocatorSetAllocFuncToDesc aclrtAllocatorSetFreeFuncToDesc
        aclrtAllocatorSetGetAddrFromBlockFuncToDesc aclrtAllocatorSetObjToDesc aclrtAllocatorUnregister
    """,
    "buffers and queues": """
        aclrtAllocBuf aclrtAppendBufChain aclrtCopyBufRef aclrtFreeBuf aclrtGetBufChainNum aclrtGetBufData
        aclrtGetBufDataLen aclrtGetBufFromChain aclrtGetBufUserData aclrtSetBufDataLen aclrtSetBufUserData
    """,
    "groups, labels, switches": """
        aclrtActiveStream aclrtCreateGroupInfo aclrtCreateLabel aclrtCreateLabelList aclrtDestroyGroupInfo
        aclrtDestroyLabel aclrtDestroyLabelList aclrtGetAllGroupInfo aclrtGetGroupCount aclrtGetGroupInfoDetail
        aclrtSetGroup aclrtSetLabel aclrtSwitchLabelByIndex aclrtSwitchStream
    """,
    "cache maintenance": """
        aclrtCmoAsync aclrtCmoAsyncWithBarrier aclrtCmoAsyncWithDesc aclrtCmoGetDescSize aclrtCmoSetDesc
        aclrtCmoWaitBarrier
    """,
    "exception info, overflow, snapshot": """
        aclrtCtxGetFloatOverflowAddr aclrtExceptionInfoCallbackRegister aclrtExceptionInfoCallbackUnregister
        aclrtGetArgsFromExceptionInfo aclrtGetDeviceIdFromExceptionInfo aclrtGetErrorCodeFromExceptionInfo
        aclrtGetErrorVerbose aclrtGetFloatOverflowStatus aclrtGetMemUceInfo aclrtGetOverflowStatus
        aclrtGetStreamIdFromExceptionInfo aclrtGetStreamOverflowSwitch aclrtGetTaskIdFromExceptionInfo
        aclrtGetThreadIdFromExceptionInfo aclrtNpuClearFloatOverFlowStatus aclrtNpuGetFloatOverFlowStatus
        aclrtRepairError aclrtResetFloatOverflowStatus aclrtResetOverflowStatus aclrtSetExceptionInfoCallback
        aclrtSetStreamOverflowSwitch aclrtSnapShotCallbackRegister aclrtSnapShotCallbackUnregister
        aclrtSnapShotProcessBackup aclrtSnapShotProcessLock aclrtSnapShotProcessRestore
        aclrtSnapShotProcessUnlock
    """,
    "device identity, limits and peers": """
        aclrtCheckArchCompatibility aclrtDeviceDisablePeerAccess aclrtDeviceEnablePeerAccess
        aclrtDeviceGetBareTgid aclrtDeviceGetByPCIBusId aclrtDeviceGetHostAtomicCapabilities aclrtDeviceGetLimit
        aclrtDeviceGetP2PAtomicCapabilities aclrtDeviceGetPCIBusId aclrtDeviceGetStreamPriorityRange
        aclrtDeviceGetUuid aclrtDeviceL2CacheFlush aclrtDevicePeerAccessStatus aclrtDeviceSetLimit
        aclrtDeviceTaskAbort aclrtGetDeviceCapability aclrtGetDeviceResLimit aclrtGetDeviceUtilizationRate
        aclrtGetDevicesTopo aclrtGetLogicDevIdByPhyDevId aclrtGetLogicDevIdByUserDevId
        aclrtGetPhyDevIdByLogicDevId aclrtGetPhyDevIdByUserDevId aclrtGetPrimaryCtxState
        aclrtGetUserDevIdByLogicDevId aclrtGetUserDevIdByPhyDevId aclrtRegDeviceStateCallback
        aclrtResetDeviceResLimit aclrtSetDeviceResLimit aclrtSetDeviceTaskAbortCallback aclrtSetTsDevice
    """,
    "resource limits, stream attributes, time-outs": """
        aclrtCacheLastTaskExtendInfo aclrtCacheLastTaskOpInfo aclrtCreateStreamConfigHandle aclrtCreateStreamV2
        aclrtDestroyStreamConfigHandle aclrtGetEventAvailNum aclrtGetEventId aclrtGetHardwareSyncAddr
        aclrtGetMemcpyDescSize aclrtGetOpExecuteTimeout aclrtGetOpTimeOutInterval aclrtGetResInCurrentThread
        aclrtGetStreamAttribute aclrtGetStreamResLimit aclrtGetThreadLastTaskId aclrtMemcpy2dAsync
        aclrtMemcpyAsyncWithCondition aclrtMemcpyAsyncWithDesc aclrtMemcpyAsyncWithOffset aclrtMemcpyBatch
        aclrtMemcpyBatchAsync aclrtMemcpyBatchAsyncV2 aclrtMemcpyBatchV2 aclrtMemsetD32 aclrtMemsetD32Async
        aclrtPersistentTaskClean aclrtProcessHostFunc aclrtProfTrace aclrtRandomNumAsync
        aclrtRecordEventWithFlag aclrtReduceAsync aclrtRegStreamStateCallback aclrtResetStreamResLimit
        aclrtSetMemcpyDesc aclrtSetOpExecuteTimeOut aclrtSetOpExecuteTimeOutV2 aclrtSetOpExecuteTimeOutWithMs
        aclrtSetOpWaitTimeout aclrtSetStreamAttribute aclrtSetStreamConfigOpt aclrtSetStreamResLimit
        aclrtStreamStop aclrtStreamWaitEventWithFlag aclrtStreamWaitEventWithTimeout aclrtSubscribeHostFunc
        aclrtTaskUpdateAsync aclrtUnSubscribeHostFunc aclrtUnuseStreamResInCurrentThread
        aclrtUseStreamResInCurrentThread aclrtValueWait aclrtValueWrite
    """,
    "callbacks of initialisation, version": """
        aclFinalizeCallbackRegister aclFinalizeCallbackUnRegister aclInitCallbackRegister
        aclInitCallbackUnRegister aclsysGetCANNVersion
    """,
    META_SYMBOLS: """
        InitHugeMemThreadLocal PTAFindExecCache PTAGetExecCache ReleaseHugeMem UnInitHugeMemThreadLocal
        aclnnReselectStaticKernel aclnnReselectStaticKernelWithPath
    """,
}


def missing(working: Iterable[str]) -> tuple[Name, ...]:
    """Return the names that are none of the `working` functions."""
    known = frozenset(working)
    return tuple(Name(group, name) for group, names in _GROUPS.items() for name in names.split() if name not in known)
