"""The C headers of the toolkit stand-in, rendered from the tables of types, codes, functions and operators.

Which header declares what follows the public headers of the toolkit, so that programs written for it compile unchanged.
Every header compiles on its own, as C11 and as C++11 or later, without a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonpu.dtypes import DType, Format
from nonpu.errorcodes import ERROR_CODES
from nonpu.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nonpu.capi.declarations import Enumeration, Function, Structure
    from nonpu.capi.functions_names import Name
    from nonpu.spec.model import Op

WIDTH = 120
HANDLES = ("aclrtStream", "aclrtEvent", "aclrtContext", "aclrtNotify", "aclrtLabel", "aclmdlRI")
OBJECTS = (
    "aclOpExecutor",
    "aclTensor",
    "aclScalar",
    "aclIntArray",
    "aclFloatArray",
    "aclBoolArray",
    "aclTensorList",
    "aclScalarList",
)
VERSION = {"ACL_MAJOR_VERSION": 1, "ACL_MINOR_VERSION": 17, "ACL_PATCH_VERSION": 0}
STREAM_FLAGS = {
    "ACL_STREAM_FAST_LAUNCH": 1,
    "ACL_STREAM_FAST_SYNC": 2,
    "ACL_STREAM_PERSISTENT": 4,
    "ACL_STREAM_HUGE": 8,
    "ACL_STREAM_CPU_SCHEDULE": 16,
    "ACL_STREAM_DEVICE_USE_ONLY": 32,
}
FAILURE_MODES = {"ACL_CONTINUE_ON_FAILURE": 0, "ACL_STOP_ON_FAILURE": 1}
EVENT_FLAGS = {
    "ACL_EVENT_SYNC": 1,
    "ACL_EVENT_CAPTURE_STREAM_PROGRESS": 2,
    "ACL_EVENT_TIME_LINE": 8,
    "ACL_EVENT_DEVICE_USE_ONLY": 16,
    "ACL_EVENT_EXTERNAL": 32,
    "ACL_EVENT_IPC": 64,
}
PACKAGE_SIZES = {"ACL_PKG_VERSION_MAX_SIZE": 128, "ACL_PKG_VERSION_PARTS_MAX_SIZE": 64}
# Families that no single-operator program needs; their headers exist, so that an include of one is no error.
OTHER_FAMILIES = ("prof", "dump", "tdt", "tdt_queue", "platform", "rt_memory_soma")
# Overloads of acl_rt_api.h: name, parameters, and the function that each stands for.
OVERLOADS = (
    (
        "aclrtSynchronizeStream",
        (("aclrtStream", "stream"), ("int32_t", "timeout")),
        "aclrtSynchronizeStreamWithTimeout",
    ),
    ("aclrtSynchronizeEvent", (("aclrtEvent", "event"), ("int32_t", "timeout")), "aclrtSynchronizeEventWithTimeout"),
    ("aclrtSynchronizeDevice", (("int32_t", "timeout"),), "aclrtSynchronizeDeviceWithTimeout"),
    (
        "aclrtCreateStream",
        (("aclrtStream *", "stream"), ("uint32_t", "priority"), ("uint32_t", "flag")),
        "aclrtCreateStreamWithConfig",
    ),
    ("aclrtCreateEvent", (("aclrtEvent *", "event"), ("uint32_t", "flag")), "aclrtCreateEventExWithFlag"),
)
# Like the original a plain triple; in C++ what is left out is 1.
DIM3 = """\
#ifndef __BISHENG_CCEC__
typedef struct dim3 {
    uint32_t x, y, z;
#ifdef __cplusplus
    dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
#endif
} dim3;
#endif"""
APP_LOG = """\
#define ACL_APP_LOG(level, ...) aclAppLog(level, __func__, __FILE__, __LINE__, __VA_ARGS__)"""
# A prototype that accepts any arguments; C has it in this form only since C23, and no other form in C++.
ANY_ARGUMENTS = """\
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define NONPU_ANY ...
#else
#define NONPU_ANY
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
#endif"""
ANY_ARGUMENTS_END = """\
#undef NONPU_ANY
#if !defined(__cplusplus) && defined(__GNUC__) && __STDC_VERSION__ < 202311L
#pragma GCC diagnostic pop
#endif"""
# Series of codes that come from the runtime module; its header defines them as macros.
MODULE_SERIES = (107, 207, 507)
VISIBILITY = """\
#ifndef ACL_FUNC_VISIBILITY
#ifdef FUNC_VISIBILITY
#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))
#else
#define ACL_FUNC_VISIBILITY
#endif
#endif"""
# The guard is part of the interface: a client that has these types already defines it first.
META_TYPES = """\
#ifndef ACLNN_META
#define ACLNN_META
{objects}

typedef int32_t aclnnStatus;
#ifdef __cplusplus
constexpr aclnnStatus OK = 0;
#else
static const aclnnStatus OK = 0;
#endif
#endif"""


