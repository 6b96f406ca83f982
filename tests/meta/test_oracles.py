"""The oracles: their arithmetic against its bounds, their formulas against independent ones and the documents."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nonpu.dtypes import DType
from nonpu.verify import pairs, rounding
from nonpu.verify.golden import oracle
from nonpu.verify.values import PairArithmetic, Values, exactly

FLOATING = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE)
ROOT = -1.2784645427610738  # of the derivative of x*sigma(x), to 53 bits


def patterns(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Return random finite bit patterns of a type, half of them with ordinary magnitudes."""
    rng = np.random.default_rng(seed)
    layout = rounding.LAYOUTS[dtype]
    bits = rng.integers(0, layout.infinity, count).astype(np.uint64)
    bits |= rng.integers(0, 2, count).astype(np.uint64) << np.uint64(layout.width - 1)
    ordinary = rounding.convert(rng.standard_normal(count) * 4, dtype)
    return np.where(rng.integers(0, 2, count) == 0, rounding.from_bits(bits, dtype), ordinary)


def swish_by_differentiation(grad: float, x: float, beta: float) -> mpmath.mpf:
    """Return grad times the derivative of x/(1+exp(-beta x)), differentiated by mpmath in 3000 bits."""
    with mpmath.workprec(3000):
        return mpmath.mpf(grad) * mpmath.diff(lambda v: v / (1 + mpmath.exp(-mpmath.mpf(beta) * v)), mpmath.mpf(x))


def test_exponentials_keep_their_bound():
    """The claimed relative error holds over the whole range, with room to spare."""
    rng = np.random.default_rng(3)
    high = np.concatenate([rng.uniform(-1, 1, 300), rng.uniform(-8192, 0, 300), -(2.0 ** rng.uniform(-300, 13, 300))])
    low = high * rng.uniform(-1, 1, high.size) * 2.0**-54
    first, second, power = pairs.exp(high, low)
    with mpmath.workprec(400):
        for arguments in zip(high, low, first, second, power, strict=True):
            x, tail, a, b, n = (mpmath.mpf(float(v)) for v in arguments)
            exact = mpmath.exp(x + tail)
            assert abs((a + b) * mpmath.mpf(2) ** int(n) / exact - 1) < pairs.EXP / 8


mantissas = st.one_of(st.integers(-(2**53), 2**53), st.sampled_from([1, -1, 2**52, 3]))


@st.composite
def two_doubles(draw: st.DrawFn) -> Fraction:
    """Generate the sum of two doubles, next to each other or far apart, or a single one."""
    tail = draw(st.one_of(st.just(0), mantissas)) * Fraction(1, 2 ** draw(st.integers(54, 400)))
    return (draw(mantissas) + tail) * Fraction(2) ** draw(st.integers(-3000, 3000))


def value_of(number: Fraction) -> Values:
    """Return a sum of two doubles as a value; what does not fit is dropped, and the value is exact as it is."""
    found = exactly(np.zeros(1)).replaced([0], [number])
    return Values(found.high, found.low, found.exponent, np.zeros(1))


def assert_covered(found: Values, exact: Fraction) -> None:
    """Compare the true error with the bound that the value carries."""
    if math.isfinite(found.bound[0]):
        difference = abs(Fraction(found.element(0)) - exact)
        assert difference <= abs(exact) * Fraction(float(found.bound[0]))


# The bound that the product carries is lost in a difference beside which the product is nothing.
@example(Fraction(1, 2**278), Fraction(1, 2**1025), 0)
@given(two_doubles(), two_doubles(), st.integers(-200, 200))
def test_the_carried_bound_covers_every_operation(left, right, apart):
    """Sums, differences, products and quotients of values of two doubles, with and without cancellation."""
    near = left * Fraction(2) ** apart * (1 + Fraction(1, 2**70))
    for second in (right, near, -left, -left * (1 + Fraction(1, 2**70))):
        a, b = value_of(left), value_of(second)
        first, other = Fraction(a.element(0)), Fraction(b.element(0))
        assert_covered(a + b, first + other)
        assert_covered(a - b, first - other)
        assert_covered(a * b, first * other)
        assert_covered(a * b + b, first * other + other)
        assert_covered((a + b) * (a - b) - a, (first + other) * (first - other) - first)
        if other != 0:
            assert_covered(a / b, first / other)
            assert_covered((a * a + b) / b, (first * first + other) / other)


