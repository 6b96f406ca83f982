"""Tensors of PyTorch that share the memory of NumPy arrays, bfloat16 included."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def tensor_of(array: Any) -> torch.Tensor:
    """Return a tensor on the memory of an array, with its strides."""
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def array_of(tensor: torch.Tensor) -> Any:
    """Return an array with the elements of a tensor."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(BFLOAT16)
    return tensor.numpy()
