"""Activations for PyTorch whose backward pass runs the operators' kernels: functions and modules.

Importing this module also defines the operators themselves as ``torch.ops.nonpu.*``.  It needs PyTorch, the package's
extra ``torch``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"nonpu.torch: PyTorch must be installed, as pip install 'nonpu[torch]' does (got {error})", name=error.name
    ) from None
from torch import Tensor, nn

from nonpu.interop.torch import forward
from nonpu.interop.torch.operators import OPERATORS

assert forward.DTYPES, "defines the operators"

__all__ = ["LeakyReLU", "Sigmoid", "Swish", "leaky_relu", "sigmoid", "swish"]


def swish(input: Tensor, beta: float | np.floating[Any] | Tensor = 1.0, *, product: str | None = None) -> Tensor:
    """Return ``input * sigmoid(beta * input)``.

    Parameters
    ----------
    input : Tensor
        float32, float64, float16 or bfloat16, on the CPU.
    beta : float or Tensor
        A number, or a tensor of rank 0, which may require grad.
    product : str, optional
        Product or SoC whose contract the backward pass is checked for; the default is NONPU_PRODUCT's.

    Returns
    -------
    Tensor
        Of the type and shape of `input`. Its backward runs the kernel of `nonpu.swish_backward`.

    Examples
    --------
    >>> import torch
    >>> import nonpu.torch
    >>> x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    >>> beta = torch.tensor(1.5, requires_grad=True)
    >>> nonpu.torch.swish(x, beta).sum().backward()
    >>> x.grad
    tensor([-0.0413,  0.5000,  1.0881])
    >>> beta.grad
    tensor(0.3299)
    """
    _check(input, "swish")
    beta = _traceable(beta)
    return OPERATORS["swish", _overload(beta)](input, beta, product)


def leaky_relu(
    input: Tensor, negative_slope: float | np.floating[Any] | Tensor = 0.01, *, product: str | None = None
) -> Tensor:
    """Return `input` where it is positive, ``negative_slope * input`` elsewhere.

    Parameters
    ----------
    input : Tensor
        float32, float64, float16 or bfloat16, on the CPU.
    negative_slope : float or Tensor
        A number, or a tensor of rank 0, which may require grad.
    product : str, optional
        As for `swish`.

    Returns
    -------
    Tensor
        Of the type and shape of `input`. Its backward runs the kernel of `nonpu.leaky_relu_backward`.

    Examples
    --------
    >>> import torch
    >>> import nonpu.torch
    >>> nonpu.torch.leaky_relu(torch.tensor([-2.0, 0.0, 3.0]), 0.25)
    tensor([-0.5000,  0.0000,  3.0000])
    """
    _check(input, "leaky_relu")
    negative_slope = _traceable(negative_slope)
    return OPERATORS["leaky_relu", _overload(negative_slope)](input, negative_slope, product)


def sigmoid(input: Tensor, *, product: str | None = None) -> Tensor:
    """Return the logistic function of `input`.

    Parameters
    ----------
    input : Tensor
        float32, float64, float16, bfloat16, complex64 or complex128, on the CPU.
    product : str, optional
        As for `swish`.

    Returns
    -------
    Tensor
        Of the type and shape of `input`. Its backward runs the kernel of `nonpu.sigmoid_backward`.

    Examples
    --------
    >>> import torch
    >>> import nonpu.torch
    >>> nonpu.torch.sigmoid(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    _check(input, "sigmoid")
    return OPERATORS["sigmoid", "default"](input, product)


def _check(input: Any, function: str) -> None:
    """Refuse what PyTorch would refuse in many lines, or with an AttributeError; let pass what stands for a tensor."""
    if isinstance(input, Tensor):
        if input.layout is torch.strided and not input.is_quantized:
            return
        actual = "a quantized one" if input.is_quantized else f"one of layout {input.layout}"
    elif torch.overrides.has_torch_function((input,)):
        return
    else:
        actual = type(input).__name__
    raise TypeError(f"nonpu.torch.{function}: input must be a strided tensor (got {actual})")


def _traceable(scalar: Any) -> Any:
    """Return a number of NumPy's as a tensor if a call is traced: it is an array then, whose value may be open."""
    is_open = torch.compiler.is_compiling() and isinstance(scalar, (np.generic, np.ndarray))
    return torch.as_tensor(scalar) if is_open else scalar


def _overload(scalar: Any) -> str:
    """Return the overload for a scalar; a proxy of torch.fx stands for a parameter."""
    return "Tensor" if isinstance(scalar, Tensor | torch.fx.Proxy) else "default"


def _constant(value: Any, module: str, parameter: str) -> float:
    if isinstance(value, Tensor) and value.requires_grad:
        raise TypeError(
            f"nonpu.torch.{module}: {parameter} must be a number (got a tensor that requires grad, which the module"
            " would not train)"
        )
    return forward.number(module, parameter, value)


class Swish(nn.Module):
    """Module of `swish`.

    Parameters
    ----------
    beta : float
        Factor of the argument of the sigmoid.
    trainable : bool
        Whether `beta` is a parameter, of rank 0, that training changes; else it is a number.
    device, dtype
        Of the parameter.

    Examples
    --------
    >>> import nonpu.torch
    >>> nonpu.torch.Swish(1.5)
    Swish(beta=1.5)
    >>> nonpu.torch.Swish(trainable=True).state_dict()
    OrderedDict([('beta', tensor(1.))])
    """

    beta: float | Tensor

    def __init__(self, beta: float = 1.0, trainable: bool = False, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.trainable = trainable
        self._first = _constant(beta, "Swish", "beta")
        if trainable:
            self.beta = nn.Parameter(torch.tensor(self._first, device=device, dtype=dtype))
        else:
            self.beta = self._first

    def reset_parameters(self) -> None:
        """Give a trainable `beta` its first value again; for modules that were made on meta, too."""
        if isinstance(self.beta, nn.Parameter):
            nn.init.constant_(self.beta, self._first)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return swish(input, self.beta)

    def extra_repr(self) -> str:
        """Return what stands between the parentheses."""
        beta = self.beta.detach() if isinstance(self.beta, Tensor) else self.beta
        try:
            value = f"{float(beta):g}"
        except RuntimeError:  # on meta, or fake
            value = "..."
        return f"beta={value}" + (", trainable=True" if self.trainable else "")


class LeakyReLU(nn.Module):
    """Module of `leaky_relu`.

    Parameters
    ----------
    negative_slope : float
        Slope for inputs that are not positive.

    Examples
    --------
    >>> import nonpu.torch
    >>> nonpu.torch.LeakyReLU(0.25)
    LeakyReLU(negative_slope=0.25)
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = _constant(negative_slope, "LeakyReLU", "negative_slope")

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """Return what stands between the parentheses."""
        return f"negative_slope={self.negative_slope:g}"


class Sigmoid(nn.Module):
    """Module of `sigmoid`.

    Examples
    --------
    >>> import torch
    >>> import nonpu.torch
    >>> nonpu.torch.Sigmoid()(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of `input`."""
        return sigmoid(input)
