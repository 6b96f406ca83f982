"""Gradient of LeakyRelu."""

from __future__ import annotations

from nonpu.dtypes import FLOATS, INTEGERS, DType
from nonpu.spec.checks import Broadcast, Castable, DTypes, NotNegativeWith, Promotes, Rank, ScalarDTypes
from nonpu.spec.model import Fast, FlagParam, Kernel, Op, ScalarParam, TensorParam
from nonpu.spec.primitives import fma


def leaky_relu_backward(grad: float, x: float, slope: float) -> float:
    """Select, not multiply: NaN and both zeros take the slope, and the other branch cannot contaminate."""
    return grad if x > 0 else grad * slope


def leaky_relu_half(grad: float, x: float, slope: float) -> tuple[float, bool]:
    """FLOAT16 in FLOAT: wrong only where the product was rounded to a tie of FLOAT16.

    The factor is selected, not the result: a product with 1 makes a signalling NaN quiet, as the other function does.
    """
    return grad * (1.0 if x > 0 else slope), True


def leaky_relu_brain(grad: float, x: float, slope: float) -> tuple[float, bool]:
    """BFLOAT16 in FLOAT: the same; NaN is left to the other function, which makes a signalling NaN quiet."""
    return (grad if x > 0 else grad * slope), grad == grad


def leaky_relu_trial(grad: float, slope: float, neighbour: float) -> bool:
    """Whether FLOAT16 may round ``grad * neighbour``, a FLOAT, otherwise than the exact ``grad * slope``.

    Ties of FLOAT16, also of its subnormal numbers, and its limit have at most 12 significant bits.  Veltkamp's
    splitting gives the only such number near the product.  The roundings are the same if both products are on the same
    side of it or both are equal to it, and this does not depend on exponents.  For slopes close to simple fractions
    (0.01 is 1/100) FLOAT products often hit a tie that the exact ones miss, but those of a neighbour do not.
    The splitting overflows for slopes that turn every gradient but 0 into infinity; tiny slopes turn all into 0.
    """
    product = grad * neighbour
    scaled = product * 4097.0
    upper = scaled - (scaled - product)
    rounded, exact = product - upper, fma(grad, slope, -upper)
    other_side = ((rounded > 0.0) != (exact > 0.0)) | ((rounded < 0.0) != (exact < 0.0))
    return other_side & (abs(slope) > 2.0**-100)


# The product of a 16-bit float and a FLOAT slope is exact in DOUBLE (at most 35 bits), so that rounding the result to
# 16 bits is the only rounding; in FLOAT it would be the second one.
HALF = Fast(leaky_relu_half, DType.FLOAT, trial=leaky_relu_trial, values=1)
BRAIN = Fast(leaky_relu_brain, DType.FLOAT)
KERNELS = {
    DType.FLOAT: Kernel(leaky_relu_backward, DType.FLOAT),
    DType.FLOAT16: Kernel(leaky_relu_backward, DType.DOUBLE, fast=HALF),
    DType.BFLOAT16: Kernel(leaky_relu_backward, DType.DOUBLE, fast=BRAIN),
    DType.DOUBLE: Kernel(leaky_relu_backward, DType.DOUBLE),
}

SPEC = Op(
    "LeakyReluBackward",
    text="Gradient of the leaky rectifier: passes the gradient where the input is positive, scales it elsewhere.",
    document="aclnnLeakyReluBackward",
    formula=(
        r"\mathrm{out} = \begin{cases} \mathrm{gradOutput} & \mathrm{self} > 0 \\"
        r" \mathrm{gradOutput} \cdot \mathrm{negativeSlope} & \mathrm{self} \le 0 \end{cases}"
    ),
    params=(
        TensorParam("gradOutput", dtypes=FLOATS, text="Gradient of the loss with respect to the forward output."),
        TensorParam("self", dtypes=FLOATS, text="Forward input; the forward output if selfIsResult is true."),
        ScalarParam(
            "negativeSlope",
            dtypes=(*FLOATS, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL),
            default=0.01,
            text="Slope for inputs that are not positive.",
        ),
        FlagParam(
            "selfIsResult",
            text="Whether self is the forward output. Only forbids a negative slope; the computation is the same.",
        ),
        TensorParam(
            "out",
            role="out",
            dtypes=FLOATS,
            converted=(*INTEGERS, DType.BOOL, DType.COMPLEX64, DType.COMPLEX128),
            text="Gradient with respect to the forward input.",
        ),
    ),
    checks=(
        DTypes("gradOutput", "self"),
        ScalarDTypes("negativeSlope"),
        Rank("gradOutput", "self"),
        Broadcast("gradOutput", "self", into="out"),
        NotNegativeWith("negativeSlope", "selfIsResult"),
        Promotes("gradOutput", "self"),
        Castable("out"),
    ),
    shape_rule="gradOutput and self broadcast; out has exactly the broadcast shape.",
    notes=(
        "The comparison is strict: self = +0.0, -0.0 or NaN takes the slope.",
        "The branch is selected, so a NaN or infinity that the other branch would give does not show.",
        "The sign of zero follows IEEE multiplication. An infinite gradient times slope 0 is NaN.",
        "FLOAT16 and BFLOAT16 compute in FLOAT and round once.",
    ),
    differences=(
        "For DOUBLE tensors the slope is used as given; the device narrows it to FLOAT first.",
        "out may have an integer type or BOOL, as the document grants it; the device refuses these with 161002."
        " Integers truncate toward zero, saturate at the ends of the type, and NaN gives 0; BOOL is true where the"
        " result is not 0.",
        "BFLOAT16 as type of out is refused on products without it, as the document says; the device lets it pass.",
        "A format of self other than ND is accepted whatever the format of out.",
    ),
    example="""\
>>> x = np.array([-2, -1, 0, 3], np.float32)
>>> nonpu.leaky_relu_backward(np.ones_like(x), x, 0.5)
array([0.5, 0.5, 0.5, 1. ], dtype=float32)
""",
    kernels=KERNELS,
    bounds=dict.fromkeys(KERNELS, 0.5),
)
