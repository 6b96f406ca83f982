"""``torch.ops.nonpu.*``: PyTorch's own checks, derivatives, transforms, tracing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import nonpu
import nonpu.torch
from nonpu import AclnnError, AclnnTypeError
from nonpu.interop.torch.operators import OPERATORS
from nonpu.ops import OPS
from nonpu.spec.model import Op

# PyTorch itself scripts decompositions when it first uses forward mode; its tracer tells of arguments named self.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Using `self` or `self_` as an argument:UserWarning"),
]

LEAKY: Any = nonpu.leaky_relu_backward
SIGMOID: Any = nonpu.sigmoid_backward
SWISH: Any = nonpu.swish_backward
FUNCTIONS = {"leaky_relu_backward": LEAKY, "sigmoid_backward": SIGMOID, "swish_backward": SWISH}
VMAP: Any = torch.vmap
REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    """Return random numbers that require grad, away from the corner of LeakyRelu."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    values = torch.randn(*shape, dtype=torch.complex128 if dtype.is_complex else torch.float64, generator=generator)
    if not dtype.is_complex:
        values = values + 0.1 * values.sign()
    return values.to(dtype).requires_grad_()


def scalar(value: float = 0.7, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return a number that requires grad."""
    return torch.tensor(value, dtype=dtype, requires_grad=True)


Case = tuple[Callable[..., Tensor], tuple[Tensor, ...]]
COMPLEX = torch.complex128
CASES: dict[str, Callable[[], Case]] = {
    "leaky": lambda: (lambda g, x: LEAKY(g, x, 0.1), (normal(3, 4), normal(4))),
    "leaky slope": lambda: (LEAKY, (normal(3, 4), normal(4), scalar())),
    "sigmoid": lambda: (SIGMOID, (normal(3, 1), normal(4))),
    "sigmoid complex": lambda: (SIGMOID, (normal(3, 1, dtype=COMPLEX), normal(4, dtype=COMPLEX))),
    "sigmoid real complex": lambda: (SIGMOID, (normal(3, 1), normal(4, dtype=COMPLEX))),
    "sigmoid complex real": lambda: (SIGMOID, (normal(3, 1, dtype=COMPLEX), normal(4))),
    "swish": lambda: (SWISH, (normal(3, 4), normal(4))),
    "swish 1.3": lambda: (lambda g, x: SWISH(g, x, 1.3), (normal(3, 4), normal(4))),
    "swish beta": lambda: (SWISH, (normal(3, 4), normal(4), scalar())),
    "swish strided": lambda: (lambda g, x: SWISH(g[::2], x.t()[::2]), (normal(4, 3), normal(3, 4))),
    "forward swish": lambda: (nonpu.torch.swish, (normal(3, 4),)),
    "forward swish beta": lambda: (nonpu.torch.swish, (normal(3, 4), scalar())),
    "forward leaky": lambda: (nonpu.torch.leaky_relu, (normal(3, 4),)),
    "forward leaky slope": lambda: (nonpu.torch.leaky_relu, (normal(3, 4), scalar())),
    "forward sigmoid": lambda: (nonpu.torch.sigmoid, (normal(3, 4),)),
    "forward sigmoid complex": lambda: (nonpu.torch.sigmoid, (normal(3, dtype=COMPLEX),)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradcheck(name: str) -> None:
    """Reverse and forward mode and batches of both against differences."""
    function, arguments = CASES[name]()
    batched = {"check_batched_forward_grad": True, "check_batched_grad": True}
    assert gradcheck(function, arguments, check_forward_ad=True, **batched)


@pytest.mark.parametrize("name", CASES)
def test_gradgradcheck(name: str) -> None:
    """Reverse over reverse, and forward over reverse.

    The second cannot be checked this way for the slope of LeakyRelu: gradcheck pairs the wrong outputs where one of
    several gradients is constant, as that of self is. `test_forward_over_reverse_of_the_slope` does.
    """
    function, arguments = CASES[name]()
    forward = name != "leaky slope"
    assert gradgradcheck(function, arguments, check_fwd_over_rev=forward, check_batched_grad=True)


def test_forward_over_reverse_of_the_slope() -> None:
    """What `test_gradgradcheck` leaves out: d/d grad_output of the gradient with respect to the slope."""
    grad, x = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 1.0, -2.0])

    def by_slope(grad_output: Tensor) -> Tensor:
        total: Callable[[Tensor], Tensor] = lambda slope: LEAKY(grad_output, x, slope).sum()  # noqa: E731
        result: Tensor = torch.func.grad(total)(torch.tensor(0.5))
        return result

    assert torch.equal(torch.func.jacfwd(by_slope)(grad), torch.tensor([1.0, 0.0, 1.0]))


def inputs(op: Op, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return arguments that broadcast."""
    return normal(3, 4, dtype=dtype), normal(4, dtype=dtype, seed=1)


OPERATOR_CASES = [
    pytest.param(op, dtype, id=f"{op.python_name}-{str(dtype).removeprefix('torch.')}")
    for op in OPS
    for dtype in (*REAL, torch.complex64, torch.complex128)
    if not dtype.is_complex or op.name == "SigmoidBackward"
]


@pytest.mark.parametrize(("op", "dtype"), OPERATOR_CASES)
def test_opcheck(op: Op, dtype: torch.dtype) -> None:
    """Schema, registration of autograd, shapes without values, tracing with symbolic shapes."""
    operator, tensors = getattr(torch.ops.nonpu, op.python_name), inputs(op, dtype)
    torch.library.opcheck(operator.default, tensors)
    if dtype is not torch.float32:
        return
    if op.scalar_params:
        numbers = [torch.tensor(0.5, requires_grad=True) for _ in op.scalar_params]
        torch.library.opcheck(operator.Tensor, (*tensors, *numbers))
    detached = [tensor.detach() for tensor in tensors]
    torch.library.opcheck(operator.out, tuple(detached), {"out": torch.empty(3, 4, dtype=dtype)})


@pytest.mark.parametrize("name", ["swish", "leaky_relu", "sigmoid"])
def test_opcheck_of_forward_operators(name: str) -> None:
    """The same, and with other orders of axes and gaps."""
    operator = getattr(torch.ops.nonpu, name).default
    for x in (
        normal(3, 4, dtype=torch.float32),
        normal(2, 3, 4, 5, dtype=torch.float16).detach().to(memory_format=torch.channels_last).requires_grad_(),
        normal(6, 4, dtype=torch.bfloat16).detach()[::2, 1:].requires_grad_(),
    ):
        torch.library.opcheck(operator, (x,))


@pytest.mark.parametrize(("op", "dtype"), OPERATOR_CASES)
def test_shapes_without_values_are_those_of_the_kernel(op: Op, dtype: torch.dtype) -> None:
    """Shape, type and strides, on meta and on real tensors."""
    operator = getattr(torch.ops.nonpu, op.python_name)
    whole = torch.zeros(2, 3, 4, 5, dtype=dtype)
    layouts = (whole, whole.to(memory_format=torch.channels_last), whole.transpose(1, 3), whole[:, ::2, :, 1:])
    for grad in (*layouts, torch.zeros((), dtype=dtype).expand(2, 3, 4, 5)):
        for x in (*layouts, whole[0, 0, 0], torch.zeros(2, 1, 1, 1, dtype=dtype)):
            if grad.shape != x.shape and x.dim() == 4 and x.shape[1] != 1:
                continue
            try:
                result = operator(grad, x)
            except AclnnError:
                continue
            traced = operator(
                grad.to("meta").as_strided(grad.shape, grad.stride()), x.to("meta").as_strided(x.shape, x.stride())
            )
            assert (traced.shape, traced.stride(), traced.dtype) == (result.shape, result.stride(), result.dtype)


def test_every_operator_is_there() -> None:
    """One registration for all specifications: default, Tensor where there are scalars, out."""
    for op in OPS:
        overloads = set(getattr(torch.ops.nonpu, op.python_name).overloads())
        assert overloads == {"default", "out", *(["Tensor"] if op.scalar_params else [])}
        for overload in overloads - {"out"}:
            assert set(OPERATORS[op.python_name, overload].partials) == {
                param.python_name for param in op.params if param.role == "in" and param.c_type != "bool"
            }


@pytest.mark.parametrize("beta", [1.0, 0.37, -2.5])
@pytest.mark.parametrize("dtype", REAL)
def test_second_derivative_of_swish_is_accurate(dtype: torch.dtype, beta: float) -> None:
    """Against mpmath: within one unit in the last place, or 1e-15 of the largest value for DOUBLE."""
    x = torch.linspace(-12, 12, 97, dtype=torch.float64).to(dtype).requires_grad_()
    b = torch.tensor(beta, dtype=torch.float32 if dtype is not torch.float64 else dtype, requires_grad=True)
    SWISH(torch.ones_like(x), x, b).sum().backward()
    assert x.grad is not None
    assert b.grad is not None
    with mpmath.workdps(50):
        factor = mpmath.mpf(b.item())
        sums = mpmath.mpf(0)
        for value, found in zip(x.tolist(), x.grad.double().tolist(), strict=True):
            exact, curvature = second(mpmath.mpf(value), factor)
            unit = torch.finfo(dtype).eps * max(abs(float(exact)), 2.0**-14)
            assert abs(found - exact) <= (unit if dtype is not torch.float64 else 4e-16 * 2)
            sums += curvature * value
        assert abs(b.grad.item() - sums) <= 4e-7 * abs(sums) + 1e-6 * (dtype is not torch.float64) + 1e-14


def second(x: Any, beta: Any) -> tuple[Any, Any]:
    """Return the second derivative of x s(beta x) with respect to x, and that factor without beta."""
    s = 1 / (1 + mpmath.exp(-beta * x))
    curvature = s * (1 - s) * (2 + beta * x * (1 - 2 * s))
    return beta * curvature, curvature


def test_second_derivatives_far_out_are_no_nan() -> None:
    """Where beta x overflows, the limit; where the gradient is large, no overflow on the way."""
    x = torch.tensor([-1e30, -200.0, 200.0, 1e30], requires_grad=True)
    grad = torch.full((4,), 1e38, requires_grad=True)
    SWISH(grad, x, 1e20).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0] * 4


