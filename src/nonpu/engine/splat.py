"""Kernels for an input that is one number: the same element of it meets every element of the others.

That is an input broadcast along the columns.  Its value is read once per call, so that LLVM moves all that depends on
it alone out of the loop: the derivative of an activation at one point, for instance, is computed once for a whole row
of gradients.  Each element passes through the same operations as in the other kernels and takes the same one of a fast
and an accurate function, so that its bits are the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import njit

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, converter, loader, pair_reader, reader, writer
from nonpu.engine.guarded import narrowing
from nonpu.engine.intrinsics import (
    COPY,
    any_index,
    each_index,
    f8,
    i8,
    load_i8,
    map_tuple,
    stack,
    store_u4,
    words,
)
from nonpu.engine.loops import specialise
from nonpu.engine.passes import choice, judgement, rounded_pair, shift_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nonpu.spec.model import Fast

Scalar = Callable[..., Any]

BLOCK, FINE = 256, 64
"""Elements per pass of a guarded kernel.  A block in which any is in doubt is gone through again in finer steps, and
only those in which it lies compute the accurate function."""


def splat(
    careful: tuple[Scalar, str], dtype: str, inputs: int, which: int, fast: Fast | None, unit: Fast | None
) -> Any:
    """Return ``entry(operands, count, parameters)`` like `nonpu.engine.loops.kernel`, with one input of one element.

    Parameters
    ----------
    careful : tuple
        The accurate function and its type, as for `nonpu.engine.guarded.guarded` or `nonpu.engine.loops.kernel`.
    dtype : str
        Type of all operands in memory.
    inputs, which : int
        Number of inputs, and the position of the one whose address is that of its only element.
    fast, unit : Fast, optional
        As for `nonpu.engine.guarded.guarded`.
    """
    parameters = len(inspect.signature(careful[0]).parameters) - inputs * (2 if dtype in COMPONENT else 1)
    wide_of, before_of, after_of = words(f8, parameters), words(i8, which), words(i8, inputs - which - 1)
    narrow = narrowing(fast.compute.python_name if fast else careful[1])
    place = 8 * (1 + which)
    run = _guarded(careful[0], dtype, fast) if fast else _plain(*careful, dtype)
    run_unit = _guarded(careful[0], dtype, unit) if unit else run
    has_unit = unit is not None

    def entry(operands: Any, count: Any, parameters: Any) -> None:
        output, fixed, wide = load_i8(operands, 0, 8, 0), load_i8(operands, place, 1, 0), wide_of(parameters)
        others = before_of(operands + 8), after_of(operands + place + 8)
        if has_unit and wide[0] == 1.0:
            run_unit(output, others, fixed, (), wide, count)
        else:
            run(output, others, fixed, map_tuple(narrow, 0, wide), wide, count)

    return entry


def _values(dtype: str, compute: str) -> Any:
    """Return ``values(index, others, fixed)``: the arguments of one element, with ``fixed`` in its place."""
    load = loader(dtype, compute)

    @njit(no_cpython_wrapper=True)
    def values(index: Any, others: Any, fixed: Any) -> Any:
        middle = (fixed,)
        return map_tuple(load, index, others[0]) + middle + map_tuple(load, index, others[1])

    return values


def _plain(function: Scalar, compute: str, dtype: str) -> Any:
    """Return the loop of a kernel without a fast function."""
    scalar, write, stride = specialise(function, compute), writer(dtype, compute), ITEM_SIZE[dtype]
    values, read = _values(dtype, compute), reader(dtype, compute)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, output: Any, others: Any, fixed: Any, numbers: Any) -> None:
        write(output, index, stride, 0, scalar(*(values(index, others, fixed) + numbers)))

    @njit(no_cpython_wrapper=True)
    def run(output: Any, others: Any, place: Any, numbers: Any, wide: Any, count: Any) -> None:
        each_index(element, count, (output, others, read(place, 0, stride, 0), numbers))

    return run


def _guarded(careful: Scalar, dtype: str, fast: Fast) -> Any:
    """Return the loop over blocks: the fast function for all elements, and where one is in doubt both, to choose."""
    compute, stride, copy, scratch = (
        fast.compute.python_name,
        ITEM_SIZE[dtype],
        COPY[ITEM_SIZE[dtype]],
        stack(BLOCK * ITEM_SIZE[dtype]),
    )
    read, read_wide = reader(dtype, compute), reader(dtype, "float64")
    in_pairs = dtype == "bfloat16" and fast.error is not None
    first_pass = _pairs(dtype, fast) if in_pairs else _singles(dtype, fast)
    choose = _choice(careful, dtype, fast if fast.error else fast.broad or fast)

    @njit(no_cpython_wrapper=True)
    def copy_back(index: Any, output: Any, block: Any) -> None:
        copy(output, index, stride, block, stride)

    @njit(no_cpython_wrapper=True)
    def run(output: Any, others: Any, place: Any, numbers: Any, wide: Any, count: Any) -> None:
        in_place = False  # an input that is overwritten is still needed for the second look
        for source in others[0] + others[1]:
            in_place = in_place or source == output
        block, fixed, start, fine = scratch(), read(place, 0, stride, 0), 0, 0
        while start < count:
            size = min(FINE if start < fine else BLOCK, count - start)
            target = block - start * stride if in_place else output
            if first_pass(size, start, target, others, fixed, numbers):
                if size > FINE:
                    fine = start + size
                    continue
                # The input is read again here, so that what only this needs is not computed ahead of the loop.
                fixed_wide = read_wide(place, 0, stride, 0)
                each_index(choose, size, (start, target, others, fixed, fixed_wide, numbers, wide))
            if in_place:
                each_index(copy_back, size, (output + start * stride, block))
            start += size

    return run


def _singles(dtype: str, fast: Fast) -> Any:
    """Return ``first_pass(size, start, output, others, fixed, numbers) -> any doubt``."""
    values, judged, stride = _values(dtype, fast.compute.python_name), judgement(dtype, fast), ITEM_SIZE[dtype]
    encode, store = converter(fast.compute.python_name, dtype)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, others: Any, fixed: Any, numbers: Any) -> Any:
        value, doubtful = judged(values(start + index, others, fixed) + numbers)
        store(output, start + index, stride, 0, encode(value))
        return doubtful

    @njit(no_cpython_wrapper=True)
    def first_pass(size: Any, start: Any, output: Any, others: Any, fixed: Any, numbers: Any) -> Any:
        return any_index(element, size, (start, output, others, fixed, numbers))

    return first_pass


def _pairs(dtype: str, fast: Fast) -> Any:
    """Return the same for BFLOAT16, two elements in 32 bits."""
    function, single = specialise(fast.function, fast.compute.python_name), _singles(dtype, fast)
    assert fast.error is not None
    (read_first, read_second), join = pair_reader(fast.compute.python_name), rounded_pair(fast.error)

    @njit(no_cpython_wrapper=True)
    def pair(index: Any, output: Any, before: Any, after: Any, fixed: Any, numbers: Any) -> Any:
        middle = (fixed,)
        lower = map_tuple(read_first, index, before) + middle + map_tuple(read_first, index, after)
        upper = map_tuple(read_second, index, before) + middle + map_tuple(read_second, index, after)
        first, first_sure = function(*(lower + numbers))
        second, second_sure = function(*(upper + numbers))
        word, doubtful = join(first, first_sure, second, second_sure)
        store_u4(output, index, 4, 0, word)
        return doubtful

    @njit(no_cpython_wrapper=True)
    def first_pass(size: Any, start: Any, output: Any, others: Any, fixed: Any, numbers: Any) -> Any:
        here = 2 * start
        before, after = map_tuple(shift_address, here, others[0]), map_tuple(shift_address, here, others[1])
        found = any_index(pair, size >> 1, (output + here, before, after, fixed, numbers))
        return found | single(size & 1, start + size - 1, output, others, fixed, numbers)

    return first_pass


def _choice(careful: Scalar, dtype: str, fast: Fast) -> Any:
    """Return ``choose(index, start, ...)``: the element by both functions, the accurate one where it is in doubt."""
    values, wide_values = _values(dtype, fast.compute.python_name), _values(dtype, "float64")
    store_choice = choice(careful, dtype, fast)

    @njit(no_cpython_wrapper=True)
    def choose(
        index: Any, start: Any, output: Any, others: Any, fixed: Any, fixed_wide: Any, numbers: Any, wide: Any
    ) -> None:
        place = start + index
        arguments = values(place, others, fixed) + numbers
        store_choice(place, output, arguments, wide_values(place, others, fixed_wide) + wide)

    return choose
