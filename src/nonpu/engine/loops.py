"""The loops that every elementwise operator shares, written once as Numba source.

`kernel` wraps an operator's scalar function into a loop over contiguous operands.  `elementwise` is the driver: it
walks the tiles of a launch record (module ``plan``), stages operands that are strided, broadcast or of another type
through small blocks on the stack, and calls the kernel on each tile.
"""

from __future__ import annotations

import inspect
import types as python_types
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, loader, pair_reader, pair_writer, reader, writer
from nonpu.engine.intrinsics import (
    PRIMITIVES,
    call_kernel,
    call_move,
    each_index,
    f8,
    i8,
    load_i8,
    map_tuple,
    prefetch,
    prefetch_to_write,
    stack,
    store_fence,
    store_i8,
    to_single,
    words,
)
from nonpu.engine.plan import BLOCK, LINE, MAX_OPERANDS

Scalar = Callable[..., Any]

# The launch record, in 8-byte words (module plan describes the fields).
KERNEL, OPERANDS, ROWS, COLUMNS, TILE_ROWS, TILE_COLUMNS, OUTER_RANK, OUTER_SHAPE, PARAMETERS, PART, FIRST_OPERAND = (
    1, 2, 4, 5, 6, 7, 8, 9, 15, 20, 21
)  # fmt: skip
OPERAND_WORDS = 11
MOVE, ITEM, ROW_STRIDE, COLUMN_STRIDE, OUTER_STRIDES = 1, 2, 3, 4, 5
MAX_OUTER = 6
MANY = 1024
"""From so many elements on, those before the first cache line of the result are computed on their own."""

# What the driver remembers of an operand, in words: its address at the current outer indices, its block, and the
# address in memory of the tile that is in the block.
PLACE_WORDS = 3
ORIGIN, BLOCK_START, HELD = range(PLACE_WORDS)


@cache
def specialise(function: Scalar, compute: str) -> Any:
    """Return the Numba function of a plain Python scalar function.

    Functions that it calls are compiled with it.  For "float32", every float constant, in the code or a global,
    becomes a FLOAT, so that one source serves both types and nothing is widened by accident.
    """
    constants = tuple(_constant(value, compute) for value in function.__code__.co_consts)
    names = {name: _global(value, compute) for name, value in function.__globals__.items() if name in _used(function)}
    cells = tuple(python_types.CellType(_global(cell.cell_contents, compute)) for cell in function.__closure__ or ())
    code = function.__code__.replace(co_consts=constants)
    copy = python_types.FunctionType(code, names, function.__name__, function.__defaults__, cells)
    copy.__module__ = function.__module__
    return njit(error_model="numpy", no_cpython_wrapper=True)(copy)


def _used(function: Scalar) -> frozenset[str]:
    return frozenset(function.__code__.co_names)


def _constant(value: Any, compute: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_constant(item, compute) for item in value)
    return np.float32(value) if compute == "float32" and type(value) is float else value


def _global(value: Any, compute: str) -> Any:
    if isinstance(value, python_types.FunctionType) and value not in PRIMITIVES:
        return specialise(value, compute)
    return _constant(value, compute)


def kernel(function: Scalar, compute: str, dtype: str, inputs: int, step: int = 1) -> Any:
    """Return ``entry(operands, count, parameters)``: the scalar function over contiguous operands of one type.

    Parameters
    ----------
    function : callable
        ``function(*inputs, *parameters)``; for complex types each input is two numbers, and so is the result.
    compute : str
        "float32" or "float64": the type of its numbers.  Values are rounded to `dtype` once, when stored.
    dtype : str
        Python name of the type of all operands in memory.
    inputs : int
        Number of input operands.
    step : int
        Every so manieth element of the inputs counts, for real types; they are read as vectors and sorted.
    """
    scalar = specialise(function, compute)
    parts = 2 if dtype in COMPONENT else 1
    element = element_of(scalar, dtype, compute, step)
    addresses_of = words(i8, inputs)
    parameters_of = words(f8, len(inspect.signature(function).parameters) - inputs * parts)
    narrow, size_of_item = to_single if compute == "float32" else _same, ITEM_SIZE[dtype]

    @njit(no_cpython_wrapper=True)
    def parameter(index: Any, value: Any) -> Any:
        return narrow(value)

    def entry(operands: Any, count: Any, parameters: Any) -> None:
        numbers = map_tuple(parameter, 0, parameters_of(parameters))
        output, sources = load_i8(operands, 0, 8, 0), addresses_of(operands + 8)
        start, size = 0, until_line(output, size_of_item) if count >= MANY else count
        while start < count:
            each_index(element, size, (start, output, sources, numbers))
            start += size
            size = count - start

    if dtype != "bfloat16" or step > 1:
        return entry
    pair = _brain_pair(scalar, compute)

    def entry_of_pairs(operands: Any, count: Any, parameters: Any) -> None:
        numbers = map_tuple(parameter, 0, parameters_of(parameters))
        output, sources = load_i8(operands, 0, 8, 0), addresses_of(operands + 8)
        each_index(pair, count >> 1, (output, sources, numbers))
        each_index(element, count & 1, (count - 1, output, sources, numbers))

    return entry_of_pairs


