"""acl.util: host data as addresses, and threads for callbacks."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import warnings

from .native import integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUCCESS, INVALID_PARAM, FAILURE = 0, 100000, 500001
# NumPy's numbers of types, which pyACL passes instead of their names.
NUMPY_TYPES = {
    0: "bool",
    1: "int8",
    2: "uint8",
    3: "int16",
    4: "uint16",
    5: "int32",
    6: "uint32",
    7: "int64",
    8: "uint64",
    9: "int64",
    10: "uint64",
    11: "float32",
    12: "float64",
    14: "complex64",
    15: "complex128",
    23: "float16",
}
# A thread that waits for reports comes back from the C library only when its timeout has passed.
GRACE = 2.0
_threads: dict[int, threading.Thread] = {}


def bytes_to_ptr(data: bytes, /) -> int:
    """Return the address of a bytes object's memory; the caller keeps the object alive."""
    if not isinstance(data, bytes):
        raise ValueError(f"acl.util.bytes_to_ptr: data must be a bytes object (got {type(data).__name__})")
    address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
    return 0 if address is None else address


def ptr_to_bytes(ptr: int, size: int, /) -> bytes:
    """Return a copy of `size` bytes at an address."""
    return ctypes.string_at(_address("ptr_to_bytes", ptr, size), size)


def numpy_to_ptr(array: Any, /) -> int:
    """Return the address of an array's first element; deprecated, use `bytes_to_ptr`."""
    _deprecated("numpy_to_ptr", "bytes_to_ptr")
    return int(_array("numpy_to_ptr", array).__array_interface__["data"][0])


def numpy_contiguous_to_ptr(array: Any, /) -> int:
    """Return the address of a contiguous array; deprecated, use `bytes_to_ptr`."""
    _deprecated("numpy_contiguous_to_ptr", "bytes_to_ptr")
    if not _array("numpy_contiguous_to_ptr", array).flags.c_contiguous:
        raise ValueError("acl.util.numpy_contiguous_to_ptr: array must be contiguous (got a strided one)")
    return int(array.__array_interface__["data"][0])


def ptr_to_numpy(ptr: int, shape: tuple[int, ...], npy_type: int, /) -> Any:
    """Return an array of the memory at an address, without a copy; deprecated, use `ptr_to_bytes`.

    `npy_type` is NumPy's number of the type, 11 for float32 say.
    """
    import numpy as np

    _deprecated("ptr_to_numpy", "ptr_to_bytes")
    name = NUMPY_TYPES.get(integer("util.ptr_to_numpy", "npy_type", npy_type))
    if name is None:
        raise ValueError(f"acl.util.ptr_to_numpy: npy_type must be a number of a NumPy type (got {npy_type})")
    if not isinstance(shape, tuple):
        raise TypeError(f"acl.util.ptr_to_numpy: shape must be a tuple (got {type(shape).__name__})")
    size = np.dtype(name).itemsize
    for length in shape:
        size *= integer("util.ptr_to_numpy", "shape", length)
    address = _address("ptr_to_numpy", ptr, size)
    memory: Any = (ctypes.c_char * size).from_address(address) if size else bytearray()
    return np.frombuffer(memory, name).reshape(shape)


def start_thread(func: Any, args: Any, /) -> tuple[int, int]:
    """Call ``func(args)`` in a new thread, for `acl.rt.subscribe_report`; return its number and the status."""
    if not callable(func):
        raise TypeError(f"acl.util.start_thread: func must be callable (got {type(func).__name__})")

    def run() -> None:
        with contextlib.suppress(SystemExit):
            func(args)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert thread.ident is not None
    _threads[thread.ident] = thread
    return thread.ident, SUCCESS


def stop_thread(thread_id: int, /) -> int:
    """Wait for a thread of `start_thread` to end; one that goes on is ended after two seconds. Return the status."""
    thread = _threads.pop(integer("util.stop_thread", "thread_id", thread_id), None)
    if thread is None:
        return INVALID_PARAM
    thread.join(GRACE)
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(SystemExit))
        thread.join(GRACE)
    return FAILURE if thread.is_alive() else SUCCESS


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(f"acl.util.{name} is deprecated, use acl.util.{instead}", DeprecationWarning, stacklevel=3)


def _array(function: str, array: Any) -> Any:
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise ValueError(f"acl.util.{function}: array must be a numpy.ndarray (got {type(array).__name__})")
    return array


def _address(function: str, ptr: int, size: int) -> int:
    address = integer(f"util.{function}", "ptr", ptr)
    if integer(f"util.{function}", "size", size) and not address:
        raise ValueError(f"acl.util.{function}: ptr must be an address (got 0)")
    return address
