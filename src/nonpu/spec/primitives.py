"""The few operations that kernels need beyond plain Python arithmetic.

Operator kernels are ordinary Python functions on floats; they run as they stand (slowly) and the engine compiles
them at build time, where each function below becomes a machine instruction or two.  The Python bodies are exact, so
that a kernel can be executed, covered and debugged without a compiler.
"""

from __future__ import annotations

import math
import struct

MAGIC = 1.5 * 2.0**52
"""Added to a double of magnitude below 2**51, it rounds that to an integer, left in the low mantissa bits."""

FLOAT_MAGIC = 1.5 * 2.0**23
"""The same for FLOAT, of magnitude below 2**22."""


def fma(a: float, b: float, c: float) -> float:
    """Return ``a*b + c`` with a single rounding."""
    plain = a * b + c
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return plain
    from fractions import Fraction  # a costly import that only uncompiled kernels need

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return plain  # the sign of an exact zero follows IEEE addition
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def power_of_two(magic_sum: float) -> float:
    """Return ``2**k`` for ``magic_sum = MAGIC + k`` with an integer ``k`` in [-1022, 1023]."""
    exponent = magic_sum - MAGIC
    return math.ldexp(1.0, int(exponent)) if exponent == exponent else exponent


def scaled(value: float, magic_sum: float) -> float:
    """Return ``value * 2**k`` for a magic sum with an integer ``k``; value and result must be normal numbers.

    Like `fma`, the compiled function works on FLOAT too; there the magic sum is ``FLOAT_MAGIC + k``.
    """
    return value * power_of_two(magic_sum)


def float_bits(value: float) -> int:
    """Return the bit pattern of a double as a signed 64-bit integer."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def bits_float(bits: int) -> float:
    """Return the double with this bit pattern (a signed 64-bit integer)."""
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)


def to_odd(value: float, rest: float) -> float:
    """Round the unevaluated sum ``value + rest`` to odd, where ``|rest|`` is at most half an ulp of ``value``.

    A number rounded to odd keeps the information on which side of a tie the exact value lies, so that a later
    rounding to a narrower type is the rounding of the exact value (Boldo and Melquiond).
    """
    grows = (rest > 0.0) == (value > 0.0)
    bits = float_bits(value)
    odd = bits_float((bits if grows else bits - 1) | 1)
    inexact = (rest > 0.0 or rest < 0.0) and value - value == 0.0 and value != 0.0
    return odd if inexact else value


def as_float(value: float) -> float:
    """Return a double rounded to FLOAT, to an infinity where it is out of range."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(single)


def with_sign(value: float, other: float) -> float:
    """Return ``value`` with the sign of ``other``, which also a zero has."""
    return math.copysign(value, other)


def difference(a: float, b: float) -> int:
    """Return 0 where two FLOATs have the same bits, another number elsewhere."""
    return 0 if a == b else 1