@pytest.mark.parametrize("exponent", [*range(-900, -30, 29), *range(-30, 1)])
def test_exponentials_of_small_arguments_carry_a_bound_that_holds(exponent):
    """Down to where 1 + x is all that is left, with the bound shrinking with the argument."""
    for mantissa in (-1.0, -0.7, -1 / 3):
        argument = exactly(np.array([math.ldexp(mantissa, exponent)]))
        found = PairArithmetic.exp(argument)
        with mpmath.workprec(4000):
            exact = rounding.fraction(mpmath.exp(mpmath.mpf(math.ldexp(mantissa, exponent))))
        assert_covered(found, exact)


@pytest.mark.parametrize("beta", [1.0, 1.7, -0.3, 1e-40, 1e5, 1e30, -1e38])
def test_swish_is_the_derivative_of_swish(beta):
    """The value agrees with numerical differentiation of x*sigma(beta x) to 200 bits."""
    beta = float(np.float32(beta))
    points = (rounding.round_number(z / beta, DType.FLOAT) for z in (ROOT, 0.7, -3, 50, -90, 0.0, 1e-3, -1e-30))
    for x in filter(math.isfinite, points):
        found = oracle("swish_backward").exact((0.75, x), (beta,), DType.FLOAT)
        expected = swish_by_differentiation(0.75, x, beta)
        with mpmath.workprec(300):
            found = mpmath.mpf(found.numerator) / found.denominator if isinstance(found, Fraction) else found
            assert abs(found - expected) <= abs(expected) * mpmath.mpf(2) ** -200


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
@pytest.mark.parametrize(
    ("name", "scalars"),
    [("leaky_relu_backward", (0.01,)), ("sigmoid_backward", ()), ("swish_backward", (-1.7,)), ("swish_backward", (1,))],
)
def test_arrays_and_single_elements_have_the_same_correct_result(name, scalars, dtype):
    """The array arithmetic, rounded, equals each exact value, rounded in rational arithmetic."""
    grad, x = patterns(dtype, 150, seed=5), patterns(dtype, 150, seed=6)
    found = rounding.bits_of(oracle(name).golden([grad, x], scalars, dtype, dtype))
    for g, v, bits in zip(rounding.decode(grad), rounding.decode(x), found, strict=True):
        exact = oracle(name).exact((float(g), float(v)), scalars, dtype)
        signless = ~rounding.LAYOUTS[dtype].sign if exact == 0 else -1
        assert rounding.nearest_bits(exact, dtype) & signless == int(bits) & signless


@pytest.mark.parametrize("dtype", [DType.COMPLEX64, DType.COMPLEX128], ids=lambda dtype: dtype.python_name)
def test_complex_sigmoid_equals_python_fractions(dtype):
    """Both components equal grad * conj(y(1-y)) in rational arithmetic, also where they cancel and out of range."""
    component = rounding.COMPONENT[dtype]
    parts = [patterns(component, 200, seed) for seed in (7, 8, 9, 10)]
    parts[2][::10], parts[3][:60:3], parts[1][:90:5] = 0.5, 0, 0
    grad, y = (np.empty(200, rounding.numpy_dtype(dtype)) for _ in range(2))
    grad.real, grad.imag, y.real, y.imag = parts
    found = oracle("sigmoid_backward").golden([grad, y], (), dtype, dtype)
    for i in range(200):
        c, d, a, b = (Fraction(float(part[i])) for part in parts)
        p, q = a - a * a + b * b, b - 2 * a * b
        for exact, value in ((c * p + d * q, found.real[i]), (d * p - c * q, found.imag[i])):
            assert value == rounding.round_number(exact, component), i
    assert oracle("sigmoid_backward").exact((2 + 3j, 2 + 3j), (), dtype) == (-13, 39)


def test_documented_examples():
    """The numbers that the operator documents print, and the check values of the complex sigmoid."""
    ones = np.ones(6, np.float32)
    grad = np.array([2, 3, 4, 5], np.float32)
    leaky = oracle("leaky_relu_backward").golden([grad, grad - 1], (0.01,), DType.FLOAT, DType.FLOAT)
    assert leaky.tolist() == [2, 3, 4, 5]
    sigmoid = oracle("sigmoid_backward").golden(
        [ones[:4], np.arange(1, 5, dtype=np.float32)], (), DType.FLOAT, DType.FLOAT
    )
    assert sigmoid.tolist() == [0, -2, -6, -12]
    swish = oracle("swish_backward").golden([ones, np.arange(1, 7, dtype=np.float32)], (1.1,), DType.FLOAT, DType.FLOAT)
    assert [f"{v:.6f}" for v in swish] == ["0.956367", "1.097810", "1.077638", "1.040589", "1.018224", "1.007596"]
    y = np.array([2 + 3j, 3 - 2j], np.complex64)
    found = oracle("sigmoid_backward").golden([y, y], (), DType.COMPLEX64, DType.COMPLEX64)
    assert found.tolist() == [-13 + 39j, -26 - 26j]


