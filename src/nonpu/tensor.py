"""Descriptors of tensors and scalars: what ``aclTensor`` and ``aclScalar`` hold, without any computation."""

from __future__ import annotations

import struct

from nonpu.dtypes import BY_VALUE, COMPLEXES, INTEGERS, SMALL_FLOATS, DType, Format, show_dtype
from nonpu.floatformats import decode_bfloat16, decode_small, encode_bfloat16, round_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final, SupportsIndex


_FORMAT_NAMES: Final = {int(member): member.name for member in Format}


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return row-major strides of `shape`, in elements; an axis of length 0 counts as 1, as in NumPy."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length if length > 1 else 1
    strides.reverse()
    return tuple(strides)


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two shapes broadcast to, None if they do not (document "broadcast relationship").

    Shapes are aligned on the right; per axis the lengths are equal or one of them is 1, so 1 with 0 gives 0.
    """
    if a == b:
        return a
    if len(a) < len(b):
        a, b = b, a
    result = list(a)
    start = len(a) - len(b)
    for index, length in enumerate(b, start):
        other = result[index]
        if length != other:
            if other == 1:
                result[index] = length
            elif length != 1:
                return None
    return tuple(result)


class Tensor:
    """A strided view of memory.

    Parameters
    ----------
    shape : sequence of int
        Lengths of the axes.
    dtype : DType, str, int or NumPy dtype
        Element type.
    strides : sequence of int, optional
        Steps between neighbours, in elements; row-major contiguous if not given.
    offset : int, optional
        Position of the first element in the storage, in elements.
    format : str, Format or int, optional
        Kept, never looked at.
    storage_shape : sequence of int, optional
        Shape of the storage that the view must lie in.
    data : int or buffer, optional
        Address of the storage's start, or an object that has the memory: anything with the buffer protocol or a
        contiguous NumPy array. A buffer is kept alive, and its bounds are known.

    Attributes
    ----------
    shape, strides, offset, format, storage_shape
        As above, as tuples and plain ints.
    dtype : DType or int
        An int only if a C caller passed a number that is no aclDataType.
    address : int
        Start of the storage; 0 is null.
    owner : object
        What keeps the memory alive, if known.
    extent : (int, int) or None
        Address and length in bytes of the memory known to exist around `address`.
    size : int
        Number of elements.
    is_empty, writable : bool
        Whether an axis has length 0; whether the memory may be written.

    Raises
    ------
    TypeError
        If `dtype` names no type, or a number is no int.
    ValueError
        If `strides` has another length than `shape`, or `data` is no contiguous memory.

    Examples
    --------
    >>> import numpy as np
    >>> from nonpu import Tensor
    >>> Tensor.from_numpy(np.zeros((4, 6), np.float16)[:, ::2]).strides
    (6, 2)
    >>> Tensor((2, 3), "bfloat16", strides=(1, 2))
    Tensor((2, 3), bfloat16, strides=(1, 2), data=null)
    """

    __slots__ = (
        "_read_only",
        "address",
        "dtype",
        "extent",
        "format",
        "is_empty",
        "offset",
        "owner",
        "shape",
        "size",
        "storage_shape",
        "strides",
    )

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int
    offset: int
    format: int
    storage_shape: tuple[int, ...] | None
    address: int
    owner: object
    extent: tuple[int, int] | None
    size: int
    is_empty: bool
    _read_only: bool

    def __init__(
        self,
        shape: Sequence[SupportsIndex],
        dtype: object,
        strides: Sequence[SupportsIndex] | None = None,
        offset: SupportsIndex = 0,
        format: object = "ND",
        storage_shape: Sequence[SupportsIndex] | None = None,
        data: object = None,
    ) -> None:
        lengths = _ints("shape", shape)
        steps = contiguous_strides(lengths) if strides is None else _ints("strides", strides)
        if len(steps) != len(lengths):
            raise ValueError(f"strides must have as many entries as shape, {len(lengths)} (got {len(steps)})")
        self._fill(
            lengths,
            DType.parse(dtype),
            steps,
            _int("offset", offset),
            Format.parse(format),
            None if storage_shape is None else _ints("storage_shape", storage_shape),
            0,
        )
        if isinstance(data, int):
            if not 0 <= data < 2**64:
                raise ValueError(f"data must be an address from 0 to 2**64 - 1 (got {data})")
            self.address = int(data)
        elif data is not None:
            self.address, length, self._read_only, self.owner = _locate(data)
            self.extent = (self.address, length)

    def _fill(
        self,
        shape: tuple[int, ...],
        dtype: int,
        strides: tuple[int, ...],
        offset: int,
        format: int,
        storage_shape: tuple[int, ...] | None,
        address: int,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.strides = strides
        self.offset = offset
        self.format = format
        self.storage_shape = storage_shape
        self.address = address
        self.owner = None
        self.extent = None
        self._read_only = False
        size = 1
        for length in shape:
            size *= length
        self.size = size
        self.is_empty = 0 in shape

    @classmethod
    def from_native(
        cls,
        shape: tuple[int, ...],
        dtype: int,
        strides: tuple[int, ...],
        offset: int,
        format: int,
        storage_shape: tuple[int, ...] | None,
        address: int,
    ) -> Tensor:
        """Describe what a C caller passed, unchecked: phase one judges it."""
        self = cls.__new__(cls)
        self._fill(shape, BY_VALUE.get(dtype, dtype), strides, offset, format, storage_shape, address)
        return self

    @classmethod
    def from_numpy(cls, array: Any) -> Tensor:
        """Describe a NumPy array, sharing its memory and keeping its strides (0 and negative ones too).

        Raises
        ------
        TypeError
            If `array` is no NumPy array, or its type is no aclDataType or not in native byte order.
        ValueError
            If a stride is no multiple of the element size.
        """
        if not _is_array(array):
            raise TypeError(f"array must be a NumPy array (got {type(array).__name__})")
        dtype = DType.parse(array.dtype)
        itemsize = dtype.itemsize
        shape = array.shape
        flags = array.flags
        if flags.c_contiguous:
            strides = contiguous_strides(shape)
        else:
            for length, step in zip(shape, array.strides, strict=True):
                if length > 1 and step % itemsize:
                    raise ValueError(f"strides must be multiples of the element size, {itemsize} (got {array.strides})")
            strides = tuple(step // itemsize for step in array.strides)
        self = cls.__new__(cls)
        address = array.__array_interface__["data"][0]
        self._fill(shape, dtype, strides, 0, Format.ND, None, address)
        self.owner = array
        if array.base is None and flags.c_contiguous:
            self.extent = (address, array.nbytes)
        else:
            self.extent = _bounds(array)
        return self

    def __reduce__(self) -> str:
        """Refuse to be copied or pickled: a descriptor of memory means nothing without that memory."""
        raise TypeError("Tensor: must stay with its memory, it cannot be copied or pickled (copy or pickle the array)")

    @property
    def writable(self) -> bool:
        """Whether the memory may be written.

        An array is asked only now, that is for outputs: NumPy warns where the flag of a broadcast view is read.
        """
        flags = getattr(self.owner, "flags", None)
        return not self._read_only and (flags is None or bool(flags.writeable))

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps; axes of length 1 and the offset do not matter."""
        step = 1
        if self.size > 1:
            for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
                if length != 1:
                    if stride != step:
                        return False
                    step *= length
        return True

    def __repr__(self) -> str:
        dtype = self.dtype.python_name if isinstance(self.dtype, DType) else self.dtype
        parts = [f"{self.shape}, {dtype}"]
        if self.strides != contiguous_strides(self.shape):
            parts.append(f"strides={self.strides}")
        if self.offset:
            parts.append(f"offset={self.offset}")
        if self.format != Format.ND:
            parts.append(f"format={_FORMAT_NAMES.get(self.format, self.format)}")
        if self.storage_shape is not None and self.storage_shape != self.shape:
            parts.append(f"storage_shape={self.storage_shape}")
        parts.append(f"data={self.address:#x}" if self.address else "data=null")
        return f"Tensor({', '.join(parts)})"


