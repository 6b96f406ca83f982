"""Signs that an array is no result at all: never written, filled, or copied from an input.

Such an array may even meet a loose standard, where all that is expected is small. An array that equals what was
expected, or nearly so, is trusted whatever it looks like.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.verify.measures import flat, spans
from nonpu.verify.rounding import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# A result this close to what was expected, in units, was computed.
NEAR: Final = 4.0
_WORD: Final = 8  # bytes of the longest fill pattern


def raw(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of a one-dimensional array, one row for each element."""
    packed = np.ascontiguousarray(array)
    return packed.view(np.uint8).reshape(packed.size, packed.dtype.itemsize)


@dataclass
class Content:
    """What all elements of an array have in common so far.

    Parameters
    ----------
    count : int
        Number of elements.
    zero, nan, constant, pattern : bool
        All are zeros; NaN; the same bits; the bytes repeat with a period of `_WORD`.
    first : bytes
        The first bytes, as many as one element or one pattern has.
    """

    count: int = 0
    zero: bool = True
    nan: bool = True
    constant: bool = True
    pattern: bool = True
    first: bytes = field(default=b"", repr=False)

    def add(self, array: NDArray[Any]) -> None:
        """Take in a block of elements."""
        if array.size == 0:
            return
        data = raw(array)
        if not self.first:
            self.first = data.tobytes()[: max(_WORD, data.shape[1])]
        self.count += array.size
        self.zero = self.zero and not bool(np.any(array))
        if self.nan:
            self.nan = array.dtype.kind not in "biu" and bool(np.all(np.isnan(decode(array))))
        if self.constant:
            self.constant = bool(np.all(data == np.frombuffer(self.first, np.uint8, data.shape[1])))
        if self.pattern:
            line = data.reshape(-1)
            whole = line.size // _WORD * _WORD
            word = np.frombuffer(self.first[:_WORD].ljust(_WORD, b"\0"), np.uint8)
            rest = line[whole:]
            self.pattern = bool(np.all(line[:whole].reshape(-1, _WORD) == word) and np.all(rest == word[: rest.size]))


def doubt(actual: Content, expected: Content, far: bool, exact: bool) -> str:
    """Return why an array cannot be a result, as far as its own elements tell; empty if nothing does.

    Parameters
    ----------
    actual, expected : Content
        What the two arrays are like.
    far : bool
        Some element is more than `NEAR` units away from what was expected.
    exact : bool
        All elements equal what was expected.
    """
    if exact or actual.count == 0:
        return ""
    if actual.zero and not expected.zero:
        return "all elements are 0, the expected ones are not: was the output written?"
    filled = len(set(actual.first)) == 1 and actual.first[:1] != b"\0"
    if actual.constant and not expected.constant and filled and (far or actual.nan):
        return f"every byte is 0x{actual.first[0]:02x}: memory that was filled and never written?"
    if actual.nan and not expected.nan:
        return "all elements are NaN, the expected ones are not"
    if not far or actual.count < 2:
        return ""
    if actual.constant and not expected.constant:
        return "all elements are the same value, the expected ones are not"
    if actual.pattern and not expected.pattern and actual.count * 2 >= _WORD:
        return (
            f"the bytes repeat the pattern {actual.first[:_WORD].hex(' ')}: memory that was filled and never written?"
        )
    return ""


def copied(actual: NDArray[Any], inputs: Mapping[str, NDArray[Any]]) -> str:
    """Return the name of the input whose bits an array has, empty if there is none."""
    for name, given in inputs.items():
        if given.dtype == actual.dtype and given.shape == actual.shape and _same(actual, given):
            return name
    return ""


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    pairs = ((flat(one, *span), flat(other, *span)) for span in spans(one.size))
    return all(np.array_equal(raw(left), raw(right)) for left, right in pairs)
