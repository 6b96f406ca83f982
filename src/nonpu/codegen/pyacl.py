"""The module ``acl`` of the toolkit stand-in, rendered from the table of C functions.

Every runtime function whose parameters are numbers, handles, texts and callbacks gets a Python function by the rules of
pyACL: the name without ``acl`` or ``aclrt`` in snake case, non-const pointers as outputs, the status last.

Source of names, exceptions and conventions: the reference of pyACL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nonpu.codegen.headers import HANDLES, STREAM_FLAGS
from nonpu.dtypes import DType, Format
from nonpu.errorcodes import ERROR_CODES
from nonpu.spec.model import snake_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nonpu.capi.declarations import Enumeration, Function

MARK = "# Generated when nonpu is built; do not edit."
NAMES = {
    "aclrtSetCurrentContext": "rt.set_context",
    "aclrtGetCurrentContext": "rt.get_context",
    "aclrtGetSocName": "get_soc_name",
    "aclrtUnSubscribeReport": "rt.unsubscribe_report",
}
# Functions that pyACL has, whether or not the library has them: a call of one that it lacks says so.
DECLARED = """
aclError aclInit(const char *configPath);
aclError aclFinalize();
const char *aclGetRecentErrMsg();
const char *aclrtGetSocName();
size_t aclDataTypeSize(aclDataType dataType);
aclDataBuffer *aclCreateDataBuffer(void *data, size_t size);
aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer);
aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size);
void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer);
size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer);
uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer);
aclError aclrtSetDevice(int32_t deviceId);
aclError aclrtResetDevice(int32_t deviceId);
aclError aclrtGetDevice(int32_t *deviceId);
aclError aclrtGetDeviceCount(uint32_t *count);
aclError aclrtGetRunMode(aclrtRunMode *runMode);
aclError aclrtSynchronizeDevice();
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext *context);
aclError aclrtCreateStream(aclrtStream *stream);
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtCreateEvent(aclrtEvent *event);
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);
aclError aclrtEventElapsedTime(float *ms, aclrtEvent start, aclrtEvent end);
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void *devPtr);
aclError aclrtMallocHost(void **hostPtr, size_t size);
aclError aclrtFreeHost(void *hostPtr);
aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, void *stream);
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);
aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream);
aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);
aclError aclrtProcessReport(int32_t timeout);
"""
HEADERS = ("acl/acl_rt.h", "acl/acl_base_rt.h")
# Enumerations that the functions above use.
ENUMS = (
    "aclDataType",
    "aclFormat",
    "aclrtCallbackBlockType",
    "aclrtEventRecordedStatus",
    "aclrtEventStatus",
    "aclrtEventWaitStatus",
    "aclrtMemAttr",
    "aclrtMemMallocPolicy",
    "aclrtMemcpyKind",
    "aclrtRunMode",
)
NUMBERS = {
    "int": "int32",
    "size_t": "uint64",
    "aclFloat16": "uint16",
    "bool": "uint8",
    "float": "float",
    "double": "double",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys(ENUMS, "int32"),
    **dict.fromkeys(HANDLES, "address"),
}
CALLBACKS = ("aclrtCallback", "aclrtHostFunc")
# Structures that clients know by their address alone.
OPAQUE = ("void", "aclDataBuffer")
# NumPy's numbers of types, under the names that pyACL programs give them.
NUMPY_TYPES = {
    "NPY_BOOL": 0,
    "NPY_BYTE": 1,
    "NPY_INT8": 1,
    "NPY_UBYTE": 2,
    "NPY_UINT8": 2,
    "NPY_SHORT": 3,
    "NPY_INT16": 3,
    "NPY_USHORT": 4,
    "NPY_UINT16": 4,
    "NPY_INT": 5,
    "NPY_INT32": 5,
    "NPY_UINT": 6,
    "NPY_UINT32": 6,
    "NPY_LONG": 7,
    "NPY_INT64": 7,
    "NPY_ULONG": 8,
    "NPY_UINT64": 8,
    "NPY_LONGLONG": 9,
    "NPY_ULONGLONG": 10,
    "NPY_FLOAT": 11,
    "NPY_FLOAT32": 11,
    "NPY_DOUBLE": 12,
    "NPY_FLOAT64": 12,
    "NPY_CFLOAT": 14,
    "NPY_CDOUBLE": 15,
    "NPY_FLOAT16": 23,
}
MODULE = '''\
{mark}
"""pyACL of the stand-in: the runtime's functions with integers as handles and the status as the last value.

