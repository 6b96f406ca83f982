"""Guarded kernels: a fast function for nearly all elements, and the accurate one for the few it is not sure of.

The fast function says for each element whether it is sure.  For 16-bit results it is not sure either where its error
bound reaches over a rounding boundary: then the rounding is done again from the accurate function.  Which function
an element gets depends on that element alone, so its bits do not depend on its neighbours.

One pass computes a block and learns whether any element is in doubt.  Only then the doubtful ones are listed.  They
are computed again as vectors, however they are scattered, as soon as there are enough of them.  A block with many is
first gone through with the broad function, if there is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, loader
from nonpu.engine.intrinsics import (
    COPY,
    any_index,
    bits_single,
    each_index,
    f8,
    i8,
    load_i8,
    load_u4,
    map_tuple,
    single_bits,
    stack,
    store_i8,
    store_u4,
    to_single,
    trailing_zeros,
    words,
)
from nonpu.engine.loops import element_of, specialise, until_line
from nonpu.engine.passes import asks_processor, choice, doubt_of, passes, real_element
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

ENOUGH = 8
"""Doubtful elements wait until they fill a vector: to compute one takes nearly as long.  (Twice as many lie so far back
that large arrays take a tenth longer.)  Those of an input that is overwritten can't wait."""

FEW, AHEAD = 10, 32
"""Where more than one of so many elements of a block is in doubt, the broad function computes the whole block, and so
many from there on: at twice the time of the fast one, but a seventh of the accurate one's.  As many are marked at once
where that takes a pass of its own: doubtful elements are seldom alone."""

BLOCK, LARGE_BLOCK = 512, 8192
"""Elements per pass: the inputs are still in the first-level cache for a second one.  The large ones are for types for
which the processor looks out: asking it takes as long as a hundred elements.  A large one with any is gone through
again in usual ones, and of several in succession the second, third and so on at once."""


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
    """Return ``list_marked(start, count, marks, listed, found)``, for the block of ``count`` elements at ``start``.

    It adds the indices of those in marked groups to a list of ``found`` ones and returns how many there are now.
    """

    @njit(no_cpython_wrapper=True)
    def list_marked(start: Any, count: Any, marks: Any, listed: Any, found: Any) -> Any:
        groups, before = (count + group - 1) // group, found
        store_i8(marks, groups, 1, 0, 0)
        for first in range(0, groups, 8):
            word = load_i8(marks, first, 1, 0)
            while word != 0:  # a mark is the lowest bit of its byte
                mark = first + (trailing_zeros(word) >> 3)
                for member in range(group):
                    store_u4(listed, found + member, 4, 0, np.uint32(start + mark * group + member))
                found += group
                word &= word - 1
        # An odd count leaves the last group incomplete, and its second member would be the last entry.
        if group > 1 and found > before and np.int64(load_u4(listed, found - 1, 4, 0)) >= start + count:
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


def _accurate(careful: Scalar, dtype: str, fast: Fast) -> Any:
    """Return ``accurate(place, output, sources, numbers, wide)``: compute an element of which `fast` is not sure.

    Unless results are right to the last bit, the broad function takes its arguments here too: how many of them are in a
    block must not show.
    """
    if fast.broad is None or fast.error:
        element = element_of(specialise(careful, "float64"), dtype, "float64")

        @njit(no_cpython_wrapper=True)
        def accurate(place: Any, output: Any, sources: Any, numbers: Any, wide: Any) -> None:
            element(place, 0, output, sources, wide)

        return accurate
    choose = choice(careful, dtype, fast.broad)
    load, load_wide = loader(dtype, fast.compute.python_name), loader(dtype, "float64")

    @njit(no_cpython_wrapper=True)
    def accurate_or_broad(place: Any, output: Any, sources: Any, numbers: Any, wide: Any) -> None:
        arguments = map_tuple(load, place, sources) + numbers
        choose(place, output, arguments, map_tuple(load_wide, place, sources) + wide)

    return accurate_or_broad


def _marking(fast: Fast, dtype: str) -> Any:
    """Return the pass that computes a block and marks what is in doubt."""
    first_pass, mark_pass = passes(fast, dtype)
    return first_pass if fast.error else mark_pass


def _blocks(careful: Scalar, dtype: str, fast: Fast) -> Any:
    """Return the loop over blocks."""
    stride, accurate = ITEM_SIZE[dtype], _accurate(careful, dtype, fast)
    large = LARGE_BLOCK if asks_processor(fast, dtype) else BLOCK
    marks_of, list_of, copy = stack(BLOCK + 8), stack(4 * (BLOCK + ENOUGH) + 8), COPY[stride]
    first_pass, mark_pass = passes(fast, dtype)
    has_broad = fast.broad is not None
    mark_broadly = _marking(fast.broad, dtype) if fast.broad else mark_pass
    if fast.stages:
        first_pass, mark_pass = staged(fast, dtype), staged(fast, dtype, marking=True)
    marking_ahead = AHEAD * BLOCK if dtype in ("float32", "float64") else 0
    list_marked = _lister(2 if dtype == "bfloat16" else 1)

    @njit(no_cpython_wrapper=True)
    def again(index: Any, output: Any, sources: Any, numbers: Any, wide: Any, listed: Any) -> None:
        accurate(np.int64(load_u4(listed, index, 4, 0)), output, sources, numbers, wide)

    @njit(no_cpython_wrapper=True)
    def copy_back(index: Any, output: Any, block: Any) -> None:
        copy(output, index, stride, block, stride)

    @njit(no_cpython_wrapper=True)
    def run(output: Any, sources: Any, numbers: Any, wide: Any, count: Any, block: Any) -> None:
        marks, listed = marks_of(), list_of()
        in_place = False  # an input that is overwritten is still needed for the second look
        for source in sources:
            in_place = in_place or source == output
        limit, enough = (BLOCK, 1) if in_place else (large, ENOUGH)
        start, fine, span, broad_until, found = 0, 0, 1, 0, 0
        head = until_line(output, stride) if limit > BLOCK and count >= MANY else 0
        size = head if head > 0 else limit
        while start < count:
            size = min(size, count - start)
            target = block - start * stride if in_place else output
            if start < max(fine, broad_until) or first_pass(size, start, target, sources, numbers, marks):
                if size > BLOCK:
                    span = min(2 * span, AHEAD) if start == fine else 1
                    fine, size = start + span * size, BLOCK
                    continue
                before, is_broad = found, start < broad_until
                if not is_broad:
                    mark_pass(size, start, target, sources, numbers, marks)
                    found = list_marked(start, size, marks, listed, before)
                    is_broad = has_broad and (found - before) * FEW > size
                    fine = max(fine, start + marking_ahead)
                    broad_until = start + AHEAD * size if is_broad else broad_until
                if is_broad:
                    mark_broadly(size, start, target, sources, numbers, marks)
                    found = list_marked(start, size, marks, listed, before)
            if found >= enough or (found > 0 and start + size == count):
                each_index(again, found, (target, sources, numbers, wide, listed))
                found = 0
            if in_place:
                each_index(copy_back, size, (output + start * stride, block))
            start += size
            size = min(BLOCK, fine - start) if start < fine else limit

    return run
