"""One-call functions on PyTorch's tensors: the bits of the other faces, layouts, `out`, refusals, memory."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from nonpu._core import lib

import nonpu
from nonpu import AclnnError, AclnnTypeError, Scalar
from nonpu.dtypes import INTEGERS, DType
from nonpu.interop.torch import call
from nonpu.spec.model import Op
from tests.layouts import FORWARD, Layout, patterns
from tests.tensors import array_of, tensor_of
from tests.test_faces import NUMPY, SCALARS, bits, cases, views

SHAPE = (3, 4, 5)
LEAKY: Any = nonpu.leaky_relu_backward
SIGMOID: Any = nonpu.sigmoid_backward
SWISH: Any = nonpu.swish_backward


def scalars_of(op: Op) -> dict[str, Any]:
    """Return the scalars of the table of faces by the names of the one-call functions."""
    return {param.python_name: np.float32(SCALARS[param.name]) for param in op.scalar_params}


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize(("op", "dtype"), cases())
def test_tensors_give_the_bits_of_arrays(op: Op, dtype: DType, layout: str) -> None:
    """Random bit patterns: called for the first time, from memory, with `out`, and through torch.ops."""
    grad, primal, out = views(dtype, layout)
    function, scalars = getattr(nonpu, op.python_name), scalars_of(op)
    expected = bits(function(grad, primal, **scalars))
    tensors = tensor_of(grad), tensor_of(primal)
    for _ in range(3):
        assert bits(array_of(function(*tensors, **scalars))) == expected
        out[...] = 0
        target = tensor_of(out)
        assert function(*tensors, **scalars, out=target) is target
        assert bits(out) == expected
    numbers = {name: float(value) for name, value in scalars.items()}
    operator = getattr(torch.ops.nonpu, op.python_name)
    assert bits(array_of(operator(*tensors, **numbers))) == expected
    out[...] = 0
    operator.out(*tensors, **numbers, out=tensor_of(out))
    assert bits(out) == expected
    if scalars:
        ranks_zero = {name: torch.tensor(value) for name, value in scalars.items()}
        assert bits(array_of(operator(*tensors, **ranks_zero))) == expected
        assert bits(array_of(function(*tensors, **ranks_zero))) == expected


@pytest.mark.parametrize("layout", FORWARD, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda d: d.__name__)
def test_layouts_neither_copy_nor_spill(layout: Layout, dtype: Any) -> None:
    """Inputs and output of a layout: the bits of contiguous arrays, and nothing written beside the output."""
    grad, x = patterns(dtype, SHAPE, 1), patterns(dtype, SHAPE, 2)
    expected = bits(SWISH(grad, x, 1.3))
    out = layout.empty(SHAPE, dtype)
    for _ in range(2):
        SWISH(tensor_of(layout.place(grad).view), tensor_of(layout.place(x).view), 1.3, out=tensor_of(out.view))
        assert bits(out.view) == expected
        assert (out.gaps() == 0xA5).all()


@pytest.mark.parametrize("dtype", [*INTEGERS, DType.BOOL, DType.COMPLEX64, DType.COMPLEX128], ids=lambda d: d.name)
def test_leaky_relu_converts_as_on_arrays(dtype: DType) -> None:
    """The types that only `out` can have."""
    grad, x = patterns(np.float32, SHAPE, 3), patterns(np.float32, SHAPE, 4)
    expected = LEAKY(grad, x, out=np.empty(SHAPE, dtype.python_name))
    out = torch.empty(SHAPE, dtype=getattr(torch, dtype.python_name))
    for _ in range(2):
        assert array_of(LEAKY(tensor_of(grad), tensor_of(x), out=out)).tobytes() == expected.tobytes()


def test_shapes_that_broadcast_and_views_that_repeat() -> None:
    """Rank 0, lengths of 1, expanded tensors (stride 0), empty ones."""
    grad, x = torch.randn(3, 1), torch.randn(4)
    assert torch.equal(SIGMOID(grad, x), SIGMOID(grad.expand(3, 4).contiguous(), x.repeat(3, 1)))
    assert torch.equal(SIGMOID(torch.ones(()).expand(3, 4), x), SIGMOID(torch.ones(3, 4), x.repeat(3, 1)))
    result = SWISH(torch.tensor(2.0), torch.tensor(0.0))
    assert result.shape == ()
    assert result.item() == 1.0
    assert SWISH(torch.ones(0, 3), torch.ones(0, 3)).shape == (0, 3)


def test_results_keep_the_order_of_axes() -> None:
    """As PyTorch's own operators: channels_last stays, transposed stays, expanded gradients do not count."""
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for _ in range(2):
        assert SWISH(x, x).is_contiguous(memory_format=torch.channels_last)
        assert SWISH(torch.ones(()).expand(x.shape), x).stride() == x.stride()
        assert SWISH(x.contiguous(), x).is_contiguous()
        assert SWISH(torch.ones(5, 4).t(), torch.ones(5, 4).t()).stride() == (1, 4)
        assert LEAKY(torch.ones(2, 3)[:, ::2], torch.ones(2, 2)).stride() == (2, 1)


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_lazy_conjugates_and_negatives_are_resolved(known: bool) -> None:
    """Views whose elements PyTorch conjugates or negates when it reads them, as inputs and as output."""
    y = torch.randn(5, 7, dtype=torch.complex64)
    x = torch.randn(5, 7)
    if known:  # the same layouts without the bits: what is remembered of these must not be used
        SIGMOID(y, y), LEAKY(y.imag, x), SIGMOID(y, y, out=torch.empty_like(y))
        SIGMOID(y.clone(), y.clone()), LEAKY(y.clone().imag, x), SIGMOID(y, y, out=torch.empty_like(y))
    assert torch.equal(SIGMOID(y.conj(), y), SIGMOID(y.conj().resolve_conj(), y))
    assert y.conj().imag.is_neg()
    assert torch.equal(LEAKY(y.conj().imag, x), LEAKY(-y.imag, x))
    storage = torch.empty_like(y)
    SIGMOID(y, y, out=storage.conj())
    assert torch.equal(storage.conj(), SIGMOID(y, y))
    negative = torch.zeros_like(y)
    LEAKY(x, x, out=negative.conj().imag)
    assert torch.equal(negative.conj().imag, LEAKY(x, x))


