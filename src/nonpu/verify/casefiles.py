"""Case files in JSON, JSON Lines and CSV."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nonpu import products
from nonpu.verify import tables
from nonpu.verify.cases import CaseError, Defaults, brief, parse_cases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nonpu.verify.request import Request

SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".csv")
_BEYOND: Final = 1 << 1024  # above every number of DOUBLE
_FILE_KEYS: Final = {"cases", "seed", "product", "comment"}


def read_cases(path: str | Path, seed: int | None = None, product: str | None = None) -> tuple[list[Request], Defaults]:
    """Read a case file and check all of it.

    Parameters
    ----------
    path : path
        The suffix tells the form.
    seed : int, optional
        In place of the file's own, or of 0.
    product : str, optional
        For cases where neither they nor the file name one.

    Returns
    -------
    requests : list of Request
        In the order of the file.
    defaults : Defaults
        Seed and product that hold for the file.

    Raises
    ------
    CaseError
        If the file is damaged or a case is wrong; the text names file, case and field.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise CaseError(f"{path}: the suffix must be one of {', '.join(SUFFIXES)} (got {path.suffix!r})")
    facts: dict[str, Any] = {}
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CaseError(f"{path}: must be UTF-8 text ({error.reason} at byte {error.start})") from None
    try:
        if path.suffix == ".csv":
            cases = _from_csv(path, text)
        elif path.suffix == ".json":
            facts, cases = _from_json(path, text)
        else:
            cases = _from_lines(path, text)
        defaults = Defaults(_seed(path, facts, seed), _product(path, facts, product))
        return parse_cases(str(path), cases, defaults), defaults
    except RecursionError:
        raise CaseError(f"{path}: lists or objects are nested too deeply") from None


def _seed(path: Path, facts: dict[str, Any], seed: int | None) -> int:
    chosen = facts.get("seed", 0) if seed is None else seed
    if isinstance(chosen, bool) or not isinstance(chosen, int) or chosen < 0:
        raise CaseError(f"{path}: seed must be an integer of at least 0 (got {chosen!r})")
    return chosen


def _product(path: Path, facts: dict[str, Any], product: str | None) -> str:
    name = facts.get("product", product)
    try:
        return products.find(products.DEFAULT if name is None else name).soc
    except (ValueError, TypeError) as error:
        raise CaseError(f"{path}: {error}") from None


def _float(text: str) -> int | float:
    """Return a number; one that DOUBLE does not reach stays one, it is no infinity."""
    value = float(text)
    return value if math.isfinite(value) else -_BEYOND if value < 0 else _BEYOND


def _from_json(path: Path, text: str) -> tuple[dict[str, Any], Iterator[tuple[str, object]]]:
    try:
        content = json.loads(text, parse_float=_float)
    except ValueError as error:
        raise CaseError(f"{path}: no JSON: {error}") from None
    facts: dict[str, Any] = {}
    if isinstance(content, dict) and "cases" in content:
        for key in content:
            if key not in _FILE_KEYS:
                raise CaseError(f"{path}: {key} is not known here; known are {', '.join(sorted(_FILE_KEYS))}")
        facts = {key: content[key] for key in ("seed", "product") if content.get(key) is not None}
        content = content["cases"]
    elif isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise CaseError(f"{path}: must be a list of cases or an object with cases (got {type(content).__name__})")
    return facts, ((f"case {number}", case) for number, case in enumerate(content, 1))


def _from_lines(path: Path, text: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line, parse_float=_float)
            except ValueError as error:
                raise CaseError(f"{path}: line {number}: no JSON: {error}") from None


def _from_csv(path: Path, text: str) -> Iterator[tuple[str, object]]:
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        convert = tables.converter(header)
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            place = f"line {reader.line_num}"
            if len(row) != len(header):
                raise CaseError(f"{path}: {place}: must have {len(header)} columns, as the header (got {len(row)})")
            cells = {name: cell.strip() for name, cell in zip(header, row, strict=True) if cell.strip()}
            try:
                yield place, convert(cells)
            except tables.CellError as error:
                named = f" (id {cells['id']})" if "id" in cells else ""
                raise CaseError(brief(f"{path}: {place}{named}: {error}")) from None
    except csv.Error as error:
        raise CaseError(f"{path}: line {reader.line_num}: no CSV: {error}") from None
    except tables.CellError as error:
        raise CaseError(f"{path}: header: {error}") from None
