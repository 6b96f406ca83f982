"""The Python side of the C functions; the front library imports this module on its first call.

What is called here must be quick to import: see the note on start-up in the architecture document. No exception leaves
this module: each becomes a status and a text for ``aclGetRecentErrMsg``.

Sources of the rules: the runtime's reference of ``aclInit``, ``aclFinalize`` and ``aclrtGetSocName``, and its published
code.
"""

from __future__ import annotations

import atexit

from nonpu._core import ffi, lib
from nonpu.aclnn import phases
from nonpu.capi import queries as queries  # its functions export themselves
from nonpu.capi.bridge import INTERNAL_ERROR, INVALID_FILE, INVALID_PARAM, SUCCESS, exported, fail, record
from nonpu.status import AclnnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPEAT_INITIALIZE = 100002
PARSE_FILE = 100006
REPEAT_FINALIZE = 100037
ACLNN_INNER = 561000
MAX_NESTING = 10


class Process:
    """What aclInit and its relatives have done in this process.

    Attributes
    ----------
    uses : int
        Calls of aclInit not yet undone by aclFinalize.
    operators : bool
        Whether aclnnInit was called and not undone.
    finalized : bool
        Whether aclFinalize was the last of aclInit and aclFinalize.
    config : object
        Configuration of the first aclInit; later ones must agree with it.
    """

    __slots__ = ("config", "finalized", "operators", "uses")

    def __init__(self) -> None:
        self.uses = 0
        self.operators = False
        self.finalized = False
        self.config: object = None


PROCESS = Process()
# Names and lists that were handed out stay valid for ever.
_names: dict[str, Any] = {}
_lists: dict[tuple[int, ...], Any] = {}


# ---------------------------------------------------------------- operators


@exported(ACLNN_INNER)
def judge(op_index: int, count: int, arguments: Any, plan: Any) -> int:
    """Judge phase one of an operator and fill the plan of phase two."""
    if not (PROCESS.uses or PROCESS.operators):
        api = phases.OPS[op_index].phase_one
        return fail(ACLNN_INNER, f"{api}: the library must be initialised by aclInit or aclnnInit (got neither)")
    try:
        phases.judge_native(op_index, arguments, plan)
    except AclnnError as error:
        return fail(int(error.status), str(error))
    return SUCCESS


@exported(-1)
def check(last: int) -> int:
    """Look at what the program has done, for NONPU_CHECK=1; the last time report it. Return the number of misuses."""
    from nonpu.capi.misuse import program  # which takes time that others do not want to spend

    return program.examine(bool(last))


# ---------------------------------------------------------------- process


@exported(INTERNAL_ERROR)
def aclInit(config_path: Any) -> int:
    """Initialise; a second call counts, but says so."""
    lib.nonpu_note_process(0)
    if PROCESS.uses:
        PROCESS.uses += 1
        return fail(REPEAT_INITIALIZE, "aclInit: must be called once before aclFinalize (got another call)")
    path = ffi.string(config_path) if config_path else b""
    try:
        config = read_config(path) if path else {}
    except OSError as error:
        return fail(INVALID_FILE, f"aclInit: configPath must name a readable file (got {path!r}: {error.strerror})")
    except ValueError as error:
        return fail(PARSE_FILE, f"aclInit: the file of configPath must hold a JSON object (got {error} in {path!r})")
    if PROCESS.config is not None and PROCESS.config != config:
        return fail(INVALID_PARAM, f"aclInit: the configuration must be that of the first aclInit (got {path!r})")
    mode = config.get("err_msg_mode", "0")
    if str(mode) not in ("0", "1"):
        return fail(INVALID_PARAM, f"aclInit: err_msg_mode of the configuration must be 0 or 1 (got {mode!r})")
    PROCESS.config = config
    PROCESS.uses = 1
    PROCESS.finalized = False
    lib.nonpu_set_error_scope(str(mode) == "1")
    return SUCCESS


@exported(INTERNAL_ERROR)
def aclFinalize() -> int:
    """Undo every aclInit."""
    if PROCESS.finalized:
        return fail(REPEAT_FINALIZE, "aclFinalize: must follow an aclInit (got a second call)")
    PROCESS.uses = 0
    PROCESS.finalized = True
    lib.nonpu_note_process(1)
    lib.nonpu_forget_calls()
    return SUCCESS


@exported(INTERNAL_ERROR)
def aclFinalizeReference(count: Any) -> int:
    """Undo one aclInit; the last one finalises."""
    if not PROCESS.uses:
        return fail(REPEAT_FINALIZE, "aclFinalizeReference: must follow an aclInit (got none that is not undone)")
    PROCESS.uses -= 1
    if not PROCESS.uses:
        PROCESS.finalized = True
        lib.nonpu_note_process(1)
        lib.nonpu_forget_calls()
    if count:
        count[0] = PROCESS.uses
    return SUCCESS