A failing call raises nothing: it returns its status, and get_recent_err_msg() says why. Arguments are positional; a
wrong number or kind of them raises TypeError, a number out of range ValueError. The namespaces are acl.rt and acl.util.
The constants of the C headers are here too (ACL_MEMCPY_HOST_TO_DEVICE = 1, ...).
"""

from __future__ import annotations

from . import rt, util
from .native import Function as _Function

{functions}

{constants}

_ABSENT = {{
    "op": "single-operator models",
    "mdl": "offline models",
    "media": "media processing",
    "prof": "profiling",
    "tdt": "data queues",
    "blas": "matrix functions",
}}


def __getattr__(name):
    if name in _ABSENT:
        raise AttributeError(
            f"module 'acl' has no attribute {{name!r}}: the stand-in has no {{_ABSENT[name]}}, only the runtime"
            " (acl.rt, acl.util) and, through libopapi.so or the package nonpu, the aclnn operators"
        )
    raise AttributeError(f"module 'acl' has no attribute {{name!r}}")
'''
RT_MODULE = '''\
{mark}
"""acl.rt: devices, contexts, streams, events and memory."""

from __future__ import annotations

from .native import Function as _Function

{functions}
'''
FUNCTION = '''
_{name} = _Function("{full}", "{symbol}", {facts})


def {name}({parameters}):
    """{text}

    {symbol}; returns {answer}.
    """
    return _{name}({arguments})
'''


class Declared(NamedTuple):
    """A function of pyACL in the form of the table."""

    header: str
    result: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    text: str


def declared() -> list[Declared]:
    """Return what `DECLARED` declares."""
    found = []
    for line in DECLARED.strip().splitlines():
        match = re.fullmatch(r"(.+?[ *])(\w+)\((.*)\);", line)
        assert match is not None, line
        pairs = [re.fullmatch(r"(.+?[ *]+)(\w+)", word) for word in match[3].split(", ") if word]
        parameters = tuple((pair[1].strip(), pair[2]) for pair in pairs if pair is not None)
        found.append(Declared(HEADERS[0], match[1].strip(), match[2], parameters, "Not part of every build."))
    return found


def python_name(symbol: str) -> str:
    """Return the name below ``acl``; empty for a function that is not pyACL's."""
    if symbol in NAMES:
        return NAMES[symbol]
    match = re.fullmatch(r"acl(rt)?([A-Z]\w*)", symbol)
    if match is None:
        return ""
    return f"{'rt.' if match[1] else ''}{snake_case(match[2])}"


class Renderer:
    """Renders the module from a table of functions and one of enumerations."""

    def __init__(self, functions: Iterable[Function], enumerations: Sequence[Enumeration]) -> None:
        self.numbers = NUMBERS | dict.fromkeys((enumeration.name for enumeration in enumerations), "int32")
        self.constants = {name: value for name, value, _ in ERROR_CODES}
        for enumeration in enumerations:
            self.constants |= enumeration.members
        self.constants |= {member.c_name: int(member) for member in (*DType, *Format)} | STREAM_FLAGS | NUMPY_TYPES
        table = {function.name: function for function in functions if function.header in HEADERS}
        every: dict[str, Function | Declared] = {**{entry.name: entry for entry in declared()}, **table}
        self.functions = {
            python_name(name): function
            for name, function in every.items()
            if python_name(name) and self.kinds(function) is not None and self.result(function.result)
        }

    def kind(self, c_type: str) -> str:
        """Return how `nonpu.capi.pyacl.native` passes a C type; empty if it cannot."""
        if c_type in self.numbers:
            return self.numbers[c_type]
        if c_type in CALLBACKS:
            return "callback"
        if c_type == "const char *":
            return "text"
        pointed = c_type.removeprefix("const ").removesuffix("*").strip()
        if pointed in OPAQUE:
            return "address"
        target = "address" if pointed == "void *" else self.numbers.get(pointed, "")
        return f"out {target}" if target and c_type.endswith("*") and not c_type.startswith("const ") else ""

    def kinds(self, function: Function | Declared) -> list[tuple[str, str]] | None:
        """Return Python name and kind of every parameter; None where one of them has no counterpart in pyACL."""
        found: list[tuple[str, str]] = []
        for c_type, name in function.parameters:
            kind = "data" if found and found[-1][1] == "callback" else self.kind(c_type)
            if not kind:
                return None
            found.append((snake_case(name), kind))
        return found

    def result(self, c_type: str) -> str:
        """Return the kind of a result; empty if pyACL has none of it."""
        if c_type in ("aclError", "void"):
            return "status" if c_type == "aclError" else "none"
        kind = self.kind(c_type)
        return "" if kind.startswith("out") or kind == "callback" else kind

    def function(self, full: str, function: Function | Declared) -> str:
        """Return one Python function."""
        parameters = self.kinds(function)
        assert parameters is not None
        given = [name for name, kind in parameters if not kind.startswith("out ")]
        outputs = [name for name, kind in parameters if kind.startswith("out ")]
        result = self.result(function.result)
        answer = ", ".join([*outputs, *{"status": ["ret"], "none": []}.get(result, ["the value"])])
        facts = [f'"{result}"', *(f'"{name} {kind}"' for name, kind in parameters)]
        # The only parameter that pyACL lets a caller leave out.
        words = [f"{name}=None" if name == "config_path" else name for name in given]
        return FUNCTION.format(
            name=full.removeprefix("rt."),
            full=full,
            symbol=function.name,
            facts=", ".join(facts),
            parameters=", ".join([*words, "/"] if words else []),
            arguments=", ".join(given),
            text=function.text,
            answer=(f"({answer})" if outputs else answer) if answer else "nothing",
        )


def render(functions: Iterable[Function], enumerations: Sequence[Enumeration]) -> dict[str, str]:
    """Return the generated files of the package ``acl``."""
    renderer = Renderer(functions, enumerations)
    own = [renderer.function(*item) for item in renderer.functions.items() if not item[0].startswith("rt.")]
    runtime = [renderer.function(*item) for item in renderer.functions.items() if item[0].startswith("rt.")]
    rows = "\n".join(f"{name} = {value}" for name, value in renderer.constants.items())
    return {
        "__init__.py": MODULE.format(mark=MARK, functions="\n".join(own).strip(), constants=rows),
        "rt.py": RT_MODULE.format(mark=MARK, functions="\n".join(runtime).strip()),
    }
