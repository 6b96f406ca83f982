"""Types, shapes and strides of tensors: what a call's result will be, and the NumPy array of the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from nonpu.dtypes import DType, promote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nonpu.spec.model import Op

NAMES: Final = {dtype.python_name: dtype for dtype in DType}
DTYPES: Final = {
    getattr(torch, name): dtype for name, dtype in NAMES.items() if isinstance(getattr(torch, name, None), torch.dtype)
}
"""The aclDataType of each of PyTorch's types that has one."""
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


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return a NumPy array of the same memory, whatever the strides; a copy if the tensor is a lazy conjugate."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    array: np.ndarray[Any, Any] = tensor.numpy()
    return array


def missing_bytes(tensor: Tensor) -> int:
    """Return how many bytes the storage lacks for the view: it may have been shrunk behind the tensor's back."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed: int = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return max(needed - tensor.untyped_storage().nbytes(), 0)
