"""Moves: copy a tile between strided memory and a contiguous block, converting the type on the way.

``move(dst, dst_row, dst_col, src, src_row, src_col, rows, cols)`` takes addresses and strides in bytes; strides may be
anything.  The two sides do not overlap, because one of them is always a block of the driver or a temporary.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, reader, writer
from nonpu.engine.intrinsics import COPY, each_index, each_scattered, load_u1, store_u1, stream_line

LINE = 64


@njit(no_cpython_wrapper=True)
def _copy_byte(index: Any, destination: Any, source: Any) -> None:
    store_u1(destination, index, 1, 0, load_u1(source, index, 1, 0))


@njit(no_cpython_wrapper=True)
def _copy_line(index: Any, destination: Any, source: Any) -> None:
    stream_line(destination + LINE * index, source + LINE * index)


def copy(size: int) -> Any:
    """Return the move of elements of ``size`` bytes, exact to the bit."""
    copy_element = COPY[size]

    @njit(no_cpython_wrapper=True)
    def cell(index: Any, dst: Any, dst_stride: Any, src: Any, src_stride: Any) -> None:
        copy_element(dst, index, dst_stride, src, src_stride)

    return _move(cell, size, size, every_other=True)


def conversion(source: str, target: str) -> Any:
    """Return the move from one type to another: from a real type to any, or between the complex types."""
    cell = _complex_cell(source, target) if source in COMPONENT else _real_cell(source, target)
    return _move(cell, ITEM_SIZE[target], ITEM_SIZE[source])


def _real_cell(source: str, target: str) -> Any:
    compute = "float64" if source == "float64" else "float32"
    read, write = reader(source, compute), writer(target, compute)

    @njit(no_cpython_wrapper=True)
    def cell(index: Any, dst: Any, dst_stride: Any, src: Any, src_stride: Any) -> None:
        write(dst, index, dst_stride, 0, read(src, index, src_stride, 0))

    return cell


def _complex_cell(source: str, target: str) -> Any:
    compute = COMPONENT[source]
    read, write = reader(COMPONENT[source], compute), writer(COMPONENT[target], compute)
    read_part, write_part = ITEM_SIZE[source] // 2, ITEM_SIZE[target] // 2

    @njit(no_cpython_wrapper=True)
    def cell(index: Any, dst: Any, dst_stride: Any, src: Any, src_stride: Any) -> None:
        write(dst, index, dst_stride, 0, read(src, index, src_stride, 0))
        write(dst, index, dst_stride, write_part, read(src, index, src_stride, read_part))

    return cell


def _move(cell: Any, dst_size: int, src_size: int, every_other: bool = False) -> Any:
    """Return the move that applies a cell to every element of a tile; `every_other`: such sources in vectors."""

    def move(dst: Any, dst_row: Any, dst_col: Any, src: Any, src_row: Any, src_col: Any, rows: Any, cols: Any) -> None:
        # Walk along the smaller strides, so that a transposed tile reads and writes whole cache lines.
        if cols == 1 or (rows > 1 and abs(dst_row) + abs(src_row) < abs(dst_col) + abs(src_col)):
            dst_row, dst_col = dst_col, dst_row
            src_row, src_col = src_col, src_row
            rows, cols = cols, rows
        if dst_row == cols * dst_col and src_row == cols * src_col:
            cols *= rows
            rows = 1
        # The strides of all loops but the last are constants, which is what makes LLVM use vectors there.
        if dst_col == dst_size and src_col == src_size:
            for row in range(rows):
                each_index(cell, cols, (dst + row * dst_row, dst_size, src + row * src_row, src_size))
        elif dst_col == dst_size and src_col == 0:
            for row in range(rows):
                each_index(cell, cols, (dst + row * dst_row, dst_size, src + row * src_row, 0))
        elif every_other and dst_col == dst_size and src_col == 2 * src_size:
            for row in range(rows):
                each_index(cell, cols, (dst + row * dst_row, dst_size, src + row * src_row, 2 * src_size))
        else:
            for row in range(rows):
                each_scattered(cell, cols, (dst + row * dst_row, dst_col, src + row * src_row, src_col))

    return move


def stream(size: int) -> Any:
    """Return the move to contiguous memory that stores whole cache lines past the caches."""

    def move(dst: Any, dst_row: Any, dst_col: Any, src: Any, src_row: Any, src_col: Any, rows: Any, cols: Any) -> None:
        count = rows * cols * size
        head = min(-dst & (LINE - 1), count)
        lines = (count - head) // LINE
        tail = head + LINE * lines
        each_index(_copy_byte, head, (dst, src))
        each_index(_copy_line, lines, (dst + head, src + head))
        each_index(_copy_byte, count - tail, (dst + tail, src + tail))

    return move
