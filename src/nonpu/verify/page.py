"""The report: one HTML page that needs nothing else."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nonpu.verify import charts, compare, listing, matching, survey
from nonpu.verify.compare import ERROR, PASS, VERDICTS
from nonpu.verify.elements import shape_text
from nonpu.verify.store import StoreError, open_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from nonpu.verify.matching import Comparison, Item

    Record = dict[str, Any]

# More rows or details would make a page that nobody reads and a browser hardly shows.
MOST_ROWS: Final = 300
MOST_DETAILS: Final = 12
_ENOUGH: Final = 16  # elements from which on a case is worth a picture
_FIELDS: Final = {
    "id": str,
    "output": str,
    "operator": str,
    "dtype": str,
    "precision": str,
    "shape": list,
    "standard": str,
    "verdict": str,
    "reason": str,
    "measures": dict,
    "worst": list,
    "reproduce": str,
}
_MEASURES: Final = ("max_ulp", "share_exact", "max_abs", "mere", "misplaced_specials", "elements")


@dataclass
class Source:
    """What a report is made of.

    Parameters
    ----------
    content : dict
        As `nonpu.verify.compare.document` returns it.
    items : dict
        Arrays by id and output; empty where they are gone.
    documented : bool
        The documented formula is judged, not a device: there are no verdicts.
    notes : list of str
        Remarks for the reader.
    """

    content: Record
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    documented: bool = False
    notes: list[str] = field(default_factory=list)


def source(folder: Path, expected: Path | None, progress: Callable[[int], Callable[[], None]]) -> Source:
    """Return what there is to report on: verdicts with their arrays, or a folder of goldens alone.

    Parameters
    ----------
    folder : Path
        ACTUAL, or a golden folder.
    expected : Path or None
        Golden folder, where ``verdicts.json`` does not tell or there is none.
    progress : callable
        Is told the number of cases to compare, and returns what is called for each.

    Raises
    ------
    StoreError
        If there is nothing to report on.
    """
    opened = open_folder(folder)
    verdicts = folder / matching.VERDICTS
    if verdicts.exists():
        content = read(verdicts)
        target = Path(content["expected"]) if expected is None else expected
        notes = list(content["notes"])
        try:
            found = matching.match(folder, target)
        except StoreError as error:
            return Source(content, notes=[*notes, f"no pictures, since the goldens are not there any more: {error}"])
        return Source(content, _by_name(found), notes=notes)
    if expected is not None:
        found = matching.match(folder, expected)
        return _judged(found, folder, expected, False, progress)
    if opened.cases:
        return _judged(matching.documented(opened), folder, folder, True, progress)
    raise StoreError(f"{folder}: no {matching.VERDICTS} and no goldens: run nonpu compare, or give --expected")


def _judged(
    found: Comparison, actual: Path, expected: Path, documented: bool, progress: Callable[[int], Callable[[], None]]
) -> Source:
    items = list(found.items)
    step = progress(len(items))
    again = matching.Comparison(found.total, iter(items), found.refused, found.notes)
    verdicts = compare.compare(again, None, progress=lambda _verdict: step())
    content = compare.document(verdicts, found, None, actual, expected)
    return Source(content, {(item.id, item.output): item for item in items}, documented, list(found.notes))


def _by_name(found: Comparison) -> dict[tuple[str, str], Item]:
    return {(item.id, item.output): item for item in found.items if not item.problem}


def read(path: Path) -> Record:
    """Return verdicts from a file.

    Raises
    ------
    StoreError
        If it holds something else.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: no readable verdicts ({error})") from error
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise StoreError(f"{path}: no verdicts of nonpu compare")
    if not isinstance(content.get("expected"), str):
        raise StoreError(f"{path}: the verdicts do not name the folder EXPECTED")
    for number, case in enumerate(content["cases"]):
        if not _sound(case):
            raise StoreError(f"{path}: case {number} is no verdict of nonpu compare")
    content.setdefault("nonpu", "")
    content.setdefault("standard", "")
    content.setdefault("actual", str(path.parent))
    for name in ("notes", "refused"):
        if not isinstance(content.get(name), list):
            content[name] = []
    content["refused"] = [
        entry for entry in content["refused"] if isinstance(entry, dict) and {"id", "error"} <= {*entry}
    ]
    content["counts"] = {name: sum(case["verdict"] == name for case in content["cases"]) for name in VERDICTS}
    return content


def _sound(case: Any) -> bool:
    if not isinstance(case, dict) or not all(isinstance(case.get(name), kind) for name, kind in _FIELDS.items()):
        return False
    if case["verdict"] not in VERDICTS or not all(isinstance(length, int) for length in case["shape"]):
        return False
    measured = case["measures"]
    if measured and not all(isinstance(measured.get(name), (int, float, str)) for name in _MEASURES):
        return False
    if measured and not isinstance(measured["share_exact"], (int, float)):
        return False
    names = ("index", "inputs", "inputs_hex", "expected", "expected_hex", "actual", "actual_hex", "ulp")
    return all(
        isinstance(element, dict)
        and {*names} <= element.keys()
        and isinstance(element["index"], list)
        and isinstance(element["inputs"], dict)
        and isinstance(element["inputs_hex"], dict)
        and isinstance(element["ulp"], (int, float, str))
        for element in case["worst"]
    )


