"""Derivatives of the gradient of LeakyRelu."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from nonpu.interop.torch.derivatives import wide


def by_self(v: Tensor, grad_output: Tensor, self: Tensor, negative_slope: Any, self_is_result: bool) -> Tensor:
    """Zero: the factor is constant on either side of 0, and at 0 there is no derivative."""
    return torch.zeros_like(v * (grad_output * self))


def by_slope(v: Tensor, grad_output: Tensor, self: Tensor, negative_slope: Any, self_is_result: bool) -> Tensor:
    """The gradient where the slope is taken: ``self > 0`` is false for NaN."""
    product = wide(v) * wide(grad_output)
    return torch.where(self > 0, torch.zeros_like(product), product)


LINEAR: Final = "grad_output"
PARTIALS: Final = {"self": by_self, "negative_slope": by_slope}
