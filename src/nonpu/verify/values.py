"""Exact values of many elements at once, with a bound of their error that is carried along.

An element is `(high + low) * 2**exponent`: two doubles, an exponent so wide that nothing overflows or underflows, and a
bound of the relative error. Every operation adds its own error to those of its operands (running error analysis), so a
cancellation shows as a large bound, never as a wrong digit; what the bound leaves open is decided in intervals
(`nonpu.verify.golden`). Infinities and NaN behave as in IEEE arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.verify import pairs
from nonpu.verify.pairs import FALLEN, STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nonpu.verify.pairs import Doubles, Pair

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Beyond this distance of two exponents the smaller addend loses digits to the end of the double range.
_APART: Final = 900
# Covers the products of bounds that a sum of bounds leaves out, as long as the sum is below _SMALL.
_SLACK: Final = 1.01
_SMALL: Final = 2.0**-8


@dataclass(frozen=True, eq=False)
class Values:
    """Values of many elements; the arrays have one shape.

    Parameters
    ----------
    high, low : float64 arrays
        Leading part, in +-[0.5, 1) or a zero, an infinity or a NaN, and trailing part, at most half a unit in the last
        place of the leading one.
    exponent : int64 array
        Power of two that multiplies both.
    bound : float64 array
        Bound of the relative error; 0 where the value is exact, infinite where nothing is known.
    """

    high: Doubles
    low: Doubles
    exponent: Integers
    bound: Doubles

    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of elements."""
        return self.high.shape

    @property
    def finite(self) -> Mask:
        """Where the value is a number."""
        return np.isfinite(self.high)

    def __neg__(self) -> Values:
        return Values(-self.high, -self.low, self.exponent, self.bound)

    def __abs__(self) -> Values:
        return Values(np.abs(self.high), np.where(self.high < 0, -self.low, self.low), self.exponent, self.bound)

    def __gt__(self, zero: int) -> Mask:
        return self.high > _only_zero(zero)

    def __ge__(self, zero: int) -> Mask:
        return self.high >= _only_zero(zero)

    def __add__(self, other: Values | int) -> Values:
        right = _lifted(other)
        top = np.maximum(np.where(self.high == 0, right.exponent, self.exponent), _exponent_or(right, self))
        (first, near), (second, also) = _at(self, top), _at(right, top)
        single = (self.low == 0) & (right.low == 0) & near & also
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            high, low = pairs.add(first, second)
            finite = self.finite & right.finite
            high, low = np.where(finite, high, self.high + right.high), np.where(finite, low, 0.0)
            inherited = np.abs(first[0]) * self.bound + np.abs(second[0]) * right.bound
            # A share that falls out of the range of a double must not pass for none: 0 means exact.
            inherited += np.where((self.bound > 0) | (right.bound > 0), FALLEN, 0.0)
            exact = single | (self.high == 0) | (right.high == 0)
            own = pairs.add_error(first, second, high) + FALLEN
            bound = _summed(inherited, np.where(exact, 0.0, own), high)
        return _normal(high, low, top, bound)

    def __radd__(self, other: int) -> Values:
        return self + other

    def __sub__(self, other: Values | int) -> Values:
        return self + -_lifted(other)

    def __rsub__(self, other: int) -> Values:
        return _lifted(other) + -self

    def __mul__(self, other: Values | int) -> Values:
        right = _lifted(other)
        finite = self.finite & right.finite
        single = (self.low == 0) & (right.low == 0) | _simple(self) | _simple(right)
        with np.errstate(invalid="ignore", over="ignore"):
            factors = _ordinary(self), _ordinary(right)
            high, low = pairs.multiply(*factors)
            plain = self.high * right.high
            # Mantissas make no zero: where this product is 0 it has the sign that IEEE gives it, the pair's may not.
            proper = finite & (plain != 0)
            high, low = np.where(proper, high, plain), np.where(proper, low, 0.0)
            own = pairs.multiply_error(*factors, high)
            bound = _summed((self.bound + right.bound) * np.abs(high), np.where(single, 0.0, own), high)
        return _normal(high, low, self.exponent + right.exponent, np.where(high == 0, 0.0, bound))

    __rmul__ = __mul__

    def __truediv__(self, other: Values) -> Values:
        """Divide by numbers other than 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            high, low = pairs.divide((self.high, self.low), (other.high, other.low))
            own = pairs.divide_error((self.high, self.low), (other.high, other.low), high)
            exact = _simple(other) | (self.high == 0)
            bound = _summed((self.bound + other.bound) * np.abs(high), np.where(exact, 0.0, own), high)
        return _normal(high, low, self.exponent - other.exponent, bound)

    def overwritten(self, mask: Mask, answers: NDArray[Any]) -> Values:
        """Return a copy with the elements of a mask set to floating-point numbers, infinities or NaN."""
        high, low, bound = (np.array(part) for part in (self.high, self.low, self.bound))
        exponent = np.array(self.exponent)
        other = exactly(answers)
        high[mask], low[mask], exponent[mask], bound[mask] = other.high, other.low, other.exponent, other.bound
        return Values(high, low, exponent, bound)

    def replaced(self, indices: Sequence[int], numbers: Sequence[Fraction]) -> Values:
        """Return a copy with the elements at flat `indices` set to rational numbers, rounded to two doubles."""
        high, low, bound = (np.array(part) for part in (self.high, self.low, self.bound))
        exponent = np.array(self.exponent)
        for index, number in zip(indices, numbers, strict=True):
            shift = number.numerator.bit_length() - number.denominator.bit_length()
            scaled = number * Fraction(2) ** -shift
            head = float(scaled)
            tail = float(scaled - Fraction(head))
            high.flat[index], low.flat[index], exponent.flat[index] = head, tail, shift
            bound.flat[index] = 0.0 if Fraction(head) + Fraction(tail) == scaled else STEP
        return _normal(high, low, exponent, bound)

    def element(self, index: int) -> Fraction | float:
        """Return the element at a flat index: a rational number, or an infinity or NaN as a float."""
        high, low = float(self.high.flat[index]), float(self.low.flat[index])
        if not np.isfinite(high):
            return high
        return (Fraction(high) + Fraction(low)) * Fraction(2) ** int(self.exponent.flat[index])


def exactly(array: Doubles) -> Values:
    """Return doubles, of any magnitude and including infinities and NaN, as exact values."""
    mantissa, exponent = np.frexp(np.asarray(array, np.float64))
    zero = np.zeros_like(mantissa)
    return Values(mantissa, zero, np.asarray(exponent, np.int64), zero)


def choose(condition: Mask, left: Values, right: Values) -> Values:
    """Take `left` where the condition holds, `right` elsewhere."""
    names = ("high", "low", "exponent", "bound")
    return Values(*(np.where(condition, getattr(left, name), getattr(right, name)) for name in names))


class PairArithmetic:
    """What a formula needs besides operators, on `Values`."""

    choose = staticmethod(choose)

    @staticmethod
    def exp(value: Values) -> Values:
        """Return the exponential of values whose magnitude is at most `pairs.EXP_LIMIT`."""
        power = np.clip(value.exponent, -2000, 100).astype(np.int32)
        high, low = np.ldexp(np.where(value.finite, value.high, 0.0), power), np.ldexp(value.low, power)
        first, second, exponent = pairs.exp(high, low)
        # For a small argument 1 + high has a relative error of high**2/2 and of the part of the argument left out.
        short = high * high + np.abs(low)
        small = short < pairs.EXP
        first, second = np.where(small, 1.0, first), np.where(small, high, second)
        own = np.where(small, short, pairs.EXP) + np.where(value.high == 0, 0.0, FALLEN)
        bound = _summed(np.abs(high) * value.bound, own, np.ones_like(high))
        return _normal(np.where(value.finite, first, np.nan), second, np.where(small, 0, exponent), bound)

    @staticmethod
    def clip(value: Values, limit: int) -> Values:
        """Return the value, or +-limit where its magnitude is greater."""
        power = np.clip(value.exponent, -2000, 1000).astype(np.int32)
        edge = exactly(np.copysign(np.full(value.shape, float(limit)), value.high))
        return choose(np.abs(np.ldexp(value.high, power)) > limit, edge, value)


def _lifted(other: Values | int) -> Values:
    return other if isinstance(other, Values) else exactly(np.float64(other))  # type: ignore[arg-type]


def _only_zero(zero: int) -> int:
    if zero != 0:
        raise ValueError(f"Values: only comparisons with 0 are exact (got {zero!r})")
    return 0


def _exponent_or(right: Values, left: Values) -> Integers:
    return np.where(right.high == 0, left.exponent, right.exponent)


def _simple(value: Values) -> Mask:
    # A zero or a power of two: as a factor it costs no digits.
    return np.asarray((value.high == 0) | (value.low == 0) & (np.abs(value.high) == 0.5))


def _at(value: Values, top: Integers) -> tuple[Pair, Mask]:
    shift = value.exponent - top
    power = np.clip(shift, -2000, 0).astype(np.int32)
    finite = value.finite
    high, low = np.where(finite, value.high, 0.0), np.where(finite, value.low, 0.0)
    return (np.ldexp(high, power), np.ldexp(low, power)), shift > -_APART


def _ordinary(value: Values) -> Pair:
    finite = value.finite
    return np.where(finite, value.high, 1.0), np.where(finite, value.low, 0.0)


def _summed(inherited: Doubles, own: Doubles, high: Doubles) -> Doubles:
    total = inherited + own
    relative = np.where(total == 0, 0.0, total * _SLACK / np.abs(high))
    return np.where(relative < _SMALL, relative, np.inf)


def _normal(high: Doubles, low: Doubles, exponent: Integers, bound: Doubles) -> Values:
    mantissa, shift = np.frexp(high)
    finite = np.isfinite(high)
    low = np.where(finite & (high != 0), np.ldexp(low, -shift), 0.0)
    total = np.where(finite & (high != 0), exponent + shift, 0)
    bound = np.where(finite, bound, 0.0)
    shape = np.broadcast_shapes(mantissa.shape, low.shape, total.shape, bound.shape)
    return Values(*(np.broadcast_to(part, shape) for part in (mantissa, low, total, bound)))
