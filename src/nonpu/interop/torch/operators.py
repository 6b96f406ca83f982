"""Operators of ``torch.ops.nonpu``: schemas, kernels, shapes without values, derivatives, batching.

``torch.library.register_autograd`` knows neither forward mode nor ``torch.func``; an ``autograd.Function`` knows both.
So the dispatcher's keys for autograd and for the transforms lead to one such function per overload.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

if TYPE_CHECKING:
    from collections.abc import Callable

Partial: TypeAlias = "Callable[[Tensor, tuple[Any, ...], str | None, bool], Tensor]"
"""Takes a tensor ``v``, the arguments, the product, and whether reverse mode asks: complex derivatives then count
conjugated. Returns ``v`` times the partial derivative."""
NAMESPACE: Final = "nonpu"
LIBRARY: Final = torch.library.Library(NAMESPACE, "FRAGMENT")
TAGS: Final = tuple(
    getattr(torch.Tag, name) for name in ("pt2_compliant_tag", "needs_exact_strides") if hasattr(torch.Tag, name)
)
OPERATORS: Final[list[Operator]] = []
"""Every overload that has derivatives, in the order of definition."""


class Parameter(NamedTuple):
    """A parameter of a schema.

    Attributes
    ----------
    name : str
        Name.
    kind : str
        Type, in the language of schemas.
    default : object
        Default; ``...`` if there is none.
    is_array : bool
        Whether it is a tensor that broadcasts; a scalar can be a tensor, too, of rank 0.
    """

    name: str
    kind: str
    default: Any = ...
    is_array: bool = False

    @property
    def is_tensor(self) -> bool:
        """Whether it has a derivative."""
        return self.kind == "Tensor"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + ("" if self.default is ... else f"={self.default}")


class Operator:
    """One overload of an elementwise function.

    Parameters
    ----------
    name, overload : str
        ``swish_backward``; ``default`` or ``Tensor``.
    parameters
        In order.
    kernel : callable
        Takes plain CPU tensors and the keyword ``product``; returns a new tensor.
    shapes : callable
        The same on tensors without values.
    partials : dict
        The derivatives, by parameter.
    """

    def __init__(
        self,
        name: str,
        overload: str,
        parameters: tuple[Parameter, ...],
        kernel: Callable[..., Tensor],
        shapes: Callable[..., Tensor],
        partials: dict[str, Partial],
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.partials = partials
        qualified = name if overload == "default" else f"{name}.{overload}"
        LIBRARY.define(f"{qualified}({', '.join(map(str, parameters))}, *, str? product=None) -> Tensor", tags=TAGS)
        LIBRARY.impl(qualified, kernel, "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{qualified}", shapes, lib=LIBRARY)
        self.call = getattr(getattr(torch.ops.nonpu, name), overload)
        self.node = _node(self)
        LIBRARY.impl(qualified, self._autograd, "Autograd", with_keyset=True)
        LIBRARY.impl(qualified, self._transform, "FuncTorchDynamicLayerFrontMode")
        OPERATORS.append(self)

    def _autograd(self, keys: Any, *given: Any, product: str | None = None) -> Tensor:
        """Record the call if somebody asks for derivatives, then go on to the kernel."""
        arguments = self._filled(given)
        tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
        reverse = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if any(type(tensor) is not Tensor for tensor in tensors):
            shard()
        if reverse or (forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()):
            result: Tensor = self.node.apply(*arguments, product)
            return result
        with torch._C._AutoDispatchBelowAutograd():
            result = self.call.redispatch(keys & torch._C._after_autograd_keyset, *given, product=product)
        return result

    def _transform(self, *given: Any, product: str | None = None) -> Tensor:
        """Let the transforms of torch.func work on the node, which knows their rules."""
        forward = torch._C._functorch.TransformType.Jvp
        levels = [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()]
        if levels.count(forward) > 1:
            # PyTorch would give zeros: the tangents of a Function's jvp have no tangents.
            raise NotImplementedError(
                f"nonpu.{self.name}: forward mode inside forward mode is not supported by PyTorch's custom functions"
                " (jacrev inside jacfwd and jacfwd inside jacrev are)"
            )
        result: Tensor = self.node.apply(*self._filled(given), product)
        return result

    def _filled(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all arguments: the dispatcher leaves out those at the end that are defaults."""
        return (*given, *(parameter.default for parameter in self.parameters[len(given) :]))

    def scaled(self, index: int, v: Tensor, inputs: tuple[Any, ...], conjugate: bool) -> Tensor:
        """Return `v` times the partial derivative with respect to a parameter; the product is the last input."""
        name = self.parameters[index].name
        partial = self.partials.get(name)
        if partial is None:
            raise NotImplementedError(f"nonpu.{self.name}: no derivative with respect to {name} is known")
        return partial(v, inputs[:-1], inputs[-1], conjugate)

    def batched(self, size: int, dims: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Tensor, int]:
        """Run a batch of calls as one."""
        arguments, product = list(given[:-1]), given[-1]
        indices = [index for index, dim in enumerate(dims[:-1]) if dim is not None]
        for index in indices:
            arguments[index] = arguments[index].movedim(dims[index], 0)
        if any(not self.parameters[index].is_array for index in indices):
            # A scalar per call: the kernel takes one.
            rows = [
                [value[row] if index in indices else value for index, value in enumerate(arguments)]
                for row in range(size)
            ]
            return torch.stack([self.call(*row, product=product) for row in rows]), 0
        arrays = [index for index, parameter in enumerate(self.parameters) if parameter.is_array]
        rank = max(arguments[index].dim() - (index in indices) for index in arrays)
        for index in indices:
            value = arguments[index]
            arguments[index] = value.reshape(size, *[1] * (rank + 1 - value.dim()), *value.shape[1:])
        return self.call(*arguments, product=product), 0


