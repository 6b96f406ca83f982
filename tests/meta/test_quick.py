"""The arithmetic in single doubles decides nothing that the careful one would decide otherwise."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from nonpu.dtypes import DType
from nonpu.verify import quick, rounding
from nonpu.verify.golden import oracle

NARROW = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT)


def elements(dtype, count, seed):
    """Every kind of number: bit patterns at random, common magnitudes, exact ties' neighbours, special values."""
    rng = np.random.default_rng(seed)
    layout = rounding.LAYOUTS[dtype]
    bits = rng.integers(0, 1 << layout.width, count, dtype=np.uint64).astype(layout.storage)
    found = rounding.from_bits(bits, dtype)
    found[::2] = (rng.normal(size=found[::2].size) * 4).astype(found.dtype)
    found[::10] = (rng.integers(-16, 17, found[::10].size) / 8).astype(found.dtype)
    special = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, -1.2784645427610738, 700.0, -700.0, -104.0]
    found[: len(special)] = np.array(special).astype(found.dtype)
    return rng.permutation(found)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.python_name)
@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("leaky_relu_backward", (0.01,)),
        ("leaky_relu_backward", (math.inf,)),
        ("sigmoid_backward", ()),
        ("swish_backward", (1.0,)),
        ("swish_backward", (-37.5,)),
        ("swish_backward", (1e-30,)),
        ("swish_backward", (math.nan,)),
    ],
)
def test_quick_and_careful_results_are_the_same_bits(name, scalars, dtype):
    with np.errstate(all="ignore"):
        grad, x = elements(dtype, 20_000, 1), elements(dtype, 20_000, 2)
        judge = oracle(name)
        (careful,) = judge._careful([grad, x], scalars, dtype)
    found = judge.golden([grad, x], scalars, dtype, dtype)
    assert found.tobytes() == careful.tobytes()


def test_quick_and_careful_complex_results_are_the_same_bits():
    with np.errstate(all="ignore"):
        parts = [elements(DType.FLOAT, 10_000, seed) for seed in range(4)]
        grad, y = np.empty(10_000, np.complex64), np.empty(10_000, np.complex64)
        grad.real, grad.imag, y.real, y.imag = parts
        judge = oracle("sigmoid_backward")
        careful = judge._careful([grad, y], (), DType.COMPLEX64)
    found = judge.golden([grad, y], (), DType.COMPLEX64, DType.COMPLEX64)
    assert found.real.tobytes() == careful[0].tobytes()
    assert found.imag.tobytes() == careful[1].tobytes()


def test_nothing_but_doubtful_elements_takes_the_careful_way(monkeypatch):
    """Among random FLOAT arguments hardly any is doubtful; else the speed would be that of the careful arithmetic."""
    rng = np.random.default_rng(3)
    grad, x = (rng.uniform(-3, 3, 50_000).astype(np.float32) for _ in range(2))
    judge = oracle("swish_backward")
    monkeypatch.setattr(judge, "_careful", lambda arrays, *_: pytest.fail(f"{arrays[0].size} elements"))
    judge.golden([grad, x], (1.1,), DType.FLOAT, DType.FLOAT)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.python_name)
def test_narrowing_rounds_once(dtype):
    """Doubles at, and a unit beside, the ties of the type, at both ends of its range too, against rational numbers."""
    rng = np.random.default_rng(4)
    layout = rounding.LAYOUTS[dtype]
    bits = rng.integers(0, layout.infinity, 300, dtype=np.uint64)
    bits[:4] = 0, 1, layout.infinity - 1, (1 << (layout.precision - 1)) - 1
    low = [rounding.decode_bits(int(pattern), dtype) for pattern in bits]
    high = [rounding.decode_bits(int(pattern) + 1, dtype) for pattern in bits]
    high = [b if math.isfinite(b) else 2.0**layout.largest for b in high]
    ties = np.array([(a + b) / 2 for a, b in zip(low, high, strict=True)])
    wide = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, 0), np.array(low), rng.normal(size=99)])
    wide = np.concatenate([wide, -wide, [math.inf, -math.inf, math.nan, -math.nan, 1e300, -1e-320]])
    with np.errstate(all="ignore"):
        found = quick.narrow(wide, dtype).view(layout.storage)
    assert found.tolist() == [rounding.nearest_bits(float(value), dtype) for value in wide]


def test_the_exponential_is_better_than_its_bound():
    """The bound of NumPy's exp that the arithmetic assumes, against mpmath; less than a hundredth of it is used."""
    arguments = np.random.default_rng(5).uniform(-600, 600, 2000)
    with mpmath.workprec(200):
        for argument, found in zip(arguments, np.exp(arguments), strict=True):
            exact = mpmath.exp(mpmath.mpf(float(argument)))
            assert abs(mpmath.mpf(float(found)) / exact - 1) < quick.EXP / 100


def test_documented_formula_is_literal():
    """Where the device's arithmetic in FLOAT overflows it gives 0 or NaN; the correct value is something else."""
    swish = oracle("swish_backward")
    grad, x = np.ones(3, np.float32), np.array([-97.5, 1e30, 3.0], np.float32)
    documented = swish.documented([grad, x], (1e10,), DType.FLOAT, DType.FLOAT)
    assert np.isnan(documented[1])
    assert swish.golden([grad, x], (1e10,), DType.FLOAT, DType.FLOAT)[1] == 1
    documented = swish.documented([grad, x], (1.0,), DType.FLOAT, DType.FLOAT)
    assert documented[0] == 0
    assert swish.golden([grad, x], (1.0,), DType.FLOAT, DType.FLOAT)[0] < 0


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.python_name)
def test_documented_formula_equals_torch_float_arithmetic(dtype):
    """The device's order of operations, in PyTorch's FLOAT arithmetic; exp, which is not its, taken from mpmath."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    grad, x = (rng.uniform(-8, 8, 500).astype(rounding.numpy_dtype(dtype)) for _ in range(2))
    g, v = (torch.tensor(rounding.decode(array).astype(np.float32)) for array in (grad, x))
    t = v * torch.tensor(np.float32(1.3))
    with mpmath.workprec(100):
        exponential = torch.tensor([float(np.float32(float(mpmath.exp(-mpmath.mpf(float(one)))))) for one in t])
    p = 1 / (1 + exponential)
    kind = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}[dtype.python_name]
    expected = {
        "swish_backward": (((1 - p) * t) * p + p) * g,
        "sigmoid_backward": ((1 - v) * g) * v,
        "leaky_relu_backward": torch.where(v > 0, g, g * torch.tensor(np.float32(1.3))),
    }
    for name, result in expected.items():
        scalars = () if name.startswith("sigmoid") else (1.3,)
        found = oracle(name).documented([grad, x], scalars, dtype, dtype)
        assert rounding.decode(found).tolist() == result.to(kind).double().tolist()


def test_golden_of_any_size_and_layout_is_that_of_its_elements():
    """Runs of 16 Ki elements, broadcasting and strides change nothing."""
    rng = np.random.default_rng(7)
    grad, x = rng.normal(size=(300, 1, 70)).astype(np.float16), rng.normal(size=(5, 140)).astype(np.float32)[:, ::2]
    judge = oracle("swish_backward")
    found = judge.golden([grad, x], (1.5,), DType.FLOAT, DType.FLOAT16)
    wide, other = (np.ascontiguousarray(array) for array in np.broadcast_arrays(grad, x))
    single = [judge.golden([wide[i], other[i]], (1.5,), DType.FLOAT, DType.FLOAT16) for i in range(300)]
    assert found.shape == (300, 5, 70)
    assert found.tobytes() == np.stack(single).tobytes()
