"""Rounding of exact values to the types of the contract, once and to nearest even.

Two implementations stand beside each other: one for a single rational number in integer arithmetic
(`nearest_bits`), one for arrays of `Values` (`round_values`), which also tells which elements lie so near to a
rounding boundary that the bound of their error leaves the answer open. Subnormals are kept, overflow gives infinity,
a zero keeps the sign of what was rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import ml_dtypes
import mpmath
import numpy as np

from nonpu.dtypes import DType
from nonpu.verify import quick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nonpu.verify.values import Values

Real: TypeAlias = "int | float | Fraction | mpmath.mpf"


@dataclass(frozen=True)
class Layout:
    """A binary interchange format.

    Parameters
    ----------
    precision : int
        Bits of the significand, the leading one included.
    quantum : int
        Exponent of the smallest subnormal, 2**quantum.
    largest : int
        Exponent of the first power of two that is out of range: finite values are below 2**largest.
    width : int
        Bits in all.
    """

    precision: int
    quantum: int
    largest: int
    width: int

    @property
    def infinity(self) -> int:
        """Bit pattern of +infinity."""
        return ((1 << (self.width - self.precision)) - 1) << (self.precision - 1)

    @property
    def nan(self) -> int:
        """Bit pattern of the quiet NaN without payload."""
        return self.infinity | 1 << (self.precision - 2)

    @property
    def sign(self) -> int:
        """Bit of the sign."""
        return 1 << (self.width - 1)

    @property
    def storage(self) -> np.dtype[Any]:
        """Unsigned NumPy type of the bit patterns."""
        return np.dtype(f"u{self.width // 8}")


# IEEE 754-2019, table 3.5; bfloat16 is binary32 without its 16 lowest bits.
LAYOUTS: Final[dict[DType, Layout]] = {
    DType.FLOAT16: Layout(11, -24, 16, 16),
    DType.BFLOAT16: Layout(8, -133, 128, 16),
    DType.FLOAT: Layout(24, -149, 128, 32),
    DType.DOUBLE: Layout(53, -1074, 1024, 64),
}
COMPONENT: Final[dict[DType, DType]] = {DType.COMPLEX64: DType.FLOAT, DType.COMPLEX128: DType.DOUBLE}
INTEGERS: Final = (
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.UINT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.UINT64,
)


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of a type of the contract; bfloat16 is the one of ml_dtypes."""
    name: Any = ml_dtypes.bfloat16 if dtype == DType.BFLOAT16 else dtype.python_name
    result: np.dtype[Any] = np.dtype(name)
    return result


def wide_dtype(dtype: DType) -> np.dtype[Any]:
    """Return float64 or complex128, which hold every value of the type exactly."""
    return np.dtype(np.complex128 if dtype in COMPONENT else np.float64)


def fraction(value: Real) -> Fraction:
    """Return a finite number as a rational number, exactly."""
    if isinstance(value, mpmath.mpf):
        return Fraction(*mpmath.libmp.to_rational(value._mpf_))
    return Fraction(value)


def binade(value: Fraction) -> int:
    """Return e with 2**(e-1) <= abs(value) < 2**e, for a value other than 0."""
    size = abs(value)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess + 1 if size >= Fraction(2) ** guess else guess


def quantum(exponent: int, layout: Layout) -> int:
    """Return the exponent of the spacing of the format in the binade [2**(exponent-1), 2**exponent).

    At the bottom it is that of the subnormals, beyond the largest finite value that of the last binade.
    """
    return max(min(exponent, layout.largest) - layout.precision, layout.quantum)


def nearest_bits(value: Real, dtype: DType, *, negative: bool = False) -> int:
    """Round a number to nearest even and return its bit pattern.

    Parameters
    ----------
    value : int, float, Fraction or mpf
        Exact value; infinities and NaN as float or mpf.
    dtype : DType
        FLOAT, FLOAT16, BFLOAT16 or DOUBLE.
    negative : bool
        Sign of an exact zero that is given as an int, Fraction or mpf.
    """
    layout = LAYOUTS[dtype]
    if isinstance(value, (float, mpmath.mpf)):
        if value != value:
            return layout.nan
        if mpmath.isinf(value):
            return layout.infinity | (layout.sign if value < 0 else 0)
        if isinstance(value, float):
            negative = math.copysign(1.0, value) < 0
    number = fraction(value)
    sign = layout.sign if (negative if number == 0 else number < 0) else 0
    if number == 0:
        return sign
    size = abs(number)
    exponent = quantum(binade(size), layout)
    steps = round(size * Fraction(2) ** -exponent)  # round() of a Fraction is to nearest even
    # A carry into the next binade, and from the subnormals to the normal values, is the carry of this addition.
    pattern = ((exponent - layout.quantum) << (layout.precision - 1)) + steps
    return sign | min(pattern, layout.infinity)


def decode_bits(bits: int, dtype: DType) -> float:
    """Return the value of a bit pattern; every value of the four types is exact in a Python float."""
    layout = LAYOUTS[dtype]
    magnitude = bits & ~layout.sign
    sign = -1.0 if bits & layout.sign else 1.0
    if magnitude >= layout.infinity:
        return math.copysign(math.inf, sign) if magnitude == layout.infinity else math.nan
    field = magnitude >> (layout.precision - 1)
    digits = magnitude & ((1 << (layout.precision - 1)) - 1)
    if field == 0:
        return sign * math.ldexp(digits, layout.quantum)
    return sign * math.ldexp(digits + (1 << (layout.precision - 1)), layout.quantum + field - 1)


