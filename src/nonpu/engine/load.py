"""Find the compiled kernels at run time: one library per CPU level, opened once and never closed."""

from __future__ import annotations

import os

import _cffi_backend

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels")
VARIABLE = "NONPU_CPU_LEVEL"

# What a level needs beyond the one before, as Linux names it (x86-64 psABI, section "Micro-Architecture Levels").
X86_LEVELS = (
    ("x86_64_v2", ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")),
    ("x86_64_v3", ("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")),
    ("x86_64_v4", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
)

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
        _levels = _x86_levels(_flags()) if os.uname().machine == "x86_64" else ("aarch64",)
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


def _flags() -> frozenset[str]:
    with open("/proc/cpuinfo", "rb") as file:
        for line in file:
            if line.startswith(b"flags"):
                return frozenset(line.decode().split())
    return frozenset()


def _x86_levels(flags: frozenset[str]) -> tuple[str, ...]:
    found = []
    for name, needed in X86_LEVELS:
        missing = [flag for flag in needed if flag not in flags]
        if missing:
            break
        found.append(name)
    if not found:
        raise RuntimeError(f"processor: must have {', '.join(X86_LEVELS[0][1])} (lacks {', '.join(missing)})")
    return tuple(found)


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
