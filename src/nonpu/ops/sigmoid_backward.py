"""Gradient of the logistic sigmoid."""

from __future__ import annotations

from nonpu.dtypes import FLOATS, DType
from nonpu.spec.checks import Broadcast, Castable, DTypes, Promotes, Rank
from nonpu.spec.model import Fast, Kernel, Op, TensorParam
from nonpu.spec.primitives import (
    MAGIC,
    as_float,
    bits_float,
    difference,
    float_bits,
    fma,
    power_of_two,
    to_odd,
    with_sign,
)

EXPONENT_OF_1, EXPONENT_OF_2_52, FRACTION_BITS = 1023 << 52, 1075 << 52, -(2047 << 52) - 1


def sigmoid_backward_half(grad: float, y: float) -> float:
    """FLOAT16 in DOUBLE: every step is exact."""
    return grad * (y * (1.0 - y))


def sigmoid_backward_sticky(grad: float, y: float) -> float:
    """BFLOAT16 in DOUBLE: 1 - y needs more than 53 bits for tiny y, and with 8-bit factors ties are common.

    The rounding errors are collected and decide, through rounding to odd, on which side of a tie the result lies.
    """
    one_minus = 1.0 - y
    one_low = (1.0 - one_minus) - y if abs(y) < 1.0 else 1.0 - (one_minus + y)
    slope = y * one_minus
    slope_low = fma(y, one_minus, -slope) + y * one_low
    result = grad * slope
    return to_odd(result, fma(grad, slope, -result) + grad * slope_low)


def sigmoid_backward_complex_float(grad_re: float, grad_im: float, re: float, im: float) -> tuple[float, float]:
    """COMPLEX64 in DOUBLE; infinities and NaN by the textbook products in FLOAT.

    What is out of range of FLOAT is an infinity there, or 0, and makes a NaN with another infinity.
    """
    wide_re, wide_im = sigmoid_backward_complex(grad_re, grad_im, re, im)
    other_re, other_im = as_float(1.0 - re), -im
    slope_re = as_float(as_float(other_re * re) - as_float(other_im * im))
    slope_im = -as_float(as_float(other_re * im) + as_float(other_im * re))
    plain_re = as_float(slope_re * grad_re) - as_float(slope_im * grad_im)
    plain_im = as_float(slope_re * grad_im) + as_float(slope_im * grad_re)
    special = (grad_re - grad_re) + (grad_im - grad_im) + (re - re) + (im - im) != 0.0
    return plain_re if special else wide_re, plain_im if special else wide_im


def sigmoid_backward_complex(grad_re: float, grad_im: float, re: float, im: float) -> tuple[float, float]:
    """COMPLEX64 and COMPLEX128 in DOUBLE: the textbook products of grad * conj((1 - y) * y)."""
    other_re, other_im = 1.0 - re, -im
    slope_re = other_re * re - other_im * im
    slope_im = -(other_re * im + other_im * re)
    return slope_re * grad_re - slope_im * grad_im, slope_re * grad_im + slope_im * grad_re


def difference_of_products(a: float, b: float, c: float, d: float) -> float:
    """a*b - c*d within 1.5 ulp whatever cancels (Kahan); infinities as the plain expression gives them."""
    second = c * d
    rest = fma(-c, d, second)
    result = fma(a, b, -second) + rest
    return result if result - result == 0.0 else a * b - second


def sigmoid_backward_complex_double(grad_re: float, grad_im: float, re: float, im: float) -> tuple[float, float]:
    """COMPLEX128: finite arguments with exponents kept apart, infinities and NaN by the textbook products."""
    wide_re, wide_im = sigmoid_backward_complex_wide(grad_re, grad_im, re, im)
    plain_re, plain_im = sigmoid_backward_complex(grad_re, grad_im, re, im)
    special = (grad_re - grad_re) + (grad_im - grad_im) + (re - re) + (im - im) != 0.0
    return plain_re if special else wide_re, plain_im if special else wide_im


