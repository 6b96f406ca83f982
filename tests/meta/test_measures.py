"""The measures themselves: known errors are found, and numbers agree with rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonpu.dtypes import DType
from nonpu.verify import measures, rounding, standards, survey, trust, ulp
from nonpu.verify.compare import Worst
from nonpu.verify.measures import Norm, Totals
from nonpu.verify.rounding import LAYOUTS

FLOATING = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE)
COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
ids: dict[str, Any] = {"ids": lambda dtype: dtype.python_name}


def totals_of(actual, expected, dtype):
    """Return totals and the worst elements under `binary`, block by block."""
    totals, worst = Totals(dtype), Worst(3)
    for start, stop in measures.spans(expected.size):
        found = measures.block(measures.flat(actual, start, stop), measures.flat(expected, start, stop), dtype, start)
        totals.add(found)
        worst.add(measures.score(found, dtype, standards.find("binary")), start)
    return totals, worst.found


@pytest.fixture(scope="module")
def million():
    """A million ordinary numbers."""
    return np.random.default_rng(5).normal(size=1_000_000) * 4


@pytest.mark.parametrize("dtype", [*FLOATING, *COMPLEX], **ids)
@pytest.mark.parametrize("place", [measures.BLOCK - 1, measures.BLOCK, 999_999])
def test_one_unit_in_one_element_of_a_million_is_found(million, dtype, place):
    """Value, count and index, wherever blocks begin and end."""
    expected = million.astype(rounding.numpy_dtype(dtype))
    actual = expected.copy()
    width = LAYOUTS[rounding.COMPONENT.get(dtype, dtype)].width
    bits = actual.view(f"u{width // 8}")
    # Toward the neighbour with the larger magnitude: a whole unit, except across a power of two.
    bits[place * (2 if dtype in COMPLEX else 1)] += 1
    totals, worst = totals_of(actual, expected, dtype)
    assert (totals.count, totals.equal, totals.special, totals.max_units) == (1_000_000, 999_999, 0, 1.0)
    assert [index for _, index in worst] == [place]


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_swapped_specials_and_signs_are_found(dtype):
    """NaN for infinity, infinity for NaN, the wrong infinity, a flipped sign, a flipped zero."""
    expected = np.linspace(1, 2, 1000).astype(rounding.numpy_dtype(dtype))
    expected[:4] = math.nan, math.inf, -math.inf, 0.0
    for index, value in ((0, math.inf), (1, math.nan), (2, math.inf), (7, math.nan), (8, -math.inf)):
        actual = expected.copy()
        actual[index] = value
        totals, worst = totals_of(actual, expected, dtype)
        assert (totals.special, worst) == (1, [(math.inf, index)])
    actual = expected.copy()
    actual[9] = -actual[9]
    totals, worst = totals_of(actual, expected, dtype)
    assert totals.max_units == 2 * float(expected[9]) * 2 ** (LAYOUTS[dtype].precision - 1)
    assert worst[0][1] == 9
    actual = expected.copy()
    actual[3] = -0.0
    totals, worst = totals_of(actual, expected, dtype)
    assert (totals.equal, totals.identical, totals.max_units) == (1000, 999, 0.0)
    assert [index for _, index in worst] == [3]


@pytest.mark.parametrize("dtype", FLOATING, **ids)
def test_subnormals_are_not_nothing(dtype):
    """The smallest subnormal instead of 0, and 0 instead of it, are errors of one unit."""
    smallest = rounding.decode_bits(1, dtype)
    kind = rounding.numpy_dtype(dtype)
    for a, g in ((smallest, 0.0), (0.0, smallest), (-smallest, 0.0), (smallest, 2 * smallest)):
        totals, _ = totals_of(np.array([a], kind), np.array([g], kind), dtype)
        assert (totals.equal, totals.max_units, totals.max_absolute) == (0, 1.0, smallest)


@pytest.mark.parametrize("dtype", FLOATING, **ids)
@settings(deadline=None)
@given(st.data())
def test_units_agree_with_rational_arithmetic(dtype, data):
    """Any two finite values of a type, the ends of its range included."""
    pattern = st.integers(0, LAYOUTS[dtype].infinity - 1)
    g = rounding.decode_bits(data.draw(pattern), dtype)
    near = data.draw(st.integers(-40, 40)) + rounding.nearest_bits(g, dtype)
    a = rounding.decode_bits(
        data.draw(st.one_of(pattern, st.just(min(max(near, 0), LAYOUTS[dtype].infinity - 1)))), dtype
    )
    a *= data.draw(st.sampled_from([1, -1]))
    kind = rounding.numpy_dtype(dtype)
    found = measures.block(np.array([a], kind), np.array([g], kind), dtype)
    exact = abs(ulp.error(a, Fraction(g), dtype))
    if math.isfinite(exact):
        assert found.units[0] == pytest.approx(exact, rel=1e-15)
    else:
        assert found.units[0] > 2.0**900
    difference = abs(Fraction(a) - Fraction(g))
    if difference < 2**1023:
        assert found.absolute[0] == pytest.approx(float(difference), rel=1e-15)
    # The tolerance, exactly.
    row = standards.MIXED[dtype]
    limit = Fraction(row.absolute) + Fraction(row.relative) * abs(Fraction(g))
    assert bool(measures.outside(found, dtype)[0]) == (abs(Fraction(a) - Fraction(g)) > limit)


@settings(deadline=None)
@given(st.data())
def test_tolerance_is_exact_at_its_edge(data):
    """Values within a few steps of |a - g| = atol + rtol |g|, where doubles round: the answer is that of fractions."""
    dtype = data.draw(st.sampled_from(FLOATING))
    row = standards.MIXED[dtype]
    g = rounding.decode_bits(data.draw(st.integers(0, LAYOUTS[dtype].infinity // 2)), dtype)
    edge = Fraction(g) + Fraction(row.absolute) + Fraction(row.relative) * Fraction(g)
    bits = rounding.nearest_bits(edge, dtype) + data.draw(st.integers(-2, 2))
    a = rounding.decode_bits(max(bits, 0), dtype)
    kind = rounding.numpy_dtype(dtype)
    found = measures.block(np.array([a, -a], kind), np.array([g, -g], kind), dtype)
    expected = abs(Fraction(a) - Fraction(g)) > Fraction(row.absolute) + Fraction(row.relative) * Fraction(g)
    assert measures.outside(found, dtype).tolist() == [expected] * 2


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_integer_distances_do_not_wrap(kind):
    """From the least to the greatest value of the type."""
    limits = np.iinfo(kind)
    found = measures.block(
        np.array([limits.min, limits.max], kind), np.array([limits.max, limits.min], kind), DType.parse(kind)
    )
    assert found.absolute.tolist() == [float(int(limits.max) - int(limits.min))] * 2


def test_a_sum_of_squares_keeps_its_range():
    """3-4-5 at both ends of the range of a double, and in blocks."""
    for factor in (5e-324, 1e-200, 1.0, 1e200, 3e307):
        norm = Norm()
        norm.add(np.array([3 * factor]))
        norm.add(np.array([0.0, 4 * factor]))
        assert norm.value == pytest.approx(5 * factor, rel=1e-14)


def test_blocks_of_any_layout_are_read_in_c_order():
    """Transposed, reversed, Fortran-ordered, broadcast and rank-0 arrays."""
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (
        array,
        array.T,
        array[::-1, :, ::-1],
        np.asfortranarray(array),
        np.broadcast_to(array[:, :1], (2, 3, 4)),
    ):
        assert measures.flat(view, 5, 11).tolist() == view.flatten()[5:11].tolist()
    assert measures.flat(np.array(7.0), 0, 1).tolist() == [7.0]


def test_worst_elements_are_the_greatest_of_all_blocks():
    """Ties go to the first index; elements without an error are never listed."""
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 50, 1000).astype(float)
    worst = Worst(20)
    for start in range(0, 1000, 64):
        worst.add(scores[start : start + 64], start)
    order = sorted(range(1000), key=lambda i: (-scores[i], i))[:20]
    assert [index for _, index in worst.found] == order
    few = Worst(5)
    few.add(np.array([0.0, 2.0, 0.0, math.inf]), 10)
    assert few.found == [(math.inf, 13), (2.0, 11)]
    none = Worst(0)
    none.add(scores, 0)
    assert none.found == []


def test_bins_of_errors_and_values():
    """Edges belong to the lower bin of errors; values stand in the order of the number line."""
    errors = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 2.0**20, 2.0**20 + 1, 1e300, math.inf])
    assert survey.unit_bins(errors).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 22, 23, 23, survey.MISPLACED]
    values = np.array([-math.inf, -1e9, -8, -7, -1, -1e-9, -0.0, 0.0, 1e-9, 1, 1.3, 1.9, 2, 8, 1e9, math.nan])
    bins = survey.value_bins(values)
    assert bins[0] == bins[-1] == survey.VALUE_BINS - 1
    assert bins[1:-1].tolist() == sorted(bins[1:-1].tolist())
    for value in (0.375, 1.0, 1.75, 6.0, 100.0):
        (index,) = survey.value_bins(np.array([value]))
        assert survey.value_edge(int(index)) <= value < survey.value_edge(int(index) + 1)
        (index,) = survey.value_bins(np.array([-value]))
        assert survey.value_edge(int(index)) < -value <= survey.value_edge(int(index) + 1)


EXPECTED = np.linspace(-1, 2, 64).astype(np.float32)


def doubt(actual, expected=EXPECTED):
    """Return the doubt about an array."""
    contents = trust.Content(), trust.Content()
    for content, array in zip(contents, (actual, expected), strict=True):
        for start in range(0, array.size, 16):
            content.add(array[start : start + 16])
    found = measures.block(actual, expected, DType.parse(expected.dtype))
    far = bool((found.shown > trust.NEAR).any())
    return trust.doubt(*contents, far, bool(found.equal.all()))


def test_arrays_that_are_no_result_are_doubted():
    """Zeros, NaN, one value, filled bytes and longer patterns."""
    assert "all elements are 0" in doubt(np.zeros_like(EXPECTED))
    assert "all elements are 0" in doubt(-np.zeros_like(EXPECTED))
    assert "all elements are NaN" in doubt(np.full_like(EXPECTED, math.nan))
    assert "same value" in doubt(np.full_like(EXPECTED, 0.7))
    for byte in (0xCD, 0xAA, 0xFF, 0x7F):
        assert f"every byte is 0x{byte:02x}" in doubt(np.full(64 * 4, byte, np.uint8).view(np.float32))
    pattern = np.frombuffer(bytes.fromhex("efbeaddebebafeca") * 32, np.float32)
    assert "ef be ad de be ba fe ca" in doubt(pattern)
    halves = np.frombuffer(bytes.fromhex("efbeadde") * 32, np.float16)
    assert "ef be ad de" in doubt(halves, EXPECTED.astype(np.float16))


def test_results_are_not_doubted_for_what_they_should_be():
    """Equal to what was expected, or near it, or wrong in an ordinary way."""
    for array in (np.zeros(64, np.float32), np.full(64, math.nan, np.float32), np.full(64, 2.5, np.float32)):
        assert doubt(array.copy(), array) == ""
    assert doubt(EXPECTED + np.float32(1)) == ""
    nearly = np.ones(64, np.float32)
    nearly[3] += np.float32(2**-23)
    assert doubt(np.ones(64, np.float32), nearly) == ""
    assert doubt(np.zeros(0, np.float32), np.zeros(0, np.float32)) == ""
    assert doubt(np.array([3], np.float32), np.array([1], np.float32)) == ""


def test_copies_of_inputs_are_recognised():
    """Same bits, type and shape; a view of another layout counts too."""
    other = EXPECTED + 1
    assert trust.copied(EXPECTED, {"gradOutput": other, "self": EXPECTED.copy()}) == "self"
    assert trust.copied(EXPECTED, {"gradOutput": other, "self": EXPECTED.reshape(8, 8)}) == ""
    square = EXPECTED.reshape(8, 8)
    assert trust.copied(square, {"self": np.asfortranarray(square)}) == "self"
