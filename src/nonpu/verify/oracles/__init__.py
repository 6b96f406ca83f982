"""The exact value of each operator, one module per operator, found by the operator's Python name.

The modules know mathematics only: nothing of the kernels, and no floating-point type. A module has

`exact(number, *inputs, *scalars)`
    The formula for finite arguments, in exact arithmetic. Inputs and scalars are numbers of the arithmetic `number`.
`documented(number, *inputs, *scalars)`, optional
    The documented formula, operation by operation, for infinite and NaN arguments in IEEE arithmetic. Where it is left
    out, `exact` holds for these too.
`exact_complex`, `documented_complex`, optional
    The same for pairs (real, imaginary). The exact formula gives two sequences of terms, whose sums are the components.
`DEFAULTS`
    Value of each scalar that is not given; None where it must be.
`SCALARS`, `places(*scalars)`
    For measuring errors: choices of the scalars, the usual one first, and the values of the last input where the
    formula vanishes, cancels, branches or leaves the range of a type.
`peer(aten, *inputs, *scalars)`
    The same gradient by PyTorch's operators, `aten` being their namespace.

The arithmetic is either the one of intervals below, for one element to any precision, or one for many elements at once
that carries a bound of its error.
"""

from __future__ import annotations

import importlib
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import mpmath
from mpmath.ctx_iv import MPIntervalContext

if TYPE_CHECKING:
    from types import ModuleType

# Operands know + - * / among each other and with Python's integers, abs, and comparison with 0.
Number: TypeAlias = Any


class Arithmetic(Protocol):
    """What a formula needs besides the operators."""

    def exp(self, value: Number) -> Number:
        """Return the exponential."""

    def choose(self, condition: Any, left: Number, right: Number) -> Number:
        """Take `left` where the condition holds, `right` elsewhere."""

    def clip(self, value: Number, limit: int) -> Number:
        """Return the value, or +-limit where its magnitude is greater."""


class Intervals:
    """Arithmetic on intervals that contain the exact value, at a precision in bits."""

    def __init__(self, precision: int) -> None:
        self._context = MPIntervalContext()
        self._context.prec = precision

    def number(self, value: float) -> Number:
        """Return a finite double as an interval of width 0."""
        return self._context.make_mpf((mpmath.libmp.from_float(value),) * 2)

    def exp(self, value: Number) -> Number:
        """Return the exponential."""
        return self._context.exp(value)

    def choose(self, condition: Any, left: Number, right: Number) -> Number:
        """Take `left` if the condition holds, else `right`."""
        return left if condition else right

    def clip(self, value: Number, limit: int) -> Number:
        """Return the value, or +-limit if its magnitude is greater."""
        if abs(value) > limit:
            return self._context.mpf(limit if value > 0 else -limit)
        return value


def ends(interval: Number) -> tuple[Fraction, Fraction]:
    """Return both ends of an interval."""
    low, high = (Fraction(*mpmath.libmp.to_rational(end)) for end in interval._mpi_)
    return low, high


def formula(name: str) -> ModuleType:
    """Return the module of an operator.

    Parameters
    ----------
    name : str
        Python name of the operator, for example ``swish_backward``.

    Raises
    ------
    LookupError
        If the operator has no oracle.
    """
    path = f"{__name__}.{name}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise LookupError(f"oracle: name must be an operator with a module in {__name__} (got {name!r})") from None