def sigmoid_backward_complex_wide(grad_re: float, grad_im: float, re: float, im: float) -> tuple[float, float]:
    """The same for finite arguments of any size: every number as a fraction in [1, 2) and an exponent of its own."""
    f_re, k_re = fraction(re)
    f_im, k_im = fraction(im)
    f_other, k_other = fraction(1.0 - re)
    f_factor, k_factor = fraction(re - 0.5)
    f_grad_re, k_grad_re = fraction(grad_re)
    f_grad_im, k_grad_im = fraction(grad_im)
    slope, k = wide_difference(f_other, f_re, k_other + k_re, -f_im, f_im, k_im + k_im)
    f_slope_re, k_slope_re = fraction(slope)
    k_slope_re = k_slope_re + k
    f_slope_im, k_slope_im = f_factor * f_im, k_factor + k_im + 1.0
    result_re, k = wide_difference(
        f_slope_re, f_grad_re, k_slope_re + k_grad_re, f_slope_im, f_grad_im, k_slope_im + k_grad_im
    )
    result_re = scale(result_re, k)
    result_im, k = wide_difference(
        f_slope_re, f_grad_im, k_slope_re + k_grad_im, -f_slope_im, f_grad_re, k_slope_im + k_grad_re
    )
    return result_re, scale(result_im, k)


def fraction(x: float) -> tuple[float, float]:
    """A finite x as f * 2**k with 1 <= abs(f) < 2; zero as 0 with an exponent below all others."""
    small = abs(x) < 2.0**-1000
    bits = float_bits(x * 2.0**100 if small else x)
    # The biased exponent, put into the low bits of a double of 2**52, becomes a number without a conversion.
    exponent = bits_float(((bits >> 52) & 2047) | EXPONENT_OF_2_52) - 2.0**52
    f = bits_float((bits & FRACTION_BITS) | EXPONENT_OF_1)
    k = exponent - (1123.0 if small else 1023.0)
    return (f if x != 0.0 else x), (k if x != 0.0 else -20000.0)


def wide_difference(a: float, b: float, k_ab: float, c: float, d: float, k_cd: float) -> tuple[float, float]:
    """a*b * 2**k_ab - c*d * 2**k_cd as a number near the larger term's fraction, and that term's exponent."""
    k = k_ab if k_ab > k_cd else k_cd
    down_ab = k_ab - k if k_ab - k > -1000.0 else -1000.0
    down_cd = k_cd - k if k_cd - k > -1000.0 else -1000.0
    return difference_of_products(a * power_of_two(down_ab + MAGIC), b, c * power_of_two(down_cd + MAGIC), d), k


def scale(x: float, k: float) -> float:
    """x * 2**k with one rounding: the exponent in four parts, of which only the last can leave the normal numbers."""
    k = 4000.0 if k > 4000.0 else (-4000.0 if k < -4000.0 else k)
    quarter = 0.25 * k + MAGIC
    part = power_of_two(quarter)
    rest = power_of_two((k - 3.0 * (quarter - MAGIC)) + MAGIC)
    return x * part * part * part * rest


# From here on y - y*y is -y*y to the last bit and beyond, and y may be infinite.
FLOAT_HUGE, DOUBLE_HUGE = 2.0**60, 2.0**500


def sigmoid_float(grad: float, y: float) -> float:
    """FLOAT: y - y*y with one rounding, and the product; at most 1.5 ulps.

    The square of a huge y could overflow although a small gradient brings it back.  The gradient times y is a normal
    number then, and overflows only where the result does.
    """
    huge = abs(y) > FLOAT_HUGE
    factor = grad * y if huge else grad
    return factor * (-y if huge else fma(-y, y, y))


def sigmoid_double(grad: float, y: float) -> float:
    """DOUBLE: the same."""
    huge = abs(y) > DOUBLE_HUGE
    factor = grad * y if huge else grad
    return factor * (-y if huge else fma(-y, y, y))


def sigmoid_half(grad: float, y: float) -> tuple[float, bool]:
    """FLOAT16 in FLOAT: below 2 ulps; infinities and NaN as in the formula, so that nothing else is left out.

    The gradient times y is exact, and so is 1 - y but for y between -2**-13 and 0.
    """
    return (grad * y) * (1.0 - y), True