@njit(no_cpython_wrapper=True)
def until_line(address: Any, item: Any) -> Any:
    """Return how many items lie between an address and the next cache line: stores across lines take twice the time."""
    return (-address & (LINE - 1)) // item


def element_of(scalar: Any, dtype: str, compute: str, step: int = 1) -> Any:
    """Return ``element(index, start, output, sources, parameters)``: compute the element at ``start + index``."""
    if dtype in COMPONENT:
        return _complex_element(scalar, dtype, compute)
    return _real_element(scalar, dtype, compute, step)


def _real_element(scalar: Any, dtype: str, compute: str, step: int) -> Any:
    load, write, stride = loader(dtype, compute, step), writer(dtype, compute), ITEM_SIZE[dtype]

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, sources: Any, parameters: Any) -> None:
        values = map_tuple(load, start + index, sources)
        write(output, start + index, stride, 0, scalar(*(values + parameters)))

    return element


def _complex_element(scalar: Any, dtype: str, compute: str) -> Any:
    part, stride = COMPONENT[dtype], ITEM_SIZE[dtype]
    read, write, size = reader(part, compute), writer(part, compute), ITEM_SIZE[part]

    @njit(no_cpython_wrapper=True)
    def load(index: Any, address: Any) -> Any:
        return read(address, index, stride, 0), read(address, index, stride, size)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, sources: Any, parameters: Any) -> None:
        real, imaginary = scalar(*(map_tuple(load, start + index, sources) + parameters))
        write(output, start + index, stride, 0, real)
        write(output, start + index, stride, size, imaginary)

    return element


def _brain_pair(scalar: Any, compute: str) -> Any:
    (read_first, read_second), write = pair_reader(compute), pair_writer(compute)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, output: Any, sources: Any, parameters: Any) -> None:
        first = scalar(*(map_tuple(read_first, index, sources) + parameters))
        second = scalar(*(map_tuple(read_second, index, sources) + parameters))
        write(output, index, first, second)

    return element


@njit(no_cpython_wrapper=True)
def _same(value: Any) -> Any:
    return value


_operand_words = stack(8 * MAX_OPERANDS)
_operand_places = stack(8 * MAX_OPERANDS * PLACE_WORDS)
_index_words = stack(8 * MAX_OUTER)
_scratch = stack(MAX_OPERANDS * BLOCK * 16)


@njit(no_cpython_wrapper=True)
def _word(record: Any, index: Any) -> Any:
    return load_i8(record, index, 8, 0)


@njit(no_cpython_wrapper=True)
def _set(record: Any, index: Any, value: Any) -> None:
    store_i8(record, index, 8, 0, value)


@njit(no_cpython_wrapper=True)
def _operand(launch: Any, index: Any) -> Any:
    return launch + 8 * (FIRST_OPERAND + OPERAND_WORDS * index)


@njit(no_cpython_wrapper=True)
def _quotient(value: Any, divisor: Any) -> Any:
    """Integer division of numbers >= 0, without the cost of one where the answer is 0 or 1 times."""
    return 0 if value < divisor else value // divisor


@njit(no_cpython_wrapper=True)
def _tiles(extent: Any, tile: Any) -> Any:
    return 1 if extent <= tile else (extent + tile - 1) // tile


@njit(no_cpython_wrapper=True)
def _place_of(places: Any, index: Any) -> Any:
    return places + 8 * PLACE_WORDS * index


@njit(no_cpython_wrapper=True)
def _set_blocks(launch: Any, places: Any, block: Any) -> None:
    """Give each staged operand a block of scratch memory, one after the other."""
    for index in range(_word(launch, OPERANDS)):
        _set(_place_of(places, index), BLOCK_START, block)
        operand = _operand(launch, index)
        block += BLOCK * _word(operand, ITEM) if _word(operand, MOVE) != 0 else 0


