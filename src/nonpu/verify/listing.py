"""Verdicts as text for a terminal."""

from __future__ import annotations

from typing import Any, Final

from nonpu.verify.compare import PASS, VERDICTS
from nonpu.verify.elements import shape_text

MOST: Final = 40
"""Cases that are listed; where there are more, only those that did not pass are."""
_DETAILED: Final = 8
_COLUMNS: Final = ("case", "operator", "type", "shape", "standard", "verdict", "max ULP", "equal")


def render(content: dict[str, Any]) -> str:
    """Return the table of cases, the worst elements of those that did not pass, and the counts."""
    cases = content["cases"]
    bad = [case for case in cases if case["verdict"] != PASS]
    shown = cases if len(cases) <= MOST else bad[:MOST]
    parts = [_table(shown)] if shown else []
    if len(cases) > MOST and len(bad) > MOST:
        parts.append(f"... and {len(bad) - MOST} more that did not pass")
    parts += [detail(case) for case in bad[:_DETAILED]]
    for entry in content["refused"][:_DETAILED]:
        parts.append(f"{entry['id']}: not judged, the contract refuses the call: {entry['error']}")
    if len(content["refused"]) > _DETAILED:
        parts.append(f"... and {len(content['refused']) - _DETAILED} more that the contract refuses")
    parts.append(summary(content))
    return "\n\n".join(parts)


def summary(content: dict[str, Any]) -> str:
    """Return the line of counts."""
    counts = ", ".join(f"{content['counts'][name]} {name}" for name in VERDICTS if content["counts"][name])
    refused = f", {len(content['refused'])} not judged" if content["refused"] else ""
    total = len(content["cases"])
    return f"{total} case{'s' if total != 1 else ''}: {counts or 'nothing to compare'}{refused}"


def name_of(case: dict[str, Any]) -> str:
    """Return the id of a case, with its output where that is not the only or usual one."""
    output = case["output"]
    return case["id"] if output in ("", "out", "gradInput", case["id"]) else f"{case['id']}/{output}"


def type_of(case: dict[str, Any]) -> str:
    """Return the type of the output, and whose precision it has where that is another's."""
    if case["dtype"] in ("", case["precision"]):
        return case["dtype"] or "-"
    return f"{case['dtype']} as {case['precision']}"


def rounded(value: float | str) -> str:
    """Return a measure with four digits."""
    return value if isinstance(value, str) else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share in percent that reads 100 only where nothing is missing, and 0 only where there is nothing."""
    digits = next((digits for digits in (2, 4, 6) if share in (0.0, 1.0) or 0 < round(share, digits) < 1), 8)
    return f"{share:.{digits - 2}%}"


def _row(case: dict[str, Any]) -> tuple[str, ...]:
    measured = case["measures"]
    numbers = (rounded(measured["max_ulp"]), percent(measured["share_exact"])) if measured else ("-", "-")
    if measured and measured["misplaced_specials"]:
        numbers = ("inf", numbers[1])
    shape = shape_text(case["shape"]) if case["dtype"] else "-"
    facts = (case["operator"] or "-", type_of(case), shape, case["standard"], case["verdict"])
    return (name_of(case), *facts, *numbers)


def _table(cases: list[dict[str, Any]]) -> str:
    rows = [_COLUMNS, *map(_row, cases)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def detail(case: dict[str, Any]) -> str:
    """Return reason, worst elements and command of a case that did not pass."""
    lines = [f"{name_of(case)}: {case['verdict']}: {case['reason']}"]
    for element in case["worst"]:
        place = ", ".join(map(str, element["index"]))
        hexes = element["inputs_hex"]
        arguments = ", ".join(
            f"{name}={value}" + (f" ({hexes[name]})" if name in hexes else "")
            for name, value in element["inputs"].items()
        )
        lines.append(
            f"  [{place}] {rounded(element['ulp'])} ULP: actual {element['actual']} ({element['actual_hex']}),"
            f" expected {element['expected']} ({element['expected_hex']})" + (f"; {arguments}" if arguments else "")
        )
    if case["reproduce"]:
        lines.append(f"  again: {case['reproduce']}")
    return "\n".join(lines)
