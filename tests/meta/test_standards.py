"""Every standard from both sides of its thresholds, in exact fractions of the published numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from nonpu.dtypes import INTEGERS, DType
from nonpu.verify import measures, rounding, standards
from nonpu.verify.judgement import judge
from nonpu.verify.measures import Totals

F = Fraction
# rtol, atol, hard limit, t: the tables of the two published texts.
PUBLISHED = {
    DType.FLOAT16: (F(1, 2**9), F(1, 2**9), 0.1, F(1, 2**10)),
    DType.BFLOAT16: (F(1, 2**6), F(1, 2**6), 1.0, F(1, 2**7)),
    DType.FLOAT: (F(1, 2**10), F(1, 2**16), 0.01, F(1, 2**13)),
}
FLOATING = (*PUBLISHED, DType.DOUBLE)
COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
ids: dict[str, Any] = {"ids": lambda value: value.python_name if isinstance(value, DType) else None}


def reason(actual, expected, dtype, name, operator=""):
    """Return why a result fails, empty if it passes."""
    standard = standards.find(name)
    kind = rounding.numpy_dtype(dtype)
    totals = Totals(dtype, standard.units if standard.rule == "ulp" else 0.0)
    totals.add(measures.block(np.asarray(actual, kind).reshape(-1), np.asarray(expected, kind).reshape(-1), dtype))
    return judge(totals, standard, operator)[0]


def neighbours(bound: Fraction, dtype: DType) -> tuple[float, float]:
    """Return the greatest value of a type that is at most `bound`, and the next one."""
    bits = rounding.nearest_bits(bound, dtype)
    while F(rounding.decode_bits(bits, dtype)) > bound:
        bits -= 1
    return rounding.decode_bits(bits, dtype), rounding.decode_bits(bits + 1, dtype)


def scaled(dtype: DType) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """Return the thresholds of a type: those of FLOAT in the units of DOUBLE for that."""
    if dtype in PUBLISHED:
        rtol, atol, limit, t = PUBLISHED[dtype]
        return rtol, atol, F(limit), t
    rtol, atol, limit, t = PUBLISHED[DType.FLOAT]
    return rtol / 2**29, atol / 2**29, F(limit) / 2**29, t / 2**29


@pytest.mark.parametrize("dtype", PUBLISHED, **ids)
def test_thresholds_are_the_published_ones(dtype):
    """The table of data says what the two texts say."""
    rtol, atol, limit, t = PUBLISHED[dtype]
    row = standards.MIXED[dtype]
    assert [F(value) for value in (row.relative, row.absolute, standards.RELATIVE[dtype])] == [rtol, atol, t]
    assert row.limit == limit


def test_double_and_complex_follow_float():
    """As many units in the last place of DOUBLE as of FLOAT; complex types have the thresholds of their components."""
    single, double = standards.MIXED[DType.FLOAT], standards.MIXED[DType.DOUBLE]
    eps = F(float(np.finfo(np.float64).eps)) / F(float(np.finfo(np.float32).eps))
    assert eps == F(1, 2**29)
    for name in ("relative", "absolute", "limit"):
        assert F(getattr(double, name)) == F(getattr(single, name)) * eps
    assert F(standards.RELATIVE[DType.DOUBLE]) == F(standards.RELATIVE[DType.FLOAT]) * eps
    assert standards.MIXED[DType.COMPLEX64] == single
    assert standards.MIXED[DType.COMPLEX128] == double


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("golden", [F(0), F(1, 2**5), F(3, 4), F(5)])
@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_mixed_tolerance_of_one_element(dtype, golden, sign):
    """The last value inside |a - g| <= atol + rtol |g| passes, the next one fails; one of one is more than 1 %."""
    rtol, atol, _, _ = scaled(dtype)
    inside, outside = neighbours(golden + atol + rtol * golden, dtype)
    assert not reason([sign * inside], [sign * float(golden)], dtype, "mixed")
    assert "outside the tolerance" in reason([sign * outside], [sign * float(golden)], dtype, "mixed")


def test_mixed_tolerance_is_decided_exactly_where_doubles_round():
    """a - g and atol + rtol |g| both round to the same double here; only one of the two lies inside."""
    golden = 2.0**-40 + 2.0**-63
    limit = F(1, 2**16) + F(golden) / 2**10
    at = F(golden) + limit
    assert float(at) != at  # not a FLOAT, not even a double: the neighbours decide
    inside, outside = neighbours(at, DType.FLOAT)
    assert not reason([inside], [golden], DType.FLOAT, "mixed")
    assert reason([outside], [golden], DType.FLOAT, "mixed")
    # As doubles: a difference that rounds to the limit from above.
    double = standards.MIXED[DType.DOUBLE]
    g = 2.0**-60 + 2.0**-112
    exact = F(g) + F(double.absolute) + F(double.relative) * F(g)
    inside, outside = neighbours(exact, DType.DOUBLE)
    assert inside - g == outside - g or abs(outside - inside) <= 2.0**-97
    assert not reason([inside], [g], DType.DOUBLE, "mixed")
    assert reason([outside], [g], DType.DOUBLE, "mixed")


@pytest.mark.parametrize("dtype", FLOATING, **ids)
@pytest.mark.parametrize(("wrong", "passes"), [(0, True), (1, True), (10, True), (11, False)])
def test_mixed_tolerance_forgives_one_percent(dtype, wrong, passes):
    """10 of 1000 elements may lie outside, 11 may not."""
    rtol, atol, _, _ = scaled(dtype)
    _, outside = neighbours(F(1) + atol + rtol, dtype)
    actual, golden = np.ones(1000), np.ones(1000)
    actual[:wrong] = outside
    assert (reason(actual, golden, dtype, "mixed") == "") == passes


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_hard_limit(dtype):
    """One element in a thousand: an error below the limit passes, at the limit or above it fails."""
    _, _, limit, _ = scaled(dtype)
    below, above = neighbours(limit, dtype)
    if F(below) == limit:
        below, above = np.nextafter(rounding.numpy_dtype(dtype).type(below), rounding.numpy_dtype(dtype).type(0)), below
    golden = np.zeros(1000)
    for error, passes in ((below, True), (above, False)):
        actual = golden.copy()
        actual[500] = error
        assert (reason(actual, golden, dtype, "mixed") == "") == passes
    assert "hard limit" in reason(actual, golden, dtype, "mixed")


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_32_units_are_accepted_above_the_hard_limit(dtype):
    """Where a unit is large an absolute error may be: 32 units pass, 33 fail."""
    big = float(F(2) ** 15 if dtype == DType.FLOAT16 else F(2) ** 40)
    kind = rounding.numpy_dtype(dtype)
    bits = rounding.nearest_bits(F(big), dtype)
    golden = np.full(1000, big, kind)
    for steps, passes in ((32, True), (33, False)):
        actual = golden.copy()
        actual[7] = rounding.decode_bits(bits + steps, dtype)
        assert (reason(actual, golden, dtype, "mixed") == "") == passes


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_largest_relative_error(dtype):
    """One element of 1000 at 1: |a - 1| / (1 + offset) just below 10 t passes, just above fails."""
    t = scaled(dtype)[3]
    offset = F(1e-7) / (2**29 if dtype == DType.DOUBLE else 1)
    below, above = neighbours(1 + 10 * t * (1 + offset), dtype)
    golden = np.ones(1000)
    for value, passes in ((below, True), (above, False)):
        share = (F(value) - 1) / (1 + offset)
        assert (share < 10 * t) == passes
        assert abs(share - 10 * t) > 2**-50 * t  # far from where doubles could decide wrongly
        actual = golden.copy()
        actual[0] = value
        assert (reason(actual, golden, dtype, "relative") == "") == passes
    assert "largest relative error" in reason(actual, golden, dtype, "relative")


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_mean_relative_error(dtype):
    """Errors of 4 t in a share of the elements: a mean just below t passes, just above fails."""
    t = scaled(dtype)[3]
    value = float(1 + 4 * t)  # a power of two above 1: exact in every type
    assert F(value) == 1 + 4 * t
    for wrong, passes in ((250, True), (251, False)):
        # 250 of 1000 give 4 t / 4 / (1 + offset), a little below t; 251 a little more.
        actual = np.ones(1000)
        actual[:wrong] = value
        assert (reason(actual, np.ones(1000), dtype, "relative") == "") == passes
    assert "mean relative error" in reason(actual, np.ones(1000), dtype, "relative")


def test_relative_error_of_zero_counts_the_offset():
    """The published denominator: an error of 1e-10 at 0 is 1e-3 of 1e-7, below 10 * 2^-13; 2e-10 is above."""
    golden = np.ones(1000)
    golden[0] = 0
    for error, passes in ((1.2e-10, True), (1.3e-10, False)):
        assert (error / 1e-7 < 10 / 2**13) == passes
        actual = golden.copy()
        actual[0] = error
        assert (reason(actual, golden, DType.FLOAT, "relative") == "") == passes


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_root_mean_square(dtype):
    """The same error in every element, as a share of them: just below t passes, t itself fails."""
    t = scaled(dtype)[3]
    kind = rounding.numpy_dtype(dtype)
    at = float(1 + t)
    below = float(np.nextafter(kind.type(at), kind.type(1)))
    assert not reason(np.full(64, below), np.ones(64), dtype, "rms")
    assert "root mean square" in reason(np.full(64, at), np.ones(64), dtype, "rms")
    # One error of 8 t among 64 elements has the same root mean square.
    one = np.ones(64)
    one[5] = float(1 + 8 * t)
    assert reason(one, np.ones(64), dtype, "rms")
    one[5] = float(1 + F(31, 4) * t) if dtype != DType.FLOAT16 and dtype != DType.BFLOAT16 else float(1 + 6 * t)
    assert not reason(one, np.ones(64), dtype, "rms")


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e150, 1e300])
def test_root_mean_square_neither_overflows_nor_underflows(factor):
    """Squares of these are out of the range of a double; the share is not."""
    golden = np.full(100, factor)
    assert not reason(golden * (1 + 2.0**-43), golden, DType.DOUBLE, "rms")
    assert reason(golden * (1 + 2.0**-41), golden, DType.DOUBLE, "rms")


@pytest.mark.parametrize("dtype", FLOATING, **ids)
@pytest.mark.parametrize(("name", "allowed"), [("ulp", 1), ("ulp:0", 0), ("ulp:3", 3), ("high_performance", 1)])
def test_units(dtype, name, allowed):
    """N units pass, N + 1 fail, in either direction."""
    bits = rounding.nearest_bits(F(3, 2), dtype)
    for direction in (1, -1):
        for steps, passes in ((allowed, True), (allowed + 1, False)):
            value = rounding.decode_bits(bits + direction * steps, dtype)
            assert (reason([value, 1.0], [1.5, 1.0], dtype, name) == "") == passes


@pytest.mark.parametrize("dtype", FLOATING, **ids)
@pytest.mark.parametrize("name", ["correctly-rounded", "high_precision", "binary"])
def test_one_unit_fails_where_none_is_allowed(dtype, name):
    """The words' promise for FLOAT16, kept for all types; also at a power of two, where a step down is half a unit."""
    for bits in (rounding.nearest_bits(F(3, 2), dtype), rounding.nearest_bits(F(1), dtype), 1):
        golden = rounding.decode_bits(bits, dtype)
        assert not reason([golden], [golden], dtype, name)
        assert reason([rounding.decode_bits(bits + 1, dtype)], [golden], dtype, name)
        assert reason([rounding.decode_bits(bits - 1, dtype)], [golden], dtype, name)


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_sign_of_zero(dtype):
    """It counts in an exact match and, for LeakyRelu, in correct rounding; nowhere else."""
    for name in ("mixed", "relative", "rms", "ulp:0", "correctly-rounded"):
        assert not reason([-0.0, 1], [0.0, 1], dtype, name, "aclnnSwishBackward")
    assert "sign of zero" in reason([-0.0, 1], [0.0, 1], dtype, "binary")
    assert "sign of zero" in reason([-0.0, 1], [0.0, 1], dtype, "correctly-rounded", "aclnnLeakyReluBackward")
    assert not reason([-0.0, 1], [-0.0, 1], dtype, "correctly-rounded", "aclnnLeakyReluBackward")


