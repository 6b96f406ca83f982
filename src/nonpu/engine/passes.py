"""The passes of guarded kernels over a block: compute it and learn whether an element is in doubt, or mark those.

What tells is one of three: the function itself, the value's distance from a rounding boundary, or the flags that the
processor raises where an operation under- or overflows or is invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from nonpu.engine.conversions import COMPONENT, ITEM_SIZE, converter, loader, pair_reader, positive_half, reader
from nonpu.engine.intrinsics import (
    ALL_FLAGS,
    INEXACT,
    ON_X86,
    OUT_OF_RANGE,
    SUBNORMAL,
    absolute_single,
    any_index,
    any_pair,
    each_index,
    load_u1,
    load_u4,
    map_tuple,
    opaque,
    set_status,
    single_bits,
    status,
    store_i8,
    store_u1,
    store_u4,
    unordered,
)
from nonpu.engine.loops import specialise
from nonpu.engine.plan import MAX_OPERANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nonpu.spec.model import Fast

# FLOAT bits that a type of 16 bits cuts off, and the pattern of a tie in them.
CUT = {"float16": (0x1FFF, 0x1000), "bfloat16": (0xFFFF, 0x8000)}
HALF_UP, LOWER, UPPER, EVEN = np.uint32(0x8000), np.uint32(0xFFFF), np.uint32(0xFFFF0000), np.uint32(0xFFFEFFFF)
SIZES, SIGNS = np.uint32(0x7FFF7FFF), np.uint32(0x80008000)
GROUP, FEW = 32, 2
"""Of so many elements, if more than so many come into question, it is asked first whether any of them raises a flag."""
TINY = np.float32(2.0**-100)  # its square underflows
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
def shift_address(amount: Any, address: Any) -> Any:
    return address + amount


def asks_processor(fast: Fast, dtype: str) -> bool:
    """Whether the flags of the processor tell of doubt; asking takes as long as a hundred elements."""
    return dtype in COMPONENT or (ON_X86 and fast.flagged is not None)


def passes(fast: Fast, dtype: str) -> tuple[Any, Any]:
    """Return the pass that computes a block, ``-> any doubt``, and the one that marks its doubtful elements."""
    if dtype in COMPONENT:
        plain = _complex_element(fast, dtype)
    else:
        plain = real_element(fast, dtype, doubt_of(dtype, fast.error))

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
    if fast.error is None:
        both = _exact_pairs(fast)
        first_pass = _flag_pair_pass(fast, plain) if asks_processor(fast, dtype) else _exact_pair_pass(both, plain)
        return first_pass, _marking_pair_pass(both, marking)
    if dtype == "bfloat16":
        return _marking_pair_pass(_rounded_pairs(fast), marking), nothing
    if dtype == "float16" and fast.error > 0:
        return mark_block, nothing  # a block often has a doubtful element, so marking at once is quicker
    return compute_block, mark_block


def judgement(dtype: str, fast: Fast) -> Any:
    """Return ``judged(arguments) -> value, doubtful``."""
    function, doubt = specialise(fast.function, fast.compute.python_name), doubt_of(dtype, fast.error)

    @njit(no_cpython_wrapper=True)
    def judged(arguments: Any) -> Any:
        value, sure = function(*arguments)
        return value, doubt(value, sure)

    return judged


def choice(careful: Callable[..., Any], dtype: str, fast: Fast) -> Any:
    """Return ``choose(place, output, arguments, wide)``: store an element of a real type.

    It computes both functions, the accurate one from the arguments in DOUBLE, and takes that where there is doubt.
    """
    judged, accurate, stride = judgement(dtype, fast), specialise(careful, "float64"), ITEM_SIZE[dtype]
    (encode, store), (encode_wide, _) = converter(fast.compute.python_name, dtype), converter("float64", dtype)

    @njit(no_cpython_wrapper=True)
    def choose(place: Any, output: Any, arguments: Any, wide: Any) -> None:
        value, doubtful = judged(arguments)
        other = accurate(*wide)
        store(output, place, stride, 0, encode_wide(other) if doubtful else encode(value))

    return choose


def real_element(fast: Fast, dtype: str, doubtful: Any) -> Any:
    """Return ``element(index, start, output, sources, numbers) -> doubtful``."""
    compute = fast.compute.python_name
    function, stride, load = specialise(fast.function, compute), ITEM_SIZE[dtype], loader(dtype, compute)
    encode, store = converter(compute, dtype)
    needed = MAX_OPERANDS if fast.values is None else fast.values
    only_sign = positive_half if dtype == "float16" else reader(dtype, compute)

    @njit(no_cpython_wrapper=True)
    def load_sign(index: Any, address: Any) -> Any:
        return only_sign(address, index, stride, 0)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, sources: Any, numbers: Any) -> Any:
        place = start + index
        inputs = map_tuple(load, place, sources)[:needed] + map_tuple(load_sign, place, sources)[needed:]
        value, sure = function(*(inputs + numbers))
        store(output, place, stride, 0, encode(value))
        return doubtful(value, sure)

    return element


def _complex_element(fast: Fast, dtype: str) -> Any:
    """Return the same for complex types.

    The two loads of an operand, and the two stores, are adjacent: LLVM turns them into whole vectors and shuffles.
    """
    part, stride, compute = COMPONENT[dtype], ITEM_SIZE[dtype], fast.compute.python_name
    function = specialise(fast.function, compute)
    read, (encode, store), size = reader(part, compute), converter(compute, part), ITEM_SIZE[part]

    @njit(no_cpython_wrapper=True)
    def load(index: Any, address: Any) -> Any:
        return read(address, index, stride, 0), read(address, index, stride, size)

    @njit(no_cpython_wrapper=True)
    def element(index: Any, start: Any, output: Any, sources: Any, numbers: Any) -> Any:
        real, imaginary, sure = function(*(map_tuple(load, start + index, sources) + numbers))
        store(output, start + index, stride, 0, encode(real))
        store(output, start + index, stride, size, encode(imaginary))
        return not sure

    return element


def _raised(compute: Any, flags: int) -> Any:
    """Return ``raised(size, arguments)``: what ``compute`` returns, or whether it raised any of the flags.

    Where nothing was rounded either, it asks whether this processor raises flags at all.
    """

    @njit(no_cpython_wrapper=True)
    def raised(size: Any, arguments: Any) -> Any:
        before = status()
        set_status(before & ~ALL_FLAGS)
        found = compute(size, arguments)
        after = status()
        found = found | ((after & flags) != 0)
        if not found and (after & INEXACT) == 0:
            set_status(before & ~ALL_FLAGS)
            opaque(np.float32(opaque(TINY) * TINY))
            found = (status() & OUT_OF_RANGE) == 0
        set_status(before | after)
        return found

    return raised


def _flag_passes(plain: Any, mark_block: Any) -> tuple[Any, Any]:
    """Return the passes for values that are right unless something on the way under- or overflowed or was invalid.

    The processor notes that for a block, at no cost.  Of a block with such an element, those of which ``fast`` is not
    sure are looked at one by one: so what decides is in each case what the element itself does.
    """

    @njit(no_cpython_wrapper=True)
    def without_answer(index: Any, start: Any, output: Any, sources: Any, numbers: Any) -> None:
        plain(index, start, output, sources, numbers)

    @njit(no_cpython_wrapper=True)
    def compute(size: Any, arguments: Any) -> Any:
        each_index(without_answer, size, arguments)
        return False

    raised = _raised(compute, OUT_OF_RANGE)

    @njit(no_cpython_wrapper=True)
    def compute_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        return raised(size, (start, output, sources, numbers))

    @njit(no_cpython_wrapper=True)
    def mark_flagged(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        mark_block(size, start, output, sources, numbers, marks)
        for first in range(0, size, GROUP):
            several = min(GROUP, size - first)
            marked = 0
            for index in range(first, first + several):
                marked += load_u1(marks, index, 1, 0)
            if marked > FEW and not raised(several, (start + first, output, sources, numbers)):
                for word in range(GROUP // 8):
                    store_i8(marks, word, 8, first, 0)
                continue
            for index in range(first, first + several):
                if load_u1(marks, index, 1, 0) != 0:
                    store_u1(marks, index, 1, 0, np.uint8(raised(1, (start + index, output, sources, numbers))))
        return True

    return compute_block, mark_flagged


def _flag_pair_pass(fast: Fast, plain: Any) -> Any:
    """Return the pass over BFLOAT16 in pairs for values that are rounded to it already, unless a flag is raised."""
    assert fast.flagged is not None
    flagged = specialise(fast.flagged, "float32")
    read_first, read_second = pair_reader("float32")
    # Added to the bits of a number without its sign, it carries into the place of the sign from the limit on.
    carry = np.uint32((0x8000 - (np.float32(fast.limit).view(np.uint32) >> 16)) * 0x10001)

    @njit(no_cpython_wrapper=True)
    def pair(index: Any, output: Any, sources: Any, numbers: Any) -> Any:
        first = single_bits(flagged(*(map_tuple(read_first, index, sources) + numbers)))
        second = single_bits(flagged(*(map_tuple(read_second, index, sources) + numbers)))
        store_u4(output, index, 4, 0, np.uint32(np.uint32(first >> np.uint32(16)) | np.uint32(second & UPPER)))
        sizes = np.uint32(load_u4(sources[-1], index, 4, 0) & SIZES)
        return np.uint32(np.uint32(sizes + carry) & SIGNS)

    @njit(no_cpython_wrapper=True)
    def compute(pairs: Any, arguments: Any) -> Any:
        return any_pair(pair, pairs, arguments)

    return _over_pairs(_raised(compute, OUT_OF_RANGE | SUBNORMAL), plain)


def _exact_pairs(fast: Fast) -> Any:
    """Return ``both(index, sources, numbers) -> word, doubt``: two BFLOAT16 from exact results rounded to FLOAT.

    Ties go to even: half up, and the last bit off again.  In doubt, not 0, are NaN and ties of inexact values.
    """
    function = specialise(fast.function, "float32")
    read_first, read_second = pair_reader("float32")

    @njit(no_cpython_wrapper=True)
    def round_half_even(value: Any, inexact: Any) -> Any:
        bits = np.uint32(single_bits(value) + HALF_UP)
        tie = np.uint32(bits & LOWER) == 0
        return np.uint32(bits & EVEN) if tie else bits, inexact if tie else NOTHING

    @njit(no_cpython_wrapper=True)
    def both(index: Any, sources: Any, numbers: Any) -> Any:
        first, inexact_first = function(*(map_tuple(read_first, index, sources) + numbers))
        second, inexact_second = function(*(map_tuple(read_second, index, sources) + numbers))
        low, low_doubt = round_half_even(first, inexact_first)
        high, high_doubt = round_half_even(second, inexact_second)
        word = np.uint32(np.uint32(low >> np.uint32(16)) | np.uint32(high & UPPER))
        return word, np.uint32(low_doubt | high_doubt | (SOMETHING if unordered(first, second) else NOTHING))

    return both


def _exact_pair_pass(both: Any, plain: Any) -> Any:
    """Return the pass over BFLOAT16 in such pairs."""

    @njit(no_cpython_wrapper=True)
    def pair(index: Any, output: Any, sources: Any, numbers: Any) -> Any:
        word, doubt = both(index, sources, numbers)
        store_u4(output, index, 4, 0, word)
        return doubt

    @njit(no_cpython_wrapper=True)
    def compute(pairs: Any, arguments: Any) -> Any:
        return any_pair(pair, pairs, arguments)

    return _over_pairs(compute, plain)


def _over_pairs(compute: Any, plain: Any) -> Any:
    """Return the pass of ``compute(pairs, (output, sources, numbers)) -> any doubt``, with ``plain`` for an odd end."""

    @njit(no_cpython_wrapper=True)
    def compute_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        here = 2 * start
        found = compute(size >> 1, (output + here, map_tuple(shift_address, here, sources), numbers))
        return found | any_index(plain, size & 1, (start + size - 1, output, sources, numbers))

    return compute_block


def rounded_pair(error: int) -> Any:
    """Return ``pair(first, sure_first, second, sure_second) -> word, doubtful``: two BFLOAT16 in 32 bits.

    What is near a tie is computed again anyway, so here one sum rounds half up, or up from little below, and shows in
    its lower half whether a tie is near.  A NaN comes from BFLOAT16 operands or is the processor's own: its lower half
    is 0 and carries nothing into the upper one.
    """
    reach = reach_of(error)
    shift, rest = np.uint32(int(HALF_UP) + reach), np.uint32(int(LOWER) & -max(2 * reach, 1))

    @njit(no_cpython_wrapper=True)
    def pair(first: Any, sure_first: Any, second: Any, sure_second: Any) -> Any:
        low, high = np.uint32(single_bits(first) + shift), np.uint32(single_bits(second) + shift)
        near = (np.uint32(low & rest) == 0) | (np.uint32(high & rest) == 0)
        word = np.uint32(np.uint32(low >> np.uint32(16)) | np.uint32(high & UPPER))
        return word, near | (not sure_first) | (not sure_second)

    return pair


def _rounded_pairs(fast: Fast) -> Any:
    """Return ``both(index, sources, numbers) -> word, doubtful``: two BFLOAT16 from values with an error."""
    function = specialise(fast.function, "float32")
    assert fast.error is not None
    (read_first, read_second), join = pair_reader("float32"), rounded_pair(fast.error)

    @njit(no_cpython_wrapper=True)
    def both(index: Any, sources: Any, numbers: Any) -> Any:
        first, sure_first = function(*(map_tuple(read_first, index, sources) + numbers))
        second, sure_second = function(*(map_tuple(read_second, index, sources) + numbers))
        return join(first, sure_first, second, sure_second)

    return both


def _marking_pair_pass(both: Any, marking: Any) -> Any:
    """Return the pass over BFLOAT16 in pairs that marks what is in doubt; a mark stands for a pair."""

    @njit(no_cpython_wrapper=True)
    def pair(index: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        word, doubt = both(index, sources, numbers)
        store_u4(output, index, 4, 0, word)
        store_u1(marks, index, 1, 0, np.uint8(doubt != 0))
        return doubt != 0

    @njit(no_cpython_wrapper=True)
    def mark_block(size: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        pairs, here = size >> 1, 2 * start
        found = any_pair(pair, pairs, (output + here, map_tuple(shift_address, here, sources), numbers, marks))
        last = (start + size - 1, output, sources, numbers, marks + pairs)
        return found | any_index(marking, size & 1, last)

    return mark_block
