"""Does a view lie in its memory, and do two of its elements share memory?

All arithmetic is on Python's unbounded ints: C callers can pass any 64-bit length, stride and offset.
"""

from __future__ import annotations

from math import gcd

from nonpu.dtypes import BY_VALUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nonpu.spec.call import FindBlock, Probe
    from nonpu.tensor import Tensor

    Fault = tuple[str, str, str]
    Axes = list[tuple[int, int]]

INT64_MAX: Final = 2**63 - 1
ADDRESS_END: Final = 2**64
# Bits of the map that decides irregular layouts; 32 MiB.
_MAP_BITS: Final = 1 << 28
# Bounds on the two searches, tenths of a second each. The first decided every random view of less than a terabyte that
# was tried; only views that no memory can hold have needed more.
_SEARCH_STEPS: Final = 50_000
_LONG_SEARCH_STEPS: Final = 200_000


def find_fault(
    tensor: Tensor, is_output: bool, one_call: bool, find_block: FindBlock | None, probe: Probe | None = None
) -> Fault | None:
    """Return what is wrong with the layout of a non-empty tensor, as subject, expected and actual text.

    Strides of axes of length 1 are ignored. Negative strides pass only in one-call functions.
    """
    low = high = offset = tensor.offset
    for length, stride in zip(tensor.shape, tensor.strides, strict=True):
        if length > 1:
            if stride >= 0:
                high += stride * (length - 1)
            else:
                low += stride * (length - 1)
    if low < offset and not one_call:
        return "strides", "at least 0", f"{list(tensor.strides)}"
    itemsize = BY_VALUE[tensor.dtype].itemsize
    first = low * itemsize
    end = (high + 1) * itemsize
    if end > INT64_MAX or first < -INT64_MAX:
        return "view", "within 64-bit byte offsets", f"bytes {first} to {end} of its storage"
    storage = tensor.storage_shape
    if storage is not None:
        if min(storage, default=0) < 0:
            return "storage shape", "without negative dimensions", f"{list(storage)}"
        elements = 1
        for length in storage:
            elements *= length
        if first < 0 or end > elements * itemsize:
            inside = f"inside bytes 0 to {elements * itemsize} of its storage shape {list(storage)}"
            return "view", inside, f"bytes {first} to {end}"
    address = tensor.address
    if address == 0:
        return "data", "an address, as the tensor is not empty", "null"
    extent = tensor.extent
    if extent is None and find_block is not None:
        extent = find_block(address)
    if extent is None:
        if first < 0 or address + end > ADDRESS_END:
            return "view", f"at or after its data address {address:#x}", f"bytes {first} to {end} from there"
        fault = "" if probe is None else probe(address + first, end - first, is_output)
        if fault:
            return "data", "memory of this process", f"{address:#x}, where bytes {first} to {end} are {fault}"
    elif extent[1] == 0:
        return "data", "an address in live memory", f"{address:#x}, in memory that was given back"
    elif address + first < extent[0] or address + end > extent[0] + extent[1]:
        start = extent[0] - address
        inside = f"inside its memory, bytes {start} to {start + extent[1]} from its data address"
        return "view", inside, f"bytes {first} to {end}"
    return _output_fault(tensor) if is_output else None


def _output_fault(tensor: Tensor) -> Fault | None:
    if not tensor.writable:
        return "data", "writable memory", "read-only memory"
    overlap = self_overlaps(tensor.shape, tensor.strides)
    if overlap is False:
        return None
    found = "overlapping elements" if overlap else "a layout too irregular to decide"
    actual = f"{found}: shape {list(tensor.shape)}, strides {list(tensor.strides)}"
    return "strides", "such that no two elements share memory", actual


def self_overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool | None:
    """Return whether two elements of a view share an address; exact.

    Returns
    -------
    bool or None
        None if neither a bounded search nor a map of the addresses decides it: only for views of three or more
        interleaved axes that span far more than 2**28 positions.
    """
    axes = sorted((abs(stride), length) for length, stride in zip(shape, strides, strict=True) if length > 1)
    if _is_nested(axes):
        return False
    if axes[0][0] == 0:
        return True
    return _decide(_merge(axes))


