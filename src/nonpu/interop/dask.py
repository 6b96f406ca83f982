"""One-call functions on Dask arrays: checked when they are called, computed chunk by chunk when Dask computes."""

from __future__ import annotations

import math

import dask.array as da
import numpy as np

from nonpu.dtypes import BY_VALUE
from nonpu.interop import numpy
from nonpu.ops import find
from nonpu.spec.call import Call, in_python, infer_result
from nonpu.spec.checks import judge
from nonpu.spec.model import FlagParam, ScalarParam
from nonpu.status import AclnnTypeError
from nonpu.tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from nonpu.spec.model import Op, Parameter

# Stands for the memory of chunks that do not exist yet: what the checks want to see is an aligned address.
SOMEWHERE = 4096


def run(op: Op, values: tuple[Any, ...], out: Any, product: str | None) -> Any:
    """Check types and shapes as far as they are known, and return the result as a Dask array; nothing is computed.

    Parameters
    ----------
    op
        The operator.
    values
        Its inputs in Python's order, at least one of them a Dask array, or `out` is one.
    out
        Must be None.
    product
        Product or SoC, None for that of the environment. The workers judge for the same one, whatever theirs says.
    """
    if out is not None:
        expected = "None with Dask arrays, whose results are new arrays"
        raise numpy.refuse(op, op.tensors[op.output], expected, type(out).__name__, kind=AclnnTypeError)
    arrays: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for param, value in zip((p for p in op.params if p.role == "in"), values, strict=True):
        if isinstance(param, FlagParam):
            arguments[param.name] = others[param.python_name] = numpy.as_flag(op, param, value)
        elif isinstance(param, ScalarParam):
            arguments[param.name], others[param.python_name] = numpy.as_scalar(op, param, value), value
        else:
            arguments[param.name] = None  # keeps the order of the parameters
            arrays[param.name] = _array(op, param, value)
    selected = numpy.find_product(op, product)
    for (name, array), shape in zip(arrays.items(), _known_shapes([x.shape for x in arrays.values()]), strict=True):
        dtype = numpy.as_tensor(op, op.tensors[name], np.empty(0, array.dtype)).dtype
        arguments[name] = Tensor(shape, dtype, data=SOMEWHERE)
    call = Call(op, arguments, selected, one_call=True)
    shape, dtype = infer_result(call)
    arguments[op.output] = Tensor(shape, dtype, data=SOMEWHERE)
    judge(call)
    return _build(op, arrays, others, selected.soc, numpy.numpy_dtype(BY_VALUE[dtype]))


def compute(
    *blocks: Any, operator: str, others: dict[str, Any], product: str, unsure: tuple[tuple[int, tuple[int, ...]], ...]
) -> Any:
    """Return one chunk of the result; runs wherever Dask runs it, with all checks on the real arrays.

    `unsure` holds axes, counted from the last one, and the positions of the blocks that must agree there: lengths that
    were unknown until now. A chunk of length 1 would be broadcast otherwise.
    """
    import nonpu

    op = find(operator)
    for axis, positions in unsure:
        lengths = [blocks[position].shape[axis] for position in positions]
        if len(set(lengths)) > 1:
            expected = f"as long as {in_python(op, op.inputs[positions[0]])}'s along axis {axis}, {lengths[0]}"
            raise numpy.refuse(op, op.tensors[op.inputs[-1]], expected, str(lengths[-1]), "chunks")
    names = [op.tensors[name].python_name for name in op.inputs]
    return getattr(nonpu, operator)(**dict(zip(names, blocks, strict=True)), **others, product=product)


def _build(op: Op, arrays: dict[str, Any], others: dict[str, Any], product: str, dtype: np.dtype[Any]) -> Any:
    rank = max(array.ndim for array in arrays.values())
    shapes = [array.shape for array in arrays.values()]
    axes = tuple(range(rank))
    chunked = [array for array in arrays.values() if isinstance(array, da.Array)]
    pairs: list[Any] = []
    for array in arrays.values():
        if not isinstance(array, da.Array):
            array = da.from_array(array, _chunks_like(array.shape, chunked))  # type: ignore[no-untyped-call]
        pairs += [array, axes[rank - array.ndim :]]
    try:
        return da.blockwise(  # type: ignore[no-untyped-call]
            compute,
            axes,
            *pairs,
            operator=op.python_name,
            others=others,
            product=product,
            unsure=_unsure(shapes),
            dtype=dtype,
            meta=np.empty((0,) * rank, dtype),
            token=op.python_name.replace("_", "-"),
        )
    except ValueError as error:
        last = op.tensors[op.inputs[-1]]
        expected = f"able to be aligned with those of {in_python(op, op.inputs[0])}"
        reason = str(error).partition("\n")[0]
        raise numpy.refuse(op, last, expected, reason, "chunks") from None


def _array(op: Op, param: Parameter, value: Any) -> Any:
    """Return a Dask array whose chunks are NumPy's, or a NumPy array."""
    if not isinstance(value, da.Array):
        return numpy.as_array(op, param, value)
    chunk = value._meta
    if isinstance(chunk, np.ma.MaskedArray):
        expected, actual = "an array without a mask", "a Dask array of masked arrays"
    elif not isinstance(chunk, np.ndarray | np.generic):
        expected = "a Dask array of NumPy arrays"
        actual = f"one of {type(chunk).__module__}.{type(chunk).__qualname__}"
    else:
        return value
    raise numpy.refuse(op, param, expected, actual, kind=AclnnTypeError)


def _known_shapes(shapes: Sequence[tuple[float, ...]]) -> list[tuple[int, ...]]:
    """Return shapes to check, in which an unknown length is what it must be for the arrays to fit together.

    The lengths of chunks may be unknown until they are computed (NaN); each chunk is then checked by itself.
    """
    rank = max(map(len, shapes))
    lengths = [1] * rank
    for shape in shapes:
        for axis, length in enumerate(shape, rank - len(shape)):
            if not math.isnan(length) and length != 1:
                lengths[axis] = int(length)
    return [
        tuple(
            lengths[axis] if math.isnan(length) else int(length) for axis, length in enumerate(shape, rank - len(shape))
        )
        for shape in shapes
    ]


def _unsure(shapes: Sequence[tuple[float, ...]]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the axes that have an unknown length, and which arrays are not broadcast there; see `compute`."""
    found = []
    for axis in range(-max(map(len, shapes)), 0):
        lengths = {position: shape[axis] for position, shape in enumerate(shapes) if len(shape) >= -axis}
        if any(map(math.isnan, lengths.values())):
            found.append((axis, tuple(position for position, length in lengths.items() if length != 1)))
    return tuple(found)


def _chunks_like(shape: tuple[int, ...], others: Sequence[Any]) -> tuple[Any, ...]:
    """Return chunks of a NumPy array that fit to those of the Dask arrays of the call, so that none is cut again."""
    chunks: list[Any] = []
    for axis, length in enumerate(shape, -len(shape)):
        fitting = [array.chunks[axis] for array in others if array.ndim >= -axis and array.shape[axis] == length]
        chunks.append(fitting[0] if fitting else length)
    return tuple(chunks)