def round_number(value: Real, dtype: DType) -> float:
    """Round a number once to a type and return the result as a float, as a scalar argument is."""
    return decode_bits(nearest_bits(value, dtype), dtype)


def decode(array: NDArray[Any]) -> NDArray[Any]:
    """Widen real elements to float64 and complex ones to complex128, exactly."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        if array.dtype == ml_dtypes.bfloat16:
            wide = array.view(np.uint16).astype(np.uint32) << np.uint32(16)
            return wide.view(np.float32).astype(np.float64)
        return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _below(values: Values) -> NDArray[np.bool_]:
    # With high = 0.5 and low < 0 the value lies in the binade below.
    opposite = np.signbit(values.high) != np.signbit(values.low)
    return np.asarray((np.abs(values.high) == 0.5) & (values.low != 0) & opposite)


def spacing(values: Values, layout: Layout) -> NDArray[np.int64]:
    """Return the exponent of the spacing of the format at each value: `quantum` for many, with no end at the top."""
    exponent = np.where(values.high == 0, layout.quantum, values.exponent - _below(values))
    return np.asarray(np.maximum(exponent - layout.precision, layout.quantum))


def round_values(values: Values, dtype: DType) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Round to nearest even.

    Returns
    -------
    bits : array of unsigned integers
        Bit patterns.
    undecided : bool array
        True where the bound of the error does not tell on which side of a rounding boundary the value lies; the
        pattern is one of the two candidates there.
    """
    layout = LAYOUTS[dtype]
    finite = np.isfinite(values.high)
    high, low = np.where(finite, np.abs(values.high), 0.0), np.where(values.high < 0, -values.low, values.low)
    unit = np.minimum(spacing(values, layout), layout.largest + 1 - layout.precision)
    # 2**-200 of the spacing is as far from every boundary as anything smaller; what is out of range stays out of range.
    shift = np.clip(values.exponent - unit, -200, layout.precision + _below(values)).astype(np.int32)
    high, low = np.ldexp(high, shift), np.ldexp(np.where(finite, low, 0.0), shift)
    steps = np.rint(high)
    rest = high - steps
    total = rest + low
    lost = np.where(np.abs(rest) >= np.abs(low), low - (total - rest), rest - (total - low))
    over = (np.abs(total) - 0.5) + np.where(total < 0, -lost, lost)
    odd = np.fmod(steps, 2.0) != 0
    move = (over > 0) | ((over == 0) & odd)
    margin = values.bound * np.abs(high)
    undecided = finite & (np.abs(over) <= margin) & (margin > 0)
    steps = steps + np.where(move, np.where(total < 0, -1.0, 1.0), 0.0)
    field = (unit - layout.quantum).astype(np.uint64) << np.uint64(layout.precision - 1)
    pattern = field + steps.astype(np.uint64)
    pattern = np.where(finite, np.minimum(pattern, np.uint64(layout.infinity)), np.uint64(layout.infinity))
    pattern = np.where(np.isnan(values.high), np.uint64(layout.nan), pattern)
    signed = np.signbit(values.high) & ~np.isnan(values.high)
    bits = pattern | np.where(signed, np.uint64(layout.sign), np.uint64(0))
    return bits.astype(layout.storage), undecided


def from_bits(bits: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Return bit patterns as an array of the NumPy type."""
    return bits.astype(LAYOUTS[dtype].storage).view(numpy_dtype(dtype))


def bits_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return the bit patterns of a real or complex array, with every NaN replaced by the same one.

    A complex array gets a trailing axis of length 2.
    """
    array = np.array(array, order="C")
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    if array.dtype.kind in "biu":
        return array.copy()
    dtype = DType.parse(array.dtype)
    patterns = array.view(LAYOUTS[dtype].storage)
    return np.where(np.isnan(decode(array)), LAYOUTS[dtype].storage.type(LAYOUTS[dtype].nan), patterns)


def convert(array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Convert rounded results to the type of the output.

    Floating types round to nearest even once more; integers truncate toward zero and saturate, NaN gives 0; BOOL is
    `!= 0`; complex types get an imaginary part of 0.

    Parameters
    ----------
    array : array
        Values of the promoted type.
    dtype : DType
        Type of the output.
    """
    if dtype not in (*LAYOUTS, *COMPONENT, *INTEGERS, DType.BOOL):
        raise ValueError(f"convert: dtype must be a floating, integer, BOOL or complex type (got {dtype!r})")
    target = numpy_dtype(dtype)
    wide = decode(array)
    if target == array.dtype:
        return array.copy()
    if dtype in COMPONENT:
        parts = (wide.real, wide.imag) if wide.dtype.kind == "c" else (wide, np.zeros_like(wide))
        result = np.empty(wide.shape, target)
        result.real, result.imag = (_narrow(part, COMPONENT[dtype]) for part in parts)
        return result
    if dtype in LAYOUTS:
        return _narrow(wide, dtype)
    if dtype == DType.BOOL:
        return np.asarray(wide != 0)
    return _truncate(wide, target)


def _narrow(wide: NDArray[Any], dtype: DType) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return quick.narrow(wide, dtype)


def _truncate(wide: NDArray[Any], target: np.dtype[Any]) -> NDArray[Any]:
    limits = np.iinfo(target)
    whole = np.trunc(np.where(np.isnan(wide), 0.0, wide))
    # float(max) of a 64-bit type is max + 1: `>=` sends that, and for the narrower types max itself, to max.
    above, below = whole >= float(limits.max), whole <= float(limits.min)
    inside = np.where(above | below, 0.0, whole).astype(target)
    return np.where(above, target.type(limits.max), np.where(below, target.type(limits.min), inside))
