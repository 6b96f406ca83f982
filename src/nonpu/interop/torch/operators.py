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
PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter})
"""Types whose memory is the tensor's value; any other may override what operators do."""
OPERATORS: Final[dict[tuple[str, str], Operator]] = {}
"""Every overload that has derivatives, by name and overload."""


def observed(tensors: list[Tensor]) -> bool:
    """Return whether something other than reverse mode has to see a call with these tensors."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._is_tracing()  # torch.jit.trace, which would record the allocation of the result alone
        or not all(type(tensor) in PLAIN and tensor.is_cpu and torch._C._has_storage(tensor) for tensor in tensors)
    )


def differentiated(tensors: list[Tensor]) -> bool:
    """Return whether reverse or forward mode wants derivatives with respect to one of the tensors."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    if forward_ad._current_level < 0 or not torch._C._is_fwd_grad_enabled():
        return False
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


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


PRODUCT: Final = Parameter("product", "str?", None)
"""The last parameter of every schema."""


class Operator:
    """One overload of an elementwise function.

    Parameters
    ----------
    name, overload : str
        ``swish_backward``; ``default`` or ``Tensor``.
    parameters
        In order.
    kernel : callable
        Takes plain CPU tensors and, behind the other parameters, the product; returns a new tensor.
    shapes : callable
        The same on tensors without values.
    partials : dict
        The derivatives, by parameter.
    linear : int or None
        Position of the parameter in which it is linear.
    keeps_result : bool
        Whether the derivatives are functions of the result, which then follows the arguments.
    """

    def __init__(
        self,
        name: str,
        overload: str,
        parameters: tuple[Parameter, ...],
        kernel: Callable[..., Tensor],
        shapes: Callable[..., Tensor],
        partials: dict[str, Partial],
        linear: int | None = None,
        keeps_result: bool = False,
    ) -> None:
        self.name = name
        self.keeps_result = keeps_result
        self.linear = linear
        self.parameters = parameters
        self.partials = partials
        self.kernel = kernel
        qualified = name if overload == "default" else f"{name}.{overload}"
        LIBRARY.define(f"{qualified}({', '.join(map(str, (*parameters, PRODUCT)))}) -> Tensor", tags=TAGS)
        LIBRARY.impl(qualified, kernel, "CPU")
        torch.library.register_fake(f"{NAMESPACE}::{qualified}", shapes, lib=LIBRARY)
        self.call = getattr(getattr(torch.ops.nonpu, name), overload)
        self.node = _node(self)
        LIBRARY.impl(qualified, self._autograd, "Autograd", with_keyset=True)
        LIBRARY.impl(qualified, self._transform, "FuncTorchDynamicLayerFrontMode")
        OPERATORS[name, overload] = self

    def __call__(self, *inputs: Any) -> Tensor:
        """Run a call, the product last; through PyTorch's dispatcher only if that has more to do than reverse mode."""
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        if observed(tensors) or torch.overrides.has_torch_function(inputs):  # not only tensors: torch.fx's proxies
            result: Tensor = self.call(*inputs)
        elif torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            result = self.node.apply(*inputs)
        else:
            result = self.kernel(*inputs)
        return result

    def _autograd(self, keys: Any, *given: Any) -> Tensor:
        """Record the call if somebody asks for derivatives, then go on to the kernel."""
        tensors = [argument for argument in given if isinstance(argument, Tensor)]
        reverse = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if any(type(tensor) is not Tensor for tensor in tensors):
            shard()
        if reverse or (forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()):
            result: Tensor = self.node.apply(*self._filled(given))
            return result
        with torch._C._AutoDispatchBelowAutograd():
            result = self.call.redispatch(keys & torch._C._after_autograd_keyset, *given)
        return result

    def _transform(self, *given: Any) -> Tensor:
        """Let the transforms of torch.func work on the node, which knows their rules."""
        forward = torch._C._functorch.TransformType.Jvp
        levels = [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()]
        if levels.count(forward) > 1:
            # PyTorch would give zeros: the tangents of a Function's jvp have no tangents.
            raise NotImplementedError(
                f"nonpu.{self.name}: forward mode inside forward mode is not supported by PyTorch's custom functions"
                " (jacrev inside jacfwd and jacfwd inside jacrev are)"
            )
        result: Tensor = self.node.apply(*self._filled(given))
        return result

    def _filled(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all arguments: the dispatcher leaves out those at the end that are defaults."""
        return (*given, *(parameter.default for parameter in (*self.parameters, PRODUCT)[len(given) :]))

    def scaled(self, index: int, v: Tensor, saved: tuple[Any, ...], product: str | None, conjugate: bool) -> Tensor:
        """Return `v` times the partial derivative with respect to a parameter."""
        name = self.parameters[index].name
        partial = self.partials.get(name)
        if partial is None:
            raise NotImplementedError(f"nonpu.{self.name}: no derivative with respect to {name} is known")
        return partial(v, saved, product, conjugate)

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
            return torch.stack([self(*row, product) for row in rows]), 0
        arrays = [index for index, parameter in enumerate(self.parameters) if parameter.is_array]
        rank = max(arguments[index].dim() - (index in indices) for index in arrays)
        for index in indices:
            value = arguments[index]
            arguments[index] = value.reshape(size, *[1] * (rank + 1 - value.dim()), *value.shape[1:])
        return self(*arguments, product), 0


def _node(operator: Operator) -> type[Function]:
    """Return the function that knows the derivatives and the batching of an operator."""

    class Node(Function):
        @staticmethod
        def forward(*arguments: Any) -> Tensor:
            return operator(*arguments)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            tensors = [value for value in inputs if isinstance(value, Tensor)]
            if operator.keeps_result:
                tensors.append(output)
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.rest = [None if isinstance(value, Tensor) else value for value in inputs[:-1]]
            ctx.product = inputs[-1]
            ctx.result_shape, ctx.result_dtype = output.shape, output.dtype

        @staticmethod
        def backward(ctx: Any, *outputs: Any) -> Any:
            inputs, saved = _restored(operator, ctx)
            found: list[Tensor | None] = [None] * (len(inputs) + 1)
            for index, value in enumerate(inputs):
                if isinstance(value, Tensor) and ctx.needs_input_grad[index]:
                    scaled = operator.scaled(index, outputs[0], saved, ctx.product, True)
                    # Sums of what is still DOUBLE round once.
                    found[index] = _converted(scaled.sum_to_size(value.shape), value.dtype)
            return tuple(found)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Tensor:
            _, saved = _restored(operator, ctx)
            parts = [
                _converted(operator.scaled(index, tangent, saved, ctx.product, False), ctx.result_dtype)
                for index, tangent in enumerate(tangents)
                if isinstance(tangent, Tensor)
            ]
            return sum(parts[1:], parts[0]).expand(ctx.result_shape)

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, int]:
            return operator.batched(info.batch_size, in_dims, arguments)

    # Graphs show the name that the class is made with.
    return type(f"nonpu_{operator.name}", (Node,), {})


def _restored(operator: Operator, ctx: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the arguments, and what the derivatives are functions of."""
    tensors = iter(ctx.saved_tensors)
    pairs = zip(operator.parameters, ctx.rest, strict=True)
    arguments = tuple(next(tensors) if parameter.is_tensor else value for parameter, value in pairs)
    return arguments, (*arguments, *tensors)


def _converted(value: Tensor, dtype: torch.dtype) -> Tensor:
    if value.is_complex() and not dtype.is_complex:
        value = value.real
    return value.to(dtype)


def shard() -> None:
    """Tell DTensor how the operators may be sharded, once it is there."""
    if "torch.distributed.tensor" in sys.modules:
        from nonpu.interop.torch import sharding

        sharding.register(OPERATORS.values())
