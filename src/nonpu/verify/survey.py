"""What a report draws: errors by size, by input value and by place, gathered block by block."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.verify import measures
from nonpu.verify.compare import load
from nonpu.verify.measures import flat, spans
from nonpu.verify.rounding import LAYOUTS, decode
from nonpu.verify.store import StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nonpu.verify.matching import Item

    Array = NDArray[Any]
    Doubles = NDArray[np.float64]
    Counts = NDArray[np.int64]

GRADIENT: Final = "gradOutput"
# Bins of the error: 0; up to 1/2, 1, 2, 4 ... 2**TOP; more; misplaced NaN or infinity.
TOP: Final = 20
UNIT_BINS: Final = TOP + 5
MISPLACED: Final = UNIT_BINS - 1
# Bins of a value: STEPS in each binade from 2**-FAR to 2**FAR, for either sign; the last bin has what is not finite.
FAR: Final = 20
STEPS: Final = 4
HALF: Final = (2 * FAR + 1) * STEPS
VALUE_BINS: Final = 2 * HALF + 1
# Cells of a map of places; bins and dots of a curve; elements that a curve looks at.
ROWS: Final = 24
COLUMNS: Final = 40
CURVE_BINS: Final = 64
DOTS: Final = 240
CURVE_ELEMENTS: Final = 1 << 18
# Ends of an axis that are nearer to each other leave no room for round numbers between them.
SMALLEST: Final = 1e-290
# Beyond it every activation is flat or straight.
_FARTHEST: Final = 128.0


def unit_bins(shown: Doubles) -> Counts:
    """Return the bin of each error in units; an infinite one is a misplaced NaN or infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.ceil(np.log2(shown))
    bins = np.clip(np.where(np.isfinite(power), power, 0), -1, TOP + 1) + 2
    bins = np.where(shown == 0, 0, bins)
    return np.asarray(np.where(np.isinf(shown), MISPLACED, bins), np.int64)


def value_bins(values: Doubles) -> Counts:
    """Return the bin of each value, in the order of the number line."""
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.abs(np.where(finite, values, 0.0)))
    place = (np.clip(exponent, -FAR, FAR) + FAR) * STEPS + np.floor((mantissa - 0.5) * 2 * STEPS)
    place = np.where(exponent < -FAR, 0, np.where(exponent > FAR, HALF - 1, place))
    place = np.where(mantissa == 0, 0, place)
    bins = np.where(np.signbit(values), HALF - 1 - place, HALF + place)
    return np.asarray(np.where(finite, bins, VALUE_BINS - 1), np.int64)


def value_edge(index: int) -> float:
    """Return the lower edge of a bin of finite values; bins at 0 reach to 0."""
    if index < HALF:
        return -value_edge(2 * HALF - index)
    place = index - HALF
    if place == 0:
        return 0.0
    return math.ldexp(0.5 + place % STEPS / (2 * STEPS), place // STEPS - FAR)


@dataclass
class Group:
    """Errors of all cases of one operator and type.

    Parameters
    ----------
    operator, dtype : str
        As verdicts name them.
    axis : str
        Whose value the second axis of `table` has.
    table : int array
        Number of elements by bin of the value and bin of the error.
    unread : int
        Cases whose arrays could not be read.
    """

    operator: str
    dtype: str
    axis: str = ""
    table: Counts = field(default_factory=lambda: np.zeros((VALUE_BINS, UNIT_BINS), np.int64))
    unread: int = 0

    @property
    def by_size(self) -> Counts:
        """Number of elements by bin of the error."""
        return np.asarray(self.table.sum(axis=0))

    def add(self, item: Item) -> None:
        """Take in all elements of a case."""
        try:
            actual, expected, dtype = load(item)
            inputs = item.inputs()
        except (StoreError, OSError, MemoryError):
            self.unread += 1
            return
        name, values = _argument(inputs, expected)
        self.axis = f"|{name}|" if values.dtype.kind == "c" else name
        for start, stop in spans(expected.size):
            found = measures.block(flat(actual, start, stop), flat(expected, start, stop), dtype, start)
            place = value_bins(_real(flat(values, start, stop)))
            joint = np.bincount(place * UNIT_BINS + unit_bins(found.shown), minlength=self.table.size)
            self.table += joint.reshape(self.table.shape)


def _argument(inputs: dict[str, Array], expected: Array) -> tuple[str, Array]:
    """Return the input that the formula bends at, in the shape of the result; without one the result itself."""
    for name, array in inputs.items():
        if name != GRADIENT:
            try:
                return name, np.broadcast_to(array, expected.shape)
            except ValueError:
                continue
    return "expected value", expected


def _real(values: Array) -> Doubles:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(decode(values)) if values.dtype.kind == "c" else decode(values))


@dataclass(frozen=True, eq=False)
class Places:
    """Largest error in each block of a tensor's elements.

    Parameters
    ----------
    grid : float64 array
        Largest error in units; infinite for a misplaced NaN or infinity.
    rows, columns : str
        What the two directions count.
    """

    grid: Doubles
    rows: str
    columns: str


