"""LeakyReluBackward: gradOutput where self > 0, else gradOutput * negativeSlope.

A selection, so that the branch not taken never shows; a NaN in self is not greater than 0 and takes the slope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nonpu.verify.oracles import Arithmetic, Number

DEFAULTS: Final = (None,)
SCALARS: Final = ((0.01,), (0.3,), (-2.5,), (1e-30,))


def exact(number: Arithmetic, grad: Number, x: Number, slope: Number) -> Number:
    """Return the gradient; one product, which IEEE arithmetic extends to infinities, NaN and signed zeros."""
    return number.choose(x > 0, grad, grad * slope)


def places(slope: float) -> tuple[float, ...]:
    """Return where self changes the branch."""
    del slope
    return (0.0,)


def peer(aten: Any, grad: Any, x: Any, slope: float) -> Any:
    """Return PyTorch's result."""
    return aten.leaky_relu_backward(grad, x, slope, False)