def test_zeros_of_pytorch_without_memory() -> None:
    """Forward mode makes zeros that have no storage at all."""
    zero = torch._efficientzerotensor(4)
    assert torch.equal(SWISH(zero, torch.randn(4)), torch.zeros(4))


def test_values_of_scalars_are_read_anew() -> None:
    """A tensor as a number, changed between two calls; zeros of both signs."""
    grad, x = torch.ones(3), -torch.ones(3)
    slope = torch.tensor(0.5)
    assert LEAKY(grad, x, slope).tolist() == [0.5] * 3
    slope.fill_(0.25)
    assert LEAKY(grad, x, slope).tolist() == [0.25] * 3
    for _ in range(2):
        assert torch.signbit(LEAKY(grad, x, -0.0)).all()
        assert not torch.signbit(LEAKY(grad, x, 0.0)).any()


def test_overlapping_output_is_as_if_inputs_were_copied() -> None:
    """Exact aliasing and a shift by one element, also where the layouts are known."""
    for _ in range(2):
        memory, x = torch.randn(100), torch.randn(99)
        expected = SWISH(memory[:-1].clone(), x)
        assert torch.equal(SWISH(memory[:-1], x, out=memory[1:]), expected)
        expected = SWISH(x, memory[1:].clone())
        assert torch.equal(SWISH(x, memory[1:], out=x), expected)


