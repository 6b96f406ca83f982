"""How each data type is read from memory and written to it, with exactly one rounding.

Numbers are computed as "float32" or "float64".  ``reader(dtype, compute)`` gives
``read(base, index, stride, offset) -> value`` and ``writer(dtype, compute)`` gives
``write(base, index, stride, offset, value)``, both Numba functions, for every data type by its Python name.  Real
kernels, complex kernels and moves all use these two.

16-bit floats are bit patterns.  DOUBLE becomes FLOAT16 by way of FLOAT *rounded to odd*, from which a second rounding
gives the same as one (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
rounding to odd", 2008).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from nonpu.engine import intrinsics as machine
from nonpu.engine.intrinsics import (
    bits_double,
    bits_single,
    double_bits,
    half_to_single,
    machine_half_to_single,
    machine_single_to_half,
    single_bits,
    single_to_half,
    to_double,
    to_single,
)

ITEM_SIZE = {
    "int8": 1, "uint8": 1, "bool": 1,
    "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4,
    "int64": 8, "uint64": 8, "float64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip
COMPONENT = {"complex64": "float32", "complex128": "float64"}
REAL = ("float16", "bfloat16", "float32", "float64")

# 2**112 moves the exponent of a FLOAT16 pattern, read as FLOAT, to its place; subnormal patterns become exact too.
HALF_SCALE = np.float32(2.0**112)
HALF = np.float32(0.5)
CUT = 2**29 - 1  # the mantissa bits that DOUBLE has and FLOAT has not
SIGN = -(2**63)
BRAIN_LEAST, BRAIN_MOST = 2.0**-126, 2.0**130
BRAIN_DROP = 1.5 * 2.0**45  # its last bit is worth 2**-7, as that of a BFLOAT16 beside 1


def soft_half_to_single(pattern: Any) -> Any:
    """FLOAT16 to FLOAT in integer arithmetic, for processors without such an instruction."""
    sign = np.uint32(np.uint32(pattern & 0x8000) << 16)
    magnitude = np.uint32(pattern & 0x7FFF)
    bits = single_bits(bits_single(np.uint32(magnitude << 13)) * HALF_SCALE)
    special = np.uint32(0x7F800000 if magnitude >= 0x7C00 else 0)
    return bits_single(np.uint32(np.uint32(bits | special) | sign))


def soft_single_to_half(value: Any) -> Any:
    """FLOAT to FLOAT16, to nearest even, in integer arithmetic."""
    bits = single_bits(value)
    sign = np.uint32(np.uint32(bits >> 16) & 0x8000)
    magnitude = np.uint32(bits & 0x7FFFFFFF)
    # Ties to even: 0xFFF and the lowest kept bit carry into it exactly when the cut part asks for that.
    normal = np.uint32(np.uint32(magnitude - 0x38000000 + 0xFFF + (np.uint32(magnitude >> 13) & 1)) >> 13)
    # Beside 0.5 the spacing of FLOAT is that of subnormal FLOAT16, so that the addition rounds.
    subnormal = np.uint32(single_bits(bits_single(magnitude) + HALF) - 0x3F000000)
    kept = subnormal if magnitude < 0x38800000 else normal
    kept = np.uint32(0x7C00) if magnitude >= 0x477FF000 else kept
    quiet = np.uint32(np.uint32(np.uint32(magnitude >> 13) & 0x3FF) | 0x7E00)
    return np.uint16((quiet if magnitude > 0x7F800000 else kept) | sign)


def fast_half_to_single(pattern: Any) -> Any:
    """FLOAT16 to FLOAT by the processor's instruction."""
    return machine_half_to_single(pattern)


def fast_single_to_half(value: Any) -> Any:
    """FLOAT to FLOAT16 by the processor's instruction."""
    return machine_single_to_half(value)


@njit(no_cpython_wrapper=True)
def brain_to_single(pattern: Any) -> Any:
    return bits_single(np.uint32(np.uint32(pattern) << 16))