ALL = [standard.name for standard in standards.STANDARDS] + [*standards.WORDS]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_nan_and_infinity_come_first(dtype, name):
    """One misplaced special value in a thousand fails under every standard; those in place do not disturb."""
    golden = np.ones(1000)
    golden[:3] = math.nan, math.inf, -math.inf
    assert not reason(golden, golden, dtype, name)
    largest = float(np.finfo(rounding.numpy_dtype(dtype)).max) if dtype != DType.BFLOAT16 else 3.3895e38
    for place, value in (
        (0, 1.0),
        (0, math.inf),
        (1, math.nan),
        (1, -math.inf),
        (1, largest),
        (2, math.inf),
        (9, math.inf),
        (9, math.nan),
    ):
        actual = golden.copy()
        actual[place] = value
        assert "misplaced" in reason(actual, golden, dtype, name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", COMPLEX, **ids)
def test_complex_components(dtype, name):
    """Specials are compared by component; beside one that is right the other component is still judged."""
    golden = np.array([complex(math.nan, 1), complex(math.inf, -2), 1 + 1j])
    assert not reason(golden, golden, dtype, name)
    for place, value in ((0, complex(1, math.nan)), (1, complex(-math.inf, -2)), (2, complex(1, math.nan))):
        actual = golden.copy()
        actual[place] = value
        assert "misplaced" in reason(actual, golden, dtype, name)
    actual = golden.copy()
    actual[0] = complex(math.nan, 2)
    assert reason(actual, golden, dtype, name)


@pytest.mark.parametrize("dtype", COMPLEX, **ids)
def test_complex_errors_are_measured_at_the_modulus(dtype):
    """3 + 4i has the modulus 5: atol + 5 rtol bounds the modulus of the difference, the unit is that of 5."""
    row = standards.MIXED[dtype]
    limit = row.absolute + 5 * row.relative
    for size, passes in ((0.99 * limit, True), (1.01 * limit, False)):
        actual = np.array([3 + 4j]) + size * (0.6 - 0.8j)
        assert (reason(actual, [3 + 4j], dtype, "mixed") == "") == passes
    kind = np.float32 if dtype == DType.COMPLEX64 else np.float64
    unit = float(np.spacing(kind(5)))
    golden = complex(5, 2.0**-20)
    for steps, passes in ((1, True), (2, False)):
        assert (reason([golden + 1j * steps * unit], [golden], dtype, "ulp") == "") == passes


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [*INTEGERS, DType.BOOL], **ids)
def test_integers_match_bit_for_bit_under_every_standard(dtype, name):
    """One element of a thousand off by one fails."""
    golden = np.arange(1000) % 2
    assert not reason(golden, golden, dtype, name)
    actual = golden.copy()
    actual[3] = 0
    assert "1 of 1000" in reason(actual, golden, dtype, name)


def test_names():
    """Words and ulp:N are found; anything else is refused with the names that there are."""
    assert standards.find("default").rule == standards.find("single_bm").rule == "mixed"
    assert standards.find("ULP:2.5").units == 2.5
    assert standards.find("ulp").units == standards.find("high_performance").units == 1
    assert standards.find("exact").name == "binary"
    for name in ("", "ulp:", "ulp:-1", "ulp:nan", "ulp:inf", "ulp:x", "mixed:2", "best"):
        with pytest.raises(ValueError, match="standard"):
            standards.find(name)


def test_every_standard_is_printed_with_its_source():
    """Name, text, source and thresholds."""
    text = standards.render()
    for standard in standards.STANDARDS:
        assert standard.text in text
        assert standard.source in text
    for word in standards.WORDS:
        assert word in text
    assert "2^-16" in text
