"""Guarded kernels: a fast function for nearly all elements, and the accurate one for the few it is not sure of.

The fast function says for each element whether it is sure.  For 16-bit results it is not sure either where its error
bound reaches over a rounding boundary: then the rounding is done again from the accurate function.  Which function
an element gets depends on that element alone, so its bits do not depend on its neighbours.

One pass computes a block and learns whether any element is in doubt.  Only then the doubtful ones are listed and
computed again, as vectors, however they are scattered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE
from nonpu.engine.intrinsics import (
    COPY,
    any_index,
    bits_single,
    each_index,
    f8,
    i8,
    load_i8,
    load_u1,
    load_u4,
    map_tuple,
    single_bits,
    stack,
    store_i8,
    store_u4,
    to_single,
    words,
)
from nonpu.engine.loops import element_of, specialise, until_line
from nonpu.engine.passes import asks_processor, doubt_of, passes, real_element
from nonpu.engine.stages import staged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nonpu.spec.model import Fast

Scalar = Callable[..., Any]

SIGNIFICANDS = 1024
"""FLOAT16 has so many in [1, 2)."""
FIRST, STEP = 0x3F800000, 13
"""The bits of the first of them as FLOAT, and where in them the others are counted."""

MANY = 8192
"""From so many elements on a trial of all significands costs little, and so does a block of the elements before the
first cache line of the result."""

BLOCK, SHORT_BLOCK, LARGE_BLOCK = 512, 256, 16384
"""Elements per pass: the inputs are still in the first-level cache when the doubtful ones are computed again.  The
short ones are for types of which blocks often have such, the large ones for those for which the processor looks out:
asking it takes as long as a hundred elements.  A large one with any is gone through again in usual ones."""


@njit(no_cpython_wrapper=True)
def _same(index: Any, value: Any) -> Any:
    return value


@njit(no_cpython_wrapper=True)
def _single(index: Any, value: Any) -> Any:
    return to_single(value if value == value else np.nan)  # a NaN whose lower half is 0


def narrowing(compute: str) -> Any:
    """Return ``narrow(index, parameter)``: a parameter, a DOUBLE, in the type of a function's numbers."""
    return _single if compute == "float32" else _same


def _lister(group: int) -> Any:
    """Return ``list_marked(count, marks, listed)``: list the indices below `count` in marked groups; their number."""

    @njit(no_cpython_wrapper=True)
    def list_marked(count: Any, marks: Any, listed: Any) -> Any:
        groups = (count + group - 1) // group
        store_i8(marks, groups, 1, 0, 0)
        found, word = 0, 0
        while word < groups:
            if load_i8(marks, word, 1, 0) != 0:
                for mark in range(word, word + 8):
                    if load_u1(marks, mark, 1, 0) != 0:
                        for member in range(group):
                            store_u4(listed, found + member, 4, 0, np.uint32(mark * group + member))
                        found += group
            word += 8
        # An odd count leaves the last group incomplete, and its second member would be the last entry.
        if group > 1 and found > 0 and np.int64(load_u4(listed, found - 1, 4, 0)) >= count:
            found -= 1
        return found

    return list_marked


def guarded(
    careful: Scalar,
    dtype: str,
    inputs: int,
    fast: Fast,
    unit: Fast | None = None,
) -> Any:
    """Return ``entry(operands, count, parameters)`` like `nonpu.engine.loops.kernel`.

    Parameters
    ----------
    careful : callable
        The accurate function, in DOUBLE: ``careful(*inputs, *parameters) -> value``; for complex types each input is
        two numbers, and so is the result.
    dtype : str
        Type of all operands in memory.
    inputs : int
        Number of input operands.
    fast, unit : Fast
        What computes nearly all elements; `unit`, if there is one, where the only parameter is 1.
    """
    parameters = len(inspect.signature(careful).parameters) - inputs * (2 if dtype in COMPONENT else 1)
    wide_of = words(f8, parameters)
    addresses_of = words(i8, inputs)
    narrow = narrowing(fast.compute.python_name)
    scratch = stack(BLOCK * ITEM_SIZE[dtype])
    run = _blocks(careful, dtype, fast)
    run_unit = _blocks(careful, dtype, unit) if unit else run
    has_unit = unit is not None
    all_sure = _trial(fast) if fast.trial else _never_sure

    def entry(operands: Any, count: Any, parameters: Any) -> None:
        output, sources, wide = load_i8(operands, 0, 8, 0), addresses_of(operands + 8), wide_of(parameters)
        block = scratch()
        if has_unit and wide[0] == 1.0:
            run_unit(output, sources, (), wide, count, block)
        elif not all_sure(output, sources, map_tuple(narrow, 0, wide), count):
            run(output, sources, map_tuple(narrow, 0, wide), wide, count, block)

    def entry_without_parameters(operands: Any, count: Any, parameters: Any) -> None:
        run(load_i8(operands, 0, 8, 0), addresses_of(operands + 8), (), (), count, scratch())

    return entry if parameters else entry_without_parameters


