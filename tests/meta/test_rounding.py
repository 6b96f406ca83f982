"""The rounding of exact values, against NumPy's and ml_dtypes' casts, against neighbours, and against itself."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nonpu.dtypes import DType
from nonpu.verify import rounding
from nonpu.verify.rounding import LAYOUTS
from nonpu.verify.values import Values, exactly

HALVES = (DType.FLOAT16, DType.BFLOAT16)
FLOATING = (*HALVES, DType.FLOAT, DType.DOUBLE)
INTEGER_TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def random_doubles(count: int, seed: int) -> np.ndarray:
    """Return random bit patterns, and as many with the magnitudes around the limits of the narrow types."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    scaled = rng.standard_normal(count) * 2.0 ** rng.integers(-160, 140, count)
    return np.concatenate([patterns, scaled, rng.standard_normal(count) * 2.0 ** rng.integers(-30, 20, count)])


def as_values(numbers: list[Fraction], bound: float = 0.0) -> Values:
    """Return rational numbers of up to about 100 digits as exact values."""
    zero = exactly(np.zeros(len(numbers)))
    values = zero.replaced(range(len(numbers)), numbers)
    return Values(values.high, values.low, values.exponent, np.full(len(numbers), bound))


@pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: dtype.python_name)
def test_every_16_bit_pattern_survives_decoding_and_rounding(dtype):
    """Decoding is exact and rounding an exact value gives it back, signs of zero included."""
    patterns = np.arange(65536, dtype=np.uint16)
    decoded = rounding.decode(rounding.from_bits(patterns, dtype))
    numbers = ~np.isnan(decoded)
    assert decoded[numbers].tolist() == [rounding.decode_bits(int(p), dtype) for p in patterns[numbers]]
    assert [rounding.nearest_bits(float(v), dtype) for v in decoded[numbers]] == patterns[numbers].tolist()
    bits, undecided = rounding.round_values(exactly(decoded), dtype)
    assert np.array_equal(bits[numbers], patterns[numbers])
    assert (bits[~numbers] == LAYOUTS[dtype].nan).all()
    assert not undecided.any()


@pytest.mark.parametrize("dtype", HALVES, ids=lambda dtype: dtype.python_name)
def test_midpoints_of_all_16_bit_neighbours_round_to_even(dtype):
    """A midpoint goes to the even neighbour, anything beside it to the nearer one, up to the edge of infinity."""
    layout = LAYOUTS[dtype]
    patterns = range(0, layout.infinity, 3)
    top = Fraction(2) ** layout.largest
    decoded = [Fraction(rounding.decode_bits(p, dtype)) for p in patterns]
    above = [top if p + 1 == layout.infinity else Fraction(rounding.decode_bits(p + 1, dtype)) for p in patterns]
    middles = [(a + b) / 2 for a, b in zip(decoded, above, strict=True)]
    even = [p + (p & 1) for p in patterns]
    for move, expected in ((0, even), (-1, list(patterns)), (1, [p + 1 for p in patterns])):
        moved = [m * (1 + move * Fraction(1, 2**90)) for m in middles]
        assert [rounding.nearest_bits(m, dtype) for m in moved] == expected
        assert [rounding.nearest_bits(-m, dtype) for m in moved] == [layout.sign | e for e in expected]
        bits, undecided = rounding.round_values(as_values(moved), dtype)
        assert bits.tolist() == expected
        assert not undecided.any()


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
def test_the_last_midpoint_before_infinity(dtype):
    """Half a unit beyond the largest finite value is infinity; anything less is not."""
    layout = LAYOUTS[dtype]
    largest = Fraction(rounding.decode_bits(layout.infinity - 1, dtype))
    edge = largest + Fraction(2) ** (layout.largest - layout.precision - 1)
    below = edge - Fraction(2) ** (layout.largest - 95)
    for sign, bit in ((1, 0), (-1, layout.sign)):
        assert rounding.nearest_bits(sign * edge, dtype) == layout.infinity | bit
        assert rounding.nearest_bits(sign * below, dtype) == layout.infinity - 1 | bit
        bits, _ = rounding.round_values(as_values([sign * edge, sign * below, sign * edge * 2**3000]), dtype)
        assert bits.tolist() == [layout.infinity | bit, layout.infinity - 1 | bit, layout.infinity | bit]


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
def test_the_first_midpoint_above_zero(dtype):
    """Half of the smallest subnormal is a zero with the sign of the value; anything more is that subnormal."""
    layout = LAYOUTS[dtype]
    half = Fraction(2) ** (layout.quantum - 1)
    cases = [half, half * (1 + Fraction(1, 2**90)), -half, -half * (1 + Fraction(1, 2**90)), half / 2**5000]
    expected = [0, 1, layout.sign, layout.sign | 1, 0]
    assert [rounding.nearest_bits(case, dtype) for case in cases] == expected
    assert rounding.round_values(as_values(cases), dtype)[0].tolist() == expected


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.FLOAT16], ids=lambda dtype: dtype.python_name)
def test_narrowing_agrees_with_numpy(dtype):
    """NumPy rounds DOUBLE to FLOAT and to FLOAT16 directly; both implementations give its bits."""
    doubles = random_doubles(20_000, seed=1)
    with np.errstate(all="ignore"):
        expected = rounding.bits_of(doubles.astype(rounding.numpy_dtype(dtype)))
        found = rounding.bits_of(rounding.convert(doubles, dtype))
    assert np.array_equal(found, expected)
    assert [rounding.nearest_bits(float(v), dtype) for v in doubles[::20]] == expected[::20].tolist()