CLAMP = 256.0
FLOOR = 1.3125 * 2.0**-100


def sigmoid_brain(grad: float, y: float) -> tuple[float, int]:
    """BFLOAT16 in FLOAT: the exact product rounded once, and a number that is 0 where that is exact.

    The gradient times y, w, has 16 bits, w*y 24.  Exactness matters where the result is a tie, a number of 9 bits:
    then w - result is exact for abs(y) < 256 and equal to w*y if the result is.  ``CLAMP`` makes them differ for larger
    y, ``FLOOR`` where w*y could underflow.  All pairs of gradient and y were tried:
    1.3125 * 2**-100 never makes an inexact tie look exact, most powers of two do so twice.
    """
    product = grad * y
    clamped = y if y < CLAMP else CLAMP
    clamped = clamped if clamped > -CLAMP else -CLAMP
    result = fma(-product, y, product)
    return with_sign(result, product * (1.0 - y)), difference(product - result, fma(product, clamped, FLOOR))


FAR_DOWN, BACK_UP, HALF_WIDTH = 2.0**-102, -(2.0**102), 2.0**16
EXACT_BELOW = 2.0**24


def sigmoid_brain_flagged(grad: float, y: float) -> float:
    """BFLOAT16 in FLOAT: the exact product v = w (1 - y), rounded once, to 8 bits.

    The gradient times y, w, has 16 bits.  t is 2**16 times v rounded to FLOAT, so that the last place of t - v is the
    last of 8 bits of v: the fused difference rounds v there, and from t it is taken without an error.  A halfway case
    goes to the even difference, which is the even result because t is even then: v has 9 bits, and t the same ones.
    (Where t - v has one bit more than t, v is next to a power of two.  With t + v it could have one less.)

    1 - y is exact for 2**-17 <= abs(y) < 2**24.  With a smaller y, v is so near to w that only its side counts, and
    that only where w is a tie: the last of its 16 bits is worth 2**-15 of the first, and v is less than 2**-16 away.
    Down to abs(y) = 2**-24 the side is kept by rounding 1 - y to FLOAT, but for -2**-24, and then w has 8 bits and is
    no tie.  For what is smaller still, but 0, ``y * FAR_DOWN`` is subnormal.  Where w or t leave the normal numbers,
    that is noted too.
    """
    w = grad * y
    other = fma(y * FAR_DOWN, BACK_UP, 1.0)
    t = (w * other) * HALF_WIDTH
    return with_sign(t - fma(-w, other, t), t)


# Only for elements in whose neighbourhood something under- or overflowed: far enough from both.
COMPLEX_SMALL, COMPLEX_LARGE = 2.0**-24, 2.0**24


def sigmoid_complex(grad_re: float, grad_im: float, re: float, im: float) -> tuple[float, float, bool]:
    """COMPLEX64 in FLOAT, COMPLEX128 in DOUBLE: the products of grad * conj((1 - y) y), 3 ulps at most.

    With y = a + ib the real part of (1 - y) y is (a - a*a) + b*b: a rounding of the inner difference, one of the sum.
    ``low`` is the error of the sum, exact where the inner term is the larger, else to within a rounding of b*b.  The
    imaginary part, b - 2ab, has one rounding.  In c*real + d*imaginary the error of the rounded product is kept.  So
    before the last two roundings the error is at most |c|(|a - a*a| + b*b) + |d imaginary| times 2**-24 (2**-53), which
    is no more than all terms together: 3 ulps.  Seen: 2.6 among 3 * 10**7 random arguments, 2.86 by search for the
    worst.  All this holds unless an operation under- or overflows, which the processor notes: `nonpu.engine.guarded`.
    """
    inner = fma(-re, re, re)
    slope_re = fma(im, im, inner)
    low = fma(im, im, inner - slope_re)
    slope_im = fma(-2.0 * re, im, im)
    first, second = slope_im * grad_im, slope_im * grad_re
    result_re = fma(slope_re, grad_re, first) + fma(low, grad_re, fma(slope_im, grad_im, -first))
    result_im = fma(slope_re, grad_im, -second) + fma(low, grad_im, fma(-slope_im, grad_re, second))
    sure = ordinary(grad_re) & ordinary(grad_im) & ordinary(re) & ordinary(im)
    return result_re, result_im, sure


