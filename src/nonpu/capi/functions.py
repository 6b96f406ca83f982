"""Table of the C functions that the front library exports beside the operators, and of the enumerations they use.

The headers, the forwards to Python and the test of the exported symbols are made from this table.

Sources: the public headers of the runtime (``acl_rt.h``, ``acl_base_rt.h``) and of the meta interface (``acl_meta.h``).
"""

from __future__ import annotations

from nonpu.capi import functions_meta, functions_names, functions_runtime
from nonpu.capi.declarations import META, META_BASE, RUNTIME, RUNTIME_BASE, Enumeration, Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ENUMERATIONS: Final = (
    Enumeration(RUNTIME, "aclrtRunMode", {"ACL_DEVICE": 0, "ACL_HOST": 1}),
    Enumeration(
        RUNTIME,
        "aclrtMemMallocPolicy",
        {
            "ACL_MEM_MALLOC_HUGE_FIRST": 0,
            "ACL_MEM_MALLOC_HUGE_ONLY": 1,
            "ACL_MEM_MALLOC_NORMAL_ONLY": 2,
            "ACL_MEM_MALLOC_HUGE_FIRST_P2P": 3,
            "ACL_MEM_MALLOC_HUGE_ONLY_P2P": 4,
            "ACL_MEM_MALLOC_NORMAL_ONLY_P2P": 5,
            "ACL_MEM_MALLOC_HUGE1G_ONLY": 6,
            "ACL_MEM_MALLOC_HUGE1G_ONLY_P2P": 7,
            "ACL_MEM_TYPE_LOW_BAND_WIDTH": 0x0100,
            "ACL_MEM_TYPE_HIGH_BAND_WIDTH": 0x1000,
            "ACL_MEM_ACCESS_USER_SPACE_READONLY": 0x100000,
        },
    ),
    Enumeration(
        RUNTIME,
        "aclrtMemcpyKind",
        {
            "ACL_MEMCPY_HOST_TO_HOST": 0,
            "ACL_MEMCPY_HOST_TO_DEVICE": 1,
            "ACL_MEMCPY_DEVICE_TO_HOST": 2,
            "ACL_MEMCPY_DEVICE_TO_DEVICE": 3,
            "ACL_MEMCPY_DEFAULT": 4,
            "ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE": 5,
            "ACL_MEMCPY_INNER_DEVICE_TO_DEVICE": 6,
            "ACL_MEMCPY_INTER_DEVICE_TO_DEVICE": 7,
        },
    ),
    *functions_meta.ENUMERATIONS,
    *functions_runtime.ENUMERATIONS,
)

