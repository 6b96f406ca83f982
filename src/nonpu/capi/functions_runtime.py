"""Table of the runtime's functions beyond the few that every program calls.

Sources: the public header of the runtime (``acl_rt.h``) and its reference.
"""

from __future__ import annotations

from nonpu.capi.declarations import RUNTIME, Enumeration, Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ERROR: Final = "aclError"
INTERNAL: Final = "ACL_ERROR_INTERNAL_ERROR"

ENUMERATIONS: Final = (
    Enumeration(RUNTIME, "aclrtLastErrLevel", {"ACL_RT_THREAD_LEVEL": 0}),
    Enumeration(
        RUNTIME,
        "aclrtDevAttr",
        {
            "ACL_DEV_ATTR_AICPU_CORE_NUM": 1,
            "ACL_DEV_ATTR_AICORE_CORE_NUM": 101,
            "ACL_DEV_ATTR_CUBE_CORE_NUM": 102,
            "ACL_DEV_ATTR_VECTOR_CORE_NUM": 201,
            "ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE": 301,
            "ACL_DEV_ATTR_L2_CACHE_SIZE": 302,
            "ACL_DEV_ATTR_NPU_ARCH": 601,
        },
    ),
    Enumeration(
        RUNTIME,
        "aclrtDeviceStatus",
        {"ACL_RT_DEVICE_STATUS_NORMAL": 0, "ACL_RT_DEVICE_STATUS_ABNORMAL": 1, "ACL_RT_DEVICE_STATUS_END": 0xFFFF},
    ),
    Enumeration(
        RUNTIME,
        "aclrtFloatOverflowMode",
        {"ACL_RT_OVERFLOW_MODE_SATURATION": 0, "ACL_RT_OVERFLOW_MODE_INFNAN": 1, "ACL_RT_OVERFLOW_MODE_UNDEF": 2},
    ),
    Enumeration(
        RUNTIME,
        "aclSysParamOpt",
        {"ACL_OPT_DETERMINISTIC": 0, "ACL_OPT_ENABLE_DEBUG_KERNEL": 1, "ACL_OPT_STRONG_CONSISTENCY": 2},
    ),
    Enumeration(
        RUNTIME,
        "aclrtStreamStatus",
        {"ACL_STREAM_STATUS_COMPLETE": 0, "ACL_STREAM_STATUS_NOT_READY": 1, "ACL_STREAM_STATUS_RESERVED": 0xFFFF},
    ),
    Enumeration(
        RUNTIME,
        "aclrtEventStatus",
        {"ACL_EVENT_STATUS_COMPLETE": 0, "ACL_EVENT_STATUS_NOT_READY": 1, "ACL_EVENT_STATUS_RESERVED": 2},
    ),
    Enumeration(
        RUNTIME,
        "aclrtEventRecordedStatus",
        {"ACL_EVENT_RECORDED_STATUS_NOT_READY": 0, "ACL_EVENT_RECORDED_STATUS_COMPLETE": 1},
    ),
    Enumeration(
        RUNTIME,
        "aclrtEventWaitStatus",
        {
            "ACL_EVENT_WAIT_STATUS_COMPLETE": 0,
            "ACL_EVENT_WAIT_STATUS_NOT_READY": 1,
            "ACL_EVENT_WAIT_STATUS_RESERVED": 0xFFFF,
        },
    ),
    Enumeration(RUNTIME, "aclrtCallbackBlockType", {"ACL_CALLBACK_NO_BLOCK": 0, "ACL_CALLBACK_BLOCK": 1}),
    Enumeration(
        RUNTIME,
        "aclrtMemAttr",
        {
            "ACL_DDR_MEM": 0,
            "ACL_HBM_MEM": 1,
            "ACL_DDR_MEM_HUGE": 2,
            "ACL_DDR_MEM_NORMAL": 3,
            "ACL_HBM_MEM_HUGE": 4,
            "ACL_HBM_MEM_NORMAL": 5,
        },
    ),
)

# What functions below take besides enumerations and structures, as the header has it.
DEFINITIONS: Final = ("typedef void (*aclrtCallback)(void *userData);\ntypedef void (*aclrtHostFunc)(void *args);",)


def _row(name: str, parameters: str, text: str, *, in_python: bool = False) -> Function:
    """Return the row of a function with its parameters as C writes them."""
    pairs = []
    for parameter in filter(None, parameters.split(", ")):
        kind, star, word = parameter.rpartition("*")
        if not star:
            kind, _, word = parameter.rpartition(" ")
        pairs.append((kind + star, word.strip()))
    return Function(RUNTIME, ERROR, name, *pairs, text=text, python_failure=INTERNAL if in_python else "")