def ordinary(x: float) -> bool:
    """Whether nothing can go wrong with a number of this size."""
    return (abs(x) >= COMPLEX_SMALL and abs(x) <= COMPLEX_LARGE) or x == 0.0


BRAIN = Fast(sigmoid_brain, DType.FLOAT, error=None, flagged=sigmoid_brain_flagged, limit=EXACT_BELOW)
KERNELS = {
    DType.FLOAT: Kernel(sigmoid_float, DType.FLOAT),
    DType.FLOAT16: Kernel(sigmoid_backward_half, DType.DOUBLE, fast=Fast(sigmoid_half, DType.FLOAT, error=2)),
    DType.BFLOAT16: Kernel(sigmoid_backward_sticky, DType.DOUBLE, fast=BRAIN),
    DType.DOUBLE: Kernel(sigmoid_double, DType.DOUBLE),
    DType.COMPLEX64: Kernel(
        sigmoid_backward_complex_float, DType.DOUBLE, cost=0.4, fast=Fast(sigmoid_complex, DType.FLOAT)
    ),
    DType.COMPLEX128: Kernel(
        sigmoid_backward_complex_double, DType.DOUBLE, cost=0.7, fast=Fast(sigmoid_complex, DType.DOUBLE)
    ),
}

DTYPES = (*FLOATS, DType.COMPLEX64, DType.COMPLEX128)

SPEC = Op(
    "SigmoidBackward",
    text="Gradient of the logistic sigmoid, from the forward output.",
    document="aclnnSigmoidBackward",
    formula=r"\mathrm{gradInput} = \mathrm{gradOutput} \cdot \overline{y\,(1 - y)}, \qquad y = \mathrm{output}",
    params=(
        TensorParam("gradOutput", dtypes=DTYPES, text="Gradient of the loss with respect to the forward output."),
        TensorParam("output", dtypes=DTYPES, text="Forward output: the value of the sigmoid, not its argument."),
        TensorParam("gradInput", role="out", dtypes=DTYPES, text="Gradient with respect to the forward input."),
    ),
    checks=(
        DTypes("gradOutput", "output", "gradInput"),
        Rank("gradOutput", "output"),
        Promotes("gradOutput", "output"),
        Castable("gradInput"),
        Broadcast("gradOutput", "output", into="gradInput"),
    ),
    shape_rule="gradOutput and output broadcast; gradInput has exactly the broadcast shape.",
    example="""\
>>> y = np.array([0.25, 0.5, 0.75], np.float32)
>>> nonpu.sigmoid_backward(np.ones_like(y), y)
array([0.1875, 0.25  , 0.1875], dtype=float32)
""",
    notes=(
        "output is used as given, also outside (0, 1).",
        "output = 0 or 1 gives 0; times an infinite gradient, NaN.",
        "output = +inf or -inf gives -inf times the sign of the gradient; a gradient of 0, NaN.",
        "Complex products are the textbook products, without recovery of infinities.",
        "Real inputs into a complex gradInput give an imaginary part of 0.",
        "FLOAT16 and BFLOAT16 compute in FLOAT and round once.",
    ),
    differences=(
        "Complex types conjugate y (1 - y), as the device and PyTorch do; the document's formula shows no conjugate.",
        "Rank 0 is accepted, as the device does; the document says 1 to 8.",
        "BFLOAT16 is refused for all three tensors on products without it, as the document says; the device tests"
        " gradOutput only.",
    ),
    stream_const=True,
    kernels=KERNELS,
    bounds={
        DType.FLOAT: 1.5,
        DType.FLOAT16: 0.5,
        DType.BFLOAT16: 0.5,
        DType.DOUBLE: 1.5,
        DType.COMPLEX64: 3.0,
        DType.COMPLEX128: 3.0,
    },
)
