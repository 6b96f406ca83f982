"""Derivatives of the gradient of the sigmoid."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from nonpu.interop.torch.derivatives import wide


def by_output(v: Tensor, grad_output: Tensor, output: Tensor) -> Tensor:
    """``grad_output * conj(1 - 2 output) * conj(v)``: the operator depends on the conjugate of a complex output."""
    return (wide(grad_output) * (1 - 2 * wide(output).conj())) * wide(v).conj()


LINEAR: Final = "grad_output"
PARTIALS: Final = {"output": by_output}