@exported(ACLNN_INNER)
def aclnnInit(_config_path: Any) -> int:
    """Initialise the operators; the file holds settings of dumps only, so whatever it is, it is no reason to fail."""
    lib.nonpu_note_process(2)
    PROCESS.operators = True
    return SUCCESS


@exported(ACLNN_INNER)
def aclnnFinalize() -> int:
    """Undo aclnnInit."""
    lib.nonpu_note_process(3)
    PROCESS.operators = False
    lib.nonpu_forget_calls()
    return SUCCESS


@exported(ffi.NULL)
def aclrtGetSocName() -> Any:
    """Return the name of the selected product's chip."""
    try:
        name = phases.environment_product().soc
    except ValueError as error:
        record(f"aclrtGetSocName: {error}")
        return ffi.NULL
    if name not in _names:
        _names[name] = ffi.new("char[]", name.encode())
    return _names[name]


@exported(INTERNAL_ERROR)
def aclGetCannAttributeList(attributes: Any, count: Any) -> int:
    """Hand out the attributes that the selected product has."""
    if not (attributes and count):
        missing = "num" if attributes else "cannAttrList"
        return fail(INVALID_PARAM, f"aclGetCannAttributeList: {missing} must be a pointer (got null)")
    try:
        available = tuple(number for number, has in enumerate(cann_attributes()) if has)
    except ValueError as error:
        return fail(INVALID_PARAM, f"aclGetCannAttributeList: {error}")
    if available not in _lists:
        _lists[available] = ffi.new("int[]", available)
    ffi.cast("const int **", attributes)[0] = _lists[available]
    count[0] = len(available)
    return SUCCESS


@exported(INTERNAL_ERROR)
def aclGetCannAttribute(attribute: int, value: Any) -> int:
    """Say whether the selected product has an attribute."""
    if not value:
        return fail(INVALID_PARAM, "aclGetCannAttribute: value must be a pointer (got null)")
    try:
        known = cann_attributes()
    except ValueError as error:
        return fail(INVALID_PARAM, f"aclGetCannAttribute: {error}")
    if not 0 <= attribute < len(known):
        return fail(INVALID_PARAM, f"aclGetCannAttribute: cannAttr must be 0 to {len(known) - 1} (got {attribute})")
    value[0] = known[attribute]
    return SUCCESS


def cann_attributes() -> tuple[bool, bool, bool]:
    """Return whether there are infinities and NaN, BFLOAT16, and compilation of operators when they are first used.

    Raises
    ------
    ValueError
        If NONPU_PRODUCT names no product.
    """
    return True, phases.environment_product().has_bf16, False


def read_config(path: bytes) -> dict[str, Any]:
    """Return the configuration that a file holds.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is no JSON object, or nests deeper than ten levels.
    """
    import json

    with open(path, "rb") as file:
        text = file.read()
    if nesting(text) > MAX_NESTING:
        raise ValueError(f"more than {MAX_NESTING} levels")
    config = json.loads(text)
    if not isinstance(config, dict):
        raise ValueError(f"a {type(config).__name__}")
    return config


def nesting(text: bytes) -> int:
    """Return how deep the brackets of a JSON text go; it need not be valid."""
    depth = deepest = 0
    in_string = escaped = False
    for letter in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = letter == 0x5C, letter != 0x22
        elif letter == 0x22:
            in_string = True
        elif letter in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in b"}]":
            depth -= 1
    return deepest


# ---------------------------------------------------------------- start


def start(table_address: int, close_address: int, build_address: int) -> None:
    """Fill the front library's table with the functions of this module, and tell it when the interpreter ends.

    Parameters
    ----------
    table_address : int
        Address of the library's ``nonpu_table``.
    close_address : int
        Address of the function to call at the end.
    build_address : int
        Address of the library's identity, which no other library has.

    Raises
    ------
    ImportError
        If the library is not the one that this package uses: two environments in one process both carry nonpu.
    """
    if build_address != int(ffi.cast("uintptr_t", lib.nonpu_build())):
        place = __file__.removesuffix("/capi/exports.py")
        raise ImportError(f"this Python has loaded nonpu from {place}, which has a libascendcl.so of its own")
    table = ffi.cast("nonpu_table *", table_address)
    for name in dir(lib):
        if name.startswith("python_"):
            setattr(table, name.removeprefix("python_"), ffi.addressof(lib, name))
    atexit.register(ffi.cast("void (*)(void)", close_address))
    if lib.nonpu_is_checking():
        atexit.register(report)  # of a Python that has loaded the library; one of a C program does not get to its end


def report() -> None:
    """Report what the program did wrong, for NONPU_CHECK=1, while Python can still do so."""
    lib.nonpu_check_memory()
    lib.nonpu_close_check(check(1))
