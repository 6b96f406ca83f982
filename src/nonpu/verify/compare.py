"""The verdict on every case: pass, fail, untrusted or error, with reason, measures, and the worst elements."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.dtypes import DType
from nonpu.verify import diagnosis, elements, measures, standards, trust
from nonpu.verify.judgement import judge
from nonpu.verify.measures import Totals, flat, spans
from nonpu.verify.rounding import COMPONENT, LAYOUTS
from nonpu.verify.store import StoreError, replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from nonpu.verify.matching import Comparison, Item
    from nonpu.verify.standards import Standard

    Array = NDArray[Any]

PASS, FAIL, UNTRUSTED, ERROR = VERDICTS = ("pass", "fail", "untrusted", "error")
WORST: Final = 5
"""Worst elements that a verdict lists unless told otherwise."""


@dataclass
class Worst:
    """The elements with the greatest scores so far.

    Parameters
    ----------
    most : int
        How many are kept.
    found : list of tuple
        Score and flat index; the greatest score first, and of equal ones the first index.
    """

    most: int
    found: list[tuple[float, int]] = field(default_factory=list)

    def add(self, scores: NDArray[np.float64], start: int) -> None:
        """Take in the scores of a block; a score of 0 is right."""
        if self.most == 0:
            return
        wrong = np.flatnonzero(scores > (self.found[-1][0] if len(self.found) == self.most else 0))
        if wrong.size:
            chosen = wrong[np.argsort(-scores[wrong], kind="stable")[: self.most]]
            self.found += [(float(scores[i]), start + int(i)) for i in chosen]
            self.found = sorted(self.found, key=lambda entry: (-entry[0], entry[1]))[: self.most]


def compare(
    comparison: Comparison,
    standard: str | None,
    *,
    worst: int = WORST,
    progress: Callable[[dict[str, Any]], None] = lambda _verdict: None,
) -> list[dict[str, Any]]:
    """Return the verdicts of all items.

    Parameters
    ----------
    comparison : Comparison
        What belongs together.
    standard : str or None
        Name of the standard for all of them; None takes the one that a case names, or else the default.
    worst : int
        Number of worst elements to list.
    progress : callable
        Is given each verdict as soon as it is known.
    """
    verdicts = []
    for item in comparison.items:
        verdicts.append(verdict(item, standard, worst))
        progress(verdicts[-1])
    return verdicts


def verdict(item: Item, standard: str | None = None, worst: int = WORST) -> dict[str, Any]:
    """Return the verdict on one item."""
    head: dict[str, Any] = {"id": item.id, "output": item.output, "operator": item.operator}
    chosen = standard or item.standard or standards.DEFAULT
    try:
        rule = standards.find(chosen)
        actual, expected, precision = load(item)
    except (StoreError, ValueError, OSError, MemoryError) as error:
        named = "" if _type(item.dtype) == DType.UNDEFINED else _type(item.dtype).name
        head |= {"dtype": named, "precision": named, "shape": list(item.shape), "standard": chosen, "verdict": ERROR}
        text = " ".join(str(error).split()) or type(error).__name__
        return head | {"reason": text, "measures": {}, "worst": [], "reproduce": item.reproduce}
    head |= {"dtype": DType.parse(expected.dtype).name, "precision": precision.name}
    head |= {"shape": list(expected.shape), "standard": rule.name}
    return head | _judged(item, actual, expected, precision, rule, worst) | {"reproduce": item.reproduce}


def _type(text: str) -> DType:
    try:
        return DType.parse(text)
    except TypeError:
        return DType.UNDEFINED


def load(item: Item) -> tuple[Array, Array, DType]:
    """Return both arrays of an item and the type whose precision they have.

    That is their own type, or the one that the operator computes in where its results are no finer: a FLOAT result in
    a DOUBLE output has the units and thresholds of FLOAT.

    Raises
    ------
    StoreError
        If one cannot be read, or they differ in type or shape, or the type cannot be judged.
    """
    if item.problem or item.actual is None or item.expected is None:
        raise StoreError(item.problem)
    expected, actual = item.expected(), item.actual()
    try:
        dtype = DType.parse(expected.dtype)
    except TypeError:
        dtype = DType.UNDEFINED
    if dtype not in standards.JUDGED:
        raise StoreError(f"{item.output or item.id}: no standard judges the type {expected.dtype}")
    if actual.dtype != expected.dtype:
        raise StoreError(f"{item.output or item.id}: type must be {expected.dtype} (got {actual.dtype})")
    if actual.shape != expected.shape:
        raise StoreError(f"{item.output or item.id}: shape must be {list(expected.shape)} (got {list(actual.shape)})")
    return actual, expected, _precision(dtype, _type(item.promoted))


def _precision(dtype: DType, promoted: DType) -> DType:
    if dtype not in COMPONENT:
        return _coarser(dtype, promoted)
    component = _coarser(COMPONENT[dtype], COMPONENT.get(promoted, promoted))
    return next((kind for kind, part in COMPONENT.items() if part == component), DType.COMPLEX64)


def _coarser(dtype: DType, promoted: DType) -> DType:
    if dtype not in LAYOUTS or promoted not in LAYOUTS:
        return dtype
    return min(dtype, promoted, key=lambda kind: LAYOUTS[kind].precision)


def units_of(standard: Standard) -> float:
    """Return the number of units above which the elements of a comparison are counted."""
    return standard.units if standard.rule == "ulp" else 0.0


def _judged(item: Item, actual: Array, expected: Array, dtype: DType, standard: Standard, worst: int) -> dict[str, Any]:
    totals, ranking = Totals(dtype, units_of(standard)), Worst(worst)
    contents = trust.Content(), trust.Content()
    for start, stop in spans(expected.size):
        a, g = flat(actual, start, stop), flat(expected, start, stop)
        found = measures.block(a, g, dtype, start)
        totals.add(found)
        ranking.add(measures.score(found, dtype, standard), start)
        for content, part in zip(contents, (a, g), strict=True):
            content.add(part)
    reason, failed = judge(totals, standard, item.operator)
    state = FAIL if reason else PASS
    far = totals.special > 0 or totals.max_units > trust.NEAR
    doubt = trust.doubt(*contents, far, totals.equal == totals.count)
    inputs = item.inputs() if totals.identical < totals.count else {}
    if not doubt and far:
        name = trust.copied(actual, inputs)
        doubt = f"the output has the bits of the input {name}" if name else ""
    if doubt:
        state, reason = UNTRUSTED, doubt
    elif reason:
        guess = diagnosis.explain(actual, expected, dtype)
        reason = f"{reason}; {guess}" if guess else reason
    if totals.count == 0:
        reason = "no elements"
    return {
        "verdict": state,
        "reason": reason,
        "measures": _measures(totals, failed),
        "worst": [_element(index, actual, expected, inputs, item, dtype) for _, index in ranking.found],
    }


def _measures(totals: Totals, failed: int) -> dict[str, Any]:
    return {
        "elements": totals.count,
        "failed_elements": failed,
        "max_ulp": elements.number(totals.max_units),
        "share_exact": totals.share_equal,
        "max_abs": elements.number(totals.max_absolute),
        "mere": elements.number(totals.mere),
        "mare": elements.number(totals.max_relative),
        "rmse": elements.number(totals.rms),
        "misplaced_specials": totals.special,
    }


def _element(
    index: int, actual: Array, expected: Array, inputs: dict[str, Array], item: Item, dtype: DType
) -> dict[str, Any]:
    place = np.unravel_index(index, expected.shape)
    one = actual[place], expected[place]
    (units,) = measures.block(np.asarray(one[0])[None], np.asarray(one[1])[None], dtype).shown
    arguments = {}
    for name, array in inputs.items():
        try:
            arguments[name] = np.broadcast_to(array, expected.shape)[place]
        except ValueError:
            continue  # an input that does not broadcast to the output has no element of its own here
    return {
        "index": [int(axis) for axis in place],
        "inputs": {name: elements.decimal(value) for name, value in (arguments | item.scalars).items()},
        "inputs_hex": {name: elements.hexadecimal(value) for name, value in arguments.items()},
        "expected": elements.decimal(one[1]),
        "expected_hex": elements.hexadecimal(one[1]),
        "actual": elements.decimal(one[0]),
        "actual_hex": elements.hexadecimal(one[0]),
        "ulp": elements.number(float(units)),
    }


def document(
    verdicts: list[dict[str, Any]], comparison: Comparison, standard: str | None, actual: Path, expected: Path
) -> dict[str, Any]:
    """Return what ``verdicts.json`` holds."""
    from importlib.metadata import version

    counts = {name: sum(entry["verdict"] == name for entry in verdicts) for name in VERDICTS}
    return {
        "nonpu": version("nonpu"),
        "standard": standards.DEFAULT if standard is None else standards.find(standard).name,
        "actual": str(actual.resolve()),
        "expected": str(expected.resolve()),
        "counts": counts,
        "refused": comparison.refused,
        "notes": comparison.notes,
        "cases": verdicts,
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write verdicts as JSON, the file whole or not at all."""
    replace_file(path, as_text(content))


def as_text(content: dict[str, Any]) -> str:
    """Return verdicts as JSON, with a newline at the end."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