@njit(no_cpython_wrapper=True)
def round_to_brain(value: Any) -> Any:
    """FLOAT to BFLOAT16, to nearest even: the pattern in the upper half of the result; the lower is not cleared."""
    bits = single_bits(value)
    rounded = np.uint32(bits + np.uint32(np.uint32(np.uint32(bits >> 16) & 1) + 0x7FFF))
    # Rounding could carry a NaN's payload into infinity, so a NaN is cut off and made quiet.
    return np.uint32(bits | 0x400000) if value != value else rounded


@njit(no_cpython_wrapper=True)
def single_to_brain(value: Any) -> Any:
    return np.uint16(np.uint32(round_to_brain(value) >> 16))


@njit(no_cpython_wrapper=True)
def half_to_odd(value: Any) -> Any:
    """DOUBLE to FLOAT for a later rounding to FLOAT16: cut, and set the last bit if anything was cut off.

    Below the normal FLOATs, where the conversion rounds once more, FLOAT16 is 0 anyway.
    """
    bits = double_bits(value)
    return to_single(bits_double((bits | ((bits & CUT) + CUT)) & ~CUT))


@njit(no_cpython_wrapper=True)
def double_in_brain(value: Any) -> Any:
    """Round a DOUBLE to the nearest value of BFLOAT16, ties to even, still as a DOUBLE.

    The sum with a power of two of the right size drops the bits below the last one that BFLOAT16 has at the value's
    exponent or, below the normal range, at the lowest exponent.  Overflow is left to the conversion that follows.
    """
    bits = double_bits(value)
    power = bits_double(bits & 0x7FF0000000000000)
    power = BRAIN_LEAST if power < BRAIN_LEAST else power
    power = BRAIN_MOST if power > BRAIN_MOST else power
    dropper = power * BRAIN_DROP
    return bits_double(double_bits((value + dropper) - dropper) | (bits & SIGN))


def _loader(dtype: str) -> Any:
    codes = {"float16": "u2", "bfloat16": "u2", "float32": "f4", "float64": "f8"}
    return getattr(machine, f"load_{codes[dtype]}")


@cache
def reader(dtype: str, compute: str) -> Any:
    """Return ``read(base, index, stride, offset) -> value`` of the compute type, exact, for a real data type."""
    load = _loader(dtype)
    to_natural = {"float16": half_to_single, "bfloat16": brain_to_single}.get(dtype, _same)
    if dtype == "float64" and compute != "float64":
        raise ValueError(f"float64 cannot be computed as {compute}")
    widen = to_double if compute == "float64" and dtype != "float64" else _same

    @njit(no_cpython_wrapper=True)
    def read(base: Any, index: Any, stride: Any, offset: Any) -> Any:
        return widen(to_natural(load(base, index, stride, offset)))

    return read


@cache
def loader(dtype: str, compute: str, step: int = 1) -> Any:
    """Return ``load(index, base) -> value``: one of adjacent elements, or of every so manieth."""
    read, stride = reader(dtype, compute), ITEM_SIZE[dtype] * step

    @njit(no_cpython_wrapper=True)
    def load(index: Any, base: Any) -> Any:
        return read(base, index, stride, 0)

    return load


@njit(no_cpython_wrapper=True)
def positive_half(base: Any, index: Any, stride: Any, offset: Any) -> Any:
    """Return 1, as a FLOAT, where the FLOAT16 in memory is above 0, and 0 elsewhere, NaN included."""
    bits = machine.load_u2(base, index, stride, offset)
    return np.float32(1.0) if np.uint16(bits - np.uint16(1)) < np.uint16(0x7C00) else np.float32(0.0)


@njit(no_cpython_wrapper=True)
def _same(value: Any) -> Any:
    return value


@njit(no_cpython_wrapper=True)
def _half_from_double(value: Any) -> Any:
    return single_to_half(half_to_odd(value))


@njit(no_cpython_wrapper=True)
def _brain_from_double(value: Any) -> Any:
    return np.uint16(np.uint32(_double_to_brain_bits(value) >> 16))


@njit(no_cpython_wrapper=True)
def _truth(value: Any) -> Any:
    return np.uint8(1 if value != 0 else 0)


