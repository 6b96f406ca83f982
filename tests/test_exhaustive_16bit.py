"""FLOAT16 and BFLOAT16: every one of the 65,536 values of the primal input, bit for bit as the oracle rounds it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nonpu
from nonpu.dtypes import DType
from nonpu.verify import rounding, ulp
from nonpu.verify.golden import oracle

HALVES = [pytest.param(dtype, id=dtype.python_name) for dtype in (DType.FLOAT16, DType.BFLOAT16)]


def every_value(dtype: DType) -> np.ndarray:
    """Return all bit patterns of a type."""
    return rounding.from_bits(np.arange(65536, dtype=np.uint16), dtype)


def gradients(dtype: DType, *, random: int = 0, infinite: bool = True) -> np.ndarray:
    """Return special and random gradients of a type as a column."""
    layout = rounding.LAYOUTS[dtype]
    smallest_normal = 1 << (layout.precision - 1)
    special = [0x8000, 1, 3, 0x8000 | smallest_normal - 1, smallest_normal, layout.infinity - 1, layout.nan]
    values = rounding.bits_of(rounding.convert(np.array([1.0, -0.7, 1.5]), dtype)).tolist()
    drawn = np.random.default_rng(16).integers(0, 65536, random).tolist()
    bits = [*special, *values, *([layout.infinity] if infinite else []), *drawn]
    column = rounding.from_bits(np.array(bits, np.uint16), dtype)[:, None]
    return column[np.isfinite(rounding.decode(column[:, 0])) | infinite]


def assert_correct(
    name: str, grad: np.ndarray, x: np.ndarray, scalars: tuple, dtype: DType, *, signed_zero: bool = False
) -> None:
    """Compare with the correctly rounded results; the sign of a zero only where the contract gives it one."""
    actual = getattr(nonpu, name)(grad, x, *scalars)
    expected = oracle(name).golden([grad, x], scalars, dtype, dtype)
    assert actual.dtype == expected.dtype
    found, wanted = rounding.bits_of(actual), rounding.bits_of(expected)
    if not signed_zero:
        found, wanted = (np.where(bits == 0x8000, 0, bits) for bits in (found, wanted))
    wrong = np.argwhere(found != wanted)
    if wrong.size:
        reference = oracle(name).reference([grad, x], scalars, dtype)
        index = tuple(int(i) for i in wrong[0])
        size = float(ulp.errors(actual, reference, dtype)[index])
        wide = np.broadcast_arrays(grad, x)
        arguments = {"grad": wide[0][index], "x": wide[1][index], **{f"scalar {i}": s for i, s in enumerate(scalars)}}
        report = ulp.describe(index, size, actual[index], expected[index], arguments)
        pytest.fail(f"{name}: {len(wrong)} of {found.size} elements are wrong, the first {report}")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("slope", [0.01, 0.0, -0.25, -3.5, 1e-30, 7e4, math.nan, math.inf, 1e39])
def test_leaky_relu_is_correctly_rounded(dtype, slope):
    """Every value of self; signs of zero included."""
    assert_correct("leaky_relu_backward", gradients(dtype), every_value(dtype), (slope,), dtype, signed_zero=True)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_gradient_of_leaky_relu_is_correctly_rounded(dtype):
    """Every value of gradOutput, on both branches."""
    branches = rounding.convert(np.array([[1.0], [-1.0], [0.0], [math.nan]]), dtype)
    for slope in (0.01, 1 / 3, -1e-6):
        assert_correct("leaky_relu_backward", every_value(dtype), branches, (slope,), dtype, signed_zero=True)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "slope", [0.01, 0.1, 0.2, 1 / 3, -0.3, 0.25, 1.0, 1e-7, 6e-8, 1e-30, 1e-42, 3e4, 1e36, math.nan]
)
def test_long_leaky_relu_is_correctly_rounded(dtype, slope):
    """Every value of gradOutput in one contiguous array: long ones may take another way than short ones."""
    grad = every_value(dtype)
    for factor in (1.0, 1 + 2.0**-23, 1 - 2.0**-24, 1 + 2.0**-12, 1 - 2.0**-12):
        x = np.full(grad.shape, -1, grad.dtype)
        assert_correct("leaky_relu_backward", grad, x, (slope * factor,), dtype, signed_zero=True)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("leaky_relu_backward", (1.0,)),
        ("leaky_relu_backward", (0.01,)),
        ("sigmoid_backward", ()),
        ("swish_backward", (1.5,)),
    ],
)
def test_long_arrays_have_the_bits_of_their_pieces(name, scalars, dtype):
    """Every value of gradOutput, so every payload of NaN, signalling ones too; 100 elements count as a short array.

    Where both arguments are NaN, either one's payload may come out: IEEE 754 leaves the choice to the processor, which
    takes the first operand of whatever product it was compiled to.
    """
    grad = every_value(dtype)
    function = getattr(nonpu, name)
    layout = rounding.LAYOUTS[dtype]
    signalling = (layout.infinity | 1, layout.infinity | 0x8000 | 5)
    quiet = layout.nan & ~layout.infinity
    for value in (1.0, -1.0, math.nan):
        x = rounding.convert(np.full(grad.shape, value), dtype)
        whole = function(grad, x, *scalars).view(np.uint16)
        pieces = [function(grad[i : i + 100], x[i : i + 100], *scalars).view(np.uint16) for i in range(0, 65536, 100)]
        if value != value:
            whole, *pieces = (rounding.bits_of(part.view(grad.dtype)) for part in (whole, *pieces))
        assert (whole == np.concatenate(pieces)).all()
        if value == value:
            assert [int(whole[bits]) for bits in signalling] == [bits | quiet for bits in signalling]


@pytest.mark.parametrize("dtype", HALVES)
def test_long_leaky_relu_with_random_slopes_is_correctly_rounded(dtype):
    """The same for slopes of all sizes, among them short ones, whose products are often ties."""
    rng = np.random.default_rng(18)
    grad = every_value(dtype)
    for digits in (0, 4, 11, 12, 13, 14, 20, 23, 23, 23):
        slope = float((1 + np.round(rng.random() * 2.0**digits) / 2.0**digits) * 2.0 ** rng.integers(-12, 8))
        assert_correct("leaky_relu_backward", grad, np.full(grad.shape, -1, grad.dtype), (slope,), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_sigmoid_is_correctly_rounded(dtype):
    """Every value of the forward output, also outside (0, 1), times special gradients."""
    assert_correct("sigmoid_backward", gradients(dtype), every_value(dtype), (), dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "gradient",
    [
        1.0,
        -0.75,
        3.0,
        1.5625,
        -171.0,
        1.015625,
        2.0**-10,
        3e-38,
        -7e-40,
        2.0**-100,
        1.7e38,
        -3.3e38,
        0.007205963134765625,
    ],
)
def test_long_sigmoid_is_correctly_rounded(dtype, gradient):
    """Every value of the forward output in one contiguous array of odd length: short gradients give many ties."""
    y = every_value(dtype)[:-1]
    grad = np.full(y.shape, rounding.convert(np.array(gradient), dtype))
    assert_correct("sigmoid_backward", grad, y, (), dtype)


def test_brain_sigmoid_of_every_pair_of_significands():
    """Every significand of the gradient and every y whose results are exact in DOUBLE, one binade of y at a time.

    Results next to powers of two and ties are among them; y below 2**-24 and from 2**24 on are computed otherwise.
    """
    binades = np.add.outer((0, 256), np.arange(103 - 3, 151 + 3)).ravel()  # both signs
    grad = (0x3F80 + np.arange(128, dtype=np.uint16))[:, None, None]
    y = (128 * binades[:, None] + np.arange(128)).astype(np.uint16)[None]
    grads, ys = (rounding.from_bits(np.ascontiguousarray(bits), DType.BFLOAT16) for bits in (grad, y))
    wide_grad, wide_y = rounding.decode(grads), rounding.decode(ys)
    expected = rounding.convert(wide_grad * wide_y * (1 - wide_y), DType.BFLOAT16)
    wrong = 0
    for row in range(128):
        for binade in range(len(binades)):
            found = nonpu.sigmoid_backward(np.full(128, grads[row, 0, 0]), ys[0, binade])
            wrong += int(np.count_nonzero(rounding.bits_of(found) != rounding.bits_of(expected[row, binade])))
    assert wrong == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_zeros_of_sigmoid_have_the_sign_of_the_formula_in_every_layout(dtype):
    values = rounding.convert(np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0]), dtype)
    grad, y = np.repeat(values, 200 * len(values)), np.tile(np.repeat(values, 200), len(values))
    zero = (grad == 0) | (y == 0) | (y == 1)
    expected = np.signbit(grad) ^ np.signbit(y) ^ (y.astype(np.float64) > 1)
    column, rows = values[:, None], y.reshape(len(values), -1)
    for found in (nonpu.sigmoid_backward(grad, y), nonpu.sigmoid_backward(column, rows).ravel()):
        assert np.array_equal(found == 0, zero)
        assert np.array_equal(np.signbit(found)[zero], expected[zero])
    by_value = [nonpu.sigmoid_backward(grad[y == value], values[[at]]) for at, value in enumerate(values) if at > 1]
    assert not zero.all()
    for value, found in zip(values[2:], by_value, strict=True):
        assert found.tobytes() == nonpu.sigmoid_backward(grad, y)[y == value].tobytes()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("beta", [None, 1.702, -0.3, 1e-3, 300.0, 1e38, 0.0, -1e-42, math.nan, math.inf])
def test_swish_is_correctly_rounded(dtype, beta):
    """Every value of x, times special gradients (infinite ones have their own test)."""
    assert_correct("swish_backward", gradients(dtype, infinite=False), every_value(dtype), (beta,), dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("beta", [1.0, -1.702])
def test_swish_with_an_infinite_gradient_follows_the_documented_formula(dtype, beta):
    """Every value of x but those where the FLOAT formula's own rounding decides between NaN and infinity."""
    x = every_value(dtype)
    with np.errstate(invalid="ignore"):
        t = rounding.decode(x) * float(np.float32(beta))
    decided = (np.abs(t + 1.2784645) > 1e-4) & (np.abs(t + 88.7228) > 1e-3)
    grad = rounding.convert(np.array([[math.inf], [-math.inf]]), dtype)
    assert_correct("swish_backward", grad, x[decided], (beta,), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("seed", range(60))
def test_swish_is_correctly_rounded_for_random_betas(dtype, seed):
    """Every value of x for 60 random betas, each with random gradients."""
    rng = np.random.default_rng([16, seed])
    beta = float(np.float32(rng.choice([-1, 1]) * 2.0 ** rng.uniform(-12, 12)))
    grad = rounding.from_bits(rng.integers(0, 65536, 12).astype(np.uint16), dtype)[:, None]
    grad = grad[np.isfinite(rounding.decode(grad[:, 0]))]
    assert_correct("swish_backward", grad, every_value(dtype), (beta,), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("seed", range(10))
def test_sigmoid_and_leaky_relu_are_correctly_rounded_for_random_gradients(dtype, seed):
    """Every value of the primal input for random gradients and slopes."""
    rng = np.random.default_rng([17, seed])
    grad = rounding.from_bits(rng.integers(0, 65536, 16).astype(np.uint16), dtype)[:, None]
    assert_correct("sigmoid_backward", grad, every_value(dtype), (), dtype)
    slope = float(rng.standard_normal() * 2.0 ** rng.integers(-20, 20))
    assert_correct("leaky_relu_backward", grad, every_value(dtype), (slope,), dtype, signed_zero=True)
