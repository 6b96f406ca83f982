"""What NumPy users bring along: views, subclasses, memory maps, numbers, arrays of no dimensions, weak promotion."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nonpu
from nonpu import AclnnError, AclnnTypeError

Array = np.ndarray[Any, Any]


class Named(np.ndarray):
    """A subclass with an attribute of its own."""

    name: str = "x"


def numbers(*shape: int) -> Array:
    """Return normal numbers."""
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "sliced": lambda a: a[1::3, ::2],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "window": lambda a: np.lib.stride_tricks.sliding_window_view(a, 5, axis=1)[:, :7, 0],
    "Fortran": np.asfortranarray,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_are_not_copied(layout: str) -> None:
    """The memory that a call takes is that of its result, whatever the strides of its inputs."""
    view = LAYOUTS[layout](numbers(1500, 900))
    nonpu.swish_backward(view, view, 1.5)
    out = np.empty(view.shape, np.float32)
    peaks = []
    for _ in range(3):  # other threads of the test runner take memory now and then
        tracemalloc.start()
        try:
            nonpu.swish_backward(view, view, 1.5, out=out)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < 20_000
    copy = np.ascontiguousarray(view)
    assert np.array_equal(out, nonpu.swish_backward(copy, copy, 1.5))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses(tmp_path: Path) -> None:
    """Read like arrays; results are plain arrays, but `out` is returned as it is."""
    x = numbers(4, 6)
    expected = nonpu.swish_backward(x, x)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    mapped[...] = x
    for array in (x.view(Named), np.asmatrix(x), mapped, np.rec.array(x)):
        result = nonpu.swish_backward(array, x)
        assert type(result) is np.ndarray
        assert np.array_equal(result, expected)
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=x.shape)
    assert nonpu.swish_backward(mapped, mapped, out=out) is out
    assert np.array_equal(np.fromfile(tmp_path / "out", np.float32).reshape(x.shape), expected)
    with pytest.raises(AclnnTypeError, match=r"must be a NumPy array without a mask \(got a masked array\)$"):
        nonpu.swish_backward(np.ma.masked_array(x, x > 0), x)


@pytest.mark.parametrize(
    ("first", "second", "kind", "value"),
    [
        (1.0, 0.5, np.float64, 0.25),
        (1, 0.5, np.float64, 0.25),
        (2, 1, np.float64, 0.0),
        (1j, 0.5, np.complex128, 0.25j),
        (np.float32(1), np.float32(0.5), np.float32, 0.25),
        (np.float16(1), np.float32(0.5), np.float32, 0.25),
        (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(0.5), ml_dtypes.bfloat16, 0.25),
    ],
)
def test_numbers_give_a_number(first: Any, second: Any, kind: type, value: complex) -> None:
    """Python's numbers count as DOUBLE and COMPLEX128, NumPy's as what they are."""
    result = nonpu.sigmoid_backward(first, second)
    assert type(result) is kind
    assert result == value


def test_arrays_of_no_dimensions() -> None:
    """They stay arrays, alone, with a number, and as output."""
    zero = np.array(0.5, np.float32)
    result = nonpu.sigmoid_backward(zero, np.float32(0.5))
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.dtype, result.item()) == ((), np.dtype(np.float32), 0.125)
    out = np.zeros((), np.float32)
    assert nonpu.sigmoid_backward(np.float32(0.5), np.float32(0.5), out=out) is out
    assert out.item() == 0.125


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, r"must be a NumPy array \(got bool\)"),
        (10**400, r"must be a NumPy array \(got int\)"),
        ("1", r"must be a NumPy array \(got str\)"),
        ([1, 2], r"dtype must be float32, .* \(got int64\)"),
        (np.int32(3), r"dtype must be float32, .* \(got int32\)"),
        (np.array([1], ">f4"), r"dtype must be one of float32, .*, in native byte order \(got >f4\)"),
        (np.array([None]), r"dtype must be one of float32, .* \(got object\)"),
        ({}, r"must be a NumPy array \(got dict\)"),
        (np.ma.masked, r"must be a NumPy array without a mask \(got a masked array\)"),
        ([[np.ma.array([1.0], mask=[True])]], r"must be a NumPy array without a mask \(got a masked array\)"),
    ],
)
def test_other_values_are_refused(value: Any, text: str) -> None:
    """With a TypeError that is an AclnnError and so a ValueError too."""
    with pytest.raises(TypeError, match=rf"^nonpu\.swish_backward: grad_output \(gradOutput\) {text}$") as caught:
        nonpu.swish_backward(value, 1.0)
    assert isinstance(caught.value, AclnnError)
    assert isinstance(caught.value, ValueError)


CYCLE: list[Any] = [1.0]
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (CYCLE, "setting an array element with a sequence."),
        ([[1.0, 2.0], [3.0]], "setting an array element with a sequence."),
        ((1.0, [2.0, 3.0]), "setting an array element with a sequence."),
    ],
)
def test_lists_that_are_no_arrays(value: Any, text: str) -> None:
    """One line that names the parameter, with NumPy's reason."""
    with pytest.raises(AclnnError) as caught:
        nonpu.sigmoid_backward(1.0, value)
    start = "nonpu.sigmoid_backward: output must be a list of numbers or of equally long lists (got "
    assert str(caught.value).startswith(start + text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lengths", [(2**50, 1), (2**31, 2**31), (2**40, 2**40)])
def test_results_that_are_too_large(lengths: tuple[int, int]) -> None:
    """Views that repeat one element; more bytes than there are, or than can be counted."""
    one = np.ones(1, np.float32)
    first = np.lib.stride_tricks.as_strided(one, (lengths[0], 1), (0, 0))
    second = np.lib.stride_tricks.as_strided(one, (1, lengths[1]), (0, 0))
    with pytest.raises(MemoryError) as caught:
        nonpu.sigmoid_backward(first, second)
    text = f"nonpu.sigmoid_backward: no memory for a result of shape {list(lengths)} and dtype float32"
    assert str(caught.value) == text


def test_float_beside_float32_is_float64() -> None:
    """A number's type counts: NumPy's weak promotion is not the contract's."""
    with pytest.raises(TypeError, match=r"self dtype must be float32, the dtype of grad_output \(got float64\)"):
        nonpu.swish_backward(numbers(3), 0.5)
    assert nonpu.sigmoid_backward(numbers(3), 0.5).dtype == np.float64