def test_output_is_marked_as_changed() -> None:
    """Autograd notices that a saved tensor has been overwritten, by a new call and by a known one."""
    grad, x = torch.randn(4), torch.randn(4)
    for _ in range(2):
        saved, weight = torch.randn(4), torch.randn(4, requires_grad=True)
        product = (weight * saved).sum()
        SWISH(grad, x, out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_storage_stays_resizable() -> None:
    """Sharded training frees and regrows storages; a call must not pin them."""
    x = torch.randn(16)
    SWISH(x, x)
    x.untyped_storage().resize_(0)
    for _ in range(2):
        with pytest.raises(AclnnError, match=r"grad_output .* within its storage \(got a storage 64 bytes too short\)"):
            SWISH(x, x)


def test_inference_mode_and_default_device() -> None:
    """Tensors without a version counter; results on the CPU whatever the default."""
    grad, x = torch.randn(4), torch.randn(4)
    expected = SWISH(grad, x)
    for _ in range(3):
        with torch.inference_mode():
            other = torch.randn(4).copy_(x)
            assert torch.equal(SWISH(grad, other), expected)
            assert torch.equal(SWISH(grad, other, out=torch.empty(4)), expected)
        with torch.device("meta"):
            assert torch.equal(SWISH(grad, x), expected)
            assert torch.equal(SWISH(grad, x[:, None][:, 0]), expected)


def sparse() -> torch.Tensor:
    """Return a tensor without strides."""
    return torch.eye(4).to_sparse()


def exotic(dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of a type that NumPy does not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.zeros(4, 4).to(dtype)


def quantized() -> torch.Tensor:
    """Return a quantized tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.quint8)


def nested() -> torch.Tensor:
    """Return a nested tensor; PyTorch says that they are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.as_nested_tensor([torch.ones(4), torch.ones(3)])


X = torch.ones(4, 4)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "meta": (lambda: LEAKY(X.to("meta"), X), "grad_output (gradOutput) must be a tensor on the CPU (got one on meta)"),
    "sparse": (lambda: LEAKY(X, sparse()), "self must be a strided tensor (got one of layout torch.sparse_coo)"),
    "quantized": (lambda: LEAKY(X, quantized()), "self dtype must be one of float32, float16, float64, bfloat16 (got"),
    "float8": (lambda: LEAKY(exotic(torch.float8_e5m2), X), "(got torch.float8_e5m2)"),
    "complex32": (lambda: SIGMOID(exotic(torch.complex32), X), "(got torch.complex32)"),
    "array": (lambda: LEAKY(X, X.numpy()), "self must be a torch.Tensor, as the others are (got ndarray)"),
    "array first": (
        lambda: LEAKY(X.numpy(), X),
        "must be a torch.Tensor, as the others are (got ndarray)",
    ),
    "array out": (lambda: LEAKY(X, X, out=X.numpy()), "out must be a torch.Tensor, as the others are (got ndarray)"),
    "tensor out": (
        lambda: LEAKY(X.numpy(), X.numpy(), out=X),
        "must be a torch.Tensor, as the others are (got ndarray)",
    ),
    "number": (lambda: LEAKY(X, 0.5), "self must be a torch.Tensor, as the others are (got float)"),
    "list that is no array": (
        lambda: LEAKY(1.0, [torch.ones((), requires_grad=True)]),
        "self must be a list of numbers or of equally long lists (got Can't call numpy() on Tensor that requires grad.",
    ),
    "none": (lambda: LEAKY(X, None), "self must be an array (got None)"),
    "rank 1 slope": (
        lambda: LEAKY(X, X, torch.ones(1)),
        "or a tensor of rank 0 (got a tensor of rank 1)",
    ),
    "complex slope": (lambda: LEAKY(X, X, torch.tensor(1j)), "negative_slope (negativeSlope) dtype must be float32"),
    "meta slope": (
        lambda: LEAKY(X, X, torch.tensor(1.0, device="meta")),
        "must be a tensor on the CPU (got one on meta)",
    ),
    "out requires grad": (
        lambda: SWISH(X, X, out=torch.ones(4, 4, requires_grad=True)),
        "out (gradInput) must be None where derivatives are asked for (got a tensor)",
    ),
    "input requires grad": (
        lambda: SWISH(torch.ones(4, 4, requires_grad=True), X, out=torch.ones(4, 4)),
        "out (gradInput) must be None where derivatives are asked for (got a tensor)",
    ),
    "flag": (
        lambda: LEAKY(X, X, 0.5, torch.tensor(True)),
        "self_is_result (selfIsResult) must be a bool (got tensor(True))",
    ),
    "nested": (lambda: SWISH(nested(), nested()), "grad_output (gradOutput) must be one tensor (got a nested tensor)"),
    "nested out": (lambda: SWISH(X, X, out=nested()), "out (gradInput) must be one tensor (got a nested tensor)"),
    "more axes than NumPy's arrays": (
        lambda: SWISH(torch.ones((1,) * 70), torch.ones((1,) * 70)),
        "grad_output (gradOutput) rank must be at most 8 (got 70)",
    ),
    "scalar type": (
        lambda: LEAKY(X.clone().requires_grad_(), X, Scalar(1, "uint32")),
        "negative_slope (negativeSlope) dtype must be float32",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line(name: str) -> None:
    """What has no memory here, kinds that are mixed, derivatives that would be lost."""
    call_it, text = REFUSED[name]
    with pytest.raises(AclnnError) as caught:
        call_it()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("nonpu.")


CONTRACT: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "dtype": lambda t: LEAKY(t(np.ones(3, np.int32)), t(np.ones(3, np.float32))),
    "shape": lambda t: LEAKY(t(np.ones(3)), t(np.ones(4))),
    "same type": lambda t: SWISH(t(np.ones(3)), t(np.ones(3, np.float32))),
    "out shape": lambda t: SWISH(t(np.ones(3)), t(np.ones(3)), out=t(np.ones(4))),
    "out dtype": lambda t: SIGMOID(t(np.ones(3)), t(np.ones(3)), out=t(np.ones(3, np.int8))),
    "rank": lambda t: SWISH(t(np.ones((1,) * 9)), t(np.ones((1,) * 9))),
    "slope": lambda t: LEAKY(t(np.ones(3)), t(np.ones(3)), -0.5, True),
    "no number": lambda t: LEAKY(t(np.ones(3)), t(np.ones(3)), "0.5"),
    "no flag": lambda t: LEAKY(t(np.ones(3)), t(np.ones(3)), 0.5, 1),
    "product": lambda t: SIGMOID(t(np.ones(3)), t(np.ones(3)), product="Ascend310B1"),
    "no product": lambda t: SIGMOID(t(np.ones(3)), t(np.ones(3)), product="Ascend"),
    "bfloat16": lambda t: SIGMOID(
        t(np.ones(3, ml_dtypes.bfloat16)), t(np.ones(3, ml_dtypes.bfloat16)), product="Ascend910A"
    ),
    "overlap": lambda t: SWISH(
        t(np.ones((2, 3))), t(np.ones((2, 3))), out=t(np.lib.stride_tricks.as_strided(np.ones(4), (2, 3), (8, 8)))
    ),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_contract_refuses_in_the_words_of_arrays(name: str) -> None:
    """Same exception, same text."""
    caught = []
    for kind in (lambda array: array, tensor_of):
        with pytest.raises((AclnnError, ValueError)) as refused:
            CONTRACT[name](kind)
        caught.append((type(refused.value), str(refused.value)))
    assert caught[0] == caught[1]


def test_type_errors_are_type_errors() -> None:
    """As for arrays."""
    with pytest.raises(TypeError):
        LEAKY(X, X.numpy())
    with pytest.raises(AclnnTypeError):
        LEAKY(X.int(), X)


def test_subclasses_see_the_call() -> None:
    """A subclass of Tensor keeps its type; a parameter is a tensor."""

    class Sub(torch.Tensor):
        pass

    assert type(SWISH(X.as_subclass(Sub), X)) is Sub
    with torch.no_grad():
        result = SWISH(torch.nn.Parameter(X.clone()), X)
    assert type(result) is torch.Tensor
    assert not result.requires_grad


def test_import_of_nonpu_loads_no_pytorch() -> None:
    """Not even a call on arrays does."""
    code = "import sys, numpy, nonpu; nonpu.swish_backward(numpy.ones(3), numpy.ones(3)); print('torch' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"


def test_no_more_threads_than_pytorch() -> None:
    """A call on tensors follows torch.set_num_threads, down and up again."""
    own, before = lib.nonpu_get_threads(), torch.get_num_threads()
    large = torch.ones(1 << 18)
    try:
        for _ in range(2):
            torch.set_num_threads(1)
            SWISH(large, large)
            assert lib.nonpu_get_threads() == 1
            torch.set_num_threads(2)
            SWISH(large, large)
            assert lib.nonpu_get_threads() == min(call.OWN_THREADS, 2)
    finally:
        torch.set_num_threads(before)
        lib.nonpu_set_threads(own)


def test_calls_from_many_threads() -> None:
    """Results do not mix."""
    wrong = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        grad, x = torch.randn(2000, generator=generator), torch.randn(2000, generator=generator)
        expected = SWISH(grad.numpy(), x.numpy(), 1.5)
        for _ in range(200):
            if not np.array_equal(SWISH(grad, x, 1.5).numpy(), expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_table_covers_every_type() -> None:
    """The table of faces has every type that tensors of PyTorch can have."""
    assert {NUMPY[dtype] for _, dtype in (case.values for case in cases())} == set(NUMPY.values())