@njit(no_cpython_wrapper=True)
def _set_origins(launch: Any, indices: Any, places: Any) -> None:
    """Set the address of each operand at the current outer indices."""
    for index in range(_word(launch, OPERANDS)):
        operand = _operand(launch, index)
        address = _word(operand, 0)
        for axis in range(_word(launch, OUTER_RANK)):
            address += _word(indices, axis) * _word(operand, OUTER_STRIDES + axis)
        _set(_place_of(places, index), ORIGIN, address)


@njit(no_cpython_wrapper=True)
def _set_indices(launch: Any, indices: Any, position: Any) -> None:
    """Set the outer indices to a position in row-major order."""
    axis = _word(launch, OUTER_RANK) - 1
    while axis >= 0:
        extent = _word(launch, OUTER_SHAPE + axis)
        _set(indices, axis, position % extent)
        position //= extent
        axis -= 1


@njit(no_cpython_wrapper=True)
def _advance(launch: Any, indices: Any) -> None:
    """Go to the next outer indices in row-major order."""
    axis = _word(launch, OUTER_RANK) - 1
    while axis >= 0:
        following = _word(indices, axis) + 1
        if following < _word(launch, OUTER_SHAPE + axis):
            _set(indices, axis, following)
            return
        _set(indices, axis, 0)
        axis -= 1


@njit(no_cpython_wrapper=True)
def _bring(launch: Any, index: Any, place: Any, tile: Any, same_size: Any) -> Any:
    """Return where the kernel finds or leaves its operand of a tile, after moving an input there if it must be."""
    operand = _operand(launch, index)
    row_stride, column_stride = _word(operand, ROW_STRIDE), _word(operand, COLUMN_STRIDE)
    first_row, first_column, rows, columns = tile
    address = _word(place, ORIGIN) + first_row * row_stride + first_column * column_stride
    move, item, block = _word(operand, MOVE), _word(operand, ITEM), _word(place, BLOCK_START)
    if move == 0:
        return address
    if index > 0 and not (same_size and _word(place, HELD) == address):
        call_move(move, block, columns * item, item, address, row_stride, column_stride, rows, columns)
    _set(place, HELD, address)
    return block


@njit(no_cpython_wrapper=True)
def _step(launch: Any, index: Any) -> Any:
    """Return the distance of an input's elements where the kernel reads them; 0: it reads one number."""
    operand = _operand(launch, index)
    return _word(operand, COLUMN_STRIDE if _word(operand, MOVE) == 0 else ITEM)


