"""Types, shapes and strides of tensors: what a call's result will be, and the NumPy array of the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from nonpu._core import ffi
from nonpu.dtypes import FLOATS, INTEGERS, DType, promote
from nonpu.interop.numpy import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nonpu.spec.model import Op

DTYPES: Final = {
    getattr(torch, dtype.python_name): dtype
    for dtype in (*FLOATS, *INTEGERS, DType.BOOL, DType.COMPLEX64, DType.COMPLEX128)
}
"""The aclDataType of each of PyTorch's types that NumPy has, too."""
TORCH_DTYPES: Final = {dtype: torch_dtype for torch_dtype, dtype in DTYPES.items()}


def infer(op: Op, tensors: Sequence[Tensor]) -> tuple[Any, torch.dtype] | None:
    """Return shape and type of the result; None if the inputs do not fit together. Sizes may be symbolic."""
    try:
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except RuntimeError:
        return None
    dtype: DType | None = DTYPES.get(tensors[0].dtype)
    for tensor in tensors[1:]:
        other = DTYPES.get(tensor.dtype)
        if dtype is None or other is None:
            return None
        if op.result_type == "promote":
            dtype = promote(dtype, other)
    return None if dtype is None else (shape, TORCH_DTYPES[dtype])


def allocate(tensors: Sequence[Tensor], shape: Any, dtype: torch.dtype) -> Tensor:
    """Return a new tensor for the result of an elementwise operator.

    Its axes lie in memory in the order of the inputs' (so channels_last stays channels_last) if those of the result's
    shape agree, else in row-major order; inputs that are broadcast or expanded do not count.
    """
    whole = [tensor for tensor in tensors if tensor.shape == shape and not _expanded(tensor)]
    if whole and all(tensor.stride() == whole[0].stride() for tensor in whole[1:]):
        return torch.empty_like(whole[0], dtype=dtype, requires_grad=False)
    return torch.empty(shape, dtype=dtype, device=tensors[0].device)


def _expanded(tensor: Tensor) -> bool:
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def is_lazy(tensor: Tensor) -> bool:
    """Return whether the memory of a tensor is not yet its value."""
    return tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor()


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return a NumPy array of a tensor's memory, whatever the strides; of a copy if the tensor is lazy.

    Not by ``tensor.numpy()``, which forbids the storage ever to be resized, as sharded training does.  The array does
    not keep the memory alive.
    """
    dtype = numpy_dtype(DTYPES[tensor.dtype])
    if tensor.numel() == 0:
        return np.empty(tuple(tensor.shape), dtype)
    if tensor._is_zerotensor():  # forward mode's zeros, which have no memory
        return np.zeros(tuple(tensor.shape), dtype)
    if tensor.is_conj() or tensor.is_neg():
        return np.asarray(tensor.detach().resolve_conj().resolve_neg().numpy())
    size = tensor.element_size()
    memory = ffi.buffer(ffi.cast("char *", tensor.data_ptr()), _span(tensor) * size)
    return np.ndarray(tuple(tensor.shape), dtype, memory, 0, tuple(step * size for step in tensor.stride()))


def missing_bytes(tensor: Tensor) -> int:
    """Return how many bytes the storage lacks for the view: it may have been shrunk behind the tensor's back."""
    if tensor.numel() == 0:
        return 0
    needed = (int(tensor.storage_offset()) + _span(tensor)) * tensor.element_size()
    return max(needed - tensor.untyped_storage().nbytes(), 0)


def _span(tensor: Tensor) -> int:
    """Return the elements from the first to the last in memory."""
    return sum((int(size) - 1) * int(step) for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
