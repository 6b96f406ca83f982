"""Arguments for measuring the error of an operator: the ends of each type, every 16-bit value, the hard places.

What is particular to an operator, its scalars and the places where its formula vanishes, cancels or leaves the range,
comes from its oracle module (`nonpu.verify.oracles`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.dtypes import DType
from nonpu.verify import oracles, rounding
from nonpu.verify.rounding import COMPONENT, LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Scalars = tuple[float, ...]

COMPLEX_ENDS: Final = 280
"""Of the pairs of ends of the real type, for both components."""
CHUNK: Final = 1 << 18
"""Elements of one set of arguments at most."""
GRADIENTS: Final = 12
"""Other arguments for every value of a 16-bit type."""
NEIGHBOURS: Final = 2000
DOUBLE_NEIGHBOURS: Final = 200
"""Of each hard place; multi-precision decides many of those of DOUBLE, a millisecond each."""


@dataclass(frozen=True, eq=False)
class ArgumentSet:
    """One set of arguments.

    Parameters
    ----------
    name : str
        What is in it.
    scalars : tuple of float
        Values of the scalar parameters.
    arrays : list of array
        The inputs in kernel order; they broadcast together.
    finite : bool
        False for the one set that has infinities and NaN among its arguments.
    """

    name: str
    scalars: Scalars
    arrays: list[Array]
    finite: bool = True


def argument_sets(
    name: str, inputs: int, dtype: DType, scalars: Scalars, count: int, seed: int
) -> Iterator[ArgumentSet]:
    """Yield the sets of arguments of one operator, data type and choice of scalars.

    Parameters
    ----------
    name : str
        Python name of the operator.
    inputs : int
        Number of its tensors; the last one is the argument of the forward function.
    dtype : DType
        Type of them all.
    scalars : tuple of float
        Values of the scalar parameters.
    count : int
        Elements of every set that has no size of its own.
    seed : int
        Another seed draws other arguments.
    """
    places = [place for place in oracles.formula(name).places(*scalars) if math.isfinite(place)]
    digits = np.array(scalars, np.float64).view(np.uint32).tolist()
    draw = _Draw(dtype, count, np.random.default_rng([seed, int(dtype), *digits]))
    axes = [axis.ravel() for axis in np.meshgrid(*[draw.ends()] * inputs, indexing="ij")]
    finite = np.all([np.isfinite(rounding.decode(axis)) for axis in axes], axis=0)
    yield ArgumentSet("infinities and NaN", scalars, axes, finite=False)
    yield ArgumentSet("ends of the range", scalars, [axis[finite] for axis in axes])
    if draw.layout.width == 16:
        every = _finite(rounding.from_bits(np.arange(1 << 16, dtype=np.uint16), dtype))
        gradients = draw.few()
        for chunk in np.array_split(gradients, math.ceil(gradients.size * every.size / CHUNK)):
            yield ArgumentSet("every value", scalars, [*[chunk[:, None]] * (inputs - 1), every[None, :]])
    else:
        for patterns in draw.patterns():
            ordinary = [draw.normal(patterns.size) for _ in range(inputs - 1)]
            wild = [draw.random.permuted(patterns) for _ in range(inputs - 1)]
            yield ArgumentSet("bit patterns", scalars, [*ordinary, patterns])
            yield ArgumentSet("bit patterns in all inputs", scalars, [*wild, patterns])
    for label, primal in (
        ("ordinary numbers", draw.normal(count, 3.0)),
        ("unit interval", draw.uniform(count)),
        ("hard places", draw.neighbours(places)),
    ):
        if primal.size:
            yield ArgumentSet(label, scalars, [*[draw.normal(primal.size) for _ in range(inputs - 1)], primal])


class _Draw:
    """Arrays of one type; those of complex types have such numbers in both components."""

    def __init__(self, dtype: DType, count: int, random: np.random.Generator) -> None:
        self.dtype = dtype
        self.component = COMPONENT.get(dtype, dtype)
        self.count = count
        self.random = random
        self.layout = LAYOUTS[self.component]

    def _both(self, real: Array, imaginary: Array | None = None) -> Array:
        """Return the array, or a complex one; its imaginary part is the real one shuffled, where none is given."""
        if self.component is self.dtype:
            return real
        second = self.random.permuted(real) if imaginary is None else imaginary
        result = np.empty(np.broadcast_shapes(real.shape, second.shape), rounding.numpy_dtype(self.dtype))
        result.real, result.imag = real, second
        return result

    def ends(self) -> Array:
        """Return zeros, the ends of the subnormal and the normal range, a few numbers, infinities and NaN."""
        layout = self.layout
        normal = 1 << (layout.precision - 1)
        top = layout.infinity
        bits = [0, 1, 2, 3, normal // 2 + 1, normal - 1, normal, normal + 1, top - 2, top - 1, top, layout.nan]
        ends = rounding.from_bits(np.array([*bits, *(b | layout.sign for b in bits)], np.uint64), self.component)
        numbers = np.array([1.0, 0.5, 1 / 3, 0.7, 2.0, 3.5, 20.0, 1e-3, 3e4, 1e-7])
        real = np.concatenate([ends, rounding.convert(np.concatenate([numbers, -numbers]), self.component)])
        if self.component is self.dtype:
            return real
        pairs = self._both(real[:, None], real[None, :]).ravel()
        return pairs[:: pairs.size // COMPLEX_ENDS]

    def few(self) -> Array:
        """Return special and random finite values, few enough to meet every value of a 16-bit type."""
        special = _finite(self.ends())
        drawn = rounding.from_bits(self.random.integers(0, 1 << 16, 2 * GRADIENTS).astype(np.uint16), self.dtype)
        chosen = self.random.choice(special.size, GRADIENTS // 2, replace=False)
        return np.concatenate([special[chosen], _finite(drawn)[: GRADIENTS - GRADIENTS // 2]])

    def normal(self, size: int, deviation: float = 1.0) -> Array:
        """Return normally distributed numbers."""
        return self._both(rounding.convert(deviation * self.random.standard_normal(size), self.component))

    def uniform(self, size: int) -> Array:
        """Return numbers in [0, 1)."""
        return self._both(rounding.convert(self.random.random(size), self.component))

    def patterns(self) -> Iterator[Array]:
        """Yield finite bit patterns at a constant distance over the whole range, from a random start."""
        step = (1 << self.layout.width) // self.count | 1
        start = int(self.random.integers(0, step))
        for first in range(0, self.count, CHUNK):
            indices = np.arange(first, min(first + CHUNK, self.count), dtype=np.uint64)
            bits = indices * np.uint64(step) + np.uint64(start)
            yield self._both(_finite(rounding.from_bits(bits, self.component)))

    def neighbours(self, places: Sequence[float]) -> Array:
        """Return the values next to the hard places, one unit apart and at growing distances."""
        each = DOUBLE_NEIGHBOURS if self.component is DType.DOUBLE else NEIGHBOURS
        found = []
        for place in places:
            magnitude = int(rounding.bits_of(rounding.convert(np.array([abs(place)]), self.component))[0])
            steps = np.arange(-(each // 4), each // 4) + (-magnitude if place < 0 else magnitude)
            sign = np.where(steps < 0, np.uint64(self.layout.sign), np.uint64(0))
            beside = rounding.from_bits(np.abs(steps).view(np.uint64) | sign, self.component)
            powers = -self.random.integers(1, self.layout.precision, each // 2)
            offsets = self.random.standard_normal(each // 2) * 2.0**powers
            around = place * (1 + offsets) if place != 0 else offsets**3
            found += [beside, rounding.convert(around, self.component)]
        return self._both(
            _finite(np.concatenate(found)) if found else np.zeros(0, rounding.numpy_dtype(self.component))
        )


def _finite(values: Array) -> Array:
    finite: Array = values[np.isfinite(rounding.decode(values))]
    return finite