def declaration(result: str, name: str, parameters: Iterable[tuple[str, str]], prefix: str = "") -> str:
    """Return a C declaration without its semicolon, broken between parameters where it would be too long."""
    words = [join(kind, parameter) for kind, parameter in parameters] or ["void"]
    start = f"{prefix}{join(result, name)}("
    line = f"{start}{', '.join(words)})"
    return line if len(line) < WIDTH else start + ",\n    ".join(words) + ")"


def join(kind: str, name: str) -> str:
    """Put a name behind its type; an asterisk stands by the name."""
    return f"{kind}{'' if kind.endswith('*') or not name else ' '}{name}"


def guarded(path: str, *parts: str) -> str:
    """Return the text of a header: the parts, blank lines between them, in a guard made from the path."""
    guard = "NONPU_" + "".join(letter if letter.isalnum() else "_" for letter in path).upper()
    body = "\n\n".join(part for part in parts if part)
    return f"/* Generated when nonpu is built; do not edit. */\n#ifndef {guard}\n#define {guard}\n\n{body}\n\n#endif\n"


def includes(*names: str) -> str:
    """Return include lines; names in angle brackets are the system's."""
    return "\n".join(f"#include {name}" if name.startswith("<") else f'#include "{name}"' for name in names)


def enumeration(name: str, members: dict[str, int]) -> str:
    """Return a named, unscoped enumeration."""
    rows = ",\n".join(f"    {member} = {value if value < 256 else hex(value)}" for member, value in members.items())
    return f"typedef enum {name} {{\n{rows}\n}} {name};"


def structure(entry: Structure) -> str:
    """Return a structure or union."""
    rows = "".join(f"    {join(kind, name)};\n" for kind, name in entry.members)
    return f"typedef {'union' if entry.is_union else 'struct'} {entry.name} {{\n{rows}}} {entry.name};"


def macros(values: dict[str, int]) -> str:
    """Return one macro per value; negative ones in parentheses."""
    return "\n".join(f"#define {name} {value if value >= 0 else f'({value})'}" for name, value in values.items())


def in_c_linkage(parts: Iterable[str]) -> str:
    """Wrap declarations for C++."""
    body = "\n\n".join(parts)
    return f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{body}\n\n#ifdef __cplusplus\n}}\n#endif'


def declarations(functions: Iterable[Function], header: str) -> str:
    """Return the functions that a header declares."""
    return in_c_linkage(
        f"/* {function.text} */\n"
        f"{declaration(function.result, function.name, function.parameters, 'ACL_FUNC_VISIBILITY ')};"
        for function in functions
        if function.header == header
    )


def bare_names(names: Iterable[Name], header: str) -> str:
    """Return the declarations of what is exported without working."""
    rows = "\n".join(
        f"ACL_FUNC_VISIBILITY {join(name.result, name.name)}(NONPU_ANY);" for name in names if name.header == header
    )
    comment = "/* These exist so that larger programs link: they only return ACL_ERROR_API_NOT_SUPPORT or null. */"
    return "\n".join((ANY_ARGUMENTS, comment, in_c_linkage([rows]), ANY_ARGUMENTS_END))


def overloads(functions: Iterable[Function]) -> str:
    """Return the C++ overloads that stand for functions of the table."""
    known = {function.name for function in functions}
    rows = [
        f"static inline {declaration('aclError', name, parameters)}\n"
        f"{{\n    return {target}({', '.join(parameter for _, parameter in parameters)});\n}}"
        for name, parameters, target in OVERLOADS
        if target in known
    ]
    return "\n\n".join(["#ifdef __cplusplus", *rows, "#endif"])


def module_codes() -> dict[str, int]:
    """Return the codes that are macros in rt_error_codes.h."""
    return {
        name: value for name, value, _ in ERROR_CODES if value // 1000 in MODULE_SERIES or name.startswith("ACL_RT_")
    }


def own_codes() -> str:
    """Return the codes of the runtime interface, which are constants and no macros."""
    macro = module_codes()
    rows = (f"static const int {name} = {value};" for name, value, _ in ERROR_CODES if name not in macro)
    return "\n".join(rows)


def status_constants() -> str:
    """Return the aclnn codes as constants at namespace level."""
    word = "#ifdef __cplusplus\n#define NONPU_STATUS constexpr\n#else\n#define NONPU_STATUS static const\n#endif\n"
    rows = "".join(f"NONPU_STATUS aclnnStatus {member.name} = {int(member)};\n" for member in Status)
    return f"{word}{rows}#undef NONPU_STATUS"


