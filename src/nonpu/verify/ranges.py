"""Ranges of values in case files, and the drawing of values from them.

A value depends on the case's seed, the parameter and its position in memory alone, so that any part of a tensor can be
drawn by itself, anywhere and in any order. The numbers come from the Philox generator's raw output, which NumPy keeps
as it is between releases, unlike its distributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from nonpu.dtypes import INTEGERS, DType
from nonpu.verify import quick
from nonpu.verify.rounding import COMPONENT, LAYOUTS, decode_bits, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Number: TypeAlias = int | float
Entry: TypeAlias = tuple[Number, ...]  # one number, or both ends of an interval

_HEAVIEST: Final = 1e300  # a weight; their sum is a finite number then
_BLOCK: Final = 1 << 16  # values drawn from one counter of the generator
_WORDS: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}
_EXTREMES: Final = ("max", "-max", "tiny", "-tiny", "subnormal", "-subnormal")
_SPECIAL: Final = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0)
EXPECTED: Final = (
    'a number, an interval [low, high], "nan", "inf", "-inf", "max", "tiny", "subnormal", "special", or a list of these'
)


class RangeError(ValueError):
    """What a case file gives as a range is none; the text says what was expected and what came."""

    def __init__(self, got: object, expected: str = EXPECTED) -> None:
        super().__init__(f"must be {expected} (got {got!r})")


@dataclass(frozen=True)
class Range:
    """Values of one type to draw from.

    Parameters
    ----------
    entries : sequence
        Numbers and intervals, within the type.
    shares : sequence of float
        Probability of each entry.
    notes : sequence of str
        What was changed to fit the type, one sentence each.
    dtype : DType
        The type.
    """

    entries: tuple[Entry, ...]
    shares: tuple[float, ...]
    notes: tuple[str, ...]
    dtype: DType

    @classmethod
    def parse(cls, raw: object, dtype: DType) -> Range:
        """Read what a case file gives as a range.

        Two numbers in a list are an interval; any other list, and ``{"values": [...], "weights": [...]}``, is a choice
        of its entries. Numbers out of the range of the type are moved to its nearer end.

        Raises
        ------
        RangeError
            If it is none.
        """
        values, weights = _listed(raw)
        entries: list[Entry] = []
        shares: list[float] = []
        for value, weight in zip(values, weights, strict=True):
            some = _entries(value, dtype)
            entries += some
            shares += [weight / sum(weights) / len(some)] * len(some)
        fitting, notes = [], []
        for entry in entries:
            inside = _inside(entry, dtype)
            if any(new != old and new == new for new, old in zip(inside, entry, strict=True)) or _lost(entry, inside):
                notes.append(f"{_shown(entry)} became {_shown(inside)} to fit {dtype.python_name}")
            fitting.append(inside)
        return cls(tuple(fitting), tuple(shares), tuple(notes), dtype)

    def draw(self, seed: int, stream: int, start: int, stop: int) -> NDArray[Any]:
        """Return the values at the positions from `start` to below `stop`.

        Parameters
        ----------
        seed : int
            The case's seed, of 64 bits.
        stream : int
            Number of the parameter: different ones are independent.
        start, stop : int
            Positions in the memory of the tensor.
        """
        if self.dtype not in COMPONENT:
            return self._drawn(seed, 2 * stream, start, stop, self.dtype)
        result = np.empty(stop - start, numpy_dtype(self.dtype))
        component = COMPONENT[self.dtype]
        result.real = self._drawn(seed, 2 * stream, start, stop, component)
        # A constant is a real number; whatever is drawn has both parts.
        single = len(self.entries) == 1 and len(self.entries[0]) == 1 and _is_finite(self.entries[0][0])
        result.imag = 0 if single else self._drawn(seed, 2 * stream + 1, start, stop, component)
        return result

    def _drawn(self, seed: int, lane: int, start: int, stop: int, dtype: DType) -> NDArray[Any]:
        # Block by block: the intermediate arrays then stay in the cache.
        result = np.empty(stop - start, numpy_dtype(dtype))
        for block in range(start // _BLOCK, -(-stop // _BLOCK)):
            low, high = max(start, block * _BLOCK), min(stop, (block + 1) * _BLOCK)
            result[low - start : high - start] = self._piece(seed, lane, low, high, dtype)
        return result

    def _piece(self, seed: int, lane: int, start: int, stop: int, dtype: DType) -> NDArray[Any]:
        if len(self.entries) == 1:
            return _values(self.entries[0], lambda: _raw(seed, 2 * lane, start, stop), stop - start, dtype)
        chosen = np.searchsorted(np.cumsum(self.shares)[:-1], _unit(_raw(seed, 2 * lane + 1, start, stop)), "right")
        raw = _raw(seed, 2 * lane, start, stop)
        result = np.empty(stop - start, numpy_dtype(dtype))
        for index, entry in enumerate(self.entries):
            wanted = chosen == index
            part = raw[wanted]
            result[wanted] = _values(entry, lambda part=part: part, part.size, dtype)
        return result


def _listed(raw: object) -> tuple[list[Any], list[float]]:
    if isinstance(raw, dict):
        if not raw.keys() <= {"values", "weights"} or not isinstance(raw.get("values"), list) or not raw["values"]:
            raise RangeError(raw, 'an object {"values": [...], "weights": [...]}')
        weights = raw.get("weights", [1] * len(raw["values"]))
        valid = isinstance(weights, list) and len(weights) == len(raw["values"])
        if not valid or not all(_is_number(weight) and 0 < weight <= _HEAVIEST for weight in weights):
            raise RangeError(weights, f"as many positive weights as values, each at most {_HEAVIEST:g}")
        return raw["values"], [float(weight) for weight in weights]
    if isinstance(raw, list) and raw and not _is_interval(raw):
        return raw, [1.0] * len(raw)
    return [raw], [1.0]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _is_finite(value: Number) -> bool:
    # Python refuses to look at a whole number that DOUBLE does not reach.
    return isinstance(value, int) or math.isfinite(value)


def _is_interval(raw: object) -> bool:
    return isinstance(raw, list) and len(raw) == 2 and all(_is_number(end) and _is_finite(end) for end in raw)


def _entries(value: Any, dtype: DType) -> list[Entry]:
    if _is_number(value):
        return [(value,)]
    if _is_interval(value):
        low, high = value
        if low > high:
            raise RangeError(value, "an interval whose first number is not above the second")
        return [(low, high)]
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _WORDS:
        return [(_WORDS[word],)]
    if word in _EXTREMES:
        return [(_extreme(word, dtype),)]
    if word == "special":
        return [(one,) for one in (*_SPECIAL, *(_extreme(word, dtype) for word in _EXTREMES))]
    raise RangeError(value)


def _extreme(word: str, dtype: DType) -> Number:
    """Return the largest finite number, the smallest normal or the smallest subnormal one, with a sign."""
    sign = -1 if word.startswith("-") else 1
    component = COMPONENT.get(dtype, dtype)
    if component not in LAYOUTS:
        low, high = _limits(component)
        return (high if sign > 0 else low) if word.endswith("max") else sign
    layout = LAYOUTS[component]
    bits = {"max": layout.infinity - 1, "tiny": 1 << (layout.precision - 1), "subnormal": 1}[word.removeprefix("-")]
    return sign * decode_bits(bits, component)


def _limits(dtype: DType) -> tuple[Number, Number]:
    component = COMPONENT.get(dtype, dtype)
    if component == DType.BOOL:
        return 0, 1
    if component in INTEGERS:
        limits = np.iinfo(component.python_name)
        return int(limits.min), int(limits.max)
    if component in LAYOUTS:
        largest = decode_bits(LAYOUTS[component].infinity - 1, component)
        return -largest, largest
    raise RangeError(dtype.name, "given only to floating, integer, BOOL and complex types")


def _inside(entry: Entry, dtype: DType) -> Entry:
    low, high = _limits(dtype)
    if COMPONENT.get(dtype, dtype) in LAYOUTS:
        # An infinity that is asked for stays; a number that the type does not reach does not become one.
        return tuple(value if not _is_finite(value) else max(low, min(value, high)) for value in entry)
    if dtype == DType.BOOL and len(entry) == 1:
        return (int(entry[0] != 0),)
    if len(entry) == 1:
        (value,) = entry
        return (0 if value != value else int(max(low, min(value, high))),)
    ends = int(max(low, min(math.ceil(entry[0]), high))), int(max(low, min(math.floor(entry[1]), high)))
    return (ends[0], max(ends))


def _lost(entry: Entry, inside: Entry) -> bool:
    return any(old != old and new == new for old, new in zip(entry, inside, strict=True))


def _shown(entry: Entry) -> str:
    texts = [
        repr(value) if abs(value) < 1 << 64 or isinstance(value, float) else "a number beyond 2**64" for value in entry
    ]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _raw(seed: int, lane: int, start: int, stop: int) -> NDArray[np.uint64]:
    """Return the generator's output for positions that are all in one block."""
    block, first = divmod(start, _BLOCK)
    generator = np.random.Philox(key=seed, counter=(block << 128) | (lane << 64))
    return np.asarray(generator.random_raw(first + stop - start)[first:])


