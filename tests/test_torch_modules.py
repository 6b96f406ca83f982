"""The module ``nonpu.torch``: values against mpmath and PyTorch, gradients from our kernels, and a module's manners."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor, nn

import nonpu
import nonpu.torch
from nonpu.torch import LeakyReLU, Sigmoid, Swish, leaky_relu, sigmoid, swish

REAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def grid(dtype: torch.dtype, limit: float = 80.0) -> Tensor:
    """Return arguments of all sizes, both signs, zeros."""
    sizes = torch.logspace(-6, 1.9, 60, dtype=torch.float64).clamp(max=limit)
    return torch.cat([-sizes, torch.tensor([0.0, -0.0], dtype=torch.float64), sizes]).to(dtype)


def units(found: Tensor, exact: list[Any]) -> float:
    """Return the largest error in units in the last place of normal numbers."""
    finfo = torch.finfo(found.dtype)
    worst = 0.0
    for value, reference in zip(found.double().tolist(), exact, strict=True):
        size = max(abs(reference), mpmath.mpf(finfo.tiny))
        unit = finfo.eps * mpmath.mpf(2) ** mpmath.floor(mpmath.log(size, 2))
        worst = max(worst, float(abs(value - reference) / unit))
    return worst


@pytest.mark.parametrize("beta", [1.0, 1.7, -0.3])
@pytest.mark.parametrize("dtype", REAL)
def test_swish_is_accurate(dtype: torch.dtype, beta: float) -> None:
    """3 units for beta = 1 (PyTorch's silu); else rounded once, but for DOUBLE, whose beta x is rounded first."""
    x = grid(dtype, 40.0)
    with mpmath.workdps(40):
        factor = mpmath.mpf(beta if dtype is torch.float64 else torch.tensor(beta).item())
        exact = [value / (1 + mpmath.exp(-factor * value)) for value in map(mpmath.mpf, x.double().tolist())]
        bound = 3 if beta == 1.0 else 40 if dtype is torch.float64 else 0.51
        assert units(swish(x, beta), exact) <= bound
        assert torch.equal(swish(x, torch.tensor(beta, dtype=torch.float64)), swish(x, beta))


@pytest.mark.parametrize("dtype", REAL)
def test_leaky_relu_and_sigmoid_are_accurate(dtype: torch.dtype) -> None:
    """One rounding, and 3 units."""
    x = grid(dtype)
    with mpmath.workdps(40):
        slope = mpmath.mpf(0.3 if dtype is torch.float64 else torch.tensor(0.3).item())
        values = list(map(mpmath.mpf, x.double().tolist()))
        assert units(leaky_relu(x, 0.3), [value if value > 0 else slope * value for value in values]) <= 0.51
        assert units(sigmoid(x), [1 / (1 + mpmath.exp(-value)) for value in values]) <= 3


def test_blocks_of_swish_join() -> None:
    """More elements than one block, in several layouts: the bits of one element alone."""
    x = torch.randn(3, 50_000)
    expected = swish(x[:, 1234].clone(), 1.5)
    for given in (x, x.t().contiguous().t(), torch.stack([x, x], 2)[:, :, 1]):
        assert torch.equal(swish(given, 1.5)[:, 1234], expected)


@pytest.mark.parametrize("dtype", REAL)
def test_backward_runs_our_kernels(dtype: torch.dtype) -> None:
    """The gradients are the bits of the one-call functions."""
    x, grad = grid(dtype).requires_grad_(), torch.linspace(-2, 2, 122, dtype=torch.float64).to(dtype)
    pairs: list[tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = [
        (lambda x: swish(x, 1.7), lambda x: nonpu.swish_backward(grad, x, 1.7)),
        (lambda x: leaky_relu(x, 0.3), lambda x: nonpu.leaky_relu_backward(grad, x, 0.3)),
        (sigmoid, lambda x: nonpu.sigmoid_backward(grad, torch.sigmoid(x))),
    ]
    for forward, backward in pairs:
        (found,) = torch.autograd.grad(forward(x), x, grad)
        assert torch.equal(found, backward(x.detach()))


@pytest.mark.parametrize("dtype", REAL)
def test_gradient_of_beta_is_accurate(dtype: torch.dtype) -> None:
    """The sum of g x**2 s (1 - s), of many terms that cancel, to the precision of beta."""
    generator = torch.Generator().manual_seed(5)
    x = (torch.randn(20_000, dtype=torch.float64, generator=generator) * 8).to(dtype)
    grad = torch.randn(20_000, dtype=torch.float64, generator=generator).to(dtype)
    beta = torch.tensor(1.3, dtype=torch.float64 if dtype is torch.float64 else torch.float32, requires_grad=True)
    swish(x, beta).backward(grad)
    with mpmath.workdps(40):
        factor = mpmath.mpf(beta.item())
        terms = []
        for value, weight in zip(x.double().tolist(), grad.double().tolist(), strict=True):
            s = 1 / (1 + mpmath.exp(-factor * value))
            terms.append(weight * mpmath.mpf(value) ** 2 * s * (1 - s))
        exact, scale = mpmath.fsum(terms), mpmath.fsum(map(abs, terms))
        assert beta.grad is not None
        assert abs(beta.grad.item() - exact) <= torch.finfo(beta.dtype).eps * abs(exact) + 1e-15 * scale


def test_gradient_of_beta_does_not_overflow() -> None:
    """Where x**2 would, or where the sigmoid is 0."""
    x = torch.tensor([-1e30, -200.0, 200.0, 1e30, 0.0])
    beta = torch.tensor(1.0, requires_grad=True)
    swish(x, beta).sum().backward()
    assert beta.grad is not None
    assert beta.grad.item() == 0.0


def test_trainable_parameters_learn() -> None:
    """Beta of another Swish is found, and a slope."""
    x = torch.linspace(-3, 3, 200)
    model = Swish(0.5, trainable=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (swish(x, 1.8) - model(x)).square().mean().backward()
        optimizer.step()
    assert isinstance(model.beta, nn.Parameter)
    assert abs(model.beta.item() - 1.8) < 1e-2
    slope = torch.tensor(0.5, requires_grad=True)
    leaky_relu(x, slope).sum().backward()
    assert slope.grad is not None
    torch.testing.assert_close(slope.grad, x[x <= 0].sum())


MODULES = {
    "Swish(beta=1)": Swish(),
    "Swish(beta=1.5)": Swish(1.5),
    "Swish(beta=1.5, trainable=True)": Swish(1.5, trainable=True),
    "LeakyReLU(negative_slope=0.2)": LeakyReLU(0.2),
    "Sigmoid()": Sigmoid(),
}


@pytest.mark.parametrize("text", MODULES)
def test_modules_have_the_manners_of_modules(text: str) -> None:
    """repr, state_dict, deepcopy, pickle, and a compiled copy give the same."""
    module, x = MODULES[text], torch.randn(3, 4)
    assert repr(module) == text
    assert list(module.state_dict()) == (["beta"] if "trainable" in text else [])
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(other) == text
        assert torch.equal(other(x), module(x))
    fresh = type(module)() if "trainable" not in text else Swish(trainable=True)
    fresh.load_state_dict(module.state_dict())
    torch._dynamo.reset()
    assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(x), module(x))


def test_state_is_loaded_and_converted() -> None:
    """A parameter of rank 0 that follows the module's type."""
    module = Swish(2.0, trainable=True, dtype=torch.float64)
    other = Swish(trainable=True).double()
    other.load_state_dict(module.state_dict())
    assert repr(other) == "Swish(beta=2, trainable=True)"
    half = other.to(torch.float16)
    result = half(torch.ones(3, dtype=torch.float16))
    result.sum().backward()
    assert isinstance(half.beta, nn.Parameter)
    assert half.beta.grad is not None
    assert half.beta.grad.dtype is torch.float16


def test_autocast_leaves_types_alone() -> None:
    """A bfloat16 tensor from a matrix product stays bfloat16 on the way through and back; FLOAT stays FLOAT."""
    linear, module = nn.Linear(4, 4), Swish(1.5, trainable=True)
    x = torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = linear(x)
        result = module(hidden)
        assert module(x).dtype is torch.float32
    assert hidden.dtype is result.dtype is torch.bfloat16
    result.sum().backward()
    assert linear.weight.grad is not None
    assert linear.weight.grad.dtype is torch.float32
    assert isinstance(module.beta, nn.Parameter)
    assert module.beta.grad is not None


def test_double_backward_of_modules() -> None:
    """A penalty on a gradient, as in training with one: against PyTorch's own formula."""
    x = torch.randn(6, dtype=torch.float64, requires_grad=True)
    found = []
    for function in (lambda x: swish(x, 1.5), lambda x: x * torch.sigmoid(1.5 * x)):
        (grad,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.square().sum(), x)[0])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-14)


