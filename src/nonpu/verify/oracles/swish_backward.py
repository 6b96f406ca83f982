"""SwishBackward: gradOutput times the derivative of x*sigma(beta*x), with sigma(t) = 1/(1 + exp(-t)).

With z = beta*x the derivative is sigma(z) * (1 + z*(1 - sigma(z))). Multiplied out with a = abs(z), e = exp(-a):
(1 + e + e*a) / (1 + e)**2 for z >= 0 and e * ((1 - a) + e) / (1 + e)**2 for z < 0. The first has no cancellation; the
second has one, at its root near z = -1.2784645427610738.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from nonpu.verify.oracles import Arithmetic, Number

DEFAULTS: Final = (1.0,)
SCALARS: Final = ((1.0,), (1.702,), (-0.3,), (1e-3,), (40.0,))

# Beyond it the derivative differs from its limit, 0 or 1, by less than 2**-11800: no type of up to 64 bits tells the
# difference, neither in the product with its largest value nor beside its closest rounding boundary.
_FLAT: Final = 8192


def exact(number: Arithmetic, grad: Number, x: Number, beta: Number) -> Number:
    """Return the gradient."""
    z = number.clip(beta * x, _FLAT)
    a = abs(z)
    e = number.exp(-a)
    q = 1 + e
    return grad * (number.choose(z >= 0, q + e * a, e * ((1 - a) + e)) / (q * q))


def documented(number: Arithmetic, grad: Number, x: Number, beta: Number) -> Number:
    """Return the device's order of operations.

    A product of finite arguments that overflows is no infinite argument: it stands for its limit. An infinite x or beta
    gives NaN, as the formula does, through the differences added here.
    """
    t = number.clip(x * beta, _FLAT) + ((x - x) + (beta - beta))
    p = 1 / (1 + number.exp(-t))
    return (((1 - p) * t) * p + p) * grad


def places(beta: float) -> tuple[float, ...]:
    """Return the root of the derivative, zero, and where exp meets the ends of FLOAT and DOUBLE."""
    ends = (80.0, 87.3, 88.7, 103.3, 700.0, 708.4, 709.8, 745.1)
    return tuple(z / beta for z in (0.0, -1.2784645427610738, 1.2784645427610738, *ends, *(-end for end in ends)))


def peer(aten: Any, grad: Any, x: Any, beta: float) -> Any:
    """Return PyTorch's result; it has the operator for beta = 1, and users compose it for any other."""
    if beta == 1:
        return aten.silu_backward(grad, x)
    z = x * beta
    sigma = aten.sigmoid(z)
    return grad * (sigma * (1 + z * (1 - sigma)))