def _unit(raw: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return numbers in [0, 1), multiples of 2**-53."""
    return np.asarray((raw >> np.uint64(11)) * 2.0**-53)


def _values(entry: Entry, raw: Any, count: int, dtype: DType) -> NDArray[Any]:
    target = numpy_dtype(dtype)
    floating = dtype in LAYOUTS
    if len(entry) == 1:
        if floating:
            return np.repeat(quick.narrow(np.array([entry[0]], np.float64), dtype), count)
        return np.full(count, entry[0], target)
    low, high = entry
    if floating:
        share = _unit(raw())
        # So written, the difference of the ends cannot overflow.
        return quick.narrow(low * (1 - share) + high * share, dtype)
    span = int(high) - int(low) + 1
    steps = raw() if span >= 1 << 64 else raw() % np.uint64(span)
    wrapped = steps + np.uint64(int(low) % (1 << 64))
    return np.asarray(wrapped.astype(np.int64).astype(target) if target.kind == "i" else wrapped.astype(target))


def positions(
    shape: Sequence[int], strides: Sequence[int], offset: int, over: Sequence[int], start: int, stop: int
) -> NDArray[np.int64] | range:
    """Return where in its memory a tensor has the elements `start` to `stop` of the shape `over` that it broadcasts to.

    A range, where the positions follow each other.
    """
    steps = [0] * (len(over) - len(shape))
    steps += [step if length > 1 else 0 for length, step in zip(shape, strides, strict=True)]
    expected = 1
    for length, step in zip(reversed(over), reversed(steps), strict=True):
        if length > 1 and step != expected:
            break
        expected *= length
    else:
        return range(offset + start, offset + stop)
    rest = np.arange(start, stop, dtype=np.int64)
    found = np.full(stop - start, offset, np.int64)
    for length, step in zip(reversed(over), reversed(steps), strict=True):
        rest, place = np.divmod(rest, max(length, 1))
        found += place * step
    return found


def gather(values: Range, seed: int, stream: int, where: NDArray[np.int64] | range) -> NDArray[Any]:
    """Return the values at positions in memory, of which any may come more than once."""
    if isinstance(where, range):
        return values.draw(seed, stream, where.start, where.stop)
    if where.size == 0:
        return values.draw(seed, stream, 0, 0)
    low, high = int(where.min()), int(where.max()) + 1
    if high - low <= max(4 * where.size, _BLOCK):
        return values.draw(seed, stream, low, high)[where - low]
    # Far apart: block by block, so that never more than one is in memory.
    result = np.empty(where.size, numpy_dtype(values.dtype))
    order = np.argsort(where, kind="stable")
    blocks = where[order] // _BLOCK
    edges = np.flatnonzero(np.diff(blocks)) + 1
    for members in np.split(order, edges):
        first = int(where[members[0]]) // _BLOCK * _BLOCK
        last = int(where[members[-1]]) + 1
        result[members] = values.draw(seed, stream, first, last)[where[members] - first]
    return result
