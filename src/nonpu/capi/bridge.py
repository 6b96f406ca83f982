"""How a Python function becomes the implementation of a C function; used by the modules that hold such functions.

No exception leaves such a function: each becomes a status and a text for ``aclGetRecentErrMsg``.
"""

from __future__ import annotations

from nonpu._core import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

SUCCESS = 0
INVALID_PARAM = 100000
INVALID_FILE = 100003
INTERNAL_ERROR = 500000


def record(text: str) -> None:
    """Add a line for ``aclGetRecentErrMsg``."""
    lib.nonpu_record_error(text.encode("utf-8", "replace"))


def fail(status: int, text: str) -> int:
    """Record why a call fails and return its status."""
    record(text)
    lib.nonpu_note_status(status)
    return status


def unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Record an exception that nobody foresaw; the caller gets the status declared with its function.

    One that a signal's handler raised, as at Ctrl-C, is the caller's: it is raised again when the C function returns.
    """
    if issubclass(kind, Exception) and not raised_by_handler(trace):
        record(f"internal error: {kind.__name__}: {error}")
    else:
        record(f"interrupted: {kind.__name__}: {error}")
        lib.nonpu_interrupt(id(error.with_traceback(None)))


def raised_by_handler(trace: TracebackType | None) -> bool:
    """Return whether an exception came out of a Python function that handles a signal."""
    import signal

    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = [getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers]
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


# cffi's decorator carries no types.
def exported(status: Any) -> Any:
    """Make a function the implementation of the C function of its name; `status` is its answer to an exception."""
    return lambda function: ffi.def_extern(f"python_{function.__name__}", error=status, onerror=unexpected)(function)