def places(item: Item) -> Places:
    """Return where in the tensor of a case the errors sit.

    Raises
    ------
    StoreError
        If its arrays cannot be read or have no elements.
    """
    actual, expected, dtype = load(item)
    if expected.size == 0:
        raise StoreError(f"{item.id}: no elements")
    shape = expected.shape
    if len(shape) > 1:
        width = shape[-1]
        last = len(shape) - 1
        rows = f"axis {0 if last == 1 else f'0 to {last - 1}'}: {expected.size // width} rows"
        columns = f"axis {last}: {width} elements"
    else:
        width = min(expected.size, max(COLUMNS, 1 << math.isqrt(expected.size).bit_length()))
        rows, columns = f"flat index: {-(-expected.size // width)} rows", f"{width} elements in a row"
    height = -(-expected.size // width)
    grid = np.zeros((min(height, ROWS), min(width, COLUMNS)))
    for start, stop in spans(expected.size):
        found = measures.block(flat(actual, start, stop), flat(expected, start, stop), dtype, start)
        wrong = np.flatnonzero(found.shown > 0)
        row, column = np.divmod(wrong + start, width)
        np.maximum.at(grid, (row * grid.shape[0] // height, column * grid.shape[1] // width), found.shown[wrong])
    return Places(grid, rows, columns)


@dataclass(frozen=True, eq=False)
class Curve:
    """The gradient over the input of one case, and the error under it.

    Parameters
    ----------
    name : str
        Name of the input.
    edges : float64 array
        Edges of the bins of the input.
    expected : float64 array
        Median of expected output over incoming gradient in each bin; NaN where there is none.
    dots : float64 array
        Pairs of input and actual output over incoming gradient.
    errors : float64 array
        Largest error in each bin, in units; infinite for a misplaced NaN or infinity.
    """

    name: str
    edges: Doubles
    expected: Doubles
    dots: Doubles
    errors: Doubles


def curve(item: Item) -> Curve | None:
    """Return the curve of a case, None where it has none: complex or integer results, or an input that is missing.

    Raises
    ------
    StoreError
        If its arrays cannot be read.
    """
    actual, expected, dtype = load(item)
    inputs = item.inputs()
    name, values = _argument(inputs, expected)
    if dtype not in LAYOUTS or name not in inputs or values.dtype.kind == "c" or GRADIENT not in inputs:
        return None
    try:
        gradient = np.broadcast_to(inputs[GRADIENT], expected.shape)
    except ValueError:
        return None
    step = max(1, expected.size // CURVE_ELEMENTS)
    arrays = (actual, expected, values, gradient)
    a, g, x, slope = (_strided(array, step) for array in arrays)
    shown = measures.block(a, g, dtype).shown
    x, slope = _real(x), _real(slope)
    usable = np.isfinite(x) & np.isfinite(slope)
    if np.count_nonzero(usable) < 2:
        return None
    low, high = _range(x[usable])
    inside = usable & (x >= low) & (x <= high)
    edges = np.linspace(low, high, CURVE_BINS + 1)
    share = np.where(inside, (x - low) / (high - low), 0.0)
    place = np.minimum(share * CURVE_BINS, CURVE_BINS - 1).astype(np.int64)
    errors = np.zeros(CURVE_BINS)
    np.maximum.at(errors, place[inside], shown[inside])
    # A tiny gradient says nothing of the slope: its product is rounded to few digits or to 0.
    steep = inside & (np.abs(slope) > 2.0**-6 * np.max(np.abs(slope[inside]), initial=0.0))
    return Curve(name, edges, _medians(_ratio(g, slope), place, steep), _dots(x, _ratio(a, slope), steep), errors)


def _strided(array: Array, step: int) -> Array:
    return np.asarray(array.reshape(-1)[::step] if array.flags.c_contiguous else array.flat[::step])


def _ratio(values: Array, slope: Doubles) -> Doubles:
    with np.errstate(all="ignore"):
        return np.asarray(_real(values) / slope)


def _range(x: Doubles) -> tuple[float, float]:
    # Without what lies far out (Tukey's fences): a few special values would leave nothing to see.
    least, first, third, most = (float(end) for end in np.quantile(x, (0, 0.25, 0.75, 1)))
    reach = 1.5 * (third - first) if third > first else math.inf
    low, high = max(least, first - reach, -_FARTHEST), min(most, third + reach, _FARTHEST)
    return (low, high) if high - low > SMALLEST else (low - 1.0, low + 1.0)


def _medians(ratio: Doubles, place: Counts, steep: NDArray[np.bool_]) -> Doubles:
    usable = steep & np.isfinite(ratio)
    order = np.argsort(place[usable], kind="stable")
    sorted_place, sorted_ratio = place[usable][order], ratio[usable][order]
    ends = np.searchsorted(sorted_place, np.arange(CURVE_BINS + 1))
    parts = [sorted_ratio[begin:end] for begin, end in itertools.pairwise(ends)]
    return np.array([float(np.median(part)) if part.size else math.nan for part in parts])


def _dots(x: Doubles, ratio: Doubles, steep: NDArray[np.bool_]) -> Doubles:
    (chosen,) = np.nonzero(steep & np.isfinite(ratio))
    chosen = chosen[:: max(1, -(-chosen.size // DOTS))]
    return np.stack([x[chosen], ratio[chosen]], axis=-1)