def test_derivative_of_leaky_relu_with_respect_to_self_is_zero() -> None:
    """It is, almost everywhere, and of the shape of self."""
    grad, x = normal(3, 4), normal(4)
    LEAKY(grad, x, 0.1).sum().backward()
    assert x.grad is not None
    assert grad.grad is not None
    assert torch.equal(x.grad, torch.zeros(4, dtype=torch.float64))
    assert torch.equal(grad.grad, torch.tensor([1.0 if value > 0 else 0.1 for value in x], dtype=x.dtype).expand(3, 4))


def test_unknown_derivative_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never silently zero."""
    monkeypatch.delitem(OPERATORS["swish_backward", "default"].partials, "self")
    x = normal(3)
    with pytest.raises(NotImplementedError, match=r"nonpu.swish_backward: no derivative with respect to self is known"):
        SWISH(x.detach(), x).sum().backward()


def test_out_never_loses_a_derivative() -> None:
    """Neither mode, neither through torch.ops nor through torch.func."""
    x, out = torch.ones(3), torch.empty(3)
    message = "out .* must be None where derivatives are asked for"
    with torch.autograd.forward_ad.dual_level(), pytest.raises(AclnnError, match=message):
        SWISH(torch.autograd.forward_ad.make_dual(x, x), x, out=out)
    with pytest.raises(AclnnError, match=message):
        torch.func.jvp(lambda x: SWISH(x, x, out=torch.empty(3)), (x,), (x,))
    with pytest.raises(AclnnError, match=message):
        torch.func.grad(lambda x: SWISH(x, x, out=torch.empty(3)).sum())(x)
    with pytest.raises(AclnnError, match=message):
        torch.ops.nonpu.swish_backward.out(x.clone().requires_grad_(), x, out=out)
    with torch.autograd.forward_ad.dual_level():
        assert torch.equal(SWISH(x, x, out=out), SWISH(x, x))


def test_third_derivative_of_swish() -> None:
    """PyTorch differentiates the second one."""
    x = normal(5)
    first = SWISH(torch.ones(5, dtype=torch.float64), x, 1.5)
    (second_,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second_.sum(), x)
    with mpmath.workdps(40):
        exact = [float(mpmath.diff(lambda t: t / (1 + mpmath.exp(-1.5 * t)), value, 3)) for value in x.tolist()]
    assert np.allclose(third.numpy(), exact, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_func(name: str) -> None:
    """grad, jacrev, jacfwd, jvp, vjp and hessian agree with the formula in PyTorch's operators."""
    ours, x = FUNCTIONS[name], normal(4).detach()
    theirs = {
        "leaky_relu_backward": lambda g, x: torch.where(x > 0, g, 0.01 * g),
        "sigmoid_backward": lambda g, y: g * y * (1 - y),
        "swish_backward": lambda g, x: g * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
    }[name]
    func = torch.func

    def both(transform: Callable[[Callable[..., Any]], Any]) -> tuple[Any, Any]:
        return transform(lambda g, x: (ours(g * x, x) ** 2).sum()), transform(
            lambda g, x: (theirs(g * x, x) ** 2).sum()
        )

    grad = torch.ones(4, dtype=torch.float64)
    for transform in (
        lambda f: func.grad(f, argnums=(0, 1)),
        lambda f: func.jacrev(f, argnums=1),
        lambda f: func.jacfwd(f, argnums=1),
        lambda f: func.hessian(f, argnums=(0, 1)),
        lambda f: func.jacrev(func.jacfwd(f, argnums=1), argnums=1),
        lambda f: func.jacrev(func.jacrev(f, argnums=1), argnums=0),
        lambda f: func.vmap(func.grad(f), in_dims=(None, 0)),
        lambda f: lambda g, x: func.jvp(f, (g, x), (x, g)),
        lambda f: lambda g, x: func.vjp(f, g, x)[1](torch.tensor(2.0, dtype=torch.float64)),
    ):
        own, other = both(transform)
        arguments = (grad, x) if "vmap" not in transform.__code__.co_names else (grad[0], x)
        torch.testing.assert_close(own(*arguments), other(*arguments), rtol=1e-12, atol=1e-14)