FROM = {
    ("float32", "float32"): (_same, machine.store_f4),
    ("float32", "float64"): (to_double, machine.store_f8),
    ("float32", "float16"): (single_to_half, machine.store_u2),
    ("float32", "bfloat16"): (single_to_brain, machine.store_u2),
    ("float64", "float64"): (_same, machine.store_f8),
    ("float64", "float32"): (to_single, machine.store_f4),
    ("float64", "float16"): (_half_from_double, machine.store_u2),
    ("float64", "bfloat16"): (_brain_from_double, machine.store_u2),
    ("float32", "bool"): (_truth, machine.store_u1),
    ("float64", "bool"): (_truth, machine.store_u1),
}


@cache
def converter(compute: str, dtype: str) -> tuple[Any, Any]:
    """Return ``encode(value)`` and ``store(base, index, stride, offset, encoded)`` for a real or integer data type."""
    if (compute, dtype) in FROM:
        return FROM[compute, dtype]
    limits, number = np.iinfo(dtype), np.dtype(compute).type
    zero, lowest, largest = number(0), number(limits.min), limits.dtype.type(limits.max)
    # The largest number that the integer type holds: rounding its maximum may have gone up.
    top = number(limits.max) if int(number(limits.max)) <= limits.max else np.nextafter(number(limits.max), zero)
    code = f"{limits.kind}{limits.bits // 8}"
    convert = machine.truncate(machine.f4 if compute == "float32" else machine.f8, getattr(machine, code))

    @njit(no_cpython_wrapper=True)
    def saturate(value: Any) -> Any:
        kept = zero if value != value else value
        kept = lowest if kept < lowest else kept
        kept = top if kept > top else kept
        return largest if value > top else convert(kept)

    return saturate, getattr(machine, f"store_{code}")


@cache
def writer(dtype: str, compute: str) -> Any:
    """Return ``write(base, index, stride, offset, value)``: convert with one rounding and store.

    Integers truncate toward zero and saturate, NaN gives 0; BOOL is "not equal to 0"; complex gets imaginary part 0.
    """
    if dtype in COMPONENT:
        half = ITEM_SIZE[dtype] // 2
        write_part = writer(COMPONENT[dtype], compute)
        zero = np.float32(0) if compute == "float32" else 0.0

        @njit(no_cpython_wrapper=True)
        def write_complex(base: Any, index: Any, stride: Any, offset: Any, value: Any) -> None:
            write_part(base, index, stride, offset, value)
            write_part(base, index, stride, offset + half, zero)

        return write_complex
    encode, store = converter(compute, dtype)

    @njit(no_cpython_wrapper=True)
    def write(base: Any, index: Any, stride: Any, offset: Any, value: Any) -> None:
        store(base, index, stride, offset, encode(value))

    return write


@cache
def pair_reader(compute: str) -> tuple[Any, Any]:
    """Return ``read(index, base) -> value`` of the first and of the second of two adjacent BFLOAT16.

    Pairs stay in 32-bit lanes, which saves the shuffles between 16-bit and 32-bit vectors.
    """
    widen = to_double if compute == "float64" else _same

    @njit(no_cpython_wrapper=True)
    def first(index: Any, base: Any) -> Any:
        return widen(bits_single(np.uint32(machine.load_u4(base, index, 4, 0) << 16)))

    @njit(no_cpython_wrapper=True)
    def second(index: Any, base: Any) -> Any:
        return widen(bits_single(np.uint32(machine.load_u4(base, index, 4, 0) & 0xFFFF0000)))

    return first, second


@njit(no_cpython_wrapper=True)
def _double_to_brain_bits(value: Any) -> Any:
    return single_bits(to_single(double_in_brain(value)))


@cache
def pair_writer(compute: str) -> Any:
    """Return ``write(base, index, first, second)``: round and store two adjacent BFLOAT16."""
    encode = _double_to_brain_bits if compute == "float64" else round_to_brain

    @njit(no_cpython_wrapper=True)
    def write(base: Any, index: Any, first: Any, second: Any) -> None:
        low, high = np.uint32(encode(first) >> 16), np.uint32(encode(second) & 0xFFFF0000)
        machine.store_u4(base, index, 4, 0, np.uint32(high | low))

    return write