@njit(no_cpython_wrapper=True)
def _ask(address: Any, size: Any, writes: Any) -> None:
    """Ask for the cache lines that begin in ``size`` bytes from an address on."""
    for line in range(size // LINE):
        if writes:
            prefetch_to_write(address + LINE * line)
        else:
            prefetch(address + LINE * line)


@njit(no_cpython_wrapper=True)
def _compute_in_parts(launch: Any, addresses: Any, output_place: Any, columns: Any) -> None:
    """Compute a row in parts that end where cache lines of the result do.

    The result is moved out past the caches, and while such stores drain nothing would read ahead: so the next part of
    the inputs is asked for.  Or it is written where it belongs, and then its next part is.
    """
    output, part = _operand(launch, 0), _word(launch, PART)
    move, item = _word(output, MOVE), _word(output, ITEM)
    target = _word(addresses, 0) if move == 0 else _word(output_place, HELD)
    done, size = 0, part - (target & (LINE - 1)) // item
    while done < columns:
        size = min(size, columns - done)
        call_kernel(_word(launch, KERNEL), addresses, size, launch + 8 * PARAMETERS)
        for index in range(1, _word(launch, OPERANDS)):
            step = _step(launch, index)
            following = _word(addresses, index) + size * step
            if move != 0 and step <= item:  # with gaps, processors themselves read enough
                _ask(following, part * step, False)
            _set(addresses, index, following)
        if move == 0:
            _set(addresses, 0, target + (done + size) * item)
            _ask(_word(addresses, 0), part * item, True)
        else:
            call_move(move, target + done * item, 0, item, _word(addresses, 0), 0, item, 1, size)
        done += size
        size = part


@njit(no_cpython_wrapper=True)
def _compute(launch: Any, addresses: Any, output_place: Any, tile: Any) -> None:
    """Call the kernel and move the result out.  Without a kernel, operand 1 is what is moved out."""
    _, _, rows, columns = tile
    if _word(launch, PART) > 0:
        _compute_in_parts(launch, addresses, output_place, columns)
        return
    computed = _word(addresses, 1)
    if _word(launch, KERNEL) != 0:
        call_kernel(_word(launch, KERNEL), addresses, rows * columns, launch + 8 * PARAMETERS)
        computed = _word(addresses, 0)
    output = _operand(launch, 0)
    move, item, address = _word(output, MOVE), _word(output, ITEM), _word(output_place, HELD)
    row_stride, column_stride = _word(output, ROW_STRIDE), _word(output, COLUMN_STRIDE)
    if move != 0:
        call_move(move, address, row_stride, column_stride, computed, columns * item, item, rows, columns)


@njit(no_cpython_wrapper=True)
def _is_plain(launch: Any) -> Any:
    """Whether a tile is a whole row and the kernel takes every operand as it is."""
    moves = 0
    for index in range(_word(launch, OPERANDS)):
        moves |= _word(_operand(launch, index), MOVE)
    whole = _word(launch, TILE_ROWS) == 1 and _word(launch, COLUMNS) <= _word(launch, TILE_COLUMNS)
    return whole and moves == 0 and _word(launch, KERNEL) != 0 and _word(launch, PART) == 0


@njit(no_cpython_wrapper=True)
def _plain_rows(launch: Any, places: Any, addresses: Any, first: Any, count: Any) -> None:
    """Call the kernel on rows of the same outer indices, with nothing between the calls but the next addresses."""
    operands, kernel, columns = _word(launch, OPERANDS), _word(launch, KERNEL), _word(launch, COLUMNS)
    for index in range(operands):
        start = _word(_place_of(places, index), ORIGIN) + first * _word(_operand(launch, index), ROW_STRIDE)
        _set(addresses, index, start)
    for _ in range(count):
        call_kernel(kernel, addresses, columns, launch + 8 * PARAMETERS)
        for index in range(operands):
            _set(addresses, index, _word(addresses, index) + _word(_operand(launch, index), ROW_STRIDE))


@njit(no_cpython_wrapper=True)
def _plain_tiles(launch: Any, places: Any, addresses: Any, indices: Any, row: Any, count: Any) -> None:
    while count > 0:
        here = min(count, _word(launch, ROWS) - row)
        _plain_rows(launch, places, addresses, row, here)
        row = 0
        count -= here
        if count > 0:
            _advance(launch, indices)
            _set_origins(launch, indices, places)


@njit(no_cpython_wrapper=True)
def _staged_tiles(
    launch: Any, places: Any, addresses: Any, indices: Any, row: Any, column: Any, column_tiles: Any, count: Any
) -> None:
    rows, columns = _word(launch, ROWS), _word(launch, COLUMNS)
    tile_rows, tile_columns = _word(launch, TILE_ROWS), _word(launch, TILE_COLUMNS)
    row_tiles = _tiles(rows, tile_rows)
    _set_blocks(launch, places, _scratch())
    last_rows, last_columns = 0, 0
    for _ in range(count):
        first_row, first_column = row * tile_rows, column * tile_columns
        here_rows, here_columns = min(tile_rows, rows - first_row), min(tile_columns, columns - first_column)
        tile = (first_row, first_column, here_rows, here_columns)
        same_size = here_rows == last_rows and here_columns == last_columns
        last_rows, last_columns = here_rows, here_columns
        for index in range(_word(launch, OPERANDS)):
            _set(addresses, index, _bring(launch, index, _place_of(places, index), tile, same_size))
        _compute(launch, addresses, places, tile)
        column += 1
        if column == column_tiles:
            column = 0
            row += 1
            if row == row_tiles:
                row = 0
                _advance(launch, indices)
                _set_origins(launch, indices, places)


def elementwise(launch: Any, first_tile: Any, last_tile: Any) -> None:
    """Run the tiles ``first_tile <= t < last_tile`` of a launch record."""
    column_tiles = _tiles(_word(launch, COLUMNS), _word(launch, TILE_COLUMNS))
    row_tiles = _tiles(_word(launch, ROWS), _word(launch, TILE_ROWS))
    row = _quotient(first_tile, column_tiles)
    column = first_tile - row * column_tiles
    outer = _quotient(row, row_tiles)
    row -= outer * row_tiles
    places, addresses, indices = _operand_places(), _operand_words(), _index_words()
    _set_indices(launch, indices, outer)
    _set_origins(launch, indices, places)
    if _is_plain(launch):
        _plain_tiles(launch, places, addresses, indices, row, last_tile - first_tile)
    else:
        _staged_tiles(launch, places, addresses, indices, row, column, column_tiles, last_tile - first_tile)
    store_fence()