PROCESS: Final = (
    _row(
        "aclFinalizeReference",
        "uint64_t *refCount",
        "Undo one aclInit; refCount, which may be null, gets the number of those that are left.",
        in_python=True,
    ),
    _row("aclrtPeekAtLastError", "aclrtLastErrLevel level", "Last runtime-level code of this thread."),
    _row("aclrtGetLastError", "aclrtLastErrLevel level", "Last runtime-level code of this thread, which it clears."),
    _row(
        "aclrtGetVersion", "int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion", "Interface version."
    ),
    _row(
        "aclsysGetVersionStr",
        "char *pkgName, char *versionStr",
        "Version of a package, into ACL_PKG_VERSION_MAX_SIZE bytes.",
        in_python=True,
    ),
    _row(
        "aclsysGetVersionNum",
        "char *pkgName, int32_t *versionNum",
        "Version of a package as a number: major * 10000000 + minor * 100000 + patch * 1000.",
        in_python=True,
    ),
)

DEVICE: Final = (
    _row(
        "aclrtSynchronizeDeviceWithTimeout",
        "int32_t timeout",
        "Wait for the work of every stream, for so many milliseconds; -1 is no limit.",
    ),
    _row(
        "aclrtCreateContext",
        "aclrtContext *context, int32_t deviceId",
        "Make a context with a default stream of its own, current for this thread.",
    ),
    _row(
        "aclrtDestroyContext",
        "aclrtContext context",
        "Wait for the work of a context's streams, then release them and it; not for a default context.",
    ),
    _row("aclrtSetCurrentContext", "aclrtContext context", "Make a context current for this thread."),
    _row("aclrtGetCurrentContext", "aclrtContext *context", "The current context of this thread."),
    _row("aclrtCtxGetCurrentDefaultStream", "aclrtStream *stream", "The default stream of the current context."),
    _row(
        "aclrtGetDeviceInfo",
        "uint32_t deviceId, aclrtDevAttr attr, int64_t *value",
        "A fact about the device: cores, memory and cache are this machine's.",
        in_python=True,
    ),
    _row("aclrtQueryDeviceStatus", "int32_t deviceId, aclrtDeviceStatus *deviceStatus", "Whether the device works."),
    _row(
        "aclrtDeviceCanAccessPeer",
        "int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId",
        "Whether a device reaches another's memory: 0, for there is one device.",
    ),
    _row("aclrtDeviceEnablePeerAccess", "int32_t peerDeviceId, uint32_t flags", "Refused: there is one device."),
    _row("aclrtDeviceDisablePeerAccess", "int32_t peerDeviceId", "Refused: there is one device."),
    _row("aclrtSetDeviceSatMode", "aclrtFloatOverflowMode mode", "Select infinities and NaN, the only mode there is."),
    _row("aclrtGetDeviceSatMode", "aclrtFloatOverflowMode *mode", "What overflow gives: ACL_RT_OVERFLOW_MODE_INFNAN."),
    _row("aclrtSetSysParamOpt", "aclSysParamOpt opt, int64_t value", "Set an option of the process."),
    _row("aclrtGetSysParamOpt", "aclSysParamOpt opt, int64_t *value", "An option of the process that was set."),
    _row("aclrtCtxSetSysParamOpt", "aclSysParamOpt opt, int64_t value", "Set an option of the current context."),
    _row("aclrtCtxGetSysParamOpt", "aclSysParamOpt opt, int64_t *value", "An option of the context that was set."),
)

STREAMS: Final = (
    _row(
        "aclrtCreateStreamWithConfig",
        "aclrtStream *stream, uint32_t priority, uint32_t flag",
        "Make a queue of work; priority and flags are kept and have no effect.",
    ),
    _row("aclrtDestroyStreamForce", "aclrtStream stream", "Release a stream at once; its queued work is discarded."),
    _row(
        "aclrtSynchronizeStreamWithTimeout",
        "aclrtStream stream, int32_t timeout",
        "Wait for the work queued so far, for so many milliseconds; -1 is no limit.",
    ),
    _row("aclrtStreamQuery", "aclrtStream stream, aclrtStreamStatus *status", "Whether everything queued has run."),
    _row("aclrtStreamGetId", "aclrtStream stream, int32_t *streamId", "Number of a stream."),
    _row("aclrtStreamGetPriority", "aclrtStream stream, uint32_t *priority", "Priority that a stream was made with."),
    _row("aclrtStreamGetFlags", "aclrtStream stream, uint32_t *flags", "Flags that a stream was made with."),
    _row("aclrtGetStreamAvailableNum", "uint32_t *streamCount", "How many more streams may be made."),
    _row("aclrtStreamAbort", "aclrtStream stream", "Discard what is queued, and wait for the piece of work under way."),
    _row(
        "aclrtSetStreamFailureMode",
        "aclrtStream stream, uint64_t mode",
        "Whether queued work after a failure is run or discarded; not for a default stream.",
    ),
)

