"""Tables of the meta interface's functions beyond tensors and scalars, of data buffers, logging and attributes.

Sources: the reference of the meta interface (``acl_meta.h``) and of ``acl_base_rt.h``; the sizes of the structures were
measured with the public headers.
"""

from __future__ import annotations

from nonpu.capi.declarations import META, RUNTIME, RUNTIME_BASE, Enumeration, Function, Structure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

STATUS: Final = "aclnnStatus"
TENSOR: Final = ("aclTensor *", "tensor")
CONST_TENSOR: Final = ("const aclTensor *", "tensor")
# The parameters of aclCreateTensor, which aclInitTensor takes as well.
ATTRIBUTES: Final = (
    ("const int64_t *", "viewDims"),
    ("uint64_t", "viewDimsNum"),
    ("aclDataType", "dataType"),
    ("const int64_t *", "stride"),
    ("int64_t", "offset"),
    ("aclFormat", "format"),
    ("const int64_t *", "storageDims"),
    ("uint64_t", "storageDimsNum"),
    ("void *", "tensorData"),
)
# What arrays and lists are made of, by the word in their name.
ARRAYS: Final = {"Int": "const int64_t *", "Float": "const float *", "Bool": "const bool *"}
LISTS: Final = {"Tensor": "const aclTensor *const *", "Scalar": "const aclScalar *const *"}

ENUMERATIONS: Final = (
    Enumeration(
        RUNTIME_BASE,
        "aclCannAttr",
        {
            "ACL_CANN_ATTR_UNDEFINED": -1,
            "ACL_CANN_ATTR_INF_NAN": 0,
            "ACL_CANN_ATTR_BF16": 1,
            "ACL_CANN_ATTR_JIT_COMPILE": 2,
        },
    ),
    Enumeration(
        RUNTIME_BASE,
        "aclDeviceInfo",
        {
            "ACL_DEVICE_INFO_UNDEFINED": -1,
            "ACL_DEVICE_INFO_AI_CORE_NUM": 0,
            "ACL_DEVICE_INFO_VECTOR_CORE_NUM": 1,
            "ACL_DEVICE_INFO_L2_SIZE": 2,
        },
    ),
    Enumeration(RUNTIME_BASE, "aclLogLevel", {"ACL_DEBUG": 0, "ACL_INFO": 1, "ACL_WARNING": 2, "ACL_ERROR": 3}),
    Enumeration(
        RUNTIME,
        "aclrtMemLocationType",
        {"ACL_MEM_LOCATION_TYPE_HOST": 0, "ACL_MEM_LOCATION_TYPE_DEVICE": 1, "ACL_MEM_LOCATION_TYPE_UNREGISTERED": 2},
    ),
    Enumeration(
        RUNTIME,
        "aclrtMallocAttrType",
        {"ACL_RT_MEM_ATTR_RSV": 0, "ACL_RT_MEM_ATTR_MODULE_ID": 1, "ACL_RT_MEM_ATTR_DEVICE_ID": 2},
    ),
)

