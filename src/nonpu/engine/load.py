"""Find the compiled kernels at run time: one library per CPU level, opened once and never closed."""

from __future__ import annotations

import os

import _cffi_backend

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
VARIABLE = "NONPU_CPU_LEVEL"

X86_LEVELS = ("x86_64_v2", "x86_64_v3", "x86_64_v4")

_addresses: dict[str, int] = {}
_levels: tuple[str, ...] = ()
_library: object = None


def levels() -> tuple[str, ...]:
    """Return the CPU levels that this processor has, lowest first.

    Raises
    ------
    RuntimeError
        If the processor is too old or of an unknown kind.
    """
    global _levels
    if not _levels:
        if os.uname().machine == "x86_64":
            from nonpu._core import lib  # the build imports this module before that one exists

            found = lib.nonpu_processor()
            _levels = tuple(name for bit, name in enumerate(X86_LEVELS) if found >> bit & 1)
            if not _levels:
                raise RuntimeError("processor: must have the instructions of x86-64-v2 (lacks some of them)")
        else:
            _levels = ("aarch64",)
    return _levels


def cpu_level() -> str:
    """Return the level whose kernels are used: the highest, or the one that NONPU_CPU_LEVEL names.

    Raises
    ------
    RuntimeError
        If this processor does not have the named level.
    """
    available = levels()
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return available[-1]
    if wanted not in available:
        raise RuntimeError(f"{VARIABLE}: must be one of {', '.join(available)} on this processor (got {wanted!r})")
    return wanted


def address(symbol: str) -> int:
    """Return the address of a kernel, move or driver of the library for this processor.

    Raises
    ------
    RuntimeError
        If the kernels have not been built.
    LookupError
        If the library has no such symbol.
    """
    try:
        return _addresses[symbol]
    except KeyError:
        found = _addresses[symbol] = _find(symbol)
        return found


def exists(symbol: str) -> bool:
    """Return whether the library for this processor has such a symbol."""
    try:
        address(symbol)
    except LookupError:
        return False
    return True


def _find(symbol: str) -> int:
    global _library
    if _library is None:
        _library = _open(os.path.join(FOLDER, f"kernels_{cpu_level()}.so"))
    pointer = _cffi_backend.new_pointer_type(_cffi_backend.new_void_type())
    try:
        function = _library.load_function(pointer, symbol)  # type: ignore[attr-defined]
    except AttributeError:
        raise LookupError(f"kernel: must be a symbol of kernels_{cpu_level()}.so (got {symbol!r})") from None
    return int(_cffi_backend.cast(_cffi_backend.new_primitive_type("uintptr_t"), function))


def _open(path: str) -> object:
    if not os.path.exists(path):
        raise RuntimeError(f"kernels: {path} must exist (run python -m nonpu.engine.compile {FOLDER})")
    # Worker threads may still run kernels while the interpreter ends: the library must outlive it.
    return _cffi_backend.load_library(path, os.RTLD_NOW | os.RTLD_NODELETE)
