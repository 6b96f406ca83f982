"""Exact decoding and single rounding of the floating formats, in plain Python.

Only host scalars pass through here; elements of tensors are converted by compiled code. Sources: IEEE 754 (binary16,
binary32), the OCP 8-bit and microscaling format specifications, and the published description of HiFloat8.
"""

from __future__ import annotations

import math
import struct

from nonpu.dtypes import DType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# Significant bits, exponent of the smallest subnormal, and the power of two at which a rounded value overflows.
_SHAPES: Final = {DType.FLOAT: (24, -149, 128), DType.FLOAT16: (11, -24, 16), DType.BFLOAT16: (8, -133, 128)}

# Exponent bits, mantissa bits, exponent bias.
_SMALL: Final = {
    DType.FLOAT8_E5M2: (5, 2, 15),
    DType.FLOAT8_E4M3FN: (4, 3, 7),
    DType.FLOAT6_E3M2: (3, 2, 3),
    DType.FLOAT6_E2M3: (2, 3, 1),
    DType.FLOAT4_E2M1: (2, 1, 1),
    DType.FLOAT4_E1M2: (1, 2, 1),
}

# Prefix code, its length, and the width of the exponent that it announces.
_HIFLOAT8_PREFIXES: Final = ((3, 2, 4), (2, 2, 3), (1, 2, 2), (1, 3, 1), (1, 4, 0))


def round_to(value: float, dtype: DType) -> float:
    """Round a real number once, to nearest even, to FLOAT, FLOAT16, BFLOAT16 or DOUBLE.

    Parameters
    ----------
    value : int or float
        An int of any size is rounded directly, never by way of a double.
    dtype : DType
        Target format; values beyond its range become infinite.
    """
    if dtype is DType.DOUBLE:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    bits, lowest, top = _SHAPES[dtype]
    if isinstance(value, int):
        return _round_int(value, bits, top)
    if value == 0.0 or value != value:
        return value
    if abs(value) >= 2.0**top:
        return math.copysign(math.inf, value)
    exponent = max(math.frexp(value)[1] - bits, lowest)
    # Scaling by a power of two is exact here, so round() decides on the exact value.
    result = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
    return math.copysign(math.inf if abs(result) >= 2.0**top else result, value)


def _round_int(value: int, bits: int, top: int) -> float:
    size = abs(value)
    excess = size.bit_length() - bits
    if excess > 0:
        quotient, rest = divmod(size, 1 << excess)
        half = 1 << (excess - 1)
        quotient += rest > half or (rest == half and quotient & 1)
        size = quotient << excess
    result = math.inf if size >= 1 << top else float(size)
    return -result if value < 0 else result


def encode_bfloat16(value: float) -> bytes:
    """Return the two bytes of the BFLOAT16 nearest to `value`, in native order."""
    (pattern,) = struct.unpack("=I", struct.pack("=f", round_to(value, DType.BFLOAT16)))
    return struct.pack("=H", pattern >> 16)


def decode_bfloat16(raw: bytes) -> float:
    """Return the value of a BFLOAT16 pattern in native order."""
    (pattern,) = struct.unpack("=H", raw)
    value: float = struct.unpack("=f", struct.pack("=I", pattern << 16))[0]
    return value


def decode_small(pattern: int, dtype: DType) -> float:
    """Return the value of an 8-, 6- or 4-bit floating pattern, which lies in the low bits of its byte."""
    if dtype is DType.FLOAT8_E8M0:
        return math.nan if pattern == 255 else math.ldexp(1.0, pattern - 127)
    if dtype is DType.HIFLOAT8:
        return _decode_hifloat8(pattern)
    exponent_bits, mantissa_bits, bias = _SMALL[dtype]
    mantissa = pattern & ((1 << mantissa_bits) - 1)
    exponent = pattern >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = -1.0 if pattern >> (mantissa_bits + exponent_bits) & 1 else 1.0
    if dtype is DType.FLOAT8_E5M2 and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if dtype is DType.FLOAT8_E4M3FN and pattern & 127 == 127:
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


def _decode_hifloat8(pattern: int) -> float:
    """Decode a HiFloat8: sign, prefix code for the exponent's width, exponent (sign, hidden leading 1), mantissa."""
    sign = -1.0 if pattern & 128 else 1.0
    body = pattern & 127
    if body >> 3 == 0:
        # Subnormal range: powers of two from 2**-22; the pattern of -0 is NaN.
        if body:
            return sign * math.ldexp(1.0, body - 23)
        return 0.0 if sign > 0 else math.nan
    if body == 0b110_1111:
        return sign * math.inf
    prefix_bits, width = next((bits, width) for code, bits, width in _HIFLOAT8_PREFIXES if body >> (7 - bits) == code)
    mantissa_bits = 7 - prefix_bits - width
    mantissa = body & ((1 << mantissa_bits) - 1)
    field = body >> mantissa_bits & ((1 << width) - 1)
    exponent = 0
    if width:
        magnitude = 1 << (width - 1) | field & ((1 << (width - 1)) - 1)
        exponent = -magnitude if field >> (width - 1) else magnitude
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - mantissa_bits)
