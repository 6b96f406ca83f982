"""What PyTorch records of a call: traces of TorchScript and graphs of torch.fx compute the operators."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import nonpu
from nonpu.torch import LeakyReLU, Sigmoid, Swish, leaky_relu, sigmoid, swish

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:.*torch.jit:FutureWarning")

CALLS: dict[str, Callable[..., Any]] = {
    "swish_backward": lambda g, x: nonpu.swish_backward(g, x, 1.5),
    "leaky_relu_backward": lambda g, x: nonpu.leaky_relu_backward(g, x, 0.25, True),
    "sigmoid_backward": nonpu.sigmoid_backward,
    "views": lambda g, x: nonpu.sigmoid_backward(g[:, :1], x.t()[0]),
    "beta": lambda g, x: nonpu.swish_backward(g, x, g.mean()),
    "swish": lambda g, x: swish(x, 1.5) * g,
    "leaky_relu": lambda g, x: leaky_relu(x, 0.25) * g,
    "sigmoid": lambda g, x: sigmoid(x) * g,
    "out": lambda g, x: nonpu.swish_backward(g, x, out=torch.zeros_like(x)) * 2,  # the last: it has no derivative
}


def pair(seed: int, rows: int = 4) -> tuple[Tensor, Tensor]:
    """Return two tensors of random numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 4, generator=generator)


@pytest.mark.parametrize(("name", "requires_grad"), [(name, want) for name in CALLS for want in (False, True)][:-1])
def test_traces_compute_the_operators(name: str, requires_grad: bool) -> None:
    """On other values than the traced ones, saved and loaded; with the derivatives."""
    function, (g, x) = CALLS[name], pair(1)
    saved = io.BytesIO()
    torch.jit.save(torch.jit.trace(function, (g, x.clone().requires_grad_(requires_grad))), saved)
    saved.seek(0)
    traced = torch.jit.load(saved)
    g, x = pair(2)
    twin = x.clone().requires_grad_(requires_grad)
    x.requires_grad_(requires_grad)
    expected = function(g, x)
    for _ in range(2):  # the second call of a trace is optimised
        found = traced(g, twin)
        assert torch.equal(found, expected)
    if requires_grad and name != "leaky_relu_backward":
        found.sum().backward()
        expected.sum().backward()
        assert twin.grad is not None
        assert x.grad is not None
        assert torch.equal(twin.grad, x.grad)


def model() -> nn.Module:
    """Return one with every module."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 4), Swish(1.5, trainable=True), LeakyReLU(0.1), Swish(), Sigmoid())


def test_traces_of_modules() -> None:
    """With another number of rows, and after the parameter has changed."""
    module, (g, x) = model(), pair(1)
    traced = torch.jit.trace(module, g)
    with torch.no_grad():
        module[1].beta.fill_(2.5)  # type: ignore[index]
        traced.get_parameter("1.beta").fill_(2.5)
    x = pair(4, 7)[0]
    assert torch.equal(traced(x), module(x))


def test_graphs_of_torch_fx() -> None:
    """The functions take what stands for a tensor while a graph is made."""
    module, (_, x) = model(), pair(1)
    graph = torch.fx.symbolic_trace(module)
    targets = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    assert targets == {"nonpu.swish.Tensor", "nonpu.leaky_relu.default", "nonpu.swish.default", "nonpu.sigmoid.default"}
    assert torch.equal(graph(x), module(x))
