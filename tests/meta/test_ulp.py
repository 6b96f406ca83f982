"""The error metric: known values, the special cases, and the array form against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nonpu.dtypes import DType
from nonpu.verify import rounding, ulp
from nonpu.verify.golden import Reference, oracle
from nonpu.verify.rounding import LAYOUTS
from nonpu.verify.values import exactly

FLOATING = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE)


def reference_of(numbers: list[Fraction | float], floors: np.ndarray | None = None) -> Reference:
    """Return rational numbers and special floats as exact results."""
    rational = [Fraction(0) if isinstance(n, float) else n for n in numbers]
    values = exactly(np.zeros(len(numbers))).replaced(range(len(numbers)), rational)
    special = np.array([isinstance(n, float) for n in numbers])
    values = values.overwritten(special, np.array([n for n in numbers if isinstance(n, float)], np.float64))
    return Reference((values,), (floors,))


def array_error(actual: float, exact: Fraction | float, dtype: DType) -> float:
    """Return the error of one element from the array form."""
    array = rounding.convert(np.array([actual]), dtype)
    return float(ulp.errors(array, reference_of([exact]), dtype)[0])


@pytest.mark.parametrize(
    ("dtype", "exact", "expected"),
    [
        (DType.FLOAT, Fraction(1), Fraction(1, 2**23)),
        (DType.FLOAT, Fraction(2**24 - 1, 2**24), Fraction(1, 2**24)),
        (DType.FLOAT, Fraction(0), Fraction(1, 2**149)),
        (DType.FLOAT, Fraction(1, 2**140), Fraction(1, 2**149)),
        (DType.FLOAT, Fraction(10) ** 60, Fraction(2) ** 104),
        (DType.FLOAT16, Fraction(65504), Fraction(32)),
        (DType.BFLOAT16, Fraction(3), Fraction(1, 64)),
        (DType.DOUBLE, Fraction(-1), Fraction(1, 2**52)),
    ],
)
def test_the_unit_is_the_spacing_at_the_exact_value(dtype, exact, expected):
    """Normal and subnormal values, zero, and values out of range."""
    assert ulp.unit(exact, dtype) == expected


SPECIAL = [
    (math.nan, math.nan, 0.0),
    (math.nan, Fraction(1), math.inf),
    (1.0, math.nan, math.inf),
    (math.inf, math.nan, math.inf),
    (math.inf, math.inf, 0.0),
    (-math.inf, math.inf, -math.inf),
    (1.0, math.inf, -math.inf),
    (1.0, -math.inf, math.inf),
    (math.nan, math.inf, math.inf),
    (0.0, Fraction(0), 0.0),
    (-0.0, Fraction(0), 0.0),
    (2.0**-149, Fraction(0), 1.0),
    (0.0, Fraction(1, 2**150), -0.5),
    (-0.0, Fraction(1, 2**9999), 0.0),
    (math.inf, Fraction(2) ** 128, 0.0),
    (math.inf, Fraction(2) ** 5000, 0.0),
    (math.inf, Fraction(2) ** 128 - Fraction(2) ** 104, 1.0),
    (math.inf, Fraction(2) ** 127, float(2**23)),
    (math.inf, Fraction(1), float(2**151)),
    (-math.inf, -(Fraction(2) ** 128), 0.0),
    (-math.inf, Fraction(2) ** 128, -float(2**25)),
    (float(np.finfo(np.float32).max), Fraction(2) ** 128, -1.0),
    (float(np.finfo(np.float32).max), Fraction(2) ** 5000, -math.inf),
    (1.0 + 2.0**-23, Fraction(1), 1.0),
    (1.0 - 2.0**-24, Fraction(1), -0.5),
    (1.0, 1 + Fraction(1, 2**24) + Fraction(1, 2**60), -0.5 - 2.0**-37),
]


@pytest.mark.parametrize(("actual", "exact", "expected"), SPECIAL)
def test_special_cases_are_defined(actual, exact, expected):
    """Both forms give the documented number for NaN, infinities, zeros, overflow and binade edges of FLOAT."""
    assert ulp.error(actual, exact, DType.FLOAT) == expected
    assert array_error(actual, exact, DType.FLOAT) == pytest.approx(expected, rel=1e-15, abs=2.0**-200)


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
@given(st.data())
def test_arrays_and_single_numbers_are_judged_alike(dtype, data):
    """The array form agrees with rational arithmetic for any two values."""
    layout = LAYOUTS[dtype]
    pattern = st.integers(0, layout.infinity - 1)
    exact = Fraction(rounding.decode_bits(data.draw(pattern), dtype))
    exact *= 1 + Fraction(data.draw(st.integers(-(2**20), 2**20)), 2 ** data.draw(st.integers(21, 60)))
    exact *= data.draw(st.sampled_from([1, -1]))
    near = rounding.nearest_bits(exact, dtype) + data.draw(st.integers(-5, 5))
    bits = data.draw(st.one_of(pattern, st.just(min(max(near, 0), 2**layout.width - 1))))
    actual = rounding.decode_bits(bits, dtype)
    expected = ulp.error(actual, exact, dtype)
    assert array_error(actual, exact, dtype) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("dtype", FLOATING, ids=lambda dtype: dtype.python_name)
@given(st.data())
def test_correct_rounding_is_within_half_a_unit_and_neighbours_are_not(dtype, data):
    """The nearest value has an error of at most 0.5; the next ones are wrong by more, in the direction they moved."""
    layout = LAYOUTS[dtype]
    pattern = data.draw(st.integers(2, layout.infinity - 3))
    exact = Fraction(rounding.decode_bits(pattern, dtype))
    exact += ulp.unit(exact, dtype) * Fraction(data.draw(st.integers(-999, 999)), 2001)
    nearest = rounding.nearest_bits(exact, dtype)
    assert abs(ulp.error(rounding.decode_bits(nearest, dtype), exact, dtype)) <= 0.5
    assert ulp.error(rounding.decode_bits(nearest + 1, dtype), exact, dtype) > 0.5
    assert ulp.error(rounding.decode_bits(nearest - 1, dtype), exact, dtype) <= -0.25


def test_a_component_that_cancels_is_judged_by_the_modulus():
    """y = 1/2 + it has y(1-y) = 1/4 + t*t + 0i: the imaginary part cancels, the real one does not."""
    y, grad = np.array([0.5 + 0.25j], np.complex64), np.array([1 + 0j], np.complex64)
    reference = oracle("sigmoid_backward").reference([grad, y], (), DType.COMPLEX64)
    modulus = 0.3125
    step = float(np.spacing(np.float32(modulus)))
    actual = np.array([complex(modulus + step, 2 * step)], np.complex64)
    assert ulp.errors(actual, reference, DType.COMPLEX64).tolist() == [[1.0, 2.0]]
    lone = np.array([1e-30 + 1j], np.complex64)
    reference = oracle("sigmoid_backward").reference([lone, np.array([0.5 + 0j], np.complex64)], (), DType.COMPLEX64)
    found = ulp.errors(np.array([0.25j], np.complex64), reference, DType.COMPLEX64)
    assert abs(found[0, 0]) > 1000  # small without cancellation: its own unit counts
    assert found[0, 1] == 0


def test_a_report_names_every_number_in_full():
    """Index, error, result, correct value and arguments, as hexadecimal float and bits."""
    one = np.float32(1)
    text = ulp.describe((3, 4), -1.25, one, np.float32(2), {"self": np.float32(-0.1), "beta": 1.5})
    assert text.startswith("[3, 4] -1.25 ULP: got 0x1.0000000000000p+0 (0x3f800000, 1.0), expected 0x1.0")
    assert "self=-0x1.99999a0000000p-4 (0xbdcccccd" in text
    assert "beta=0x1.8" in text
