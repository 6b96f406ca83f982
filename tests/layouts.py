"""Arrays in every layout: views of storage that is filled with a sentinel, so that what lies between can be checked."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

SENTINEL = 0xA5


@contextlib.contextmanager
def fenced(content: bytes) -> Iterator[int]:
    """Give the address of whole pages with a content, between two that the process may neither read nor write."""
    libc, page, size = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE, len(content)
    assert size % page == 0
    memory = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[page : page + size] = content
    try:
        for forbidden in (start, start + page + size):
            assert libc.mprotect(ctypes.c_void_p(forbidden), ctypes.c_size_t(page), 0) == 0
        yield start + page
    finally:
        libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size + 2 * page), mmap.PROT_READ | mmap.PROT_WRITE)


@dataclass(frozen=True)
class Placed:
    """A view and the storage that it lies in.

    Parameters
    ----------
    view : array
        The elements.
    storage : uint8 array
        All bytes around and between them.
    offset : int
        Byte of the storage at which element 0 begins.
    """

    view: np.ndarray
    storage: np.ndarray
    offset: int

    def gaps(self) -> np.ndarray:
        """Return the bytes of the storage that belong to no element."""
        covered = np.zeros_like(self.storage)
        item = np.dtype((np.void, self.view.itemsize))
        marks = np.ndarray(self.view.shape, item, covered, self.offset, self.view.strides)
        marks[...] = np.full((), np.void(b"\x01" * self.view.itemsize), item)
        return self.storage[covered == 0]

    @property
    def untouched(self) -> bool:
        """Whether all gaps still hold the sentinel."""
        return bool((self.gaps() == SENTINEL).all())


@dataclass(frozen=True)
class Layout:
    """How a view lies in memory.

    Parameters
    ----------
    name : str
        For test identifiers.
    order : callable
        Maps the rank to the axes from the outermost in memory to the innermost.
    step : callable
        Maps axis and rank to the distance of neighbours, in units of what the axes inside cover.
    negative : callable
        Whether an axis runs backwards.
    shift : int
        Bytes between the start of the storage (64-byte aligned) and the view, on top of what negative strides need.
    """

    name: str
    order: Callable[[int], Sequence[int]] = range
    step: Callable[[int, int], int] = lambda axis, rank: 1
    negative: Callable[[int], bool] = lambda axis: False
    shift: int = 0

    def __str__(self) -> str:
        return self.name

    def empty(self, shape: Sequence[int], dtype: Any) -> Placed:
        """Return a view of sentinels."""
        dtype = np.dtype(dtype)
        rank = len(shape)
        strides = [0] * rank
        span = dtype.itemsize
        for axis in reversed(list(self.order(rank))):
            strides[axis] = span * self.step(axis, rank)
            span = strides[axis] * max(shape[axis], 1)
        offset = self.shift
        for axis in range(rank):
            if self.negative(axis) and shape[axis] > 0:
                offset += strides[axis] * (shape[axis] - 1)
                strides[axis] = -strides[axis]
        raw = np.empty(self.shift + span + 128, np.uint8)
        start = -raw.ctypes.data % 64
        storage = raw[start : start + self.shift + span + 64]
        storage[...] = SENTINEL
        return Placed(np.ndarray(tuple(shape), dtype, storage, offset, tuple(strides)), storage, offset)

    def place(self, array: np.ndarray) -> Placed:
        """Return a view with the elements of an array, bit by bit."""
        placed = self.empty(array.shape, array.dtype)
        item = np.dtype((np.void, array.itemsize))
        target = np.ndarray(array.shape, item, placed.storage, placed.offset, placed.view.strides)
        target[...] = np.array(array, order="C").reshape(-1).view(item).reshape(array.shape)
        return placed


def _reversed(rank: int) -> Sequence[int]:
    return range(rank)[::-1]


def _rotated(rank: int) -> Sequence[int]:
    return [*range(1, rank), *range(min(rank, 1))]


CONTIGUOUS = Layout("contiguous")
FORWARD = (
    CONTIGUOUS,
    Layout("offset", shift=48),
    Layout("odd-address", shift=1),
    Layout("every-second", step=lambda axis, rank: 2 if axis == rank - 1 else 1),
    Layout("every-third-of-all", step=lambda axis, rank: 3),
    Layout("padded-rows", step=lambda axis, rank: 2 if axis == rank - 2 else 1),
    Layout("transposed", order=_reversed),
    Layout("transposed-with-gaps", order=_reversed, step=lambda axis, rank: 2, shift=16),
    Layout("rotated", order=_rotated),
)
BACKWARD = (
    Layout("backwards", negative=lambda axis: True),
    Layout("rows-backwards", negative=lambda axis: axis == 0),
    Layout(
        "transposed-backwards-with-gaps",
        order=_reversed,
        step=lambda axis, rank: 1 + axis % 2,
        negative=lambda axis: axis % 2 == 1,
    ),
)
LAYOUTS = FORWARD + BACKWARD


def patterns(dtype: Any, shape: Sequence[int], seed: int, *, specials: bool = True) -> np.ndarray:
    """Return half ordinary values and half random bit patterns (all types, infinities and NaN among them)."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    ordinary = rng.standard_normal(tuple(shape)) * 3
    if dtype.kind == "c":
        ordinary = ordinary + 1j * rng.standard_normal(tuple(shape))
    with np.errstate(all="ignore"):
        result = np.asarray(ordinary.astype(dtype))
        if specials:
            raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype).reshape(tuple(shape))
            result = np.where(rng.integers(0, 2, tuple(shape)) == 0, raw, result)
    return np.array(result, order="C")


@st.composite
def layouts(draw: st.DrawFn, rank: int) -> Layout:
    """Generate a layout of any axis order, steps, directions and alignment."""
    order = draw(st.permutations(range(rank)))
    steps = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    backwards = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
    shift = draw(st.sampled_from([0, 0, 2, 4, 16, 63]))
    return Layout("drawn", lambda rank: order, lambda axis, rank: steps[axis], lambda axis: backwards[axis], shift)


@st.composite
def broadcastable(draw: st.DrawFn, shape: Sequence[int]) -> tuple[int, ...]:
    """Generate a shape that broadcasts to the given one: axes of length 1, leading axes left out."""
    ones = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    first = draw(st.integers(0, len(shape)))
    while first > 0 and any(size != 1 and not one for size, one in zip(shape[:first], ones[:first], strict=True)):
        first -= 1
    return tuple(1 if one else size for size, one in zip(shape, ones, strict=True))[first:]
