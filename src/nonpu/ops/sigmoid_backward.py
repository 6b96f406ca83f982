"""Gradient of the logistic sigmoid."""

from __future__ import annotations

from nonpu.dtypes import FLOATS, DType
from nonpu.spec.checks import Broadcast, Castable, DTypes, Promotes, Rank
from nonpu.spec.model import Kernel, Op, TensorParam
from nonpu.spec.primitives import fma, to_odd

HUGE = 2.0**500
SHRINK, GROW = 2.0**-600, 2.0**600
COMPLEX_SHRINK, COMPLEX_GROW = 2.0**-520, 2.0**520
TINY, LIFT, LOWER = 2.0**-500, 2.0**500, 2.0**-500


def sigmoid_backward(grad: float, y: float) -> float:
    """FLOAT and FLOAT16 in DOUBLE: no product of their values overflows or underflows there.

    For FLOAT16 every step is exact.  For FLOAT the three roundings together stay below 2**-51 of the result, which
    leaves the final rounding to FLOAT at 0.5 ulp.
    """
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


def sigmoid_backward_double(grad: float, y: float) -> float:
    """DOUBLE: y - y*y as an unevaluated sum of two doubles, so that one rounding remains.

    Beyond 2**500 the square could overflow although the gradient brings it back: y is scaled down, the linear term
    vanishes (it is below 2**-500 of the square), and the gradient and the result are scaled up again.  If scaling the
    gradient overflows, so does the true result.
    """
    huge = abs(y) > HUGE
    scaled = y * SHRINK if huge else y
    linear = 0.0 if huge else y
    factor = grad * GROW if huge else grad
    square = scaled * scaled
    square_low = fma(scaled, scaled, -square)
    slope = linear - square
    back = slope - linear
    slope_low = ((linear - (slope - back)) + (-square - back)) - square_low
    result = factor * slope
    low = fma(factor, slope, -result) + factor * slope_low
    # An infinity or an exact zero stands as it is: its correction would be NaN or would lose the sign.
    result = result + low if low - low == 0.0 and result != 0.0 else result
    return result * GROW if huge else result


def sigmoid_backward_complex(grad_re: float, grad_im: float, re: float, im: float) -> tuple[float, float]:
    """COMPLEX64 in DOUBLE: the textbook products of grad * conj((1 - y) * y)."""
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
    """COMPLEX128: the same products, each difference with one rounding, and scaled where the square would overflow.

    Beyond 2**500 both factors y and 1 - y are scaled by 2**-520, and a gradient below 2**-500 is lifted meanwhile, so
    that neither the products overflow nor the small gradient loses bits.
    """
    huge = abs(re) > HUGE or abs(im) > HUGE
    shrink = COMPLEX_SHRINK if huge else 1.0
    grow = COMPLEX_GROW if huge else 1.0
    one = 0.0 if huge else 1.0
    tiny = huge and abs(grad_re) < TINY and abs(grad_im) < TINY
    lift = LIFT if tiny else 1.0
    lower = LOWER if tiny else 1.0
    re, im = re * shrink, im * shrink
    grad_re, grad_im = grad_re * lift, grad_im * lift
    other_re, other_im = one - re, -im
    slope_re = difference_of_products(other_re, re, other_im, im)
    slope_im = -difference_of_products(other_re, im, -other_im, re)
    result_re = difference_of_products(slope_re, grad_re, slope_im, grad_im)
    result_im = difference_of_products(slope_re, grad_im, -slope_im, grad_re)
    return result_re * (grow * lower) * grow, result_im * (grow * lower) * grow


KERNELS = {
    DType.FLOAT: Kernel(sigmoid_backward, DType.DOUBLE),
    DType.FLOAT16: Kernel(sigmoid_backward, DType.DOUBLE),
    DType.BFLOAT16: Kernel(sigmoid_backward_sticky, DType.DOUBLE),
    DType.DOUBLE: Kernel(sigmoid_backward_double, DType.DOUBLE),
    DType.COMPLEX64: Kernel(sigmoid_backward_complex, DType.DOUBLE),
    DType.COMPLEX128: Kernel(sigmoid_backward_complex_double, DType.DOUBLE),
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
)
