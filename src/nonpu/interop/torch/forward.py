"""The activations whose gradients the operators are, as ``torch.ops.nonpu.*`` too: their backward is ours.

PyTorch's own forward operators do the work, but for Swish with a factor: there ``beta self`` would be rounded before
the exponential, which loses ``|beta self|/2`` units in the last place.  So it is computed in a wider type, block by
block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from nonpu.interop.torch import contracts
from nonpu.interop.torch.derivatives import wide
from nonpu.interop.torch.layouts import allocate
from nonpu.interop.torch.operators import OPERATORS, Operator, Parameter
from nonpu.tensor import Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from nonpu.interop.torch.operators import Partial

BLOCK: Final = 1 << 16
"""Elements that are widened at once: half a MiB of DOUBLE."""
WIDER: Final = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}
REAL: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES: Final = {"swish": REAL, "leaky_relu": REAL, "sigmoid": (*REAL, torch.complex64, torch.complex128)}
"""Types that the gradient has a kernel for, so that no forward pass ends without a way back."""


def _swish(self: Tensor, beta: Any = None, product: str | None = None) -> Tensor:
    result = _result("swish", self)
    factor = 1.0 if beta is None else number("swish", "beta", beta)
    if factor == 1:
        torch.ops.aten.silu.out(self, out=result)
    elif self.dtype in WIDER:
        _swish_wide(self, Scalar(factor, "float64").to_float(), result)
    else:
        torch.mul(self, torch.sigmoid(self * factor), out=result)
    return result


def _swish_wide(self: Tensor, factor: float, result: Tensor) -> None:
    source = self if self.stride() == result.stride() else torch.empty_like(result).copy_(self)
    count = self.numel()
    given, found = (tensor.as_strided((count,), (1,)) for tensor in (source, result))
    for start in range(0, count, BLOCK):
        x = given[start : start + BLOCK].to(WIDER[self.dtype])
        found[start : start + BLOCK].copy_((x * factor).sigmoid_().mul_(x))


def _leaky_relu(self: Tensor, negative_slope: Any = 0.01, product: str | None = None) -> Tensor:
    result = _result("leaky_relu", self)
    torch.ops.aten.leaky_relu.out(self, number("leaky_relu", "negative_slope", negative_slope), out=result)
    return result


def _sigmoid(self: Tensor, product: str | None = None) -> Tensor:
    return torch.sigmoid(self, out=_result("sigmoid", self))


def _result(name: str, self: Tensor) -> Tensor:
    """Return the tensor for the result; every input of the result's shape has its layout."""
    if self.is_nested:
        raise TypeError(f"nonpu.torch.{name}: self must be one tensor (got a nested tensor)")
    if self.dtype not in DTYPES[name]:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES[name])
        raise TypeError(f"nonpu.torch.{name}: dtype of self must be one of {names} (got {self.dtype})")
    return allocate([self], self.shape, self.dtype)


def number(name: str, parameter: str, value: Any) -> float:
    """Return a number, or the value of a tensor of rank 0, as a float.

    Raises
    ------
    TypeError
        If it is no real number.
    ValueError
        If it is a tensor of another rank, or out of the range of float64.
    """
    if isinstance(value, Tensor):
        if value.dim() != 0:
            raise ValueError(f"nonpu.torch.{name}: {parameter} must be of rank 0 (got a tensor of rank {value.dim()})")
        value = value.item()
    if isinstance(value, int | float | np.floating | np.integer):
        try:
            return float(value)
        except OverflowError:
            bits = int(value).bit_length()
            raise ValueError(
                f"nonpu.torch.{name}: {parameter} must be in the range of float64 (got an int of {bits} bits)"
            ) from None
    raise TypeError(f"nonpu.torch.{name}: {parameter} must be a real number (got {type(value).__name__})")


def _swish_by_self(v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
    self, beta = arguments
    overload = "Tensor" if isinstance(beta, Tensor) else "default"
    return OPERATORS["swish_backward", overload](v, self, beta, product)


def _swish_by_beta(v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
    """``v self**2 s(z) s(-z)`` with ``z = beta self``, in an order in which nothing overflows on the way."""
    x, beta = wide(arguments[0]), wide(arguments[1])
    z = beta * x
    return wide(v) * ((x * torch.sigmoid(z)) * (x * torch.sigmoid(-z)))


def _leaky_relu_by_self(v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
    self, slope = arguments
    overload = "Tensor" if isinstance(slope, Tensor) else "default"
    return OPERATORS["leaky_relu_backward", overload](v, self, slope, False, product)


def _leaky_relu_by_slope(v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
    scaled = wide(v) * wide(arguments[0])
    return torch.where(arguments[0] > 0, torch.zeros_like(scaled), scaled)


def _sigmoid_by_self(v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
    _, y = arguments
    return OPERATORS["sigmoid_backward", "default"](v, y if conjugate else y.conj(), product)


def _define(
    name: str, kernel: Callable[..., Tensor], partials: dict[str, Partial], scalar: Parameter | None = None
) -> None:
    def shapes(self: Tensor, *scalars: Any, product: str | None = None) -> Tensor:
        return _result(name, self)

    array = Parameter("self", "Tensor", is_array=True)
    keeps = name == "sigmoid"
    given = (array,) if scalar is None else (array, scalar)
    Operator(name, "default", given, kernel, shapes, partials, keeps_result=keeps)
    if scalar is not None:
        Operator(name, "Tensor", (array, Parameter(scalar.name, "Tensor")), kernel, shapes, partials)


assert contracts.ONE_CALL, "the gradients come first"
_define("swish", _swish, {"self": _swish_by_self, "beta": _swish_by_beta}, Parameter("beta", "Scalar?", None))
_define(
    "leaky_relu",
    _leaky_relu,
    {"self": _leaky_relu_by_self, "negative_slope": _leaky_relu_by_slope},
    Parameter("negative_slope", "Scalar", 0.01),
)
_define("sigmoid", _sigmoid, {"self": _sigmoid_by_self})
