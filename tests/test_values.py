"""Values of all types against the oracles: special arguments, the hard regions, random bit patterns, error bounds."""

from __future__ import annotations

import ctypes
import itertools
import math
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nonpu
from nonpu import Scalar
from nonpu.dtypes import DType
from nonpu.verify import rounding, ulp
from nonpu.verify.golden import oracle
from tests.layouts import patterns

FLOATING = [
    pytest.param(dtype, id=dtype.python_name) for dtype in (DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE)
]
COMPLEX = [pytest.param(dtype, id=dtype.python_name) for dtype in (DType.COMPLEX64, DType.COMPLEX128)]
ROOT = -1.2784645427610738  # of the derivative of x*sigma(x)

# Largest error in units in the last place. None: the correctly rounded bits, nothing else.
BOUNDS: dict[str, dict[DType, float | None]] = {
    "leaky_relu_backward": dict.fromkeys((DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE)),
    "sigmoid_backward": {
        DType.FLOAT: 1.5,
        DType.FLOAT16: None,
        DType.BFLOAT16: None,
        DType.DOUBLE: 1.5,
        DType.COMPLEX64: 3.0,
        DType.COMPLEX128: 3.0,
    },
    "swish_backward": {DType.FLOAT: 4.0, DType.FLOAT16: None, DType.BFLOAT16: None, DType.DOUBLE: 4.0},
}


def numbers(values: Sequence[float], dtype: DType) -> np.ndarray:
    """Round numbers to a type, each one of them and its negative."""
    both = np.array(values, np.float64)
    return rounding.convert(np.concatenate([both, -both]), dtype)


