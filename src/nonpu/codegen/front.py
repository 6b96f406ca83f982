"""The generated part of the front library, and what cffi is told about it.

Everything in C that names an operator comes from here, made from the specifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonpu.codegen.headers import declaration, includes
from nonpu.dtypes import FLOATS, INTEGERS, SMALL_FLOATS, DType
from nonpu.spec.model import FlagParam, ScalarParam, TensorParam

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nonpu.capi.declarations import Function
    from nonpu.capi.functions_names import Name
    from nonpu.spec.model import Op, Parameter

MARK = "/* Generated when nonpu is built; do not edit. */"
# What aclCreateScalar accepts, by the source of the meta library.
SCALARS = (*FLOATS, *INTEGERS, *SMALL_FLOATS, DType.BOOL, DType.COMPLEX64, DType.COMPLEX128)
# The C types that the table of Python's functions uses, in terms that need no header.
PLAIN = {
    "aclError": "int",
    "aclnnStatus": "int32_t",
    "aclrtDevAttr": "int",
    "aclCannAttr": "int",
    "const aclCannAttr **": "void *",
}
# What aclDataTypeSize says by the source of the runtime; all others are as wide as they seem.
NO_SIZE, DEFAULT_SIZE = (DType.STRING,), 8
DEFAULT_SIZED = (DType.FLOAT6_E3M2, DType.FLOAT6_E2M3, DType.FLOAT4_E2M1, DType.FLOAT4_E1M2)
NOT_SUPPORTED = """
#define NAME(name) ACL_FUNC_VISIBILITY aclError name(void) { return nonpu_unsupported(#name); }
#define POINTER(type, name) ACL_FUNC_VISIBILITY type name(void) { nonpu_unsupported(#name); return NULL; }
"""
# NONPU_PASSED in front.h.
MAX_ARGUMENTS = 12
JUDGE = (
    "int32_t",
    "judge",
    (("int32_t", "operator_index"), ("int32_t", "count"), ("nonpu_argument *", "arguments"), ("nonpu_plan *", "plan")),
)
CHECK = ("int32_t", "check", (("int32_t", "last"),))


def python_functions(functions: Iterable[Function]) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Return result, name and parameters of everything that Python implements for C."""
    own = [
        (
            PLAIN.get(function.result, function.result),
            function.name,
            tuple((PLAIN.get(kind, kind), name) for kind, name in function.parameters),
        )
        for function in functions
        if function.python_failure
    ]
    return [JUDGE, CHECK, *own]


def table(functions: Iterable[Function]) -> str:
    """Return the type of the table that Python fills with its functions."""
    rows = "".join(
        f"    {declaration(result, f'(*{name})', parameters)};\n"
        for result, name, parameters in python_functions(functions)
    )
    return f"typedef struct {{\n{rows}}} nonpu_table;\n"


def table_header(functions: Iterable[Function]) -> str:
    """Return ``table.h``: the table, and the sizes of scalars by data type."""
    sizes = [next((dtype.itemsize for dtype in SCALARS if dtype == value), 0) for value in range(max(SCALARS) + 1)]
    scalars, types = (", ".join(map(str, row)) for row in (sizes, type_sizes()))
    macros = f"#define NONPU_SCALAR_BYTES {{ {scalars} }}\n#define NONPU_TYPE_BYTES {{ {types} }}\n"
    return f"{MARK}\n{table(functions)}\n{macros}"


def type_sizes() -> list[int]:
    """Return what aclDataTypeSize answers, by the number of the type."""
    sizes = [DEFAULT_SIZE] * (max(DType) + 1)
    for dtype in DType:
        if dtype >= 0 and dtype not in DEFAULT_SIZED:
            sizes[dtype] = 0 if dtype in NO_SIZE else dtype.itemsize
    return sizes


def cdef(functions: Iterable[Function], native: str) -> str:
    """Return the declarations of the module ``nonpu._core``; `native` is the text of ``native.h``."""
    externs = "".join(
        f"    {declaration(result, f'python_{name}', parameters)};\n"
        for result, name, parameters in python_functions(functions)
    )
    return f'{native}\n{table(functions)}\nextern "Python" {{\n{externs}}}\n'


def argument(param: Parameter) -> str:
    """Return the C expression that turns a parameter of phase one into an argument of the judge."""
    if isinstance(param, TensorParam):
        return f"nonpu_tensor_argument({param.name})"
    if isinstance(param, ScalarParam):
        return f"nonpu_scalar_argument({param.name})"
    assert isinstance(param, FlagParam), f"{param.name}: must be a tensor, scalar or flag (got {type(param).__name__})"
    return f"{{ .kind = 3, .state = 1, .integer = {param.name} }}"


def operator_entries(index: int, op: Op) -> str:
    """Return both functions of one operator."""
    assert len(op.params) <= MAX_ARGUMENTS, f"{op.api}: front.h has room for {MAX_ARGUMENTS} arguments"
    arguments = ", ".join(argument(param) for param in op.params)
    return f"""
{declaration("aclnnStatus", op.phase_one, op.c_phase_one)}
{{
    nonpu_argument arguments[] = {{ {arguments} }};
    return nonpu_phase_one({index}, "{op.phase_one}", {len(op.params)}, arguments, workspaceSize, executor);
}}

{declaration("aclnnStatus", op.phase_two, op.c_phase_two)}
{{
    return nonpu_phase_two({index}, "{op.phase_two}", workspace, workspaceSize, executor, stream);
}}
"""


def signature(op: Op) -> str:
    """Return the kinds of an operator's parameters, a letter each: what nonpu_signatures holds."""
    letters = ""
    for param in op.params:
        if isinstance(param, TensorParam):
            letters += "o" if param.role == "out" else "i"
        else:
            letters += "s" if isinstance(param, ScalarParam) else "f"
    return letters


def name_entry(name: Name) -> str:
    """Return the definition of a function that is exported without working."""
    return f"NAME({name.name})" if name.result == "aclError" else f"POINTER({name.result}, {name.name})"


def forward(function: Function) -> str:
    """Return a function that asks Python."""
    names = ", ".join(name for _, name in function.parameters)
    return f"""
{declaration(function.result, function.name, function.parameters)}
{{
    if (nonpu_enter("{function.name}"))
        return {function.python_failure};
    nonpu_float_mode mode = nonpu_float_enter();
    {function.result} result = nonpu_python.{function.name}({names});
    nonpu_float_leave(mode);
    nonpu_leave();
    return result;
}}
"""


def entries(functions: Iterable[Function], names: Iterable[Name], ops: tuple[Op, ...]) -> str:
    """Return ``entries.c``: the operators, what Python implements, and what is exported without working."""
    head = includes("front.h", *(f"aclnnop/{op.header}" for op in ops))
    operators = "".join(operator_entries(index, op) for index, op in enumerate(ops))
    signatures = ", ".join(f'"{signature(op)}"' for op in ops)
    forwards = "".join(forward(function) for function in functions if function.python_failure)
    bare = "\n".join(map(name_entry, names))
    return (
        f"{MARK}\n{head}\n{operators}\nconst char *const nonpu_signatures[] = {{ {signatures} }};\n"
        f"{forwards}{NOT_SUPPORTED}{bare}\n"
    )


def build_header(values: dict[str, str]) -> str:
    """Return ``build.h``: one macro, a string, per fact about the Python of the build."""
    rows = "".join(f'#define NONPU_{name} "{escape(value)}"\n' for name, value in values.items())
    return f"{MARK}\n{rows}"


def escape(text: str) -> str:
    """Escape a text for a C string, byte by byte where it is not plain ASCII."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return "".join(plain)
