"""Values of many elements in single doubles, with a bound of their error that is carried along.

For results of up to 32 bits a double nearly always decides the rounding. This arithmetic is several times as fast as
`nonpu.verify.values` and has the same operations; what its bound leaves open is left to that module. It is for
arguments of up to 32 bits: their products of up to five factors stay far inside the range of a double.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from nonpu.dtypes import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_U: Final = 2.0**-53
# Libraries' exp is right to a unit or two; this is 2**8 units, and still leaves hardly anything open.
EXP: Final = 2.0**-44
_LARGE: Final = 2.0**-11
# exp of what is further from 0 could come near the ends of the range of a double.
_FAR: Final = 600.0
SIGNIFICANT: Final = {DType.FLOAT16: 11, DType.BFLOAT16: 8, DType.FLOAT: 24}
_INEXACT: Final = 54


@dataclass(frozen=True, eq=False)
class Quick:
    """Values of many elements.

    Parameters
    ----------
    value : float64 array
        Approximate values.
    bound : float64 array or float
        Bound of the relative error; infinite where nothing is known.
    digits : int
        Significant bits of every value, if all are exact and have no more than 53; else 54.
    """

    value: Doubles
    bound: Doubles | float
    digits: int

    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __neg__(self) -> Quick:
        return Quick(-self.value, self.bound, self.digits)

    def __abs__(self) -> Quick:
        return Quick(np.abs(self.value), self.bound, self.digits)

    def __gt__(self, zero: int) -> Mask:
        return np.asarray(self.value > zero)

    def __ge__(self, zero: int) -> Mask:
        return np.asarray(self.value >= zero)

    def __add__(self, other: Quick | int) -> Quick:
        right = _lifted(other)
        total = self.value + right.value
        if _is_zero(self.bound) and _is_zero(right.bound):
            # The sum of two exact numbers is exact, or wrong by one rounding.
            return Quick(total, _U, _INEXACT)
        inherited = np.abs(self.value) * self.bound + np.abs(right.value) * right.bound
        # A sum of 0 of inexact numbers has lost everything: the quotient is infinite, or NaN, which decides nothing.
        return Quick(total, inherited / np.abs(total) + 2 * _U, _INEXACT)

    __radd__ = __add__

    def __sub__(self, other: Quick | int) -> Quick:
        return self + -_lifted(other)

    def __rsub__(self, other: int) -> Quick:
        return _lifted(other) + -self

    def __mul__(self, other: Quick | int) -> Quick:
        right = _lifted(other)
        digits = self.digits + right.digits
        product = self.value * right.value
        if digits < _INEXACT:
            return Quick(product, 0.0, digits)
        return Quick(product, (self.bound + right.bound) * (1 + 2.0**-10) + _U, _INEXACT)

    __rmul__ = __mul__

    def __truediv__(self, other: Quick) -> Quick:
        return Quick(self.value / other.value, (self.bound + other.bound) * (1 + 2.0**-10) + 2 * _U, _INEXACT)


class QuickArithmetic:
    """What a formula needs besides operators, on `Quick`."""

    @staticmethod
    def choose(condition: Mask, left: Quick, right: Quick) -> Quick:
        """Take `left` where the condition holds, `right` elsewhere."""
        same = _is_scalar(left.bound) and _is_scalar(right.bound) and left.bound == right.bound
        bound = left.bound if same else np.where(condition, left.bound, right.bound)
        return Quick(np.where(condition, left.value, right.value), bound, max(left.digits, right.digits))

    @staticmethod
    def exp(value: Quick) -> Quick:
        """Return the exponential."""
        size = np.abs(value.value)
        # The relative error of exp is the absolute one of its argument.
        bound = np.where(size < _FAR, size * value.bound * (1 + 2.0**-10) + EXP, np.inf)
        return Quick(np.exp(value.value), bound, _INEXACT)

    @staticmethod
    def clip(value: Quick, limit: int) -> Quick:
        """Return the value, or +-limit where its magnitude is greater."""
        return Quick(np.clip(value.value, -limit, limit), value.bound, max(value.digits, int(limit).bit_length()))


def exactly(array: Doubles, dtype: DType) -> Quick:
    """Return elements of a type of up to 32 bits, widened to float64, as exact values."""
    return Quick(array, 0.0, SIGNIFICANT[dtype])


def rounded(values: Quick, dtype: DType) -> tuple[NDArray[Any], Mask]:
    """Round to nearest even.

    Returns
    -------
    array of the NumPy type
        Rounded values.
    undecided : bool array
        True where the bound of the error does not tell on which side of a rounding boundary the value lies, and for
        infinities and NaN.
    """
    if _is_scalar(values.bound) and values.bound == 0:
        return narrow(values.value, dtype), ~np.isfinite(values.value)
    spread = np.abs(values.value) * (values.bound * (1 + 2.0**-10) + 4 * _U)
    low, high = narrow(values.value - spread, dtype), narrow(values.value + spread, dtype)
    bits = np.dtype(f"u{low.dtype.itemsize}")
    # Larger bounds would need the products of bounds that the operations leave out; an unknown one is NaN.
    undecided = (low.view(bits) != high.view(bits)) | ~np.less(values.bound, _LARGE) | ~np.isfinite(values.value)
    return high, undecided


def narrow(wide: Doubles, dtype: DType) -> NDArray[Any]:
    """Round float64 once to nearest even to a floating type; every NaN becomes the quiet one without payload."""
    if dtype == DType.DOUBLE:
        result: NDArray[Any] = np.array(wide, np.float64)
    elif dtype == DType.BFLOAT16:
        result = _odd(wide).astype(ml_dtypes.bfloat16)
    else:
        result = np.asarray(wide, np.float64).astype(dtype.python_name)
    unknown = np.isnan(wide)
    if np.any(unknown):
        bits = np.dtype(f"u{result.dtype.itemsize}")
        result.view(bits)[unknown] = np.array(np.nan, result.dtype).view(bits)
    return result


def _odd(wide: Doubles) -> NDArray[np.float32]:
    """Round to float32 toward zero, and make the last bit 1 where digits were lost: a second rounding is then right."""
    single = np.asarray(wide, np.float64).astype(np.float32)
    bits = single.view(np.uint32)
    back = single.astype(np.float64)
    inexact = (back != wide) & ~np.isnan(wide)
    bits -= (np.abs(back) > np.abs(wide)).astype(np.uint32)
    bits |= inexact.astype(np.uint32)
    return single


def _lifted(other: Quick | int) -> Quick:
    if isinstance(other, Quick):
        return other
    return Quick(np.asarray(float(other)), 0.0, max(int(other).bit_length(), 1))


def _is_scalar(bound: Doubles | float) -> bool:
    return isinstance(bound, float)


def _is_zero(bound: Doubles | float) -> bool:
    return isinstance(bound, float) and bound == 0