@njit(no_cpython_wrapper=True)
def _never_sure(output: Any, sources: Any, numbers: Any, count: Any) -> Any:
    return False


def _trial(fast: Fast) -> Any:
    """Return ``all_sure(output, sources, numbers, count)``: compute all of it if a trial finds no doubt.

    The trial may also find that the parameter's neighbour gives the right results everywhere.
    """
    assert fast.trial is not None
    in_doubt, element = specialise(fast.trial, "float32"), real_element(fast, "float16", doubt_of("float32", 0))

    @njit(no_cpython_wrapper=True)
    def attempt(index: Any, start: Any, parameter: Any, neighbour: Any) -> Any:
        return in_doubt(bits_single(np.uint32(FIRST + np.uint32((start + index) << STEP))), parameter, neighbour)

    @njit(no_cpython_wrapper=True)
    def fails(parameter: Any, neighbour: Any) -> Any:
        found = False
        for start in range(0, SIGNIFICANDS, BLOCK):
            found = found or any_index(attempt, BLOCK, (start, parameter, neighbour))
        return found

    @njit(no_cpython_wrapper=True)
    def all_sure(output: Any, sources: Any, numbers: Any, count: Any) -> Any:
        if count < MANY:
            return False
        bits = single_bits(numbers[0])
        for attempts in range(3):
            neighbour = bits_single(np.uint32(bits + (attempts & 1) - (attempts >> 1)))
            if not fails(numbers[0], neighbour):
                any_index(element, count, (0, output, sources, (neighbour,)))
                return True
        return False

    return all_sure


def _blocks(careful: Scalar, dtype: str, fast: Fast) -> Any:
    """Return the loop over blocks."""
    stride, accurate = ITEM_SIZE[dtype], element_of(specialise(careful, "float64"), dtype, "float64")
    block_size = SHORT_BLOCK if dtype == "float16" and fast.error else BLOCK
    large = LARGE_BLOCK if asks_processor(fast, dtype) else block_size
    marks_of, list_of, copy = stack(BLOCK + 8), stack(4 * BLOCK + 8), COPY[stride]
    first_pass, mark_pass = passes(fast, dtype)
    first_pass = staged(fast, dtype) if fast.stages else first_pass
    list_marked = _lister(2 if dtype == "bfloat16" and fast.error is not None else 1)

    @njit(no_cpython_wrapper=True)
    def again(index: Any, start: Any, output: Any, sources: Any, wide: Any, listed: Any) -> None:
        accurate(np.int64(load_u4(listed, index, 4, 0)), start, output, sources, wide)

    @njit(no_cpython_wrapper=True)
    def copy_back(index: Any, output: Any, block: Any) -> None:
        copy(output, index, stride, block, stride)

    @njit(no_cpython_wrapper=True)
    def run(output: Any, sources: Any, numbers: Any, wide: Any, count: Any, block: Any) -> None:
        marks, listed = marks_of(), list_of()
        in_place = False  # an input that is overwritten is still needed for the second look
        for source in sources:
            in_place = in_place or source == output
        start, fine, limit = 0, 0, block_size if in_place else large
        head = until_line(output, stride) if limit > block_size and count >= MANY else 0
        size = head if head > 0 else limit
        while start < count:
            size = min(size, count - start)
            target = block - start * stride if in_place else output
            if start < fine or first_pass(size, start, target, sources, numbers, marks):
                if size > block_size:
                    fine, size = start + size, block_size
                    continue
                mark_pass(size, start, target, sources, numbers, marks)
                each_index(again, list_marked(size, marks, listed), (start, target, sources, wide, listed))
            if in_place:
                each_index(copy_back, size, (output + start * stride, block))
            start += size
            size = min(block_size, fine - start) if start < fine else limit

    return run
