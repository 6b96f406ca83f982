"""The operators of the contract on tensors: the one-call functions, and the same as ``torch.ops.nonpu.*``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from nonpu.interop.torch import call, derivatives, functions
from nonpu.interop.torch.layouts import allocate
from nonpu.interop.torch.operators import (
    LIBRARY,
    NAMESPACE,
    PRODUCT,
    TAGS,
    Operator,
    Parameter,
    Partial,
    differentiated,
)
from nonpu.ops import OPS
from nonpu.spec.model import FlagParam, ScalarParam, TensorParam

if TYPE_CHECKING:
    from collections.abc import Callable

    from nonpu.spec.model import Op


def _define(op: Op) -> None:
    """Define the overloads of an operator: with numbers, with tensors of rank 0 for these, and with `out`."""
    kernel = functions.one_call(op, guarded=False)
    known = derivatives.find(op)
    parameters = tuple(_parameter(param) for param in op.params if param.role == "in")
    shapes = functools.partial(_shapes, op, parameters)
    names = [parameter.name for parameter in parameters]
    linear = None if known.linear is None else names.index(known.linear)
    operator = Operator(op.python_name, "default", parameters, kernel, shapes, {}, linear)
    operator.partials = _partials(operator, known)
    if op.scalar_params:
        tensors = tuple(_as_tensor(op, parameter) for parameter in parameters)
        numbers = functools.partial(_with_numbers, op, tensors, kernel)
        wide = Operator(op.python_name, "Tensor", tensors, numbers, shapes, {}, linear)
        wide.partials = _partials(wide, known)
    _define_out(op, parameters, kernel)


def _parameter(param: Any) -> Parameter:
    if isinstance(param, TensorParam):
        return Parameter(param.python_name, "Tensor", is_array=True)
    if isinstance(param, FlagParam):
        return Parameter(param.python_name, "bool", param.default)
    if param.optional:
        return Parameter(param.python_name, "Scalar?", None)
    return Parameter(param.python_name, "Scalar", param.default)


def _as_tensor(op: Op, parameter: Parameter) -> Parameter:
    scalars = [param.python_name for param in op.params if isinstance(param, ScalarParam)]
    return Parameter(parameter.name, "Tensor") if parameter.name in scalars else parameter


def _with_numbers(op: Op, parameters: tuple[Parameter, ...], kernel: Callable[..., Tensor], *given: Any) -> Tensor:
    """Run the kernel with the values of tensors of rank 0."""
    values = list(given)
    for index, parameter in enumerate(parameters):
        if parameter.is_tensor and not parameter.is_array:
            (param,) = (param for param in op.params if param.python_name == parameter.name)
            values[index] = call.rank_zero(op, param, values[index]).item()
    return kernel(*values)


def _shapes(op: Op, parameters: tuple[Parameter, ...], *given: Any, product: str | None = None) -> Tensor:
    """Return the result without values."""
    tensors, others, product = _sorted(parameters, given, product)
    return allocate(tensors, *call.examine(op, tensors, others, product))


def _sorted(
    parameters: tuple[Parameter, ...], given: tuple[Any, ...], product: str | None
) -> tuple[list[Tensor], list[Any], str | None]:
    """Return arrays, other arguments and product, of which those at the end may be left to their defaults."""
    filled = (*given, *(parameter.default for parameter in parameters[len(given) :]))
    pairs = list(zip(filled, parameters, strict=False))
    tensors = [value for value, parameter in pairs if parameter.is_array]
    others = [value for value, parameter in pairs if not parameter.is_array]
    return tensors, others, filled[len(parameters)] if len(filled) > len(parameters) else product


def _partials(operator: Operator, known: derivatives.Derivatives) -> dict[str, Partial]:
    """Return the derivatives of an operator, with respect to the input in which it is linear too."""
    found: dict[str, Partial] = {name: functools.partial(_of_pytorch, own) for name, own in known.partials.items()}
    if known.linear is not None:
        found[known.linear] = functools.partial(_linear, operator)
    return found


def _of_pytorch(
    own: Callable[..., Tensor], v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool
) -> Tensor:
    return own(v, *arguments)


def _linear(operator: Operator, v: Tensor, arguments: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
    """Apply the operator to `v`; in reverse mode its adjoint, which has the conjugates of the other inputs."""
    values = [value.conj() if conjugate and isinstance(value, Tensor) else value for value in arguments]
    assert operator.linear is not None
    values[operator.linear] = v
    return operator(*values, product)


def _define_out(op: Op, parameters: tuple[Parameter, ...], kernel: Callable[..., Tensor]) -> None:
    name = f"{op.python_name}.out"
    # No result and no tag ``out``: PyTorch's compiler (2.13) would put this overload in the place of the default one
    # and pass its defaults twice.
    words = ", ".join(map(str, (*parameters, PRODUCT)))
    LIBRARY.define(f"{name}({words}, *, Tensor(a!) out) -> ()", tags=TAGS)
    LIBRARY.impl(name, functools.partial(_into, kernel), "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{name}", functools.partial(_shapes_of_out, op, parameters), lib=LIBRARY)
    overload = getattr(torch.ops.nonpu, op.python_name).out

    def autograd(keys: Any, *given: Any, out: Tensor) -> None:
        tensors = [value for value in (*given, out) if isinstance(value, Tensor)]
        if differentiated(tensors):
            raise call.not_differentiable(op)
        with torch._C._AutoDispatchBelowAutograd():
            overload.redispatch(keys & torch._C._after_autograd_keyset, *given, out=out)

    LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)


def _into(kernel: Callable[..., Tensor], *given: Any, out: Tensor) -> None:
    kernel(*given, out=out)


def _shapes_of_out(
    op: Op, parameters: tuple[Parameter, ...], *given: Any, product: str | None = None, out: Tensor
) -> None:
    tensors, others, product = _sorted(parameters, given, product)
    call.examine(op, tensors, others, product, out)


def _both(op: Op) -> Callable[..., Any]:
    """Define the operator in PyTorch's dispatcher and return its one-call function on tensors."""
    _define(op)
    return functions.one_call(op, guarded=True)


ONE_CALL: Final = {op.name: _both(op) for op in OPS}
"""The one-call functions on tensors, by name of the operator."""