def test_swish_ties_are_decided_by_the_argument_however_small():
    """Half of an odd subnormal is a midpoint: x = 0 goes to even, any other x to its own side."""
    grad = np.full(5, 3 * 2.0**-149, np.float32)
    x = np.array([0, 1e-45, -1e-45, 1e-30, -1e-30], np.float32)
    steps = oracle("swish_backward").golden([grad, x], (None,), DType.FLOAT, DType.FLOAT) / np.float32(2.0**-149)
    assert steps.tolist() == [2, 2, 1, 2, 1]
    grad64 = np.full(3, 3 * 2.0**-1074)
    x64 = np.array([0, 5e-324, -5e-324])
    steps = oracle("swish_backward").golden([grad64, x64], (5e-324,), DType.DOUBLE, DType.DOUBLE) / 2.0**-1074
    assert steps.tolist() == [2, 2, 1]


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
def test_swish_far_out_is_its_limit(dtype):
    """Finite arguments whose product leaves every range give the limits 0 and 1 times the gradient, never NaN."""
    largest = rounding.decode_bits(rounding.LAYOUTS[dtype].infinity - 1, dtype)
    x = rounding.convert(np.array([largest, -largest]), dtype)
    grad = rounding.convert(np.full(2, largest), dtype)
    beta = 3e38 if dtype != DType.DOUBLE else 1e308
    found = rounding.decode(oracle("swish_backward").golden([grad, x], (beta,), dtype, dtype))
    assert found.tolist() == [largest, 0]


def test_swish_in_the_tail_is_subnormal():
    """x = -97.5 has a derivative of about -4.37e-41."""
    found = oracle("swish_backward").golden(
        [np.array(1, np.float32), np.array(-97.5, np.float32)], (None,), DType.FLOAT, DType.FLOAT
    )
    assert found == np.float32(-4.37336100023388e-41)
    assert found != 0


INF, NAN = math.inf, math.nan
SPECIAL = [
    ("swish_backward", (1.0, INF), (1.0,), NAN),
    ("swish_backward", (1.0, -INF), (1.0,), NAN),
    ("swish_backward", (1.0, INF), (0.0,), NAN),
    ("swish_backward", (1.0, 1.0), (INF,), NAN),
    ("swish_backward", (1.0, 0.0), (INF,), NAN),
    ("swish_backward", (1.0, 1.0), (NAN,), NAN),
    ("swish_backward", (NAN, 1.0), (1.0,), NAN),
    ("swish_backward", (1.0, NAN), (0.0,), NAN),
    ("swish_backward", (INF, 1.0), (1.0,), INF),
    ("swish_backward", (INF, -5.0), (1.0,), -INF),
    ("swish_backward", (-INF, 90.0), (1.0,), -INF),
    ("swish_backward", (INF, 0.0), (1.0,), INF),
    ("swish_backward", (1.0, 1.0), (1e39,), NAN),
    ("leaky_relu_backward", (1.0, NAN), (0.5,), 0.5),
    ("leaky_relu_backward", (1.0, -INF), (0.5,), 0.5),
    ("leaky_relu_backward", (1.0, INF), (NAN,), 1.0),
    ("leaky_relu_backward", (1.0, -1.0), (NAN,), NAN),
    ("leaky_relu_backward", (INF, -1.0), (0.0,), NAN),
    ("leaky_relu_backward", (INF, 1.0), (0.0,), INF),
    ("leaky_relu_backward", (0.0, -1.0), (-0.5,), -0.0),
    ("leaky_relu_backward", (-0.0, 1.0), (0.5,), -0.0),
    ("leaky_relu_backward", (1.0, -0.0), (0.5,), 0.5),
    ("leaky_relu_backward", (-1e-45, -1.0), (0.25,), -0.0),
    ("sigmoid_backward", (1.0, INF), (), -INF),
    ("sigmoid_backward", (1.0, -INF), (), -INF),
    ("sigmoid_backward", (-1.0, -INF), (), INF),
    ("sigmoid_backward", (0.0, INF), (), NAN),
    ("sigmoid_backward", (INF, 0.0), (), NAN),
    ("sigmoid_backward", (INF, 1.0), (), NAN),
    ("sigmoid_backward", (INF, 0.5), (), INF),
    ("sigmoid_backward", (INF, 2.0), (), -INF),
    ("sigmoid_backward", (NAN, 0.0), (), NAN),
    ("sigmoid_backward", (1.0, NAN), (), NAN),
    ("sigmoid_backward", (1.0, -0.0), (), -0.0),
]


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE], ids=lambda dtype: dtype.python_name)
@pytest.mark.parametrize(("name", "inputs", "scalars", "expected"), SPECIAL)
def test_special_values(name, inputs, scalars, expected, dtype):
    """Infinite and NaN arguments follow the documented formula in IEEE arithmetic; signs of zero included."""
    if scalars == (1e39,) and dtype == DType.DOUBLE:
        expected = 1.0
    if inputs[0] == -1e-45 and dtype == DType.DOUBLE:
        inputs = (-5e-324, -1.0)
    arrays = [np.array(value, rounding.numpy_dtype(dtype)) for value in inputs]
    found = float(oracle(name).golden(arrays, scalars, dtype, dtype))
    assert (math.isnan(found) and math.isnan(expected)) or (
        found == expected and math.copysign(1, found) == math.copysign(1, expected)
    )


