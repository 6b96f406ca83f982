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

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, converter, pair_reader, positive_half, reader
from nonpu.engine.intrinsics import (
    ALL_FLAGS,
    COPY,
    OUT_OF_RANGE,
    absolute_single,
    any_index,
    any_pair,
    bits_single,
    each_index,
    f8,
    i8,
    load_i8,
    load_u1,
    load_u4,
    map_tuple,
    set_status,
    single_bits,
    stack,
    status,
    store_i8,
    store_u1,
    store_u4,
    to_single,
    unordered,
    words,
)
from nonpu.engine.loops import element_of, specialise
from nonpu.engine.plan import LINE, MAX_OPERANDS

Scalar = Callable[..., Any]

SIGNIFICANDS = 1024
"""FLOAT16 has so many in [1, 2)."""
FIRST, STEP = 0x3F800000, 13
"""The bits of the first of them as FLOAT, and where in them the others are counted."""

MANY = 8192
"""From so many elements on a trial of all significands costs little."""

BLOCK, SHORT_BLOCK, LARGE_BLOCK = 512, 256, 8192
"""Elements per pass: the inputs are still in the first-level cache when the doubtful ones are computed again.  The
short ones are for types of which blocks often have such, the large ones for those for which the processor looks out:
asking it takes as long as a hundred elements.  A large one with any is gone through again in usual ones."""

# FLOAT bits that a type of 16 bits cuts off, and the pattern of a tie in them.
CUT = {"float16": (0x1FFF, 0x1000), "bfloat16": (0xFFFF, 0x8000)}
HALF_UP, LOWER, UPPER, EVEN = np.uint32(0x8000), np.uint32(0xFFFF), np.uint32(0xFFFF0000), np.uint32(0xFFFEFFFF)
NOTHING, SOMETHING = np.uint32(0), np.uint32(0xFFFFFFFF)
SMALLEST_NORMAL_HALF = np.float32(2.0**-14)


def near_tie(dtype: str, error: int) -> Any:
    """Return ``near(value)``: whether a FLOAT is nearer to a tie of the type than ``error`` of its ulps, or little off.

    BFLOAT16 cuts FLOAT at the same bit for normal and subnormal numbers.  Subnormal FLOAT16 have the spacing of the
    lowest binade; adding its first number puts their ties at the same bits.  Beyond the range of the type, the ties
    are those that a wider exponent would have, and the first of them is the threshold of overflow.
    """
    mask, tie = CUT[dtype]
    reach = reach_of(error)
    shift, rest, half = np.uint32(reach - tie & mask), np.uint32(mask & -max(2 * reach, 1)), dtype == "float16"

    @njit(no_cpython_wrapper=True)
    def near(value: Any) -> Any:
        size = absolute_single(value) if half else value
        size = size + SMALLEST_NORMAL_HALF if half and size < SMALLEST_NORMAL_HALF else size
        return np.uint32(np.uint32(single_bits(size) + shift) & rest) == 0

    return near


def doubt_of(dtype: str, error: int | None) -> Any:
    """Return ``doubtful(value, sure)``, or ``doubtful(value, inexact)`` for an error of None."""
    if dtype not in CUT:
        return _unsure
    if error is None:
        mask, tie = (np.uint32(number) for number in CUT[dtype])

        @njit(no_cpython_wrapper=True)
        def inexact_tie(value: Any, inexact: Any) -> Any:
            return (((single_bits(value) & mask) == tie) & (inexact != 0)) | (value != value)

        return inexact_tie
    near = near_tie(dtype, error)

    @njit(no_cpython_wrapper=True)
    def doubtful(value: Any, sure: Any) -> Any:
        return near(value) | (not sure)

    return doubtful


@njit(no_cpython_wrapper=True)
def _unsure(value: Any, sure: Any) -> Any:
    return not sure


