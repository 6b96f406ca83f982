"""Arithmetic on unevaluated sums of two doubles, many at once.

The algorithms and their bounds are those of Joldes, Muller and Popescu (ACM TOMS 44:2, 2017). With u = 2**-53 the
relative errors are below 3u**2/(1-4u) (sum, algorithm 6), 7u**2 (product, algorithm 10) and 15u**2 + 56u**3 (quotient,
algorithm 17): each less than `STEP`. They need round to nearest, which IEEE gives, and products that neither overflow
nor underflow, which is the caller's care.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias

import mpmath
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

Doubles: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[Doubles, Doubles]

STEP: Final = 2.0**-101
EXP: Final = 2.0**-96
_U: Final = 2.0**-53
FALLEN: Final = 2.0**-800  # covers what falls out of the range of a double where the values are near 1
EXP_LIMIT: Final = 8192
_CHUNK: Final = 8192  # elements whose intermediate arrays stay in the second-level cache
_HALVINGS: Final = 8
_DEGREE: Final = 11


def two_sum(left: Doubles, right: Doubles) -> Pair:
    """Return the rounded sum and its exact error."""
    total = left + right
    part = total - left
    return total, (left - (total - part)) + (right - part)


def quick_sum(left: Doubles, right: Doubles) -> Pair:
    """Return the rounded sum and its exact error, for abs(left) >= abs(right) or left == 0."""
    total = left + right
    return total, right - (total - left)


def two_product(left: Doubles, right: Doubles) -> Pair:
    """Return the rounded product and its exact error (Dekker; no fused multiply-add is needed)."""
    left_high, left_low = _halves(left)
    right_high, right_low = _halves(right)
    product = left * right
    error = ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + left_low * right_low
    return product, error


def _halves(value: Doubles) -> Pair:
    scaled = value * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - value)
    return high, value - high


def add(left: Pair, right: Pair) -> Pair:
    """Add two pairs (algorithm 6)."""
    high, low = two_sum(left[0], right[0])
    tail_high, tail_low = two_sum(left[1], right[1])
    high, low = quick_sum(high, low + tail_high)
    return quick_sum(high, low + tail_low)


def multiply(left: Pair, right: Pair) -> Pair:
    """Multiply two pairs (algorithm 10)."""
    high, low = two_product(left[0], right[0])
    return quick_sum(high, low + (left[0] * right[1] + left[1] * right[0]))


def divide(left: Pair, right: Pair) -> Pair:
    """Divide two pairs (algorithm 17: long division with one correction)."""
    quotient = left[0] / right[0]
    high, low = two_product(right[0], quotient)
    product = quick_sum(high, low + right[1] * quotient)
    remainder = (left[0] - product[0]) + (left[1] - product[1])
    return quick_sum(quotient, remainder / right[0])


def add_error(left: Pair, right: Pair, high: Doubles) -> Doubles:
    """Return a bound of the error of `add`, whose result begins with `high`.

    Two additions round: the error of the leading sum plus the sum of the trailing parts, and what is left of these.
    Each rounding is at most u times the three trailing terms: where these are tiny, far below the general bound.
    """
    terms = np.abs(two_sum(left[0], right[0])[1]) + np.abs(left[1]) + np.abs(right[1])
    return np.asarray(np.minimum(STEP * np.abs(high), 4 * _U * terms))


def multiply_error(left: Pair, right: Pair, high: Doubles) -> Doubles:
    """Return a bound of the error of `multiply`, whose result begins with `high`.

    The cross products and their sums round, each at most u times the trailing terms; the product of the trailing parts
    is left out.
    """
    cross = np.abs(left[0] * right[1]) + np.abs(left[1] * right[0])
    terms = np.abs(two_product(left[0], right[0])[1]) + cross
    return np.asarray(np.minimum(STEP * np.abs(high), 4 * _U * terms + 2 * np.abs(left[1] * right[1]) + FALLEN))


def divide_error(left: Pair, right: Pair, high: Doubles) -> Doubles:
    """Return a bound of the error of `divide`, whose result begins with `high`.

    The correction t = (left - quotient * right) / right is computed from trailing terms, each with a few roundings, and
    divided by the leading part of `right` only.
    """
    quotient = left[0] / right[0]
    product, error = two_product(right[0], quotient)
    terms = np.abs(left[0] - product) + np.abs(error) + np.abs(right[1] * quotient) + np.abs(left[1])
    scaled = terms / np.abs(right[0])
    return np.asarray(np.minimum(STEP * np.abs(high), (8 * _U + 2 * np.abs(right[1] / right[0])) * scaled + FALLEN))


def _split_ln2() -> tuple[float, float, float]:
    # Two parts of 39 bits, so that their products with k < 2**14 are exact, and the next 53 bits.
    with mpmath.workprec(400):
        rest = Fraction(*mpmath.libmp.to_rational(mpmath.ln(2)._mpf_))
    first = Fraction(math.floor(rest * 2**39), 2**39)
    second = Fraction(math.floor((rest - first) * 2**78), 2**78)
    return float(first), float(second), float(rest - first - second)


def _pair(value: Fraction) -> tuple[Doubles, Doubles]:
    high = float(value)
    return np.float64(high), np.float64(float(value - Fraction(high)))  # type: ignore[return-value]


_LN2: Final = _split_ln2()
_FACTORIALS: Final = [_pair(Fraction(1, math.factorial(n))) for n in range(_DEGREE + 1)]


def exp(high: Doubles, low: Doubles) -> tuple[Doubles, Doubles, NDArray[np.int64]]:
    """Return the exponential as a pair and a power of two, with a relative error below `EXP`.

    With k = round(x/ln2), r = x - k ln2 and m = r/2**8 the Taylor polynomial of degree 11 gives s = exp(m) - 1; eight
    times s -> s(2 + s) give exp(r) - 1. In units of `STEP`: r has an absolute error below 1.2 (three sums below 0.36);
    the truncation (m**11/12! below 2**-133 relative to m) vanishes; s starts with 2; a doubling adds 2 and multiplies
    the error by 1 + abs(s)/(2 + s), in all by less than 1.4, so that s ends with 26; adding 1 leaves 0.42*26 + 1. The
    sum is below 14 units, and `EXP` is 32.

    Parameters
    ----------
    high, low : float64 arrays
        Argument; its absolute value must not exceed `EXP_LIMIT`.
    """
    shape = high.shape
    parts = [_exp_chunk(*chunk) for chunk in _chunks(high.ravel(), low.ravel())]
    if not parts:
        return np.empty(shape), np.empty(shape), np.empty(shape, np.int64)
    first, second, power = (np.concatenate(part).reshape(shape) for part in zip(*parts, strict=True))
    return first, second, power


def _chunks(high: Doubles, low: Doubles) -> Iterator[Pair]:
    for start in range(0, high.size, _CHUNK):
        yield high[start : start + _CHUNK], low[start : start + _CHUNK]


def _exp_chunk(high: Doubles, low: Doubles) -> tuple[Doubles, Doubles, NDArray[np.int64]]:
    k = np.rint(high / math.log(2))
    zero = np.zeros_like(k)
    rest = add(two_sum(high, -k * _LN2[0]), (low, zero))
    rest = add(rest, (-k * _LN2[1], zero))
    rest = add(rest, (-k * _LN2[2], zero))
    small = (np.ldexp(rest[0], -_HALVINGS), np.ldexp(rest[1], -_HALVINGS))
    total: Pair = _FACTORIALS[_DEGREE]
    for coefficient in _FACTORIALS[_DEGREE - 1 : 0 : -1]:
        total = add(multiply(total, small), coefficient)
    total = multiply(total, small)
    two = (np.float64(2.0), np.float64(0.0))
    for _ in range(_HALVINGS):
        total = multiply(total, add(total, two))  # type: ignore[arg-type]
    one = (np.float64(1.0), np.float64(0.0))
    return *add(total, one), k.astype(np.int64)  # type: ignore[arg-type]