def _is_nested(axes: Axes) -> bool:
    """Whether every axis steps over all that the finer ones reach: the ordinary case, free of overlap."""
    reach = 0
    for stride, length in axes:
        if stride <= reach:
            return False
        reach += stride * (length - 1)
    return True


def _merge(axes: Axes) -> Axes:
    """Join axes that continue one another, and drop the coarsest ones that step over all the others reach."""
    merged = axes[:1]
    for stride, length in axes[1:]:
        fine_stride, fine_length = merged[-1]
        if stride == fine_stride * fine_length:
            merged[-1] = (fine_stride, fine_length * length)
        else:
            merged.append((stride, length))
    while len(merged) > 1 and merged[-1][0] > sum(stride * (length - 1) for stride, length in merged[:-1]):
        merged.pop()
    return merged


def _decide(axes: Axes) -> bool | None:
    reach = divisor = 0
    elements = 1
    for stride, length in axes:
        reach += stride * (length - 1)
        divisor = gcd(divisor, stride)
        elements *= length
        if elements > reach // divisor + 1:
            return True  # more elements than places
    found = _Search(axes, _SEARCH_STEPS).run()
    if found is None and reach // divisor < _MAP_BITS:
        return _map_overlaps(axes, divisor, elements)
    if found is None:
        # The two finest axes of a search are solved at once, so sparse views of great length want their longest there.
        by_length = sorted(axes, key=lambda axis: axis[1])
        found = _Search(sorted(by_length[-2:]) + sorted(by_length[:-2]), _LONG_SEARCH_STEPS).run()
    return found


class _Search:
    """Looks for index differences, not all 0, whose strides sum to 0: exactly then two elements coincide."""

    __slots__ = ("axes", "divisors", "failed", "reaches", "steps")

    def __init__(self, axes: Axes, steps: int) -> None:
        self.axes = axes
        self.steps = steps
        self.failed: set[tuple[int, int]] = set()
        # What the axes up to each level reach, and the divisor of all they reach.
        self.reaches: list[int] = []
        self.divisors: list[int] = []
        reach = divisor = 0
        for stride, length in axes:
            reach += stride * (length - 1)
            divisor = gcd(divisor, stride)
            self.reaches.append(reach)
            self.divisors.append(divisor)

    def run(self) -> bool | None:
        """Return the answer, None if the steps ran out."""
        # A solution and its negative are one: let the last difference that is not 0 be positive.
        for level in range(1, len(self.axes)):
            stride, length = self.axes[level]
            divisor = self.divisors[level - 1]
            every = divisor // gcd(stride, divisor)
            for difference in range(every, min(length - 1, self.reaches[level - 1] // stride) + 1, every):
                self.steps -= 1
                if self._solve(level - 1, difference * stride):
                    return True
                if self.steps < 0:
                    return None
        return False

    def _solve(self, level: int, target: int) -> bool:
        """Whether differences on the axes up to `level` can sum to `target`."""
        stride, length = self.axes[level]
        if level == 0:
            return target % stride == 0 and abs(target) <= stride * (length - 1)
        if (level, target) in self.failed:
            return False
        self.steps -= 1
        reach, divisor = self.reaches[level - 1], self.divisors[level - 1]
        shared = gcd(stride, divisor)
        if target % shared == 0 and self.steps >= 0:
            # The finer axes only reach multiples of their divisor, which leaves every `every`-th difference.
            every = divisor // shared
            start = target // shared * pow(stride // shared, -1, every) % every
            lowest = max(-((reach - target) // stride), 1 - length)
            highest = min((reach + target) // stride, length - 1)
            for difference in range(lowest + (start - lowest) % every, highest + 1, every):
                if self._solve(level - 1, target - difference * stride):
                    return True
        if self.steps >= 0:
            self.failed.add((level, target))
        return False


def _map_overlaps(axes: Axes, divisor: int, elements: int) -> bool:
    """Mark every position in one long int and count the marks."""
    marks = 1
    for stride, length in axes:
        step = stride // divisor
        done = 1
        while done < length:
            more = min(done, length - done)
            marks |= marks << more * step
            done += more
    return marks.bit_count() != elements