def reach_of(error: int) -> int:
    """Return how far below a tie values are in doubt: ``error`` or, for one bit test, the next power of two."""
    return 1 << (error - 1).bit_length() if error else 0


@njit(no_cpython_wrapper=True)
def _shift(amount: Any, address: Any) -> Any:
    return address + amount


@njit(no_cpython_wrapper=True)
def _same(index: Any, value: Any) -> Any:
    return value


@njit(no_cpython_wrapper=True)
def _single(index: Any, value: Any) -> Any:
    return to_single(value if value == value else np.nan)  # a NaN whose lower half is 0


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
    fast: tuple[Scalar, str, int | None],
    unit: tuple[Scalar, str, int | None] | None = None,
    trial: Scalar | None = None,
    values: int | None = None,
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
    fast : tuple
        ``function(*inputs, *parameters) -> (value, sure)``, for complex types ``(re, im, sure)``, its type ("float32",
        or "float64" for DOUBLE), and, for elements of 16 bits, what the error of a sure value in ulps of FLOAT is
        below; for BFLOAT16, None says that ``function(...) -> (value, inexact)`` rounds the exact result to FLOAT, and
        that the value is the exact result where ``inexact`` is 0.
    unit : tuple, optional
        The same for ``function(*inputs) -> (value, sure)``, which replaces `fast` where the only parameter is 1.
    trial : callable, optional
        For FLOAT16 and one parameter, ``function(significand, parameter, neighbour) -> in doubt``: if it returns False
        for every significand in [1, 2), all values of `fast` for the neighbour are right for the parameter.
    values : int, optional
        For FLOAT16, how many inputs `fast` needs; of the others it only needs whether they are positive.
    """
    parameters = len(inspect.signature(careful).parameters) - inputs * (2 if dtype in COMPONENT else 1)
    wide_of = words(f8, parameters)
    addresses_of = words(i8, inputs)
    narrow = _single if fast[1] == "float32" else _same
    scratch = stack(BLOCK * ITEM_SIZE[dtype])
    run = _blocks(careful, dtype, *fast, values=values)
    run_unit = _blocks(careful, dtype, *unit) if unit else run
    has_unit = unit is not None
    all_sure = _trial(trial, fast, values) if trial else _never_sure

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


def _trial(trial: Scalar, fast: tuple[Scalar, str, int | None], values: int | None) -> Any:
    """Return ``all_sure(output, sources, numbers, count)``: compute all of it if a trial finds no doubt.

    The trial may also find that the parameter's neighbour gives the right results everywhere.
    """
    in_doubt = specialise(trial, fast[1])
    element = _real_element(specialise(fast[0], fast[1]), fast[1], "float16", _unsure, values)

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


def _blocks(
    careful: Scalar, dtype: str, fast: Scalar, compute: str, error: int | None, values: int | None = None
) -> Any:
    """Return the loop over blocks."""
    stride, accurate = ITEM_SIZE[dtype], element_of(specialise(careful, "float64"), dtype, "float64")
    block_size = SHORT_BLOCK if dtype == "float16" and error else BLOCK
    large = LARGE_BLOCK if dtype in COMPONENT else block_size
    marks_of, list_of, copy = stack(BLOCK + 8), stack(4 * BLOCK + 8), COPY[stride]
    first_pass, mark_pass = _passes(specialise(fast, compute), compute, dtype, error, values)
    list_marked = _lister(2 if dtype == "bfloat16" and error is not None else 1)

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
        # All blocks but the first begin with a cache line.
        start, fine, limit = 0, 0, block_size if in_place else large
        size = limit - (output & (LINE - 1)) // stride
        while start < count:
            size = min(size, count - start)
            target = block - start * stride if in_place else output
            if first_pass(size, start, target, sources, numbers, marks):
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


def _passes(fast: Any, compute: str, dtype: str, error: int | None, values: int | None) -> tuple[Any, Any]:
    """Return the pass that computes a block, ``-> any doubt``, and the one that marks its doubtful elements."""
    if dtype in COMPONENT:
        plain = _complex_element(fast, compute, dtype)
    else:
        plain = _real_element(fast, compute, dtype, doubt_of(dtype, error), values)

    @njit(no_cpython_wrapper=True)
    def marking(index: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        doubtful = plain(index, start, output, sources, numbers)
        store_u1(marks, index, 1, 0, np.uint8(doubtful))
        return doubtful

    @njit(no_cpython_wrapper=True)
    def compute_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        return any_index(plain, size, (start, output, sources, numbers))

    @njit(no_cpython_wrapper=True)
    def mark_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        return any_index(marking, size, (start, output, sources, numbers, marks))

    @njit(no_cpython_wrapper=True)
    def nothing(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        return True

    if dtype in COMPONENT:
        return _flag_passes(plain, mark_block)
    if error is None:
        return _exact_pair_pass(fast, plain), mark_block
    if dtype == "bfloat16":
        return _pair_pass(fast, error, marking), nothing
    if dtype == "float16" and error > 0:
        return mark_block, nothing  # a block often has a doubtful element, so marking at once is quicker
    return compute_block, mark_block


def _real_element(fast: Any, compute: str, dtype: str, doubtful: Any, values: int | None = None) -> Any:
    """Return ``element(index, start, output, sources, numbers) -> doubtful``."""
    stride, read, (encode, store) = ITEM_SIZE[dtype], reader(dtype, compute), converter(compute, dtype)
    needed, only_sign = MAX_OPERANDS if values is None else values, positive_half if dtype == "float16" else read

    @njit(no_cpython_wrapper=True)
    def load(index: Any, address: Any) -> Any:
        return read(address, index, stride, 0)

    @njit(no_cpython_wrapper=True)
    def load_sign(index: Any, address: Any) -> Any:
        return only_sign(address, index, stride, 0)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, sources: Any, numbers: Any) -> Any:
        inputs = (
            map_tuple(load, start + index, sources)[:needed] + map_tuple(load_sign, start + index, sources)[needed:]
        )
        value, sure = fast(*(inputs + numbers))
        store(output, start + index, stride, 0, encode(value))
        return doubtful(value, sure)

    return element


def _complex_element(fast: Any, compute: str, dtype: str) -> Any:
    """Return the same for complex types.

    The two loads of an operand, and the two stores, are adjacent: LLVM turns them into whole vectors and shuffles.
    """
    part, stride = COMPONENT[dtype], ITEM_SIZE[dtype]
    read, (encode, store), size = reader(part, compute), converter(compute, part), ITEM_SIZE[part]

    @njit(no_cpython_wrapper=True)
    def load(index: Any, address: Any) -> Any:
        return read(address, index, stride, 0), read(address, index, stride, size)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, sources: Any, numbers: Any) -> Any:
        real, imaginary, sure = fast(*(map_tuple(load, start + index, sources) + numbers))
        store(output, start + index, stride, 0, encode(real))
        store(output, start + index, stride, size, encode(imaginary))
        return not sure

    return element


def _flag_passes(plain: Any, mark_block: Any) -> tuple[Any, Any]:
    """Return the passes for values that are right unless something on the way under- or overflowed or was invalid.

    The processor notes that for a block, at no cost.  Of a block with such an element, those of which ``fast`` is not
    sure are looked at one by one: so what decides is in each case what the element itself does.
    """

    @njit(no_cpython_wrapper=True)
    def compute(index: Any, start: Any, output: Any, sources: Any, numbers: Any) -> None:
        plain(index, start, output, sources, numbers)

    @njit(no_cpython_wrapper=True)
    def raises(size: Any, start: Any, output: Any, sources: Any, numbers: Any) -> Any:
        before = status()
        set_status(before & ~ALL_FLAGS)
        each_index(compute, size, (start, output, sources, numbers))
        after = status()
        set_status(before | after)
        return (after & OUT_OF_RANGE) != 0

    @njit(no_cpython_wrapper=True)
    def compute_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        return raises(size, start, output, sources, numbers)

    @njit(no_cpython_wrapper=True)
    def mark_flagged(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        mark_block(size, start, output, sources, numbers, marks)
        for index in range(size):
            if load_u1(marks, index, 1, 0) != 0:
                store_u1(marks, index, 1, 0, np.uint8(raises(1, start + index, output, sources, numbers)))
        return True

    return compute_block, mark_flagged


def _exact_pair_pass(fast: Any, plain: Any) -> Any:
    """Return the pass over BFLOAT16 in pairs for values that are the exact results rounded to FLOAT.

    Ties go to even: half up, and the last bit off again.  In doubt are NaN and ties of values that are not exact.
    """
    read_first, read_second = pair_reader("float32")

    @njit(no_cpython_wrapper=True)
    def round_half_even(value: Any, inexact: Any) -> Any:
        bits = np.uint32(single_bits(value) + HALF_UP)
        tie = np.uint32(bits & LOWER) == 0
        return np.uint32(bits & EVEN) if tie else bits, inexact if tie else NOTHING

    @njit(no_cpython_wrapper=True)
    def pair(index: Any, output: Any, sources: Any, numbers: Any) -> Any:
        first, inexact_first = fast(*(map_tuple(read_first, index, sources) + numbers))
        second, inexact_second = fast(*(map_tuple(read_second, index, sources) + numbers))
        low, low_doubt = round_half_even(first, inexact_first)
        high, high_doubt = round_half_even(second, inexact_second)
        store_u4(output, index, 4, 0, np.uint32(np.uint32(low >> np.uint32(16)) | np.uint32(high & UPPER)))
        return np.uint32(low_doubt | high_doubt | (SOMETHING if unordered(first, second) else NOTHING))

    @njit(no_cpython_wrapper=True)
    def compute_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        here = 2 * start
        found = any_pair(pair, size >> 1, (output + here, map_tuple(_shift, here, sources), numbers))
        return found | any_index(plain, size & 1, (start + size - 1, output, sources, numbers))

    return compute_block


def _pair_pass(fast: Any, error: int, marking: Any) -> Any:
    """Return the pass over BFLOAT16 in pairs; a mark stands for a pair.

    What is near a tie is computed again anyway, so here one sum rounds half up, or up from little below, and shows in
    its lower half whether a tie is near.  A NaN comes from BFLOAT16 operands or is the processor's own: its lower half
    is 0 and carries nothing into the upper one.
    """
    read_first, read_second = pair_reader("float32")
    reach = reach_of(error)
    shift, rest = np.uint32(int(HALF_UP) + reach), np.uint32(int(LOWER) & -max(2 * reach, 1))

    @njit(no_cpython_wrapper=True)
    def pair(index: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        first, sure_first = fast(*(map_tuple(read_first, index, sources) + numbers))
        second, sure_second = fast(*(map_tuple(read_second, index, sources) + numbers))
        low, high = np.uint32(single_bits(first) + shift), np.uint32(single_bits(second) + shift)
        store_u4(output, index, 4, 0, np.uint32(np.uint32(low >> np.uint32(16)) | np.uint32(high & UPPER)))
        near = (np.uint32(low & rest) == 0) | (np.uint32(high & rest) == 0)
        doubtful = near | (not sure_first) | (not sure_second)
        store_u1(marks, index, 1, 0, np.uint8(doubtful))
        return doubtful

    @njit(no_cpython_wrapper=True)
    def mark_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        pairs, here = size >> 1, 2 * start
        found = any_pair(pair, pairs, (output + here, map_tuple(_shift, here, sources), numbers, marks))
        last = (start + size - 1, output, sources, numbers, marks + pairs)
        return found | any_index(marking, size & 1, last)

    return mark_block