def test_checkpointing_and_hooks() -> None:
    """Recomputation in the backward pass."""
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(5, requires_grad=True)
    (expected,) = torch.autograd.grad(swish(x, 1.5).sum(), x)
    (found,) = torch.autograd.grad(checkpoint(swish, x, 1.5, use_reentrant=False).sum(), x)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: swish(torch.ones(3, dtype=torch.int64)), "nonpu.torch.swish: dtype of self must be one of float16"),
        (lambda: leaky_relu(torch.ones(3, dtype=torch.complex64)), "nonpu.torch.leaky_relu: dtype of self must be one"),
        (lambda: swish(torch.ones(3), "1"), r"nonpu.torch.swish: beta must be a real number \(got str\)"),  # type: ignore[arg-type]
        (
            lambda: swish(torch.ones(3), torch.tensor(1j)),
            r"nonpu.torch.swish: beta must be a real number \(got complex\)",
        ),
        (lambda: swish(torch.ones(3), torch.ones(1)), r"beta must be of rank 0 \(got a tensor of rank 1\)"),
        (lambda: swish(None), r"nonpu.torch.swish: input must be a strided tensor \(got NoneType\)"),  # type: ignore[arg-type]
        (lambda: sigmoid([0.5]), r"nonpu.torch.sigmoid: input must be a strided tensor \(got list\)"),  # type: ignore[arg-type]
        (lambda: swish(torch.ones(3).numpy()), r"input must be a strided tensor \(got ndarray\)"),  # type: ignore[arg-type]
        (lambda: leaky_relu(torch.ones(3).to_sparse()), r"a strided tensor \(got one of layout torch.sparse_coo\)"),
        (
            lambda: swish(torch.nested.as_nested_tensor([torch.ones(3)])),
            r"swish: self must be one tensor \(got a nested",
        ),
        (lambda: swish(torch.ones(3), 10**400), r"beta must be in the range of float64 \(got an int of 1329 bits\)"),
        (lambda: Swish("a"), r"nonpu.torch.Swish: beta must be a real number \(got str\)"),  # type: ignore[arg-type]
        (lambda: LeakyReLU(None), r"LeakyReLU: negative_slope must be a real number \(got NoneType\)"),  # type: ignore[arg-type]
        (
            lambda: Swish(torch.tensor(1.0, requires_grad=True)),  # type: ignore[arg-type]
            r"nonpu.torch.Swish: beta must be a number \(got a tensor that requires grad, which the module would not",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_refusals(call: Callable[[], object], text: str) -> None:
    """One line each."""
    with pytest.raises((TypeError, ValueError), match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_modules_made_on_meta() -> None:
    """The parameter has no value until it gets its first one, as deferred initialisation does it."""
    module = Swish(1.5, trainable=True, device="meta")
    assert repr(module) == "Swish(beta=..., trainable=True)"
    assert module(torch.ones(2, 3, device="meta")).shape == (2, 3)
    real = module.to_empty(device="cpu")
    real.reset_parameters()
    assert repr(real) == "Swish(beta=1.5, trainable=True)"
    constant = Swish(1.5)
    constant.reset_parameters()
    assert repr(constant) == "Swish(beta=1.5)"


def test_without_pytorch_the_import_says_what_to_install() -> None:
    """One line, not a traceback of ours."""
    code = "import sys; sys.modules['torch'] = None; import nonpu.torch"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = finished.stderr.splitlines()[-1].partition(": ")[2]
    assert last.startswith("nonpu.torch: PyTorch must be installed, as pip install 'nonpu[torch]' does")


def test_product_is_checked_in_the_backward_pass() -> None:
    """BFLOAT16 on a product without it."""
    x = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    result = swish(x, product="Ascend910A")
    with pytest.raises(TypeError, match=r"nonpu.swish_backward: .*dtype must be"):
        result.sum().backward()
