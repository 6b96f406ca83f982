"""Calls of the C library as pyACL makes them: integers as handles, the status last, no exception for a failure.

An argument of the wrong kind is no failure of the library: it raises TypeError, or ValueError if it is out of range.
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# From <home>/python/site-packages/acl/native.py.
HOME = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
LIBRARY = os.path.join(HOME, "lib64", "libascendcl.so")
NOT_SUPPORTED = 200001  # ACL_ERROR_API_NOT_SUPPORT
KINDS = {
    "int8": ctypes.c_int8,
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "address": ctypes.c_void_p,
    "text": ctypes.c_char_p,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "status": ctypes.c_int32,
}
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Function:
    """One C function, called with Python's values.

    Parameters
    ----------
    name : str
        Python name, for messages.
    symbol : str
        Name in the library; a call of one that it lacks gives ACL_ERROR_API_NOT_SUPPORT.
    result : str
        ``none`` or one of `KINDS`; ``status`` comes last, behind the outputs.
    parameters : str
        Name and kind of each, separated by a space. ``out`` before the kind marks an output, ``callback`` a function
        whose argument is the parameter after it.
    """

    def __init__(self, name: str, symbol: str, result: str, *parameters: str) -> None:
        self.name = name
        self.symbol = symbol
        self.result = result
        self.parameters = [tuple(text.split()) for text in parameters]
        self.native: Any = getattr(library(), symbol, None)
        if self.native is not None:
            self.native.restype = None if result == "none" else KINDS[result]
            self.native.argtypes = [self._type(*parameter[1:]) for parameter in self.parameters]

    @staticmethod
    def _type(*kind: str) -> Any:
        if kind[0] == "out":
            return ctypes.POINTER(KINDS[kind[1]])
        return {"callback": CALLBACK, "data": ctypes.c_void_p}.get(kind[0]) or KINDS[kind[0]]

    def __call__(self, *values: object) -> Any:
        given = iter(values)
        outputs: list[Any] = []
        arguments: list[Any] = []
        for name, *kind in self.parameters:
            if kind[0] == "out":
                outputs.append(KINDS[kind[1]]())
                arguments.append(ctypes.byref(outputs[-1]))
            elif kind[0] == "callback":
                arguments.append(self._trampoline(name, next(given), next(given)))
            elif kind[0] == "data":
                arguments.append(None)
            else:
                arguments.append(self._convert(name, kind[0], next(given)))
        return self._answer(self._run(arguments), outputs)

    def _run(self, arguments: list[Any]) -> Any:
        if self.native is not None:
            return self.native(*arguments) if _checked is None else self._run_checked(_checked, arguments)
        text = f"acl.{self.name}: {self.symbol} must be in the library (got a build without it)"
        library().nonpu_record_error(text.encode())
        return {"status": NOT_SUPPORTED, "none": None, "text": None}.get(self.result, 0)

    def _run_checked(self, places: dict[str, Any], arguments: list[Any]) -> Any:
        """Say where the script calls, for the report of NONPU_CHECK=1."""
        caller = sys._getframe(1)
        while caller.f_back is not None and os.path.dirname(caller.f_code.co_filename) == os.path.dirname(__file__):
            caller = caller.f_back
        name = caller.f_code.co_filename
        place = f"{name}:{caller.f_lineno} in {caller.f_code.co_name}"
        library().nonpu_note_script(places.setdefault(place, ctypes.c_char_p(os.fsencode(place))))
        try:
            return self.native(*arguments)
        finally:
            library().nonpu_note_script(None)

    def _answer(self, result: Any, outputs: list[Any]) -> Any:
        values = [0 if output.value is None else output.value for output in outputs]
        if self.result == "address":
            result = 0 if result is None else result
        elif self.result == "text":
            result = None if result is None else result.decode("utf-8", "replace")
        if not values:
            return result
        return tuple(values) if self.result == "none" else (*values, result)

    def _convert(self, parameter: str, kind: str, value: Any) -> Any:
        if kind == "text":
            if value is None or isinstance(value, (str, bytes)):
                return None if value is None else os.fsencode(value)
            raise TypeError(f"acl.{self.name}: {parameter} must be a str or None (got {type(value).__name__})")
        if kind in ("float", "double"):
            if isinstance(value, (int, float)):
                return float(value)
            raise TypeError(f"acl.{self.name}: {parameter} must be a float (got {type(value).__name__})")
        return integer(self.name, parameter, value, KINDS[kind])

    def _trampoline(self, parameter: str, function: Any, data: object) -> Any:
        if not callable(function):
            raise TypeError(f"acl.{self.name}: {parameter} must be callable (got {type(function).__name__})")
        return keep(lambda: function(data))


def integer(function: str, parameter: str, value: Any, kind: Any = ctypes.c_uint64) -> int:
    """Return a number that the C type can hold.

    Raises
    ------
    TypeError
        If `value` is no integer.
    ValueError
        If it is out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"acl.{function}: {parameter} must be an int (got {type(value).__name__})") from None
    bits = 8 * ctypes.sizeof(kind)
    low, high = (0, 2**bits) if kind(-1).value != -1 else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= number < high:
        raise ValueError(f"acl.{function}: {parameter} must be from {low} to {high - 1} (got {number})")
    return number


# ---------------------------------------------------------------- callbacks

_kept: dict[int, Any] = {}
_ended: list[int] = []
_numbers: Iterator[int] = iter(range(1 << 62))


def keep(function: Any) -> Any:
    """Return a C function that calls `function` once; it stays until after its run.

    Code that is running must not be freed, so those that have run are dropped when the next one is made.
    """
    while _ended:
        _kept.pop(_ended.pop(), None)
    number = next(_numbers)

    def once(_data: object) -> None:
        try:
            function()
        finally:
            _ended.append(number)

    _kept[number] = CALLBACK(once)
    return _kept[number]


# ---------------------------------------------------------------- the library

_library: Any = None
# With NONPU_CHECK=1, the places that the library was told; it keeps their addresses.
_checked: dict[str, Any] | None = None


def library() -> Any:
    """Return the C library of the toolkit directory that this file lies in.

    Raises
    ------
    ImportError
        If it cannot be loaded.
    """
    global _checked, _library
    if _library is None:
        try:
            _library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise ImportError(f"acl: {LIBRARY} must be a library of this machine (got {error})") from None
        _library.nonpu_record_error.restype = None
        _library.nonpu_note_script.restype = None
        if _library.nonpu_is_checking():
            _checked = {}
    return _library
