"""SigmoidBackward: gradOutput * y * (1 - y), for complex types gradOutput * conj(y * (1 - y)).

y is the value of the sigmoid, used as given, also outside (0, 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nonpu.verify.oracles import Arithmetic, Number

DEFAULTS: Final = ()
SCALARS: Final = ((),)


def exact(number: Arithmetic, grad: Number, y: Number) -> Number:
    """Return the gradient of real arguments."""
    del number
    return grad * y * (1 - y)


def documented(number: Arithmetic, grad: Number, y: Number) -> Number:
    """Return the device's order of operations."""
    del number
    return ((1 - y) * grad) * y


def exact_complex(
    number: Arithmetic, grad: tuple[Number, Number], y: tuple[Number, Number]
) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    """Return the terms of both components.

    With y = a + ib and gradOutput = c + id: y*(1-y) = (1-a)a + b*b + i((1-a)b - ab).
    """
    del number
    (c, d), (a, b) = grad, y
    aa, bb, ab, ba = (1 - a) * a, b * b, (1 - a) * b, a * b
    return (c * aa, c * bb, d * ab, -(d * ba)), (d * aa, d * bb, -(c * ab), c * ba)


def documented_complex(
    number: Arithmetic, grad: tuple[Number, Number], y: tuple[Number, Number]
) -> tuple[Number, Number]:
    """Return the device's order of operations, conj((1-y)*y) * gradOutput, with textbook complex products."""
    del number
    (c, d), (a, b) = grad, y
    real, imaginary = (1 - a) * a - (-b) * b, (1 - a) * b + (-b) * a
    return real * c - -imaginary * d, real * d + -imaginary * c


def places() -> tuple[float, ...]:
    """Return the zeros of y * (1 - y), and its maximum."""
    return (0.0, 0.5, 1.0)


def peer(aten: Any, grad: Any, y: Any) -> Any:
    """Return PyTorch's result."""
    return aten.sigmoid_backward(grad, y)