def test_forward_inside_forward_is_an_error() -> None:
    """PyTorch would give zeros."""
    x = torch.ones(3)
    with pytest.raises(NotImplementedError, match="forward mode inside forward mode is not supported"):
        torch.func.jacfwd(torch.func.jacfwd(lambda x: SWISH(x, x).sum()))(x)


@pytest.mark.parametrize("dims", [(0, 0), (1, 0), (None, 1), (0, None), (-1, 1)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(name: str, dims: tuple[int | None, int | None]) -> None:
    """The bits of a loop, with inputs of different rank."""
    function = FUNCTIONS[name]
    grad = normal(
        *((5, 3, 4) if dims[0] == 0 else (3, 5, 4) if dims[0] == 1 else (3, 4, 5)[: 3 if dims[0] else 2])
    ).detach()
    x = normal(*((5, 4) if dims[1] == 0 else (4, 5) if dims[1] == 1 else (4,))).detach()
    result = VMAP(function, in_dims=dims)(grad, x)
    rows = [
        function(grad if dims[0] is None else grad.select(dims[0], i), x if dims[1] is None else x.select(dims[1], i))
        for i in range(5)
    ]
    assert torch.equal(result, torch.stack(rows))
    twice = torch.vmap(VMAP(function, in_dims=(0, None)), in_dims=(None, 0))(
        torch.ones(2, 4).double(), torch.ones(3, 4).double()
    )
    assert twice.shape == (3, 2, 4)


def test_vmap_over_a_scalar_and_into_out() -> None:
    """Each number makes a call of its own; `out` cannot be batched, which PyTorch says."""
    x, betas = torch.randn(3), torch.tensor([0.5, 2.0])
    expected = torch.stack([SWISH(x, x, 0.5), SWISH(x, x, 2.0)])
    assert torch.equal(VMAP(lambda beta: SWISH(x, x, beta))(betas), expected)
    with pytest.raises(RuntimeError, match="Batching rule not implemented"):
        VMAP(lambda grad: SWISH(grad, x, out=torch.empty(3)))(torch.ones(2, 3))


COMPILED: dict[str, Callable[..., Any]] = {
    "one-call": lambda g, x, b: SWISH(g, x, 1.5) + LEAKY(g, x, 0.2) + SIGMOID(g, x),
    "torch.ops": lambda g, x, b: torch.ops.nonpu.swish_backward(g, x, 1.5, product="A2") * 2,
    "modules": lambda g, x, b: nonpu.torch.sigmoid(nonpu.torch.leaky_relu(nonpu.torch.swish(g * x, b), 0.1)),
    "beta": SWISH,
    "number": lambda g, x, b: SWISH(g, x, beta=0.25),
    "number of NumPy": lambda g, x, b: SWISH(g, x, np.float32(1.5)) + LEAKY(g, x, np.float64(0.25)),
    "module with a number of NumPy": lambda g, x, b: nonpu.torch.swish(g * x, np.float32(1.5)),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compile_without_graph_breaks(name: str) -> None:
    """Values and gradients of a compiled function, also for further shapes, which become symbolic."""
    function = COMPILED[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for rows in (3, 4, 5):
        grad, x, beta = normal(rows, 4), normal(4), scalar()
        expected, result = function(grad, x, beta), compiled(grad, x, beta)
        assert torch.equal(result, expected)
        parameters = [grad, x, beta][: 3 if expected.grad_fn is not None and name in ("modules", "beta") else 2]
        for a, b in zip(*(torch.autograd.grad(y.sum(), parameters) for y in (result, expected)), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-15, atol=1e-15)


def test_compile_with_out() -> None:
    """A result that is written to a tensor of another type."""

    def function(grad: Tensor, x: Tensor) -> Tensor:
        out = torch.empty(3, 4, dtype=torch.int8)
        LEAKY(grad * 9, x, 0.5, out=out)
        return out + 1

    torch._dynamo.reset()
    grad, x = torch.randn(3, 4), torch.randn(4)
    assert torch.equal(torch.compile(function, fullgraph=True, backend="aot_eager")(grad, x), function(grad, x))


@pytest.mark.slow
def test_first_call_of_a_process_may_be_compiled() -> None:
    """Nothing but torch and nonpu imported: tracing loads the rest."""
    code = (
        "import torch, nonpu; x = torch.randn(4);"
        "f = torch.compile(lambda x: nonpu.swish_backward(x, x, 1.5), fullgraph=True, backend='aot_eager');"
        "print(torch.equal(f(x), nonpu.swish_backward(x, x, 1.5)))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout == "True\n"


def test_traced_calls_are_judged() -> None:
    """The same texts, from shapes and types alone."""
    x = torch.empty(3, 4, device="meta")
    with pytest.raises(
        AclnnError, match=r"nonpu.swish_backward: self shape must be broadcastable with \[3, 4\] \(got \[3\]\)"
    ):
        torch.ops.nonpu.swish_backward(x, x[:, 0])
    with pytest.raises(AclnnTypeError, match="self dtype must be float32"):
        torch.ops.nonpu.swish_backward(x, x.double())
    with pytest.raises(AclnnError, match="out shape must be"):
        torch.ops.nonpu.leaky_relu_backward.out(x, x, out=x[0])
    with pytest.raises(AclnnError, match="must be at least 0 if self_is_result is True"):
        torch.ops.nonpu.leaky_relu_backward(x, x, -0.5, True)


def test_a_number_that_requires_grad_is_not_lost() -> None:
    """torch.ops takes the overload that knows the derivative."""
    beta = torch.tensor(1.5, requires_grad=True)
    x = torch.randn(3)
    assert torch.ops.nonpu.swish_backward(x, x, beta).requires_grad
    with pytest.raises(AclnnError, match="must be a number or a tensor of rank 0"):
        torch.ops.nonpu.swish_backward(x, x, torch.ones(1))


def test_gradients_of_half_precision_have_its_type() -> None:
    """And are summed over what was broadcast."""
    for dtype in (torch.float16, torch.bfloat16):
        grad, x = normal(64, 4, dtype=dtype), normal(4, dtype=dtype)
        SWISH(grad, x).sum().backward()
        assert x.grad is not None
        assert x.grad.dtype is dtype
        wide_grad, wide_x = grad.detach().double(), x.detach().double().requires_grad_()
        SWISH(wide_grad, wide_x).sum().backward()
        assert wide_x.grad is not None
        torch.testing.assert_close(x.grad.double(), wide_x.grad, rtol=torch.finfo(dtype).eps, atol=1e-6)