def _node(operator: Operator) -> type[Function]:
    """Return the function that knows the derivatives and the batching of an operator."""

    class Node(Function):
        @staticmethod
        def forward(*arguments: Any) -> Tensor:
            result: Tensor = operator.call(*arguments[:-1], product=arguments[-1])
            return result

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            tensors = [value for value in inputs if isinstance(value, Tensor)]
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.rest = [None if isinstance(value, Tensor) else value for value in inputs]
            ctx.result_shape, ctx.result_dtype = output.shape, output.dtype

        @staticmethod
        def backward(ctx: Any, *outputs: Any) -> Any:
            inputs = _restored(operator, ctx)
            found: list[Tensor | None] = [None] * len(inputs)
            for index, value in enumerate(inputs):
                if isinstance(value, Tensor) and ctx.needs_input_grad[index]:
                    scaled = operator.scaled(index, outputs[0], inputs, True)
                    found[index] = _converted(scaled, value.dtype).sum_to_size(value.shape)
            return tuple(found)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Tensor:
            inputs = _restored(operator, ctx)
            parts = [
                _converted(operator.scaled(index, tangent, inputs, False), ctx.result_dtype)
                for index, tangent in enumerate(tangents)
                if isinstance(tangent, Tensor)
            ]
            return sum(parts[1:], parts[0]).expand(ctx.result_shape)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, int]:
            return operator.batched(info.batch_size, in_dims, arguments)

    Node.__name__ = Node.__qualname__ = f"nonpu_{operator.name}"
    return Node


def _restored(operator: Operator, ctx: Any) -> tuple[Any, ...]:
    tensors = iter(ctx.saved_tensors)
    kinds = (*(parameter.is_tensor for parameter in operator.parameters), False)
    return tuple(next(tensors) if kind else value for kind, value in zip(kinds, ctx.rest, strict=True))


def _converted(value: Tensor, dtype: torch.dtype) -> Tensor:
    if value.is_complex() and not dtype.is_complex:
        value = value.real
    return value.to(dtype)


def shard() -> None:
    """Tell DTensor how the operators may be sharded, once it is there."""
    if "torch.distributed.tensor" in sys.modules:
        from nonpu.interop.torch import sharding

        sharding.register(OPERATORS)