def test_float_to_bfloat16_agrees_with_ml_dtypes():
    """ml_dtypes rounds FLOAT to BFLOAT16 directly."""
    singles = np.random.default_rng(2).integers(0, 2**32, 50_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = rounding.bits_of(singles.astype(ml_dtypes.bfloat16))
    assert np.array_equal(rounding.bits_of(rounding.convert(singles, DType.BFLOAT16)), expected)


@pytest.mark.parametrize(("dtype", "digits"), [(DType.FLOAT16, 11), (DType.BFLOAT16, 8)])
def test_double_reaches_16_bits_in_one_rounding(dtype, digits):
    """A value just above a midpoint, which FLOAT would round to the midpoint and then down to even."""
    value = 1 + 2.0**-digits + 2.0**-40
    twice = rounding.round_number(rounding.round_number(value, DType.FLOAT), dtype)
    assert twice == 1.0
    assert rounding.decode(rounding.convert(np.array([value]), dtype)).tolist() == [1 + 2.0 ** (1 - digits)]


def test_large_integers_round_to_float_once():
    """An integer between a FLOAT midpoint and the next DOUBLE; by way of DOUBLE it would go down to even."""
    value = 2**60 + 2**36 + 1
    assert float(np.float32(float(value))) == 2.0**60
    assert rounding.round_number(value, DType.FLOAT) == 2.0**60 + 2.0**37


def test_numbers_of_every_kind_round_alike():
    """Integers, floats, rational and multi-precision numbers of one value; specials of float and mpf."""
    for kind in (int, float, Fraction, mpmath.mpf):
        assert rounding.nearest_bits(kind(-3), DType.FLOAT16) == 0xC200
    with mpmath.workprec(200):
        third = mpmath.mpf(1) / 3
    assert rounding.round_number(third, DType.DOUBLE) == 1 / 3
    assert rounding.nearest_bits(-math.inf, DType.BFLOAT16) == 0xFF80
    assert rounding.nearest_bits(mpmath.mpf("inf"), DType.FLOAT) == 0x7F800000
    assert math.isnan(rounding.round_number(math.nan, DType.DOUBLE))
    assert rounding.nearest_bits(-0.0, DType.FLOAT16) == 0x8000
    assert rounding.nearest_bits(0, DType.FLOAT16, negative=True) == 0x8000


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
@given(st.data())
def test_arrays_and_single_numbers_round_alike(dtype, data):
    """The two implementations agree on values of 106 digits near every kind of rounding boundary."""
    layout = LAYOUTS[dtype]
    pattern = data.draw(st.integers(0, layout.infinity - 1))
    start = Fraction(rounding.decode_bits(pattern, dtype))
    step = Fraction(2) ** rounding.quantum(rounding.binade(start) if start else layout.quantum, layout)
    part = data.draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1, 4), Fraction(-1, 2), Fraction(-1, 4)]))
    tiny = data.draw(st.sampled_from([-1, 0, 1])) * Fraction(1, 2 ** data.draw(st.integers(3, 52)))
    number = start + step * (part + tiny)
    bits, undecided = rounding.round_values(as_values([number, -number]), dtype)
    assert not undecided.any()
    assert bits.tolist() == [rounding.nearest_bits(number, dtype), rounding.nearest_bits(-number, dtype)]


def test_what_the_bound_leaves_open_is_reported():
    """An element is undecided exactly where its interval contains a rounding boundary."""
    middle = 1 + Fraction(1, 2**11)
    numbers = [middle * (1 + Fraction(n, 2**70)) for n in (-3, -1, 0, 1, 3)]
    _, undecided = rounding.round_values(as_values(numbers, bound=2.0**-69), DType.FLOAT16)
    assert undecided.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("name", INTEGER_TYPES)
def test_integers_truncate_and_saturate(name):
    """Conversion to an integer output: toward zero, saturated at both ends, 0 for NaN."""
    limits = np.iinfo(name)
    values = [0.9, -0.9, 1.5, -1.5, 100.99, math.nan, math.inf, -math.inf, 1e300, -1e300, float(limits.max), 2.0**63]
    expected = []
    for value in values:
        whole = 0 if math.isnan(value) else math.copysign(2**70, value) if math.isinf(value) else int(value)
        expected.append(max(limits.min, min(limits.max, int(whole))))
    result = rounding.convert(np.array(values), DType.parse(name))
    assert result.dtype == np.dtype(name)
    assert result.tolist() == expected


def test_bool_and_complex_conversions():
    """BOOL is `!= 0`, also for NaN; complex gets an imaginary part of 0; complex narrows by component."""
    values = np.array([0.0, -0.0, 1e-40, math.nan, -math.inf], np.float32)
    assert rounding.convert(values, DType.BOOL).tolist() == [False, False, True, True, True]
    result = rounding.convert(values, DType.COMPLEX128)
    assert result.dtype == np.complex128
    assert np.array_equal(result.real, values.astype(np.float64), equal_nan=True)
    assert (result.imag == 0).all()
    narrowed = rounding.convert(np.array([1e-46 + 3e38j, 1 / 3 + 1e39j]), DType.COMPLEX64)
    assert narrowed.real.tolist() == [0.0, float(np.float32(1 / 3))]
    assert narrowed.imag.tolist() == [float(np.float32(3e38)), math.inf]


def test_a_type_without_conversion_is_refused():
    """STRING has no values."""
    with pytest.raises(ValueError, match="convert: dtype must be"):
        rounding.convert(np.zeros(1), DType.STRING)
