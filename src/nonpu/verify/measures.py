"""How far a result is from what was expected: the errors of a block of elements, and what becomes of many blocks.

An element's error is taken from the two values themselves, both of the output's type. Its unit is the spacing of the
type at the expected value, as in `nonpu.verify.ulp`; of complex numbers the larger component's difference counts, in
units at the modulus. Arrays may be memory-mapped: never more than one block of each is in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.dtypes import DType
from nonpu.verify import standards
from nonpu.verify.rounding import COMPONENT, LAYOUTS, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nonpu.verify.standards import Standard

    Doubles = NDArray[np.float64]
    Mask = NDArray[np.bool_]

BLOCK: Final = 1 << 18
"""Elements that are judged at a time."""
# Powers beyond it are out of the range of a double from every starting point.
_FAR: Final = 4400


@dataclass(frozen=True, eq=False)
class Block:
    """Errors of some elements, one array entry each.

    Parameters
    ----------
    start : int
        Flat index of the first element.
    special : bool array
        NaN or an infinity in the wrong place or with the wrong sign.
    finite : bool array
        Both values are numbers. The measures below are 0 where this is false.
    equal, identical : bool array
        The values are equal, any NaN to any NaN and a zero to a zero of either sign; the signs of zeros agree too.
    absolute, magnitude, units : float64 arrays
        abs(actual - expected), abs(expected), and the error in units in the last place.
    rest : float64 array or None
        What rounding took from `absolute`; None where nothing was, or where it is not known (complex).
    """

    start: int
    special: Mask
    finite: Mask
    equal: Mask
    identical: Mask
    absolute: Doubles
    magnitude: Doubles
    units: Doubles
    rest: Doubles | None = None

    @property
    def shown(self) -> Doubles:
        """Error in units, infinite where a NaN or an infinity is misplaced."""
        return np.where(self.special, np.inf, self.units)


def flat(array: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    """Return elements by flat index in C order, without a copy of the whole array."""
    if array.flags.c_contiguous:
        return np.asarray(array.reshape(-1)[start:stop])
    return np.asarray(array.flat[start:stop])


def spans(size: int) -> Iterator[tuple[int, int]]:
    """Return beginning and end of every block."""
    for start in range(0, size, BLOCK):
        yield start, min(start + BLOCK, size)


def block(actual: NDArray[Any], expected: NDArray[Any], dtype: DType, start: int = 0) -> Block:
    """Return the errors of one-dimensional arrays of one type."""
    with np.errstate(all="ignore"):
        if dtype in standards.EXACT:
            return _exact(actual, expected, start)
        a, g = decode(actual), decode(expected)
        if dtype not in COMPONENT:
            return _real(a, g, dtype, start)
        parts = [_real(x, y, COMPONENT[dtype], start) for x, y in ((a.real, g.real), (a.imag, g.imag))]
        return _complex(a, g, parts, COMPONENT[dtype])


def _exact(actual: NDArray[Any], expected: NDArray[Any], start: int) -> Block:
    same = np.asarray(actual == expected)
    no = np.zeros(same.shape, np.bool_)
    if actual.dtype.kind == "b":
        difference = (~same).astype(np.float64)
    else:
        # Wraps to the right distance, which may be larger than the signed type holds.
        unsigned = np.dtype(f"u{actual.dtype.itemsize}")
        high, low = np.maximum(actual, expected).view(unsigned), np.minimum(actual, expected).view(unsigned)
        difference = (high - low).astype(np.float64)
    magnitude = np.abs(expected.astype(np.float64))
    return Block(start, no, ~no, same, same, difference, magnitude, difference)


def _real(a: Doubles, g: Doubles, dtype: DType, start: int) -> Block:
    numbers, right = np.isfinite(g), np.isfinite(a)
    finite = numbers & right
    equal = (a == g) | (np.isnan(a) & np.isnan(g))
    identical = equal & ((np.signbit(a) == np.signbit(g)) | np.isnan(g))
    a, g = np.where(finite, a, 0.0), np.where(finite, g, 0.0)
    difference = a - g
    # What rounding took from the difference (Knuth's two-sum).
    back = difference + g
    rest = (a - back) - (g - (difference - back))
    rest = np.where(difference < 0, -rest, rest)
    return Block(
        start, ~finite & ~equal, finite, equal, identical, np.abs(difference), np.abs(g), _units(a, g, g, dtype), rest
    )


def _units(a: Doubles, g: Doubles, size: Doubles, dtype: DType) -> Doubles:
    """Return abs(a - g) over the spacing of a type at `size`."""
    layout = LAYOUTS[dtype]
    units = np.zeros(a.shape)
    (wrong,) = np.nonzero(a != g)
    _, exponent = np.frexp(size[wrong])
    step = np.maximum(np.minimum(exponent, layout.largest) - layout.precision, layout.quantum)
    step = np.where(size[wrong] == 0, layout.quantum, step)
    # Scaled before they are subtracted: the difference of two doubles may be out of range, the number of units is not.
    units[wrong] = np.abs(_scaled(a[wrong], -step) - _scaled(g[wrong], -step))
    return units


def _scaled(value: Doubles, power: NDArray[Any]) -> Doubles:
    return np.asarray(np.ldexp(value, np.clip(power, -_FAR, _FAR).astype(np.int32)))


def _complex(a: NDArray[Any], g: NDArray[Any], parts: list[Block], component: DType) -> Block:
    real, imag = parts
    special = real.special | imag.special
    finite = (real.finite | imag.finite) & ~special
    # Beside a NaN or an infinity that is right, the other component is judged alone.
    pairs = [
        (np.where(part.finite & finite, x, 0.0), np.where(part.finite & finite, y, 0.0))
        for part, x, y in ((real, a.real, g.real), (imag, a.imag, g.imag))
    ]
    # hypot neither overflows nor underflows on the way.
    magnitude = np.hypot(pairs[0][1], pairs[1][1])
    absolute = np.hypot(*(x - y for x, y in pairs))
    units = np.maximum(*(_units(x, y, magnitude, component) for x, y in pairs))
    return Block(
        real.start,
        special,
        finite,
        real.equal & imag.equal,
        real.identical & imag.identical,
        absolute,
        magnitude,
        units,
    )


def outside(found: Block, dtype: DType) -> Mask:
    """Return where the mixed tolerance is exceeded; decided exactly for real types."""
    row = standards.MIXED[dtype]
    slope = row.relative * found.magnitude
    limit = row.absolute + slope
    over = found.absolute > limit
    if found.rest is None:
        return over
    back = limit - row.absolute
    lost = (row.absolute - (limit - back)) + (slope - back)
    return np.asarray(over | ((found.absolute == limit) & (found.rest > lost)))


def relative(found: Block, dtype: DType) -> Doubles:
    """Return the relative error as the published standard defines it."""
    return np.asarray(found.absolute / (found.magnitude + standards.offset(dtype)))


def score(found: Block, dtype: DType, standard: Standard) -> Doubles:
    """Return how bad each element is under a standard, to find the worst ones."""
    rule = "binary" if dtype in standards.EXACT else standard.rule
    if rule == "mixed":
        row = standards.MIXED[dtype]
        size = found.absolute / (row.absolute + row.relative * found.magnitude)
    elif rule == "relative":
        size = relative(found, dtype)
    elif rule == "rms":
        size = found.absolute
    else:
        # The sign of a zero is the least that can be wrong.
        size = np.where(found.equal & ~found.identical, 2.0**-1074, found.units)
    return np.where(found.special, np.inf, size)


@dataclass
class Norm:
    """Root of a sum of squares that neither overflows nor underflows."""

    value: float = 0.0

    def add(self, sizes: Doubles) -> None:
        """Add numbers, none of them negative."""
        top = float(sizes.max(initial=0.0))
        if 0 < top < math.inf:
            scaled = sizes / top
            self.value = math.hypot(self.value, top * math.sqrt(float(np.dot(scaled, scaled))))
        elif top:
            self.value = math.inf


@dataclass
class Totals:
    """What is known of all elements of an array so far.

    Parameters
    ----------
    dtype : DType
        Type of the array.
    limit : float
        Errors of more units than this are counted.
    count, finite, special, equal, identical : int
        Number of elements, and of those with the property of `Block`.
    outside, beyond, above : int
        Elements outside the mixed tolerance; with an error at the hard limit or above and of more than 32 ULP; with an
        error of more than `limit` units.
    max_units, max_absolute, max_relative : float
        Largest errors of finite elements.
    sum_relative : float
        Sum of relative errors.
    """

    dtype: DType
    limit: float = 0.0
    count: int = 0
    finite: int = 0
    special: int = 0
    equal: int = 0
    identical: int = 0
    outside: int = 0
    beyond: int = 0
    above: int = 0
    max_units: float = 0.0
    max_absolute: float = 0.0
    max_relative: float = 0.0
    sum_relative: float = 0.0
    error_norm: Norm = field(default_factory=Norm)
    size_norm: Norm = field(default_factory=Norm)

    def add(self, found: Block) -> None:
        """Take in a block."""
        self.count += found.equal.size
        for name in ("finite", "special", "equal", "identical"):
            setattr(self, name, getattr(self, name) + int(np.count_nonzero(getattr(found, name))))
        with np.errstate(all="ignore"):
            share = relative(found, self.dtype) if self.dtype in standards.RELATIVE else np.zeros(0)
            if self.dtype in standards.MIXED:
                limit = standards.MIXED[self.dtype].limit
                self.outside += int(np.count_nonzero(outside(found, self.dtype)))
                high = (found.absolute >= limit) & (found.units > standards.MIXED_UNITS)
                self.beyond += int(np.count_nonzero(high))
            self.above += int(np.count_nonzero(found.units > self.limit))
            self.max_units = max(self.max_units, float(found.units.max(initial=0.0)))
            self.max_absolute = max(self.max_absolute, float(found.absolute.max(initial=0.0)))
            self.max_relative = max(self.max_relative, float(share.max(initial=0.0)))
            self.sum_relative += float(share.sum())
            self.error_norm.add(found.absolute)
            self.size_norm.add(found.magnitude)

    @property
    def mere(self) -> float:
        """Mean relative error of the finite elements."""
        return self.sum_relative / self.finite if self.finite else 0.0

    @property
    def rms(self) -> float:
        """Root mean square of the differences."""
        return self.error_norm.value / math.sqrt(self.finite) if self.finite else 0.0

    @property
    def share_equal(self) -> float:
        """Share of elements that equal what was expected; 1 if there are none."""
        return self.equal / self.count if self.count else 1.0