FUNCTIONS: Final = (
    # Process.
    Function(
        RUNTIME,
        "aclError",
        "aclInit",
        ("const char *", "configPath"),
        text="Start using the library; configPath names a JSON file, or is null or empty.",
        python_failure="ACL_ERROR_INTERNAL_ERROR",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclFinalize",
        text="Undo every aclInit.",
        python_failure="ACL_ERROR_INTERNAL_ERROR",
    ),
    Function(
        RUNTIME,
        "const char *",
        "aclGetRecentErrMsg",
        text="Texts of this thread's failures since the last call, newest on top; null when there is none.",
    ),
    Function(
        RUNTIME_BASE,
        "const char *",
        "aclrtGetSocName",
        text="Name of the emulated processor, for example Ascend910B1; null on failure.",
        python_failure="NULL",
    ),
    # Device.
    Function(
        RUNTIME,
        "aclError",
        "aclrtSetDevice",
        ("int32_t", "deviceId"),
        text="Make the device current for this thread; device 0 exists.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtResetDevice",
        ("int32_t", "deviceId"),
        text="Undo one aclrtSetDevice; the last one waits for the device's work and releases its streams.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtResetDeviceForce",
        ("int32_t", "deviceId"),
        text="Undo every aclrtSetDevice at once.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtGetDevice",
        ("int32_t *", "deviceId"),
        text="Device of this thread.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtGetDeviceCount",
        ("uint32_t *", "count"),
        text="Number of devices: 1.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtGetRunMode",
        ("aclrtRunMode *", "runMode"),
        text="Where programs run: ACL_HOST.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtSynchronizeDevice",
        text="Wait for the work of every stream.",
    ),
    # Streams.
    Function(
        RUNTIME,
        "aclError",
        "aclrtCreateStream",
        ("aclrtStream *", "stream"),
        text="Make a queue of work in the current context.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtDestroyStream",
        ("aclrtStream", "stream"),
        text="Wait for the stream's work, then release it.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtSynchronizeStream",
        ("aclrtStream", "stream"),
        text="Wait for the work queued so far; null means the default stream.",
    ),
    # Memory.
    Function(
        RUNTIME,
        "aclError",
        "aclrtMalloc",
        ("void **", "devPtr"),
        ("size_t", "size"),
        ("aclrtMemMallocPolicy", "policy"),
        text="Allocate device memory.",
    ),
    Function(
        RUNTIME, "aclError", "aclrtFree", ("void *", "devPtr"), text="Free device memory; does not wait for streams."
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtMallocHost",
        ("void **", "hostPtr"),
        ("size_t", "size"),
        text="Allocate host memory.",
    ),
    Function(RUNTIME, "aclError", "aclrtFreeHost", ("void *", "hostPtr"), text="Free host memory."),
    Function(
        RUNTIME,
        "aclError",
        "aclrtMemcpy",
        ("void *", "dst"),
        ("size_t", "destMax"),
        ("const void *", "src"),
        ("size_t", "count"),
        ("aclrtMemcpyKind", "kind"),
        text="Copy count bytes at once; does not wait for streams.",
    ),
    Function(
        RUNTIME,
        "aclError",
        "aclrtMemset",
        ("void *", "devPtr"),
        ("size_t", "maxCount"),
        ("int32_t", "value"),
        ("size_t", "count"),
        text="Fill count bytes at once.",
    ),
    # Numbers.
    Function(
        RUNTIME_BASE,
        "float",
        "aclFloat16ToFloat",
        ("aclFloat16", "value"),
        text="Widen; exponent 31 is an ordinary one, so infinities give 65536 and NaN 98304.",
    ),
    Function(
        RUNTIME_BASE,
        "aclFloat16",
        "aclFloatToFloat16",
        ("float", "value"),
        text="Round to nearest even; too large numbers, infinities and NaN give 65504.",
    ),
    # Objects of the two-phase interface.
    Function(
        META,
        "aclTensor *",
        "aclCreateTensor",
        *functions_meta.ATTRIBUTES,
        text="Describe a view of device memory; strides and offset count elements.",
    ),
    Function(META, "aclnnStatus", "aclDestroyTensor", ("const aclTensor *", "tensor"), text="Release a description."),
    Function(
        META,
        "aclScalar *",
        "aclCreateScalar",
        ("void *", "value"),
        ("aclDataType", "dataType"),
        text="Copy one value of host memory.",
    ),
    Function(META, "aclnnStatus", "aclDestroyScalar", ("const aclScalar *", "scalar"), text="Release a scalar."),
    Function(
        META,
        "aclnnStatus",
        "aclSetAclOpExecutorRepeatable",
        ("aclOpExecutor *", "executor"),
        text="Let phase two run this executor any number of times.",
    ),
    Function(
        META,
        "aclnnStatus",
        "aclDestroyAclOpExecutor",
        ("aclOpExecutor *", "executor"),
        text="Release a repeatable executor, or one that never ran.",
    ),
    Function(
        META_BASE,
        "aclnnStatus",
        "aclnnInit",
        ("const char *", "configPath"),
        text="Start using the operators; lighter than aclInit, and enough for them.",
        python_failure="ACLNN_ERR_INNER",
    ),
    Function(META_BASE, "aclnnStatus", "aclnnFinalize", text="Undo aclnnInit.", python_failure="ACLNN_ERR_INNER"),
    *functions_meta.FUNCTIONS,
    # Contexts, streams, events, memory and callbacks.
    *functions_runtime.FUNCTIONS,
)
STRUCTURES: Final = functions_meta.STRUCTURES
# What is exported without working, unless a table above has it.
NAMES: Final = functions_names.missing(function.name for function in FUNCTIONS)

__all__ = ["ENUMERATIONS", "FUNCTIONS", "NAMES", "STRUCTURES", "Enumeration", "Function"]