EVENTS: Final = (
    _row("aclrtCreateEvent", "aclrtEvent *event", "Make an event."),
    _row("aclrtCreateEventWithFlag", "aclrtEvent *event, uint32_t flag", "Make an event with flags ACL_EVENT_*."),
    _row("aclrtCreateEventExWithFlag", "aclrtEvent *event, uint32_t flag", "Make an event that cannot be reset."),
    _row("aclrtDestroyEvent", "aclrtEvent event", "Release an event; queued waits for it stay."),
    _row("aclrtRecordEvent", "aclrtEvent event, aclrtStream stream", "Let an event stand for the work queued so far."),
    _row("aclrtResetEvent", "aclrtEvent event, aclrtStream stream", "Make an event one that was never recorded."),
    _row("aclrtQueryEvent", "aclrtEvent event, aclrtEventStatus *status", "Whether the recorded work is done."),
    _row(
        "aclrtQueryEventStatus",
        "aclrtEvent event, aclrtEventRecordedStatus *status",
        "Whether the recorded work is done.",
    ),
    _row(
        "aclrtQueryEventWaitStatus",
        "aclrtEvent event, aclrtEventWaitStatus *status",
        "Whether every stream that waits for the event has gone on.",
    ),
    _row("aclrtSynchronizeEvent", "aclrtEvent event", "Wait until the recorded work is done."),
    _row(
        "aclrtSynchronizeEventWithTimeout",
        "aclrtEvent event, int32_t timeout",
        "Wait until the recorded work is done, for so many milliseconds; -1 is no limit.",
    ),
    _row(
        "aclrtEventElapsedTime",
        "float *ms, aclrtEvent startEvent, aclrtEvent endEvent",
        "Milliseconds between two events that are complete.",
    ),
    _row("aclrtEventGetTimestamp", "aclrtEvent event, uint64_t *timestamp", "Microseconds when an event completed."),
    _row("aclrtStreamWaitEvent", "aclrtStream stream, aclrtEvent event", "Hold later work until an event completes."),
)

MEMORY: Final = (
    _row("aclrtMallocAlign32", "void **devPtr, size_t size, aclrtMemMallocPolicy policy", "Allocate device memory."),
    _row("aclrtMallocCached", "void **devPtr, size_t size, aclrtMemMallocPolicy policy", "Allocate device memory."),
    _row(
        "aclrtMallocWithCfg",
        "void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg",
        "Allocate device memory; cfg may be null.",
    ),
    _row("aclrtFreeWithDevSync", "void *devPtr", "Wait for the work of every stream, then free device memory."),
    _row(
        "aclrtMemcpyAsync",
        "void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, aclrtStream stream",
        "Queue a copy; with memory that the runtime did not allocate it returns when the copy is done.",
    ),
    _row(
        "aclrtMemsetAsync",
        "void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream",
        "Queue the filling of count bytes.",
    ),
    _row(
        "aclrtMemcpy2d",
        "void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, aclrtMemcpyKind kind",
        "Copy height rows of width bytes at once; does not wait for streams.",
    ),
    _row(
        "aclrtMemcpy2dAsync",
        "void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, aclrtMemcpyKind kind, "
        "aclrtStream stream",
        "Queue a copy of height rows of width bytes.",
    ),
    _row(
        "aclrtGetMemInfo",
        "aclrtMemAttr attr, size_t *free, size_t *total",
        "Memory of this machine that is available, and all of it.",
    ),
    _row(
        "aclrtPointerGetAttributes", "const void *ptr, aclrtPtrAttributes *attributes", "Whose memory an address is in."
    ),
)

CALLBACKS: Final = (
    _row(
        "aclrtSubscribeReport",
        "uint64_t threadId, aclrtStream stream",
        "Let a thread, known by pthread_self(), run the callbacks of a stream.",
    ),
    _row("aclrtUnSubscribeReport", "uint64_t threadId, aclrtStream stream", "End that."),
    _row(
        "aclrtProcessReport",
        "int32_t timeout",
        "Run the callbacks that are due for this thread; waits for one, -1 without limit.",
    ),
    _row(
        "aclrtLaunchCallback",
        "aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream",
        "Queue a function that the subscribed thread runs.",
    ),
    _row(
        "aclrtLaunchHostFunc",
        "aclrtStream stream, aclrtHostFunc fn, void *args",
        "Queue a function that a thread of the library runs; later work waits for it.",
    ),
)

FUNCTIONS: Final = (*PROCESS, *DEVICE, *STREAMS, *EVENTS, *MEMORY, *CALLBACKS)
