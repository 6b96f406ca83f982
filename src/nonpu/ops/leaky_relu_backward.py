"""Gradient of LeakyRelu."""

from __future__ import annotations

from nonpu.dtypes import FLOATS, INTEGERS, DType
from nonpu.spec.checks import Broadcast, Castable, DTypes, NotNegativeWith, Promotes, Rank, ScalarDTypes
from nonpu.spec.model import Fast, FlagParam, Kernel, Op, ScalarParam, TensorParam


def leaky_relu_backward(grad: float, x: float, slope: float) -> float:
    """Select, not multiply: NaN and both zeros take the slope, and the other branch cannot contaminate."""
    return grad if x > 0 else grad * slope


def leaky_relu_fast(grad: float, x: float, slope: float) -> tuple[float, bool]:
    """16-bit floats in FLOAT: wrong only where the product was rounded to a tie of the 16-bit type."""
    return (grad if x > 0 else grad * slope), True


# The product of a 16-bit float and a FLOAT slope is exact in DOUBLE (at most 35 bits), so that rounding the result to
# 16 bits is the only rounding; in FLOAT it would be the second one.
FAST = Fast(leaky_relu_fast, DType.FLOAT)
KERNELS = {
    DType.FLOAT: Kernel(leaky_relu_backward, DType.FLOAT),
    DType.FLOAT16: Kernel(leaky_relu_backward, DType.DOUBLE, fast=FAST),
    DType.BFLOAT16: Kernel(leaky_relu_backward, DType.DOUBLE, fast=FAST),
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
    kernels=KERNELS,
)