def test_an_infinite_gradient_meets_the_documented_formula_in_the_tail():
    """exp(-t) overflows below t = -88.73 in FLOAT, where 0 times infinity is NaN; DOUBLE has its own end."""
    x = np.array([-88, -89, -97.5, -709, -710], np.float64)
    grad = np.full(5, INF)
    swish = oracle("swish_backward")
    largest = np.array([-1, 1], np.float32) * np.finfo(np.float32).max
    limits = swish.golden([grad[:2].astype(np.float32), largest], (2.0,), DType.FLOAT, DType.FLOAT)
    assert np.isnan(limits[0])
    assert limits[1] == INF
    single = swish.golden([grad.astype(np.float32), x.astype(np.float32)], (1.0,), DType.FLOAT, DType.FLOAT)
    assert np.isnan(single).tolist() == [False, True, True, True, True]
    double = swish.golden([grad, x], (1.0,), DType.DOUBLE, DType.DOUBLE)
    assert np.isnan(double).tolist() == [False, False, False, False, True]


def test_the_scalar_is_rounded_to_the_compute_type():
    """FLOAT for tensors of up to 32 bits, DOUBLE kept whole; integers once, directly."""
    leaky = oracle("leaky_relu_backward")
    single = np.float32(0.01)
    assert leaky.exact((1.0, -1.0), (0.01,), DType.FLOAT) == Fraction(float(single))
    assert leaky.exact((1.0, -1.0), (0.01,), DType.FLOAT16) == Fraction(float(single))
    assert leaky.exact((1.0, -1.0), (0.01,), DType.DOUBLE) == Fraction(0.01)
    assert leaky.exact((1.0, -1.0), (2**60 + 2**36 + 1,), DType.FLOAT) == 2**60 + 2**37


def test_the_promoted_type_is_rounded_to_before_the_output_type():
    """FLOAT16 arguments into a FLOAT output show the FLOAT16 rounding; DOUBLE reaches BFLOAT16 in one step."""
    leaky = oracle("leaky_relu_backward")
    arrays = [np.array([1.0], np.float16), np.array([-1.0], np.float16)]
    assert leaky.golden(arrays, (0.1,), DType.FLOAT16, DType.FLOAT).tolist() == [float(np.float16(0.1))]
    grad = np.array([1 + 2.0**-8 + 2.0**-40])
    found = leaky.golden([grad, grad], (1.0,), DType.DOUBLE, DType.BFLOAT16)
    assert found.dtype == ml_dtypes.bfloat16
    assert float(found[0]) == 1 + 2.0**-7
    mixed = leaky.golden([np.array([2.9], np.float32), np.ones(1, np.float16)], (1.0,), DType.FLOAT, DType.INT8)
    assert mixed.tolist() == [2]


def test_inputs_broadcast():
    """Shapes broadcast as the contract's do, rank 0 and empties included."""
    for left, right in (((), ()), ((3, 1), (1, 4)), ((0, 1), (5,)), ((2, 1, 3), ()), ((1,), (0,))):
        found = oracle("swish_backward").golden([np.ones(left), np.ones(right)], (1.0,), DType.DOUBLE, DType.DOUBLE)
        assert found.shape == np.broadcast_shapes(left, right)


def test_exponentials_of_the_documented_formula_are_correctly_rounded():
    """The IEEE arithmetic of the special values has no library function behind it."""
    arithmetic = PairArithmetic()
    x = np.linspace(-100, 88, 200)
    bits, undecided = rounding.round_values(arithmetic.exp(exactly(x)), DType.FLOAT)
    assert not undecided.any()
    with mpmath.workprec(200):
        assert bits.tolist() == [rounding.nearest_bits(mpmath.exp(mpmath.mpf(float(v))), DType.FLOAT) for v in x]


def test_an_unknown_operator_is_named():
    """The error says what was asked for."""
    with pytest.raises(LookupError, match="got 'mish_backward'"):
        oracle("mish_backward")
