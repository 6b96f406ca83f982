"""What the one-call functions remember: judged and planned calls by the layouts of their arrays.

Judging and planning a call takes some 30 us, a small kernel less than one.  The second call with arrays of the same
types, shapes and strides, the same scalars and the same product runs the remembered launch on the new addresses.
"""

from __future__ import annotations

import numpy as np

from nonpu._core import arrays_are, ffi
from nonpu.aclnn.phases import environment_value
from nonpu.engine.plan import STREAM_BYTES, may_stream_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nonpu.spec.call import Call

    Array = np.ndarray[Any, Any]

CAPACITY = 512
"""Calls per operator; beyond, all are forgotten."""

arrays_are(np.ndarray)


class Ready:
    """One remembered call.

    Attributes
    ----------
    record
        ``nonpu_ready *``.
    launch : int
        Its address.
    shape, dtype
        Of the result.
    """

    __slots__ = ("_types", "dtype", "launch", "record", "shape")

    def __init__(self, record: Any, arrays: tuple[Array, ...]) -> None:
        self.record = record
        self.launch = int(ffi.cast("uintptr_t", record))
        self.shape, self.dtype = arrays[0].shape, arrays[0].dtype
        # The key of this call holds the addresses of the types.
        self._types = [array.dtype for array in arrays]


def remember(call: Call, plan: Any, arrays: tuple[Array, ...], any_product: bool) -> Ready | None:
    """Return what is to be remembered of a call that has just run; None if its plan depends on the addresses.

    Parameters
    ----------
    call
        The judged call.
    plan
        Its ``nonpu_plan *``.
    arrays
        Output first, then the inputs in kernel order.
    any_product
        Whether the product was given with the call, not by the environment.
    """
    output, is_large = arrays[0], arrays[0].nbytes >= STREAM_BYTES
    starts = [plan.main.operand[index].data for index in range(len(arrays))]
    if plan.launches != 1 or (is_large and not may_stream_to(starts, output.itemsize)):
        return None
    ready = ffi.new("nonpu_ready *")
    ready.launch = plan.main
    ready.any_product = any_product
    ready.apart = is_large
    ready.product = environment_value()[:63]
    layout = _layout(output, output.shape)
    for index, (array, start) in enumerate(zip(arrays, starts, strict=True)):
        ready.start[index] = start - array.__array_interface__["data"][0]
        steps = [step * (extent - 1) for extent, step in zip(array.shape, array.strides, strict=True)]
        ready.low[index] = sum(step for step in steps if step < 0)
        ready.high[index] = sum(step for step in steps if step > 0) + array.itemsize
        ready.same_layout[index] = _layout(array, output.shape) == layout
    return Ready(ready, arrays)


def _layout(array: Array, shape: tuple[int, ...]) -> tuple[object, ...]:
    if array.shape != shape:
        return (array.shape,)
    return array.itemsize, *(step for extent, step in zip(shape, array.strides, strict=True) if extent > 1)
