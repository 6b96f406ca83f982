"""The error of a result in units in the last place: one number for every pair of a result and an exact value.

The unit is the spacing of the type at the exact value: that of the subnormals at the bottom, that of the last binade
beyond the largest finite value. The error is signed, positive where the result is too large, and has no jump anywhere:

- an infinite result for a finite value stands for the first power of two out of range, and is right (0) beyond it;
- NaN for NaN, an infinity for the same infinity, and a zero of either sign for 0 are right;
- NaN against a number, and an infinity of the exact value against anything else, are wrong by infinity.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from nonpu.verify import rounding
from nonpu.verify.rounding import COMPONENT, LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nonpu.dtypes import DType
    from nonpu.verify.golden import Reference
    from nonpu.verify.rounding import Layout, Real
    from nonpu.verify.values import Values

# Magnitudes above it are all the same wrong answer; it keeps their difference inside the range of a double.
_FAR = 1000


def unit(exact: Real, dtype: DType, floor: int | None = None) -> Fraction:
    """Return the spacing of a floating type at a finite exact value.

    Parameters
    ----------
    exact : int, float, Fraction or mpf
        Exact value.
    dtype : DType
        FLOAT, FLOAT16, BFLOAT16 or DOUBLE.
    floor : int, optional
        The unit is at least that of the binade [2**(floor-1), 2**floor).
    """
    layout = LAYOUTS[dtype]
    number = rounding.fraction(exact)
    exponent = layout.quantum if number == 0 else rounding.binade(number)
    quantum = rounding.quantum(exponent, layout)
    return Fraction(2) ** (quantum if floor is None else max(quantum, floor - layout.precision))


def error(actual: float, exact: Real, dtype: DType, floor: int | None = None) -> float:
    """Return the signed error of one result, in units; computed in rational numbers.

    Parameters
    ----------
    actual : float
        Result; a value of the type.
    exact : int, float, Fraction or mpf
        Exact value; an infinity or NaN as a float.
    dtype, floor
        As in `unit`.
    """
    if isinstance(exact, float) and not math.isfinite(exact):
        if actual == exact or (math.isnan(actual) and math.isnan(exact)):
            return 0.0
        return math.copysign(math.inf, -exact) if math.isinf(exact) and not math.isnan(actual) else math.inf
    if math.isnan(actual):
        return math.inf
    number = rounding.fraction(exact)
    result = number
    if math.isinf(actual):
        edge = Fraction(2) ** LAYOUTS[dtype].largest
        if number * int(math.copysign(1, actual)) < edge:
            result = edge * int(math.copysign(1, actual))
    else:
        result = Fraction(actual)
    quotient = (result - number) / unit(number, dtype, floor)
    if abs(quotient) < 2**_FAR:
        return float(quotient)
    return math.inf if quotient > 0 else -math.inf


def errors(actual: NDArray[Any], reference: Reference, dtype: DType) -> NDArray[np.float64]:
    """Return the signed error of every element, in units.

    Parameters
    ----------
    actual : array
        Results, of the promoted type and in the shape of the reference.
    reference : Reference
        Exact results.
    dtype : DType
        Promoted type.

    Returns
    -------
    float64 array
        In the shape of `actual`; with a trailing axis of length 2 for complex types.
    """
    wide = rounding.decode(actual)
    layout = LAYOUTS[COMPONENT.get(dtype, dtype)]
    if dtype not in COMPONENT:
        return _errors(wide, reference.components[0], None, layout)
    pairs = zip((wide.real, wide.imag), reference.components, reference.floors, strict=True)
    return np.stack([_errors(part, values, floor, layout) for part, values, floor in pairs], axis=-1)


def _errors(
    actual: NDArray[np.float64], values: Values, floor: NDArray[np.int64] | None, layout: Layout
) -> NDArray[np.float64]:
    step = np.minimum(rounding.spacing(values, layout), layout.largest - layout.precision)
    if floor is not None:  # also of a modulus out of range: what cancels beside it is no more certain than there
        step = np.maximum(step, floor - layout.precision)
    with np.errstate(all="ignore"):
        high, low = (np.ldexp(part, _power(values.exponent - step)) for part in (values.high, values.low))
        mantissa, exponent = np.frexp(actual)
        result = np.ldexp(mantissa, _power(exponent - step))
        edge = np.copysign(np.ldexp(1.0, _power(layout.largest - step)), actual)
        beyond = np.isinf(actual) & (np.where(actual > 0, high, -high) >= np.abs(edge))
        result = np.where(np.isinf(actual), edge, result)
        difference = np.where(beyond, 0.0, (result - high) - low)
    difference = np.where(np.abs(difference) < 2.0**_FAR, difference, np.copysign(np.inf, difference))
    difference = np.where(np.isnan(actual), np.inf, difference)
    special = np.where(np.isinf(values.high) & ~np.isnan(actual), np.copysign(np.inf, -values.high), np.inf)
    right = (actual == values.high) | (np.isnan(actual) & np.isnan(values.high))
    return np.where(values.finite, difference, np.where(right, 0.0, special))


def _power(shift: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.clip(shift, -2000, _FAR + 1).astype(np.int32)


def describe(index: tuple[int, ...], size: float, actual: Any, expected: Any, inputs: Mapping[str, Any]) -> str:
    """Return one line on one result: where, how wrong, and every number as hexadecimal float and bits.

    Parameters
    ----------
    index : tuple of int
        Position of the element.
    size : float
        Its error in units.
    actual, expected : NumPy scalars
        Result and correctly rounded value.
    inputs : mapping
        Arguments by name, NumPy scalars or Python numbers.
    """
    arguments = ", ".join(f"{name}={_hex(value)}" for name, value in inputs.items())
    return (
        f"[{', '.join(map(str, index))}] {size:+.4g} ULP: got {_hex(actual)}, expected {_hex(expected)} for {arguments}"
    )


def _hex(value: Any) -> str:
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return f"({_hex(array.real[()])}, {_hex(array.imag[()])})"
    if array.dtype.kind in "biu" or array.dtype == object:
        return str(value)
    bits = np.frombuffer(array.tobytes()[::-1], np.uint8)  # little-endian machines only, as the kernels' are
    return f"{float(array).hex()} (0x{bits.tobytes().hex()}, {float(array)!r})"
