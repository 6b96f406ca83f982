"""What a wrong result looks like: guesses that tell the author of a kernel where to look first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.verify import measures, standards
from nonpu.verify.elements import decimal
from nonpu.verify.measures import flat
from nonpu.verify.rounding import COMPONENT, LAYOUTS, decode
from nonpu.verify.trust import NEAR, raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nonpu.dtypes import DType

# Elements that are looked at, and below which nothing is guessed.
_MOST: Final = 1 << 16
_FEWEST: Final = 8
# Share of elements that a guess must explain, and that must be wrong without it.
_EXPLAINED: Final = 0.9
_WRONG: Final = 0.5


def explain(actual: NDArray[Any], expected: NDArray[Any], dtype: DType) -> str:
    """Return one guess at what is wrong with an array that does not meet its standard, empty if there is none."""
    count = actual.size
    if count < _FEWEST:
        return ""
    tail = _unwritten_tail(actual, expected)
    if tail:
        return tail
    a, g = flat(actual, 0, min(count, _MOST)), flat(expected, 0, min(count, _MOST))
    for guess, left, right in _guesses(a, g, actual.shape, dtype):
        if _near(left, right, dtype) >= _EXPLAINED:
            return guess if _near(a, g, dtype) <= _WRONG else ""
    return _flushed(a, g, dtype)


def _near(actual: NDArray[Any], expected: NDArray[Any], dtype: DType) -> float:
    found = measures.block(actual, expected, dtype)
    return float(np.mean(found.shown <= NEAR)) if actual.size else 0.0


def _guesses(
    a: NDArray[Any], g: NDArray[Any], shape: tuple[int, ...], dtype: DType
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    if dtype not in standards.EXACT:
        yield "the results have the opposite sign", -a, g
    if len(shape) > 1 and a.size == math.prod(shape):
        turned = g.reshape(shape).swapaxes(-1, -2)
        yield "the results look transposed (the last two axes)", a, np.ascontiguousarray(turned).reshape(-1)
    for axis in range(len(shape)):
        step = math.prod(shape[axis + 1 :])
        if step and a.size - step >= _FEWEST:
            text = f"the results are shifted by one along axis {axis}: an element has the value of the one"
            yield f"{text} before", a[step:], g[:-step]
            yield f"{text} after", a[:-step], g[step:]


def _unwritten_tail(actual: NDArray[Any], expected: NDArray[Any]) -> str:
    count = actual.size
    last = raw(flat(actual, count - 1, count))
    start = count
    while start > 0:
        begin = max(0, start - measures.BLOCK)
        different = np.flatnonzero(np.any(raw(flat(actual, begin, start)) != last, axis=1))
        if different.size:
            start = begin + int(different[-1]) + 1
            break
        start = begin
    length = count - start
    if not _FEWEST <= length < count:
        return ""
    wanted = flat(expected, start, min(count, start + _MOST))
    if np.all(raw(wanted) == raw(wanted[:1])):
        return ""
    value = decimal(flat(actual, count - 1, count)[0])
    return f"the last {length} of {count} elements are all {value}: were they written?"


def _flushed(a: NDArray[Any], g: NDArray[Any], dtype: DType) -> str:
    component = COMPONENT.get(dtype, dtype)
    if component not in LAYOUTS:
        return ""
    layout = LAYOUTS[component]
    smallest = math.ldexp(1.0, layout.quantum + layout.precision - 1)
    left, right = ((x.real, x.imag) if x.dtype.kind == "c" else (x,) for x in (decode(a), decode(g)))
    tiny = [np.asarray((y != 0) & (np.abs(y) < smallest)) for y in right]
    if not any(map(np.any, tiny)) or any(np.any(x[mask]) for x, mask in zip(left, tiny, strict=True)):
        return ""
    return "every result that should be subnormal is 0"