STRUCTURES: Final = (
    Structure(RUNTIME, "aclrtMemLocation", ("uint32_t", "id"), ("aclrtMemLocationType", "type")),
    Structure(
        RUNTIME,
        "aclrtPtrAttributes",
        ("aclrtMemLocation", "location"),
        ("uint32_t", "pageSize"),
        ("uint32_t", "rsv[4]"),
    ),
    Structure(
        RUNTIME,
        "aclrtMallocAttrValue",
        ("uint16_t", "moduleId"),
        ("uint32_t", "deviceId"),
        ("uint8_t", "rsv[8]"),
        is_union=True,
    ),
    Structure(RUNTIME, "aclrtMallocAttribute", ("aclrtMallocAttrType", "attr"), ("aclrtMallocAttrValue", "value")),
    Structure(RUNTIME, "aclrtMallocConfig", ("aclrtMallocAttribute *", "attrs"), ("size_t", "numAttrs")),
    Structure(
        RUNTIME,
        "aclrtMemUsageInfo",
        ("char", "name[32]"),
        ("uint64_t", "curMemSize"),
        ("uint64_t", "memPeakSize"),
        ("size_t", "reserved[8]"),
    ),
    Structure(
        RUNTIME,
        "aclrtUtilizationInfo",
        ("int32_t", "cubeUtilization"),
        ("int32_t", "vectorUtilization"),
        ("int32_t", "aicpuUtilization"),
        ("int32_t", "memoryUtilization"),
        ("void *", "utilizationExtend"),
    ),
    Structure(
        RUNTIME,
        "aclrtStreamConfigHandle",
        ("void *", "workptr"),
        ("size_t", "workSize"),
        ("size_t", "flag"),
        ("uint32_t", "priority"),
    ),
    Structure(
        RUNTIME,
        "aclCANNPackageVersion",
        ("char", "version[ACL_PKG_VERSION_MAX_SIZE]"),
        ("char", "majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]"),
        ("char", "minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]"),
        ("char", "releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]"),
        ("char", "patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE]"),
        ("char", "reserved[ACL_PKG_VERSION_MAX_SIZE]"),
    ),
)


def _collections() -> list[Function]:
    """Return create, destroy and size of every kind of array and list."""
    rows = []
    for word, values in {**ARRAYS, **LISTS}.items():
        is_list = word in LISTS
        kind = f"acl{word}{'List' if is_list else 'Array'}"
        name = kind.removeprefix("acl")
        made = (
            "Keep the pointers of live objects; the list becomes their owner."
            if is_list
            else "Copy the values; null or a size of 0 gives an empty array."
        )
        gone = "Release a list and the objects in it." if is_list else "Release an array."
        rows += [
            Function(META, f"{kind} *", f"aclCreate{name}", (values, "value"), ("uint64_t", "size"), text=made),
            Function(META, STATUS, f"aclDestroy{name}", (f"const {kind} *", "array"), text=gone),
            Function(
                META,
                STATUS,
                f"aclGet{name}Size",
                (f"const {kind} *", "array"),
                ("uint64_t *", "size"),
                text="How many elements it has.",
            ),
        ]
    return rows


def _getters() -> list[Function]:
    """Return the functions that read and change a tensor."""
    shapes = {"ViewShape": "viewDims", "StorageShape": "storageDims", "ViewStrides": "stridesValue"}
    values = {"ViewOffset": "int64_t *", "Format": "aclFormat *", "DataType": "aclDataType *"}
    return [
        *(
            Function(
                META,
                STATUS,
                f"aclGet{what}",
                CONST_TENSOR,
                ("int64_t **", name),
                ("uint64_t *", f"{name}Num"),
                text="A fresh array, which the caller releases with delete[].",
            )
            for what, name in shapes.items()
        ),
        *(
            Function(META, STATUS, f"aclGet{what}", CONST_TENSOR, (kind, "value"), text="What the tensor was told.")
            for what, kind in values.items()
        ),
        Function(META, STATUS, "aclInitTensor", TENSOR, *ATTRIBUTES, text="Give a tensor all its attributes anew."),
        Function(
            META,
            STATUS,
            "aclSetRawTensorAddr",
            TENSOR,
            ("void *", "addr"),
            text="Change the data address, for calls of phase one from now on.",
        ),
        Function(META, STATUS, "aclGetRawTensorAddr", CONST_TENSOR, ("void **", "addr"), text="The data address."),
    ]


def _rebinding() -> list[Function]:
    """Return the functions that give an executor other addresses, under both spellings."""
    executor = ("aclOpExecutor *", "executor")
    counted = {"Input": "the inputs", "Output": "the outputs", "": "the inputs and then the outputs"}
    rows = []
    for prefix in ("acl", "Acl"):
        for word, meaning in counted.items():
            rows += [
                Function(
                    META,
                    STATUS,
                    f"{prefix}Set{word}TensorAddr",
                    executor,
                    ("const size_t", "index"),
                    TENSOR,
                    ("void *", "addr"),
                    text=f"Move a tensor of a planned call to another address; index counts {meaning}.",
                ),
                Function(
                    META,
                    STATUS,
                    f"{prefix}SetDynamic{word}TensorAddr",
                    executor,
                    ("size_t", "irIndex"),
                    ("const size_t", "relativeIndex"),
                    ("aclTensorList *", "tensors"),
                    ("void *", "addr"),
                    text=f"The same for one tensor of a list; irIndex counts {meaning}.",
                ),
            ]
    return rows