def runtime_headers(
    functions: tuple[Function, ...],
    enumerations: tuple[Enumeration, ...],
    structures: tuple[Structure, ...],
    names: tuple[Name, ...],
    definitions: tuple[str, ...],
) -> dict[str, str]:
    """Return the headers below ``acl``; ``acl_rt.h`` has the definitions, in C."""
    base_rt, rt = "acl/acl_base_rt.h", "acl/acl_rt.h"
    enums = {
        header: [
            *(enumeration(entry.name, entry.members) for entry in enumerations if entry.header == header),
            *(structure(entry) for entry in structures if entry.header == header),
        ]
        for header in (base_rt, rt)
    }
    texts = {
        "acl/acl.h": includes("acl/acl_rt.h", "acl/acl_op.h", "acl/acl_mdl.h"),
        "acl/acl_op.h": includes("acl/acl_base.h"),
        "acl/acl_mdl.h": includes("acl/acl_base.h"),
        "acl/acl_base.h": includes(
            "acl/acl_base_rt.h", "acl/acl_base_mdl.h", "error_codes/rt_error_codes.h", "error_codes/ge_error_codes.h"
        ),
        "acl/acl_base_mdl.h": "",
        "acl/acl_rt_allocator.h": includes("acl/acl_base_rt.h"),
        "acl/acl_rt_api.h": f"{includes('acl/acl_rt.h')}\n\n{overloads(functions)}",
        **{f"acl/acl_{family}.h": includes("acl/acl_base.h") for family in OTHER_FAMILIES},
        "acl/error_codes/ge_error_codes.h": "",
        "acl/error_codes/rt_error_codes.h": macros(module_codes()),
        base_rt: "\n\n".join(
            [
                includes("<stdbool.h>", "<stddef.h>", "<stdint.h>"),
                VISIBILITY,
                "typedef int aclError;\ntypedef uint16_t aclFloat16;",
                "\n".join(f"typedef void *{name};" for name in HANDLES),
                "typedef struct aclDataBuffer aclDataBuffer;",
                own_codes(),
                enumeration("aclDataType", {member.c_name: int(member) for member in DType}),
                enumeration("aclFormat", {member.c_name: int(member) for member in Format}),
                *enums[base_rt],
                declarations(functions, base_rt),
                APP_LOG,
            ]
        ),
        rt: "\n\n".join(
            [
                includes("<stdbool.h>", "<stddef.h>", "<stdint.h>", "acl/acl_base.h", "acl/acl_rt_allocator.h"),
                macros(VERSION | STREAM_FLAGS | FAILURE_MODES | EVENT_FLAGS | PACKAGE_SIZES),
                *enums[rt],
                DIM3,
                *definitions,
                declarations(functions, rt),
                bare_names(names, rt),
            ]
        ),
    }
    return {path: guarded(path, text) for path, text in texts.items()}


def meta_headers(functions: tuple[Function, ...]) -> dict[str, str]:
    """Return the headers below ``aclnn``."""
    meta, base, errno = "aclnn/acl_meta.h", "aclnn/aclnn_base.h", "aclnn/opdev/op_errno.h"
    cpp, c = includes("<cstdint>", "<cstdlib>"), includes("<stdint.h>", "<stdlib.h>")
    standard = f"#ifdef __cplusplus\n{cpp}\n#else\n{c}\n#endif"
    objects = "\n".join(f"typedef struct {name} {name};" for name in OBJECTS)
    return {
        meta: guarded(
            meta,
            standard,
            includes("acl/acl_base.h"),
            META_TYPES.format(objects=objects),
            declarations(functions, meta),
        ),
        base: guarded(base, includes("aclnn/acl_meta.h"), declarations(functions, base)),
        errno: guarded(errno, includes("aclnn/acl_meta.h"), status_constants()),
    }


def operator_comment(op: Op) -> str:
    """Say what an operator does and what its parameters mean."""
    lines = [op.text, "", *(f"{param.name}: {param.text}" for param in op.params)]
    return "/* " + "\n   ".join(line.replace("*/", "* /") for line in lines).replace("\n   \n", "\n\n") + " */"


def operator_header(op: Op) -> str:
    """Return the header of one operator."""
    path = f"aclnnop/{op.header}"
    both = in_c_linkage(
        [
            f"{operator_comment(op)}\n{declaration('aclnnStatus', op.phase_one, op.c_phase_one, 'ACLNN_API ')};",
            f"{declaration('aclnnStatus', op.phase_two, op.c_phase_two, 'ACLNN_API ')};",
        ]
    )
    return guarded(path, includes("aclnn/aclnn_base.h", "aclnn_util.h"), both)


def operator_headers(ops: tuple[Op, ...]) -> dict[str, str]:
    """Return the headers below ``aclnnop``."""
    util = '#define ACLNN_API __attribute__((visibility("default")))'
    texts = {f"aclnnop/{op.header}": operator_header(op) for op in ops}
    for op in ops:
        path = f"aclnnop/level2/{op.header}"
        texts[path] = guarded(path, includes(f"../{op.header}"))
    for path, text in {
        "aclnnop/aclnn_util.h": f"#ifndef ACLNN_API\n{util}\n#endif",
        "aclnnop/aclnn_ops_nn.h": includes(*(op.header for op in ops)),
        **{f"aclnnop/aclnn_ops_{name}.h": includes("aclnn/aclnn_base.h") for name in ("math", "cv", "transformer")},
    }.items():
        texts[path] = guarded(path, text)
    return texts


def render(
    functions: tuple[Function, ...],
    enumerations: tuple[Enumeration, ...],
    structures: tuple[Structure, ...],
    names: tuple[Name, ...],
    ops: tuple[Op, ...],
    definitions: tuple[str, ...] = (),
) -> dict[str, str]:
    """Return every header: its path below ``include``, and its text."""
    runtime = runtime_headers(functions, enumerations, structures, names, definitions)
    return runtime | meta_headers(functions) | operator_headers(ops)
