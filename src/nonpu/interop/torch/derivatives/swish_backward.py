"""Derivatives of the gradient of Swish.

The gradient's factor is ``h(z) = s(z) (1 + z s(-z))`` with ``z = beta self`` and the logistic sigmoid ``s``; hence
``h'(z) = s(z) s(-z) (2 - z tanh(z/2))``, in which nothing cancels but at its roots near z = 2.4 and -2.4.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from nonpu.interop.torch.derivatives import wide

# Here s(z) s(-z) is 0 in DOUBLE; the product with an infinite z would be NaN.
FAR: Final = 1e4


def by_self(v: Tensor, grad_output: Tensor, self: Tensor, beta: Any) -> Tensor:
    """``grad_output beta h'(z)``."""
    factor = _number(beta)
    product = wide(v) * wide(grad_output)
    result: Tensor = product * (factor * _curvature(factor * wide(self)))
    return result


def by_beta(v: Tensor, grad_output: Tensor, self: Tensor, beta: Any) -> Tensor:
    """``grad_output self h'(z)``."""
    factor = _number(beta)
    product = wide(v) * wide(grad_output)
    return product * (wide(self) * _curvature(factor * wide(self)))


def _number(beta: Any) -> Any:
    return 1.0 if beta is None else wide(beta) if isinstance(beta, Tensor) else beta


def _curvature(z: Tensor) -> Tensor:
    z = z.clamp(-FAR, FAR)
    return torch.sigmoid(z) * torch.sigmoid(-z) * (2 - z * torch.tanh(0.5 * z))


LINEAR: Final = "grad_output"
PARTIALS: Final = {"self": by_self, "beta": by_beta}
