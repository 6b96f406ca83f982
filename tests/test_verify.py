"""``nonpu verify``: the arguments reach the hard places, known errors are found, and the command says what it saw."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import nonpu
from nonpu.dtypes import DType
from nonpu.ops import OPS
from nonpu.verify import accuracy, accuracy_report, oracles, rounding, ulp
from nonpu.verify.golden import oracle
from nonpu.verify.sweeps import argument_sets
from tests import command_line

ROOT = -1.2784645427610738  # of the Swish derivative


def sets_of(name: str, dtype: DType, scalars: tuple[float, ...] = (), seed: int = 0) -> dict[str, list]:
    """Return the arguments by the name of their set."""
    found: dict[str, list] = {}
    for chosen in argument_sets(name, 2, dtype, scalars, 4096, seed):
        found.setdefault(chosen.name, []).append(chosen)
    return found


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=lambda dtype: dtype.name)
def test_every_finite_value_of_a_16_bit_type_is_an_argument(dtype):
    """All of them, with twelve gradients each."""
    chunks = sets_of("swish_backward", dtype, (1.0,))["every value"]
    values = {int(bits) for chunk in chunks for bits in rounding.bits_of(chunk.arrays[1]).ravel()}
    infinity = rounding.LAYOUTS[dtype].infinity
    assert values == {bits for bits in range(1 << 16) if bits & 0x7FFF < infinity}
    assert sum(chunk.arrays[0].size for chunk in chunks) == 12


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE], ids=lambda dtype: dtype.name)
def test_the_neighbours_of_the_root_are_arguments(dtype):
    """The values on both sides of the root of the Swish derivative, and of its mirror image for a negative beta."""
    for beta in (1.0, -0.3):
        (chosen,) = sets_of("swish_backward", dtype, (beta,))["hard places"]
        values = set(chosen.arrays[1].tolist())
        nearest = np.array(ROOT / beta).astype(dtype.python_name)
        for direction in (-math.inf, math.inf):
            assert float(np.nextafter(nearest, direction, dtype=nearest.dtype)) in values


def test_bit_patterns_cover_the_whole_range_of_float():
    """Every exponent and both signs, none twice."""
    patterns = np.concatenate([c.arrays[1] for c in sets_of("sigmoid_backward", DType.FLOAT)["bit patterns"]])
    bits = patterns.view(np.uint32)
    assert set(np.unique(bits >> 23).tolist()) == {e for e in range(512) if e & 255 != 255}
    assert np.unique(bits).size == bits.size


def test_another_seed_draws_other_arguments():
    """And the same seed the same ones."""
    first, again, other = (
        np.concatenate([c.arrays[1].ravel() for c in sets_of("sigmoid_backward", DType.FLOAT, seed=seed)[name]])
        for seed, name in ((1, "ordinary numbers"), (1, "ordinary numbers"), (2, "ordinary numbers"))
    )
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.python_name)
def test_every_operator_names_its_hard_places_and_scalars(op):
    """The first choice of scalars is the default where there is one."""
    formula = oracles.formula(op.python_name)
    for scalars in formula.SCALARS:
        assert len(scalars) == len(formula.DEFAULTS) == len(op.scalar_params)
        assert formula.places(*scalars)
    for given, default in zip(formula.SCALARS[0], formula.DEFAULTS, strict=True):
        assert default in (None, given)


def job(name: str, dtype: DType, scalars: tuple[float, ...], engines: tuple[str, ...] = ("nonpu",)) -> accuracy.Job:
    """Return a small job."""
    return accuracy.Job(name, dtype.name, scalars, 4096, 0, engines)


def test_one_unit_in_one_element_is_found(monkeypatch):
    """Among all elements of all sets; the error, the set and the element are reported."""
    right = nonpu.leaky_relu_backward

    def wrong(grad, x, *scalars):
        result = right(grad, x, *scalars)
        if result.size == 4096 and 2 < np.abs(x).max() < 100:  # the ordinary numbers
            result[1234] = np.nextafter(result[1234], np.float32(math.inf))
        return result

    (good,) = accuracy.measure(job("leaky_relu_backward", DType.FLOAT, (0.01,)))
    monkeypatch.setattr(nonpu, "leaky_relu_backward", wrong)
    (bad,) = accuracy.measure(job("leaky_relu_backward", DType.FLOAT, (0.01,)))
    assert good.right == good.elements == bad.elements
    assert bad.right == bad.elements - 1
    assert accuracy_report.held(good)
    assert not accuracy_report.held(bad)


@pytest.mark.parametrize("fault", [math.nan, math.inf, 0.0])
def test_a_wrong_special_value_is_found(monkeypatch, fault):
    """NaN for a number, a number for NaN, a zero for a number."""
    right = nonpu.sigmoid_backward

    def wrong(grad, y):
        result = right(grad, y)
        wide = np.broadcast_to(y, result.shape)
        result[np.abs(wide) == 0.5] = fault
        result[np.isnan(wide)] = 1
        return result

    monkeypatch.setattr(nonpu, "sigmoid_backward", wrong)
    (bad,) = accuracy.measure(job("sigmoid_backward", DType.FLOAT16, ()))
    assert bad.special_wrong > 0
    assert bad.largest > 100
    assert not accuracy_report.held(bad)


@pytest.mark.parametrize(
    ("op", "dtype"),
    [pytest.param(op, dtype, id=f"{op.python_name}-{dtype.name}") for op in OPS for dtype in op.kernels],
)
def test_every_operator_keeps_its_bounds(op, dtype):
    """Few elements of each set; the page has the long run."""
    for scalars in oracles.formula(op.python_name).SCALARS:
        (found,) = accuracy.measure(job(op.python_name, dtype, tuple(scalars)))
        assert accuracy_report.held(found), found


def test_results_do_not_depend_on_the_number_of_processes():
    """Nor on their order."""
    todo = [job("leaky_relu_backward", dtype, (0.3,)) for dtype in (DType.FLOAT, DType.DOUBLE)]
    assert accuracy.run(todo, 1) == accuracy.run(todo, 2)


def test_the_peer_is_measured_on_the_same_elements():
    """PyTorch loses the small value of the Swish gradient far below zero."""
    ours, theirs = accuracy.measure(job("swish_backward", DType.FLOAT, (1.0,), ("nonpu", "torch")))
    assert ours.elements == theirs.elements
    assert ours.largest <= 4 < 1e5 < theirs.largest


def test_the_unit_of_a_cancelled_component_is_that_of_the_modulus():
    """Also where the modulus is out of range: y = -max - i max gives the imaginary part max**2 beside 2 max**3."""
    largest = float(np.finfo(np.float32).max)
    unit = ulp.unit(Fraction(largest) ** 2, DType.FLOAT, floor=3 * 128 + 1)
    assert unit == Fraction(2) ** (3 * 128 + 1 - 24)
    y = np.array([complex(-largest, -largest)], np.complex64)
    grad = np.array([complex(0, -largest)], np.complex64)
    reference = oracle("sigmoid_backward").reference([grad, y], (), DType.COMPLEX64)
    errors = ulp.errors(np.array([complex(math.inf, 0)], np.complex64), reference, DType.COMPLEX64)
    assert (np.abs(errors) < 1e-6).all()


def test_the_command_prints_a_row_per_type(tmp_path):
    """And writes JSON and the page."""
    data, page = tmp_path / "a.json", tmp_path / "a.md"
    arguments = ("verify", "aclnnLeakyReluBackward", "--count", "1000", "--workers", "1")
    assert command_line.output(*arguments, "--json", data, "--report", page) == ""
    text = page.read_text(encoding="utf-8")
    for dtype in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"):
        assert f"| LeakyReluBackward | {dtype} | 0.01 |" in text
    facts = json.loads(data.read_text(encoding="utf-8"))
    assert {result["engine"] for result in facts["results"]} == {"nonpu", "torch"}
    assert command_line.output(*arguments, "--no-peers").count("LeakyReluBackward") == 8


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("aclnnTanhBackward",), "there is no operator 'aclnnTanhBackward'; known are aclnnLeakyReluBackward"),
        (("--count", "0"), "--count"),
        (("--report", "/nowhere/a.md"), "there is no folder /nowhere"),
    ],
)
def test_wrong_usage_is_refused(arguments, text):
    """One line, status 2."""
    command_line.assert_refused(command_line.nonpu("verify", *arguments), 2, text)


def test_the_page_has_every_operator_and_type():
    """docs/accuracy.md is a run of the present operators, all within their bounds."""
    text = (command_line.ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    for op in OPS:
        for dtype, bound in op.bounds.items():
            rows = [line for line in text.splitlines() if line.startswith(f"| {op.name} | {dtype.name} |")]
            assert rows
            for row in rows:
                cells = [cell.strip() for cell in row.strip("|").split("|")]
                assert float(cells[4]) <= bound == float(cells[5])
    assert ": none of them differ" in text