def _ints(what: str, values: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return `values` as plain ints (NumPy's too), refusing what only rounds to one."""
    try:
        return tuple(value.__index__() for value in values)
    except (AttributeError, TypeError):
        raise TypeError(f"{what} must be a sequence of integers (got {values!r})") from None


def _int(what: str, value: SupportsIndex) -> int:
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"{what} must be an integer (got {value!r})") from None


def _is_array(data: object) -> bool:
    """Whether `data` is a NumPy array; NumPy's scalars show a copy of themselves, not memory of their own."""
    return hasattr(data, "__array_interface__") and hasattr(data, "ctypes")


def _locate(data: object) -> tuple[int, int, bool, object]:
    """Return address and bytes of an object's contiguous memory, whether it is read-only, and what holds it."""
    if _is_array(data):
        # NumPy exports no buffer for bfloat16, so arrays are asked directly.
        array: Any = data
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise ValueError("data must be contiguous memory (got a strided array; Tensor.from_numpy keeps strides)")
        return array.__array_interface__["data"][0], array.nbytes, False, array  # `Tensor.writable` asks
    # The backend that every extension module built with cffi needs anyway; ctypes cannot take read-only memory.
    import _cffi_backend

    ffi = _cffi_backend.FFI()
    try:
        view = memoryview(data)  # type: ignore[arg-type]
        block = ffi.from_buffer(view)
    except (TypeError, ValueError, BufferError) as error:
        raise ValueError(f"data must be an address or contiguous memory (got {data!r}: {error})") from None
    # The block, not the object, is the owner: while it lives a bytearray cannot be resized and so move.
    return int(ffi.cast("uintptr_t", block)), view.nbytes, view.readonly, block


def _bounds(array: Any) -> tuple[int, int]:
    """Return start and length of the memory that the array at the bottom of a chain of views covers."""
    # A link of the chain may be no array, but an object that only holds one (as_strided makes such).
    bottom = link = array
    while (link := getattr(link, "base", None)) is not None and hasattr(link, "__array_interface__"):
        if hasattr(link, "strides") and hasattr(link, "size"):
            bottom = link
    address: int = bottom.__array_interface__["data"][0]
    if bottom.size == 0:
        return address, 0
    low = high = 0
    for length, step in zip(bottom.shape, bottom.strides, strict=True):
        if step < 0:
            low += step * (length - 1)
        else:
            high += step * (length - 1)
    return address + low, high - low + bottom.itemsize


class Scalar:
    """A host scalar: the exact bytes of one value. Scalars of the same type and bytes are equal.

    Parameters
    ----------
    value : bool, int, float, complex or a NumPy scalar
        Floating types round it once, to nearest even (an int directly); integers, BOOL and the 8-, 6- and 4-bit
        floating types must hold it exactly.
    dtype : DType, str, int or NumPy dtype
        Any type that ``aclCreateScalar`` takes.

    Raises
    ------
    TypeError
        If `dtype` names no type that scalars can have, or the value is complex and the type is not.
    ValueError
        If the type cannot hold the value.

    Examples
    --------
    >>> from nonpu import Scalar
    >>> Scalar(0.1, "float16").value
    0.0999755859375
    """

    __slots__ = ("dtype", "raw")

    dtype: int
    raw: bytes

    def __init__(self, value: Any, dtype: object) -> None:
        member = DType.parse(dtype)
        self.dtype = member
        self.raw = _encode(value, member)

    @classmethod
    def from_bytes(cls, raw: bytes, dtype: int) -> Scalar:
        """Take the bytes that a C caller passed; those beyond the type's size are dropped."""
        self = cls.__new__(cls)
        member = BY_VALUE.get(dtype)
        self.dtype = dtype if member is None else member
        self.raw = raw if member is None else raw[: member.itemsize]
        return self

    @property
    def value(self) -> float | complex | None:
        """The value as a Python number; None if the type is no aclDataType."""
        return _decode(self.raw, self.dtype)

    def to_double(self) -> float:
        """Return the value rounded once to DOUBLE; 0.0 for complex types, as ``aclScalar`` gives it."""
        value = _decode(self.raw, self.dtype)
        if isinstance(value, float):
            return value
        return round_to(value, DType.DOUBLE) if isinstance(value, int) else 0.0

    def to_float(self) -> float:
        """Return the value rounded once to FLOAT, as a Python float; 0.0 for complex types."""
        value = _decode(self.raw, self.dtype)
        if isinstance(value, int) or self.dtype == DType.DOUBLE:
            return round_to(value, DType.FLOAT)  # type: ignore[arg-type]  # a DOUBLE decodes to a float
        # What is left of the floating types is FLOAT or narrower.
        return value if isinstance(value, float) else 0.0

    # By its bytes, not by identity: a remembered call must not outlive the value that it was judged with.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scalar):
            return NotImplemented
        return self.dtype == other.dtype and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((self.dtype, self.raw))

    def __repr__(self) -> str:
        dtype = repr(self.dtype.python_name) if isinstance(self.dtype, DType) else self.dtype
        return f"Scalar({self.value!r}, {dtype})"


# BOOL is read as one signed byte, as the C object stores it.
_CODES: Final = {
    DType.FLOAT: struct.Struct("=f"),
    DType.DOUBLE: struct.Struct("=d"),
    DType.FLOAT16: struct.Struct("=e"),
    DType.INT8: struct.Struct("=b"),
    DType.UINT8: struct.Struct("=B"),
    DType.INT16: struct.Struct("=h"),
    DType.UINT16: struct.Struct("=H"),
    DType.INT32: struct.Struct("=i"),
    DType.UINT32: struct.Struct("=I"),
    DType.INT64: struct.Struct("=q"),
    DType.UINT64: struct.Struct("=Q"),
    DType.BOOL: struct.Struct("=b"),
    DType.COMPLEX64: struct.Struct("=2f"),
    DType.COMPLEX128: struct.Struct("=2d"),
}


def _decode(raw: bytes, dtype: int) -> float | complex | None:
    member = BY_VALUE.get(dtype)
    if member is None:
        return None
    if member is DType.BFLOAT16:
        return decode_bfloat16(raw)
    if member in SMALL_FLOATS:
        return decode_small(raw[0], member)
    code = _CODES.get(member)
    if code is None:
        return None
    parts = code.unpack(raw)
    if member in COMPLEXES:
        return complex(*parts)
    number: float = parts[0]
    return number


def _encode(value: Any, dtype: DType) -> bytes:
    if dtype in (DType.COMPLEX64, DType.COMPLEX128):
        part = DType.FLOAT if dtype is DType.COMPLEX64 else DType.DOUBLE
        number = complex(value)
        return _CODES[dtype].pack(round_to(number.real, part), round_to(number.imag, part))
    real = _real(value, dtype)
    if dtype is DType.BFLOAT16:
        return encode_bfloat16(real)
    if dtype in SMALL_FLOATS:
        for pattern in range(1 << dtype.bits):
            known = decode_small(pattern, dtype)
            if known == real or (known != known and real != real):
                return bytes((pattern,))
        raise ValueError(f"scalar must be representable in {dtype.name} (got {value!r})")
    code = _CODES.get(dtype)
    if code is None:
        raise TypeError(f"scalar dtype must be a type that aclCreateScalar takes (got {show_dtype(dtype)})")
    if dtype in INTEGERS or dtype is DType.BOOL:
        highest = 1 if dtype is DType.BOOL else (1 << dtype.bits - dtype.name.startswith("INT")) - 1
        lowest = -highest - 1 if dtype.name.startswith("INT") else 0
        if real != real or not lowest <= real <= highest or real != int(real):
            raise ValueError(f"scalar must be an integer from {lowest} to {highest} for {dtype.name} (got {value!r})")
        return code.pack(int(real))
    return code.pack(round_to(real, dtype))


def _real(value: Any, dtype: DType) -> float:
    """Return `value` as an int where it is one (NumPy's too), else as a float."""
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        pass
    try:
        if isinstance(value, (complex, str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"scalar must be a real number for {dtype.name} (got {value!r})") from None
