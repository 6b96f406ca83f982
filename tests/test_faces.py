"""One element, one result: C functions, two-phase functions and one-call functions give the same bits."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nonpu
from nonpu import Scalar, Tensor, aclnn
from nonpu.dtypes import DType
from nonpu.ops import OPS
from nonpu.spec.model import FlagParam, Op, ScalarParam
from tests.c_client import Client

NUMPY = {dtype: np.dtype(ml_dtypes.bfloat16 if dtype is DType.BFLOAT16 else dtype.python_name) for dtype in (
    DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE, DType.COMPLEX64, DType.COMPLEX128
)}  # fmt: skip
SCALARS = {"negativeSlope": 0.3, "betaOptional": -1.7}

Array = np.ndarray[Any, Any]


def cases() -> list[Any]:
    """Every operator with every type that its tensors may have through C."""
    return [
        pytest.param(op, dtype, id=f"{op.name}-{dtype.name}")
        for op in OPS
        for dtype in op.kernels
        if dtype in op.tensors[op.inputs[0]].dtypes
    ]


def random_bits(dtype: DType, shape: tuple[int, ...], seed: int) -> Array:
    """Random patterns: all exponents, infinities and NaNs among them."""
    size = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).view(NUMPY[dtype]).reshape(shape)


def views(dtype: DType, layout: str) -> tuple[Array, Array, Array]:
    """Gradient, primal input and output of a layout; the output holds a pattern to be overwritten."""
    if layout == "contiguous":
        return random_bits(dtype, (37, 53), 1), random_bits(dtype, (37, 53), 2), np.zeros((37, 53), NUMPY[dtype])
    base, other = random_bits(dtype, (80, 120), 3), random_bits(dtype, (53, 37), 4)
    return base[3:77:2, 5:111:2], other.T, np.zeros((41, 60), NUMPY[dtype])[2:39, 4:57]


def arguments(op: Op, tensors: dict[str, Any]) -> list[Any]:
    """Arguments in C order: the given tensors, the scalars of this file, false flags."""
    values: list[Any] = []
    for param in op.params:
        if isinstance(param, FlagParam):
            values.append(False)
        elif isinstance(param, ScalarParam):
            values.append(Scalar(SCALARS[param.name], "float32"))
        else:
            values.append(tensors[param.name])
    return values


def bits(array: Array) -> bytes:
    """Return the bytes of the elements, with one pattern for all NaNs: their payloads are free."""
    copy = np.ascontiguousarray(array).copy()
    parts = copy.view(copy.real.dtype) if copy.dtype.kind == "c" else copy
    parts[np.isnan(parts)] = np.nan
    return copy.tobytes()


def through_c(client: Client, op: Op, tensors: dict[str, Array]) -> Array:
    """Run both C phases on device memory that holds the arrays' buffers, and copy the output's buffer back."""
    library = client.library
    library.aclnnInit(None)
    handles: dict[str, Any] = {}
    blocks: dict[str, tuple[int, Array]] = {}
    for name, array in tensors.items():
        bottom = array if array.base is None else array.base
        block = ctypes.c_void_p()
        assert library.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(bottom.nbytes), 0) == 0
        source = ctypes.c_void_p(bottom.__array_interface__["data"][0])
        count = ctypes.c_size_t(bottom.nbytes)
        assert library.aclrtMemcpy(block, count, source, count, 1) == 0
        offset = array.__array_interface__["data"][0] - bottom.__array_interface__["data"][0]
        itemsize = array.itemsize
        strides = [step // itemsize for step in array.strides]
        handles[name] = ctypes.c_void_p(
            library.aclCreateTensor(
                (ctypes.c_int64 * array.ndim)(*array.shape), ctypes.c_uint64(array.ndim),
                ctypes.c_int32(int(DType.parse(array.dtype))),
                (ctypes.c_int64 * array.ndim)(*strides), ctypes.c_int64(offset // itemsize), ctypes.c_int32(2),
                (ctypes.c_int64 * 1)(bottom.size), ctypes.c_uint64(1), block,
            )
        )  # fmt: skip
        assert block.value is not None
        blocks[name] = (block.value, bottom)
    values = [
        client.argument(type(value), value) if isinstance(value, Scalar | bool) else value
        for value in arguments(op, handles)
    ]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    assert getattr(library, op.phase_one)(*values, ctypes.byref(size), ctypes.byref(executor)) == 0
    run = getattr(library, op.phase_two)
    run.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
    assert run(None, 0, executor, None) == 0
    assert library.aclrtSynchronizeStream(None) == 0
    output = tensors[op.output]
    address, bottom = blocks[op.output]
    result = np.empty_like(bottom)
    ctypes.memmove(result.__array_interface__["data"][0], address, bottom.nbytes)
    offset = output.__array_interface__["data"][0] - bottom.__array_interface__["data"][0]
    view = np.ndarray(output.shape, output.dtype, result.view(np.uint8).data, offset, output.strides)
    for name, (block_address, _) in blocks.items():
        assert library.aclDestroyTensor(handles[name]) == 0
        assert library.aclrtFree(ctypes.c_void_p(block_address)) == 0
    return view


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize(("op", "dtype"), cases())
def test_all_faces_give_the_same_bits(client: Client, op: Op, dtype: DType, layout: str) -> None:
    """Random bit patterns through C, through both Python phases, and through the one-call function."""
    grad, primal, out = views(dtype, layout)
    scalars = {param.python_name: np.float32(SCALARS[param.name]) for param in op.scalar_params}
    expected = bits(getattr(nonpu, op.python_name)(grad, primal, **scalars))

    tensors = dict(zip((*op.inputs, op.output), (grad, primal, out), strict=True))
    first, second = getattr(aclnn, op.phase_one), getattr(aclnn, op.phase_two)
    size, executor = first(*arguments(op, {name: Tensor.from_numpy(array) for name, array in tensors.items()}))
    second(None, size, executor, None)
    nonpu.synchronize()
    assert bits(out) == expected

    out[...] = 0
    assert bits(through_c(client, op, tensors)) == expected
