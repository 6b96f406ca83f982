"""The first pass of guarded kernels in two stages, with what lies between them in memory.

A processor looks ahead over some hundred instructions.  Where most operations of a kernel wait for the one before, it
works on more elements at a time in two loops of half the length.  That repays storing two numbers of each: by a tenth
for FLOAT and DOUBLE, not at all for 16 bits, which would be widened twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from nonpu.engine.intrinsics import (
    any_pair,
    each_index,
    load_f4,
    load_f8,
    map_tuple,
    stack,
    store_f4,
    store_f8,
    store_u1,
)
from nonpu.engine.loops import specialise
from nonpu.engine.passes import shift_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nonpu.spec.model import Fast

STAGE = 256
"""Elements that go through both stages at a time; what is between them stays in the first-level cache."""
ACCESS = {"float32": (load_f4, store_f4, 4), "float64": (load_f8, store_f8, 8)}


def staged(fast: Fast, dtype: str, marking: bool = False) -> Any:
    """Return the pass that computes a block, or the one that marks it too, like `nonpu.engine.passes.passes`."""
    assert fast.stages is not None
    first, second = (specialise(function, dtype) for function in fast.stages)
    get, put, size = ACCESS[dtype]
    room_of = stack(2 * STAGE * size)

    @njit(no_cpython_wrapper=True)
    def load(index: Any, address: Any) -> Any:
        return get(address, index, size, 0)

    @njit(no_cpython_wrapper=True)
    def begin(index: Any, sources: Any, numbers: Any, room: Any) -> None:
        one, two = first(*(map_tuple(load, index, sources) + numbers))
        put(room, index, size, 0, one)
        put(room, index, size, STAGE * size, two)

    @njit(no_cpython_wrapper=True)
    def end(index: Any, output: Any, sources: Any, numbers: Any, room: Any, marks: Any) -> Any:
        kept = get(room, index, size, 0), get(room, index, size, STAGE * size)
        value, sure = second(*(map_tuple(load, index, sources) + numbers + kept))
        put(output, index, size, 0, value)
        if marking:
            store_u1(marks, index, 1, 0, np.uint8(not sure))
        return not sure

    @njit(no_cpython_wrapper=True)
    def compute_block(count: Any, start: Any, output: Any, sources: Any, numbers: Any, marks: Any) -> Any:
        room, found, done = room_of(), False, start
        while done < start + count:
            here, shift = min(start + count - done, STAGE), done * size
            moved = map_tuple(shift_address, shift, sources)
            each_index(begin, here, (moved, numbers, room))
            found = found | any_pair(end, here, (output + shift, moved, numbers, room, marks + done - start))
            done += here
        return found

    return compute_block
