"""What the one-call functions remember: judged and planned calls by the layouts of their arrays.

Judging and planning a call takes some 30 us, a small kernel less than one.  The second call with arrays of the same
types, shapes and strides, the same scalars and the same product runs the remembered launch on the new addresses.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nonpu._core import ffi
from nonpu.aclnn.phases import environment_value
from nonpu.engine.plan import MAX_OPERANDS, STREAM_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nonpu.spec.call import Call

    Array = np.ndarray[Any, Any]

CAPACITY = 512
"""Calls per operator; beyond, all are forgotten."""
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

pointer_to_buffer = ffi.from_buffer


def pointer_to_bfloat16(array: Array) -> Any:
    """NumPy exports no buffer of this type, but of the same bits."""
    return pointer_to_buffer(array.view(np.uint16))


def pointer_to_any(array: Array) -> Any:
    """The address of an array that is not contiguous."""
    return ffi.cast("const void *", array.__array_interface__["data"][0])


def pointer_to_output(array: Array) -> Any:
    """Like `pointer_to_buffer`, and a ValueError if the array is read-only."""
    return pointer_to_buffer(array, require_writable=True)


def pointer_to_any_output(array: Array) -> Any:
    """The address of an output that is not contiguous or BFLOAT16; a ValueError if it is read-only."""
    if not array.flags.writeable:
        raise ValueError("read-only")
    return pointer_to_bfloat16(array) if array.flags.c_contiguous else pointer_to_any(array)


class Ready:
    """One remembered call.

    Attributes
    ----------
    launch
        ``nonpu_ready *``.
    pointers : tuple of callable
        How to get the address of each array, output first.
    shape, dtype
        Of the result.
    """

    __slots__ = ("dtype", "launch", "pointers", "shape")

    def __init__(self, launch: Any, pointers: tuple[Callable[[Array], Any], ...], result: Array) -> None:
        self.launch = launch
        self.pointers = pointers
        self.shape = result.shape
        self.dtype = result.dtype


def call_text(output: str, inputs: list[str]) -> str:
    """Return the expression that runs `ready` on arrays of these names; it is 0 if the call has run."""
    names = [output, *inputs]
    arrays = [f"ready.pointers[{index}]({name})" for index, name in enumerate(names)]
    return f"_run_ready(ready.launch, {', '.join(arrays + ['_null'] * (MAX_OPERANDS - len(names)))})"


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
    output = arrays[0]
    if plan.launches != 1 or output.nbytes >= STREAM_BYTES:
        return None
    ready = ffi.new("nonpu_ready *")
    ready.launch = plan.main
    ready.any_product = any_product
    ready.product = environment_value()[:63]
    layout = _layout(output, output.shape)
    for index, array in enumerate(arrays):
        address = array.__array_interface__["data"][0]
        ready.start[index] = plan.main.operand[index].data - address
        steps = [step * (extent - 1) for extent, step in zip(array.shape, array.strides, strict=True)]
        ready.low[index] = sum(step for step in steps if step < 0)
        ready.high[index] = sum(step for step in steps if step > 0) + array.itemsize
        ready.same_layout[index] = _layout(array, output.shape) == layout
    return Ready(ready, tuple(_pointer(array, index == 0) for index, array in enumerate(arrays)), output)


def _layout(array: Array, shape: tuple[int, ...]) -> tuple[object, ...]:
    if array.shape != shape:
        return (array.shape,)
    return array.itemsize, *(step for extent, step in zip(shape, array.strides, strict=True) if extent > 1)


def _pointer(array: Array, is_output: bool) -> Callable[[Array], Any]:
    if array.flags.c_contiguous and array.dtype != BFLOAT16:
        return pointer_to_output if is_output else pointer_to_buffer
    if is_output:
        return pointer_to_any_output
    return pointer_to_bfloat16 if array.flags.c_contiguous else pointer_to_any