def extremes(dtype: DType) -> np.ndarray:
    """Return zeros, the ends of the subnormal and the normal range, infinities and NaN."""
    layout = rounding.LAYOUTS[dtype]
    normal = 1 << (layout.precision - 1)
    top = layout.infinity
    bits = [0, 1, 2, 3, normal // 2 + 1, normal - 1, normal, normal + 1, top - 2, top - 1, top, layout.nan]
    return rounding.from_bits(np.array([*bits, *(b | layout.sign for b in bits)], np.uint64), dtype)


def grid(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Return all pairs of two lists as two arrays that broadcast."""
    return [first[:, None], second[None, :]]


def assert_within_bound(name: str, arrays: list[np.ndarray], scalars: tuple, dtype: DType) -> None:
    """Compare results with the exact values: infinities and NaN where they belong, the rest within the bound."""
    actual = getattr(nonpu, name)(*arrays, *scalars)
    reference = oracle(name).reference(arrays, scalars, dtype)
    errors = ulp.errors(actual, reference, dtype)
    bound = BOUNDS[name][dtype]
    if bound is None:
        wanted = rounding.bits_of(oracle(name).golden(arrays, scalars, dtype, dtype))
        found = rounding.bits_of(actual)
        if name != "leaky_relu_backward":  # elsewhere the sign of a zero is free
            sign = rounding.LAYOUTS[dtype].sign
            found, wanted = (np.where(bits == sign, 0, bits) for bits in (found, wanted))
        wrong = found != wanted
    else:
        wrong = ~(np.abs(errors) <= bound)
    if wrong.any():
        sizes = np.where(wrong, np.abs(errors), -1)
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(sizes)), sizes.shape))
        element = index[: actual.ndim]
        expected = oracle(name).golden(arrays, scalars, dtype, dtype)[element]
        arguments = {f"argument {i}": a[element] for i, a in enumerate(np.broadcast_arrays(*arrays))}
        arguments |= {f"scalar {i}": s for i, s in enumerate(scalars)}
        report = ulp.describe(index, float(errors[index]), actual[element], expected, arguments)
        pytest.fail(f"{name}: {int(wrong.sum())} of {wrong.size} elements are wrong, the worst {report}")


SLOPES = [0.01, 0.0, -0.0, -0.25, 1.0, 1e-30, 1e-310, 3e38, 1e300, math.nan, math.inf, -math.inf]
BETAS = [None, 1.0, 0.0, -0.0, 1.702, -0.3, 1e-40, -1e30, 3e38, 1e-310, math.nan, math.inf, -math.inf, 1e300]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("slope", SLOPES)
def test_leaky_relu_at_the_ends_of_the_range(dtype, slope):
    """Both zeros, subnormals, the largest values, infinities and NaN in either argument; signs of zero included."""
    values = np.concatenate([extremes(dtype), numbers([1.0, 0.7, 1 / 3, 3e4, 1e-7], dtype)])
    assert_within_bound("leaky_relu_backward", grid(values, values), (slope,), dtype)


@pytest.mark.parametrize("dtype", FLOATING)
def test_sigmoid_at_the_ends_of_the_range(dtype):
    """Both zeros, 1 and its neighbours, subnormals, the largest values, infinities and NaN in either argument."""
    layout = rounding.LAYOUTS[dtype]
    one = rounding.nearest_bits(1, dtype)
    near_one = rounding.from_bits(np.arange(one - 9, one + 9, dtype=np.uint64), dtype)
    powers = [2.0**k for k in range(-layout.largest // 2, layout.largest // 2, max(1, layout.largest // 32))]
    values = np.concatenate([extremes(dtype), near_one, numbers([0.5, 0.3, 2, 3, *powers], dtype)])
    assert_within_bound("sigmoid_backward", grid(values, values), (), dtype)


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE], ids=lambda dtype: dtype.python_name)
def test_sigmoid_does_not_overflow_before_the_result_does(dtype):
    """A large gradient times a large 1 - y comes back to the finite range through a small y, and the reverse."""
    largest = rounding.decode_bits(rounding.LAYOUTS[dtype].infinity - 1, dtype)
    grad = rounding.convert(np.array([largest, -largest, largest / 3, 1 / largest, -2 / largest]), dtype)
    y = numbers([1e-3, 1.5, 2, 30, math.sqrt(largest), math.sqrt(largest) * 4, largest], dtype)
    assert_within_bound("sigmoid_backward", grid(grad, y), (), dtype)
    found = nonpu.sigmoid_backward(grad[:1], rounding.convert(np.array([-1e-3]), dtype))
    assert np.isfinite(rounding.decode(found)).all()


def swish_arguments(dtype: DType, beta: float | None) -> np.ndarray:
    """Return x for which beta*x is at the root, in the tails, near 0, at the ends of exp, and far outside."""
    root = ROOT + np.concatenate([[0.0], *(sign * 2.0 ** -np.arange(2, 30.0) for sign in (-1, 1))])
    tails = np.concatenate([np.arange(-120, 121, 7.25), np.linspace(-106, -86, 81), np.linspace(-750, -700, 51)])
    edges = [-97.5, 2.399357, -2.399357, 16.6, 17.4, 36.7, 37.5, 87.34, 88.73, -103.97, 709.7, -745.2, -1100, 1e5]
    tiny = [0.0, 1e-3, 2.0**-18, 2.0**-19, 1e-9, 1e-17, 1e-30, 1e-44]
    with np.errstate(all="ignore"):
        z = np.concatenate([root, tails, edges, tiny])
        scale = np.float64(1.0 if beta is None else beta)
        x = np.where(np.isfinite(z / scale), z / scale, z) if scale != 0 else z
        return np.concatenate([rounding.convert(x, dtype), extremes(dtype)])


def swish_gradients(dtype: DType) -> np.ndarray:
    """Return finite gradients and NaN: the ends of the range, and ordinary ones."""
    ends = extremes(dtype)
    ends = ends[~np.isinf(rounding.decode(ends))]
    return np.concatenate([ends, numbers([1.0, 0.7, 1e-5], dtype)])


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("beta", BETAS)
def test_swish_in_the_hard_regions(dtype, beta):
    """The root, the tail down to the last subnormal, large and tiny beta*x, each with gradients at both ends."""
    arrays = grid(swish_gradients(dtype), swish_arguments(dtype, beta))
    assert_within_bound("swish_backward", arrays, (beta,), dtype)


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE], ids=lambda dtype: dtype.python_name)
@pytest.mark.parametrize("beta", [1.0, 1.702, -0.3, 3e-5])
def test_swish_next_to_its_root(dtype, beta):
    """The neighbours of the root itself, where the derivative is as small as it gets."""
    beta = rounding.round_number(beta, dtype)
    layout = rounding.LAYOUTS[dtype]
    middle = rounding.nearest_bits(ROOT / beta, dtype)
    bits = np.arange((middle & ~layout.sign) - 12, (middle & ~layout.sign) + 13, dtype=np.uint64)
    x = rounding.from_bits(bits | np.uint64(middle & layout.sign), dtype)
    assert_within_bound("swish_backward", grid(numbers([1.0, 0.7, 1e30], dtype), x), (beta,), dtype)


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE], ids=lambda dtype: dtype.python_name)
@pytest.mark.parametrize("beta", [1.0, -0.5, 1.702])
def test_swish_of_an_infinite_gradient(dtype, beta):
    """The documented formula's sign, and NaN where its exp overflows; the neighbours of these places are left out."""
    x = swish_arguments(dtype, beta)
    with np.errstate(all="ignore"):
        t = rounding.decode(x) * rounding.round_number(beta, dtype)
    end = -88.7228391 if dtype == DType.FLOAT else -709.782712893384
    x = x[(np.abs(t - ROOT) > 1e-5) & (np.abs(t / end - 1) > 1e-6)]
    grad = rounding.convert(np.array([math.inf, -math.inf]), dtype)
    assert_within_bound("swish_backward", grid(grad, x), (beta,), dtype)


def test_swish_is_subnormal_in_the_tail():
    """x = -97.5 gives -4.37e-41, not 0, and a large gradient brings the result back to ordinary size."""
    found = nonpu.swish_backward(np.array([1, 3e38], np.float32), np.array([-97.5, -97.5], np.float32))
    assert found[0] == np.float32(-4.37336100023388e-41)
    assert found[1] == pytest.approx(-0.0131200830, rel=1e-6)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("leaky_relu_backward", (0.01,)),
        ("leaky_relu_backward", (-2.5,)),
        ("sigmoid_backward", ()),
        ("swish_backward", (None,)),
        ("swish_backward", (1.702,)),
        ("swish_backward", (-3e-3,)),
        ("swish_backward", (250.0,)),
    ],
)
def test_random_bit_patterns_and_ordinary_values(name, scalars, dtype):
    """100,000 pairs: any bits in either argument, ordinary values in the other or in both."""
    arrays = [patterns(rounding.numpy_dtype(dtype), (100_000,), seed) for seed in (21, 22)]
    if name == "swish_backward":  # infinite gradients have their own test
        arrays[0] = np.where(np.isinf(rounding.decode(arrays[0])), arrays[0].dtype.type(1), arrays[0])
    assert_within_bound(name, arrays, scalars, dtype)


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE], ids=lambda dtype: dtype.python_name)
def test_swish_over_the_whole_range_of_its_argument(dtype):
    """beta*x uniform over the range where exp matters, random betas and gradients of all sizes."""
    rng = np.random.default_rng(23)
    low = -105 if dtype == DType.FLOAT else -750
    exponents = 38 if dtype == DType.FLOAT else 300
    for beta in (1.0, *(rng.choice([-1, 1], 6) * 2.0 ** rng.uniform(-8, 8, 6))):
        rounded = rounding.round_number(beta, dtype)
        z = np.concatenate([rng.uniform(low, 40, 20_000), rng.standard_normal(20_000) * 2])
        x = rounding.convert(z / rounded, dtype)
        grad = rounding.convert(
            rng.standard_normal(z.size) * 10.0 ** rng.integers(-exponents, exponents, z.size), dtype
        )
        assert_within_bound("swish_backward", [grad, x], (beta,), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("seed", range(20))
def test_fresh_random_values(dtype, seed):
    """A million pairs per type and operator in all, with random scalars."""
    rng = np.random.default_rng([24, seed])
    arrays = [patterns(rounding.numpy_dtype(dtype), (50_000,), 1000 + 2 * seed + i) for i in range(2)]
    assert_within_bound("leaky_relu_backward", arrays, (float(rng.standard_normal()),), dtype)
    assert_within_bound("sigmoid_backward", arrays, (), dtype)
    arrays[0] = np.where(np.isinf(rounding.decode(arrays[0])), arrays[0].dtype.type(1), arrays[0])
    assert_within_bound("swish_backward", arrays, (float(rng.choice([-1, 1]) * 2.0 ** rng.uniform(-10, 10)),), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(32))
def test_a_stride_over_all_float_patterns(block):
    """Every 251st FLOAT pattern: swish with and without beta, sigmoid with a fixed gradient."""
    bits = np.arange(block * 2**27, (block + 1) * 2**27, 251, dtype=np.uint64)
    x = rounding.from_bits(bits, DType.FLOAT)
    grad = np.array([1.7], np.float32)
    for beta in (None, -0.37):
        assert_within_bound("swish_backward", [grad, x], (beta,), DType.FLOAT)
    assert_within_bound("sigmoid_backward", [grad, x], (), DType.FLOAT)


def complex_array(parts: Sequence[np.ndarray], dtype: DType) -> np.ndarray:
    """Return real and imaginary parts as one array."""
    result = np.empty(np.broadcast_shapes(*(part.shape for part in parts)), rounding.numpy_dtype(dtype))
    result.real, result.imag = parts
    return result


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sigmoid_of_ordinary_values(dtype):
    """Ordinary values, and values near the curves where a component of y(1-y) cancels."""
    rng = np.random.default_rng(25)
    count = 40_000
    normal = rng.standard_normal((6, count))
    near_half = 0.5 + normal[0] * 2.0 ** rng.integers(-40, 0, count)
    # (1-a)a + b*b = 0 on a hyperbola.
    a = rng.uniform(1, 3, count)
    hyperbola = np.sqrt(a * (a - 1)) * (1 + normal[1] * 2.0 ** rng.integers(-50, 0, count))
    grad = complex_array([normal[2], normal[3]], dtype)
    for real, imaginary in ((normal[4], normal[5]), (near_half, normal[5]), (a, hyperbola)):
        assert_within_bound("sigmoid_backward", [grad, complex_array([real, imaginary], dtype)], (), dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sigmoid_of_random_bit_patterns(dtype):
    """Finite components of any size, with overflow and underflow of the parts but not of the whole."""
    component = rounding.COMPONENT[dtype]
    parts = [patterns(rounding.numpy_dtype(component), (30_000,), seed) for seed in range(30, 34)]
    finite = [np.where(np.isfinite(part), part, part.dtype.type(0.25)) for part in parts]
    arrays = [complex_array(finite[:2], dtype), complex_array(finite[2:], dtype)]
    assert_within_bound("sigmoid_backward", arrays, (), dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sigmoid_of_real_values(dtype):
    """With imaginary parts of 0 the result is the real one, and its imaginary part is 0."""
    component = rounding.COMPONENT[dtype]
    grad, y = (patterns(rounding.numpy_dtype(component), (1000,), seed, specials=False) for seed in (34, 35))
    zero = np.zeros_like(y)
    found = nonpu.sigmoid_backward(complex_array([grad, zero], dtype), complex_array([y, zero], dtype))
    assert (found.imag == 0).all()
    reference = oracle("sigmoid_backward").reference([grad, y], (), component)
    assert (np.abs(ulp.errors(np.ascontiguousarray(found.real), reference, component)) <= 3).all()


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sigmoid_of_infinities_and_nan(dtype):
    """A result is finite exactly where the textbook products are; infinities and NaN are not told apart."""
    component = rounding.COMPONENT[dtype]
    values = rounding.convert(np.array([0.0, 1.0, -2.5, math.inf, -math.inf, math.nan]), component)
    both = np.array(list(itertools.product(values, values)), rounding.numpy_dtype(component))
    every = complex_array([both[:, 0], both[:, 1]], dtype)
    found = nonpu.sigmoid_backward(every[:, None], every[None, :])
    expected = oracle("sigmoid_backward").golden([every[:, None], every[None, :]], (), dtype, dtype)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_sigmoid_does_not_depend_on_what_overflows_beside_it(dtype):
    """Elements of all sizes, each alone, in one array, and in place: the same bits, in blocks of any size."""
    component = rounding.COMPONENT[dtype]
    rng = np.random.default_rng(28)
    count, reach = 20_000, 70 if dtype == DType.COMPLEX64 else 600
    sizes = [rng.standard_normal(count) * 2.0 ** rng.integers(-reach, reach, count) for _ in range(2)]
    others = [rng.standard_normal(count) * 2.0 ** rng.integers(-3, 3, count) for _ in range(2)]
    plain = rng.random(count) < 0.9  # most blocks have some that under- or overflow, some have none
    plain[5000:9000] = True
    parts = [np.where(plain, other, size) for size, other in zip(sizes, others, strict=True)]
    grad = complex_array([parts[0], others[1]], dtype)
    y = complex_array([others[0], parts[1]], dtype)
    whole = nonpu.sigmoid_backward(grad, y)
    assert rounding.numpy_dtype(component) == whole.real.dtype
    alone = np.concatenate([nonpu.sigmoid_backward(grad[i : i + 1], y[i : i + 1]) for i in range(0, count, 7)])
    assert alone.tobytes() == whole[::7].tobytes()
    in_place = grad.copy()
    assert nonpu.sigmoid_backward(in_place, y, out=in_place).tobytes() == whole.tobytes()
    halves = [nonpu.sigmoid_backward(grad[part], y[part]) for part in (slice(0, 6501), slice(6501, count))]
    assert np.concatenate(halves).tobytes() == whole.tobytes()


def test_complex_sigmoid_leaves_raised_flags_raised():
    """Of C's floating-point environment: what the program has raised before stays."""
    library = ctypes.CDLL("libm.so.6")
    division, every = 4 if platform.machine() == "x86_64" else 2, 0x3D if platform.machine() == "x86_64" else 0x1F
    values = np.full(100, 1e-30 + 1j, np.complex64)
    library.feclearexcept(every)
    library.feraiseexcept(division)
    nonpu.sigmoid_backward(values, values)
    assert library.fetestexcept(division) == division
    library.feclearexcept(every)


# Gradient and y of COMPLEX64: found by search in designs that were given up (3.3, 4.0 and, near the subnormal numbers,
# 3.8 ulp), and the worst known of the present one.
HARD = """
    0x1.bb56a4p-2 0x1.56313p+1 -0x1.91a228p-2 0x1.341298p-3
    0x1.e3af6p+0 -0x1.c0e004p+0 0x1.4aeea2p+1 0x1.040818p+1
    -0x1.33afb6p+2 -0x1.f8435ap+0 0x1.f398dep-1 -0x1.075c16p-2
    0x1.788496p-1 -0x1.119236p-5 -0x1.8ba36cp-2 0x1.6a25dap+0
    0x1.c3713p-125 0x1.d3553cp-127 0x1.d0d6f4p-8 0x1.0494ccp+0
    0x1.67c8d8p-128 0x1.cb06p-134 -0x1.2a3904p+0 -0x1.702a7ap+1
"""


def test_complex_sigmoid_of_the_hardest_known_arguments():
    """Each with all signs, alone and in a vector."""
    parts = np.array([[float.fromhex(word) for word in line.split()] for line in HARD.strip().splitlines()], np.float32)
    signs = np.array(list(itertools.product([1, -1], repeat=4)), np.float32)
    parts = np.concatenate([parts * sign for sign in signs])
    grad, y = (np.ascontiguousarray(parts[:, start : start + 2]).view(np.complex64)[:, 0] for start in (0, 2))
    assert_within_bound("sigmoid_backward", [grad, y], (), DType.COMPLEX64)
    assert_within_bound("sigmoid_backward", [grad[3:4], y[3:4]], (), DType.COMPLEX64)


@pytest.mark.parametrize(
    ("grad", "y", "expected"),
    [
        # y (1 - y) is -3.4e38**2, out of range of FLOAT, plus or minus an infinity of the other factor.
        (complex(math.inf, -math.inf), complex(math.inf, 3.4028233e38), complex(math.nan, math.nan)),
        # 3.4e38 times -9e8 is -inf, and +inf meets it from the other product.
        (complex(3.4028235e38, math.inf), complex(30000, 0.7), complex(-math.inf, math.nan)),
        # -1e-45 times 3.4e38 is in range, the square of 3.4e38 is not.
        (complex(0.001, -math.inf), complex(-1e-45, 3.4028235e38), complex(math.nan, -math.inf)),
    ],
)
def test_complex_sigmoid_with_infinities_overflows_as_float_does(grad, y, expected):
    """The documented formula in FLOAT, operation by operation, alone and in a vector."""
    for count in (1, 37):
        found = nonpu.sigmoid_backward(np.full(count, grad, np.complex64), np.full(count, y, np.complex64))
        for value in found:
            assert np.array_equal([value.real, value.imag], [expected.real, expected.imag], equal_nan=True)


def test_complex_sigmoid_conjugates():
    """The check values of the contract; without the conjugate they were 41+3i and 14+34i."""
    y = np.array([2 + 3j, 3 - 2j], np.complex64)
    assert nonpu.sigmoid_backward(y, y).tolist() == [-13 + 39j, -26 - 26j]


SCALARS: list[Any] = [
    (Scalar(0.1, "float16"), float(np.float16(0.1))),
    (Scalar(0.1, "float32"), float(np.float32(0.1))),
    (Scalar(0.1, "float64"), 0.1),
    (Scalar(0.1, "bfloat16"), 0.10009765625),
    (Scalar(-3, "int8"), -3),
    (Scalar(200, "uint8"), 200),
    (Scalar(2**60 + 2**36 + 1, "int64"), 2**60 + 2**36 + 1),
    (Scalar(True, "bool"), 1),
    (2**60 + 2**36 + 1, 2**60 + 2**36 + 1),
    (2**24 + 1, 2**24 + 1),
    (True, 1),
    (0.1, 0.1),
    (np.float16(0.1), float(np.float16(0.1))),
    (1 + 2.0**-24 + 2.0**-50, 1 + 2.0**-24 + 2.0**-50),
]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(("scalar", "value"), SCALARS)
def test_a_scalar_is_rounded_once_to_the_compute_type(scalar, value, dtype):
    """Every type of scalar: FLOAT for 16- and 32-bit tensors, DOUBLE kept whole, 64-bit integers directly."""
    x = rounding.convert(np.array([-1.0, -0.3, 0.0, 1e-3, 2.0, -1e-17]), dtype)
    grad = rounding.convert(np.array([1.0, -0.7, 1e-17, 3.0, 0.1, 0.5]), dtype)
    leaky = nonpu.leaky_relu_backward(grad, x, scalar)
    expected = oracle("leaky_relu_backward").golden([grad, x], (value,), dtype, dtype)
    assert np.array_equal(rounding.bits_of(leaky), rounding.bits_of(expected))
    swish = nonpu.swish_backward(grad, x, scalar)
    errors = ulp.errors(swish, oracle("swish_backward").reference([grad, x], (value,), dtype), dtype)
    assert (np.abs(errors) <= (BOUNDS["swish_backward"][dtype] or 0.5)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "beta"), [(1, 1.0), (13, 1.0), (3, 1.35), (4, -1.7)])
def test_swish_float_for_every_x_of_the_middle_range(seed, beta):
    """Every FLOAT with 1/16 <= abs(x) < 32, a random gradient each: no error above 4 ULP.

    The DOUBLE kernel finds the worst of each block; the oracle then judges it.
    """
    rng = np.random.default_rng(seed)
    first, last = np.array([0.0625, 32], np.float32).view(np.uint32)
    step = 1 << 20
    for start in range(int(first), int(last), step):
        for sign in (1, -1):
            x = np.arange(start, start + step, dtype=np.uint32).view(np.float32) * np.float32(sign / beta)
            grad = (rng.random(step) + 1).astype(np.float32)
            wide = nonpu.swish_backward(grad.astype(np.float64), x.astype(np.float64), float(np.float32(beta)))
            error = np.abs(nonpu.swish_backward(grad, x, np.float32(beta)) - wide)
            unit = np.spacing(np.abs(wide).astype(np.float32))
            worst = [int(np.argmax(error / unit))]
            assert_within_bound("swish_backward", [grad[worst], x[worst]], (float(np.float32(beta)),), DType.FLOAT)


@pytest.mark.parametrize(
    ("grad", "x", "beta"),
    [
        ("-0x1.209001dfc77a1p+0", "-0x1.c65bb3ffa99b8p-2", "0x1.5a3dfcb33f05ap+0"),
        ("0x1.fa57f7d45c9dep+0", "-0x1.abdbdb961f6c3p-1", "0x1p+0"),
        ("0x1.dba5365f09b59p+0", "-0x1.347869a15a721p-1", "0x1.599999999999ap+0"),
    ],
)
def test_swish_double_where_all_roundings_add_up(grad, x, beta):
    """Arguments for which earlier forms of the fast function were 4.16 to 4.52 ULP off."""
    arrays = [np.array([float.fromhex(text)]) for text in (grad, x)]
    assert_within_bound("swish_backward", arrays, (float.fromhex(beta),), DType.DOUBLE)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("beta", [1.0, -2.25, 3e4])
def test_swish_where_all_arguments_are_large(dtype, beta):
    """beta x from where the exponential leaves the normal numbers to where no gradient is large enough; gradients that
    bring the result back to both ends of the range and to subnormal numbers."""
    start, end = (690, 1500) if dtype is DType.DOUBLE else (79, 205)
    info = np.finfo({DType.DOUBLE: "f8", DType.FLOAT16: "f2"}.get(dtype, "f4"))
    random, smallest = np.random.default_rng(21), info.minexp - info.nmant
    size = random.uniform(start, end, 3000)
    x = rounding.convert(size * random.choice([-1.0, 1.0], 3000) / beta, dtype)
    power = np.where(random.random(3000) < 0.5, size / np.log(2) + smallest, random.uniform(-99, 99, 3000))
    power = np.clip(power + random.uniform(-3, 40, 3000), smallest, info.maxexp - 1).astype(int)
    grad = rounding.convert(np.ldexp(random.uniform(1, 2, 3000), power), dtype)
    assert_within_bound("swish_backward", [grad, x], (beta,), dtype)