def size(case: Record) -> float:
    """Return the largest error of a case in units, infinite for misplaced NaN and infinities, -1 without one."""
    measured = case["measures"]
    if not measured:
        return -1.0
    try:
        return math.inf if measured["misplaced_specials"] else float(measured["max_ulp"])
    except ValueError:
        return math.inf


def render(found: Source, step: Callable[[], None] = lambda: None) -> str:
    """Return the page.

    Parameters
    ----------
    found : Source
        What to report on.
    step : callable
        Is called once for each case whose arrays have been read.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    cases = found.content["cases"]
    order = {ERROR: 0, "fail": 1, "untrusted": 2, PASS: 3}
    ranked = sorted(cases, key=lambda case: (0 if found.documented else order[case["verdict"]], -size(case)))
    environment = Environment(
        loader=PackageLoader("nonpu.verify", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": listing.percent, "rounded": listing.rounded, "shape": shape_text}
    bad = [case for case in ranked if case["verdict"] != PASS] if not found.documented else []
    return environment.get_template("report.html").render(
        content=found.content,
        documented=found.documented,
        notes=found.notes,
        groups=_groups(found, step),
        rows=ranked[:MOST_ROWS],
        left_out=len(ranked) - len(ranked[:MOST_ROWS]),
        details=[_detail(case, number, found) for number, case in enumerate(bad[:MOST_DETAILS])],
        more_bad=len(bad) - len(bad[:MOST_DETAILS]),
        name_of=listing.name_of,
        type_of=listing.type_of,
        size=size,
        legend=charts.MAP_LEGEND,
        verdicts=VERDICTS,
    )


def _groups(found: Source, step: Callable[[], None]) -> list[Record]:
    members: dict[tuple[str, str], list[Record]] = {}
    for case in found.content["cases"]:
        if case["measures"]:
            members.setdefault((case["operator"], case["dtype"]), []).append(case)
    return [_group(number, key, members[key], found, step) for number, key in enumerate(sorted(members))]


def _group(number: int, key: tuple[str, str], cases: list[Record], found: Source, step: Callable[[], None]) -> Record:
    group = survey.Group(*key)
    for case in cases:
        item = found.items.get((case["id"], case["output"]))
        if item is not None:
            group.add(item)
            step()
    total = sum(case["measures"]["elements"] for case in cases)
    exact = sum(case["measures"]["share_exact"] * case["measures"]["elements"] for case in cases)
    name = f"g{number}"
    pictures = {}
    if group.table.any():
        pictures = {"size": charts.histogram(f"{name}h", group), "value": charts.against_value(f"{name}v", group)}
    shown = _shown(cases, found)
    return {
        "name": name,
        "operator": key[0] or "unknown operator",
        "dtype": key[1],
        "cases": len(cases),
        "counts": {name: sum(case["verdict"] == name for case in cases) for name in VERDICTS},
        "elements": total,
        "max_ulp": max(map(size, cases)),
        "share": exact / total if total else 1.0,
        "axis": group.axis,
        "unread": group.unread,
        "pictures": pictures,
        "shown": shown,
        **_case_pictures(name, shown, found),
    }


def _shown(cases: list[Record], found: Source) -> Record | None:
    """Return the case to draw: of those with some elements the one furthest off, failing ones before passing."""
    there = [case for case in cases if (case["id"], case["output"]) in found.items and case["measures"]["elements"]]
    large = [case for case in there if case["measures"]["elements"] >= _ENOUGH]
    pool = large if large else there
    return max(pool, key=lambda case: (case["verdict"] != PASS and not found.documented, size(case)), default=None)


def _case_pictures(name: str, case: Record | None, found: Source) -> Record:
    item = None if case is None else found.items.get((case["id"], case["output"]))
    pictures: Record = {"map": "", "map_rows": "", "curve": "", "scalars": ""}
    if item is None:
        return pictures
    try:
        where = survey.places(item)
        pictures |= {"map": charts.placement(f"{name}m", where), "map_rows": where.rows}
        curve = survey.curve(item)
    except (StoreError, OSError, MemoryError):
        return pictures
    if curve is not None:
        pictures["curve"] = charts.gradient(f"{name}c", curve)
    pictures["scalars"] = ", ".join(f"{key} = {value}" for key, value in item.scalars.items() if value is not None)
    return pictures


def _detail(case: Record, number: int, found: Source) -> Record:
    inputs = list(case["worst"][0]["inputs"]) if case["worst"] else []
    drawn = _case_pictures(f"d{number}", case, found) if case["verdict"] != ERROR else {"map": "", "map_rows": ""}
    return {"case": case, "inputs": inputs, "map": drawn["map"], "map_rows": drawn["map_rows"]}