FUNCTIONS: Final = (
    *_collections(),
    *_getters(),
    *_rebinding(),
    Function(
        META,
        STATUS,
        "aclDumpOpTensors",
        ("const char *", "opType"),
        ("const char *", "opName"),
        ("aclTensor **", "tensors"),
        ("size_t", "inputTensorNum"),
        ("size_t", "outputTensorNum"),
        ("aclrtStream", "stream"),
        text="Checks its arguments; as no dump can be configured, nothing is written.",
    ),
    # Data buffers: an address and a size.
    Function(
        RUNTIME_BASE,
        "aclDataBuffer *",
        "aclCreateDataBuffer",
        ("void *", "data"),
        ("size_t", "size"),
        text="Keep an address and a size together; the memory stays the caller's.",
    ),
    Function(
        RUNTIME_BASE,
        "aclError",
        "aclDestroyDataBuffer",
        ("const aclDataBuffer *", "dataBuffer"),
        text="Release the pair, not the memory.",
    ),
    Function(
        RUNTIME_BASE,
        "aclError",
        "aclUpdateDataBuffer",
        ("aclDataBuffer *", "dataBuffer"),
        ("void *", "data"),
        ("size_t", "size"),
        text="Give the pair another address and size.",
    ),
    Function(
        RUNTIME_BASE,
        "void *",
        "aclGetDataBufferAddr",
        ("const aclDataBuffer *", "dataBuffer"),
        text="The address; null for a buffer that is none.",
    ),
    Function(
        RUNTIME_BASE,
        "size_t",
        "aclGetDataBufferSizeV2",
        ("const aclDataBuffer *", "dataBuffer"),
        text="The size; 0 for a buffer that is none.",
    ),
    Function(
        RUNTIME_BASE,
        "uint32_t",
        "aclGetDataBufferSize",
        ("const aclDataBuffer *", "dataBuffer"),
        text="The size modulo 2^32; aclGetDataBufferSizeV2 gives all of it.",
    ),
    Function(
        RUNTIME_BASE,
        "size_t",
        "aclDataTypeSize",
        ("aclDataType", "dataType"),
        text="Bytes of an element; 8 for types of 4 and 6 bits and for what is no type.",
    ),
    Function(
        RUNTIME_BASE,
        "void",
        "aclAppLog",
        ("aclLogLevel", "logLevel"),
        ("const char *", "func"),
        ("const char *", "file"),
        ("uint32_t", "line"),
        ("const char *", "fmt"),
        ("...", ""),
        text="Log up to 1023 bytes: see the macro ACL_APP_LOG.",
    ),
    Function(
        RUNTIME_BASE,
        "aclError",
        "aclGetCannAttributeList",
        ("const aclCannAttr **", "cannAttrList"),
        ("size_t *", "num"),
        text="The attributes that are available on the selected product; the list is the library's.",
        python_failure="ACL_ERROR_INTERNAL_ERROR",
    ),
    Function(
        RUNTIME_BASE,
        "aclError",
        "aclGetCannAttribute",
        ("aclCannAttr", "cannAttr"),
        ("int32_t *", "value"),
        text="1 if the selected product has the attribute, else 0.",
        python_failure="ACL_ERROR_INTERNAL_ERROR",
    ),
    Function(
        RUNTIME_BASE,
        "aclError",
        "aclGetDeviceCapability",
        ("uint32_t", "deviceId"),
        ("aclDeviceInfo", "deviceInfo"),
        ("int64_t *", "value"),
        text="Cores are the threads that a launch may use, the cache is this machine's.",
    ),
)
