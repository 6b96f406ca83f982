"""The results as a page: the same Markdown for the terminal and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nonpu.bench import results as measured
from nonpu.bench.cases import BETA, SIZES

GENERATED = "<!-- Written by `nonpu bench`; do not edit. -->"
Record = dict[str, Any]
Cell = Callable[[Record], str]
EMPTY = "-"
BUSY = 0.5
"""Load average before a run from which the page warns."""


def number(value: float | None) -> str:
    """Return three significant digits, a dash for nothing."""
    if value is None:
        return EMPTY
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def microseconds(seconds: float | None) -> str:
    """Return seconds as microseconds."""
    return number(None if seconds is None else seconds * 1e6)


def pair(first: str, second: str) -> str:
    """Join two values of one cell."""
    return EMPTY if first == second == EMPTY else f"{first} / {second}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table whose columns are padded, so that it can be read as it stands."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in [header, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)


def _title(record: Record) -> list[str]:
    operator = f"swish, beta {BETA}" if record["operator"] == "swish-beta" else record["operator"]
    layout = "float16 gradient" if record["layout"] == "mixed" else record["layout"]
    return [operator, record["dtype"], layout]


def by_size(records: list[Record], cell: Cell) -> str:
    """Return a table with one row per operator, type and layout and one column per size; empty rows are left out."""
    sizes = [size for size in SIZES if any(record["size"] == size for record in records)]
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for record in records:
        rows.setdefault(tuple(_title(record)), {})[record["size"]] = cell(record)
    body = [
        [*title, *(cells.get(size, EMPTY) for size in sizes)]
        for title, cells in rows.items()
        if set(cells.values()) != {EMPTY}
    ]
    return table(["operator", "type", "layout", *sizes], body) if body else ""


def render(results: Record, plot: str | None = None) -> str:
    """Return the page.

    Parameters
    ----------
    results
        What `nonpu.bench.results.check` accepts.
    plot
        Path of the plot as seen from the page, None without one.
    """
    records, threads = results["cases"], results["settings"]["threads"]
    parts = [GENERATED, "# Performance", _introduction(results), _circumstances(results)]
    if plot is not None:
        parts.append(f"![Time per element over size]({plot})")
    for count in threads:
        parts += _speed(records, count)
    for count in threads:
        parts += _limits(records, count)
    if len(threads) > 1:
        parts += _scaling(records, threads[-1])
    for count in threads:
        parts += _times(records, count)
    parts += _remarks(records)
    return "\n\n".join(part for part in parts if part) + "\n"


def _introduction(results: Record) -> str:
    low, high = results["settings"]["rounds"]
    return (
        "A ratio is the peer's time over ours: above 1 nonpu is faster. Where a cell has two values, the first is the"
        " repeated run of one executor (started and waited for), the second the one-call function with `out=`. Every"
        f" engine runs in a process of its own; {low} to {high} rounds measure all of them in turn, and a ratio is the"
        " median of the ratios of the rounds. PyTorch runs its `out=` operators on the same memory layout; for another"
        " beta, for which it has no operator, the composition of its operators. Sizes are elements of the result."
    )


def _circumstances(results: Record) -> str:
    machine, versions = results["machine"], results["versions"]
    absent = [f"{name} ({state['reason']})" for name, state in results["engines"].items() if state["reason"]]
    lines = [
        f"* Processor: {machine['processor']} ({machine['architecture']}), {machine['processors']} in use,"
        f" {', '.join(machine['caches']) or 'caches unknown'}",
        f"* Memory: {machine['memory'] / 2**30:.1f} GiB; system: {machine['system']}; load average before:"
        f" {machine['load']}",
        f"* Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}",
        f"* Begun: {results['begun']}",
    ]
    if absent:
        lines.append(f"* Left out: {', '.join(absent)}")
    if machine["load"] > BUSY:
        lines.append(
            "* The machine was busy with other work, which the times show, those of several threads most of all."
        )
    return "\n".join(lines)


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _section(title: str, text: str, body: str) -> list[str]:
    return [f"## {title}", text, body] if body else []


def _speed(records: list[Record], count: int) -> list[str]:
    parts = []
    for peer, name in (("torch", "PyTorch"), ("numexpr", "NumExpr"), ("jax", "JAX")):

        def cell(record: Record, peer: str = peer) -> str:
            return pair(*(number(measured.speed(record, count, lane, peer)) for lane in measured.OURS))

        parts += _section(f"Speed relative to {name}, {_threads(count)}", "", by_size(records, cell))
    return parts


def _limits(records: list[Record], count: int) -> list[str]:
    def cell(record: Record) -> str:
        name, share = measured.limit(record, count), measured.share_of_limit(record, count)
        return number(share) if name is None or share is None else f"{number(share)} {name[0]}"

    text = (
        "The time of the memory limit over ours; 1 is the limit. The limit is a loop that reads two arrays and writes"
        " one, of the same number of bytes, with plain (p) or non-temporal, that is streaming (s) stores, whichever is"
        " quicker; its threads do not meet between two passes."
    )
    return _section(f"Share of the memory limit, {_threads(count)}", text, by_size(records, cell))


def _scaling(records: list[Record], count: int) -> list[str]:
    def cell(record: Record) -> str:
        return pair(*(number(measured.scaling(record, lane, count)) for lane in measured.OURS))

    return _section(f"Speed of {count} threads relative to one", "", by_size(records, cell))


def _times(records: list[Record], count: int) -> list[str]:
    def cell(record: Record) -> str:
        lane = measured.best_lane(record, count)
        ours = None if lane is None else measured.median(record, count, lane)
        return pair(microseconds(ours), microseconds(measured.median(record, count, "torch")))

    text = "Ours (the executor, or the call where the two-phase contract has none) and PyTorch's; medians."
    return _section(f"Microseconds per call, {_threads(count)}", text, by_size(records, cell))


def _remarks(records: list[Record]) -> list[str]:
    """Say what is missing from the tables, and why: each reason once, with the cases that it concerns."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for record in records:
        name = "/".join(record[field] for field in ("operator", "dtype", "layout"))
        for lane, reason in record["refused"].items():
            # What an engine is measured for at all is said with its table.
            if lane in measured.OURS or not reason.startswith(("measured for", "needs a C")):
                reasons.setdefault((lane, reason), []).append(name)
        for lane in record["differs"]:
            reasons.setdefault((lane, "its results are not ours"), []).append(name)
    lines = [f"* {lane}, {', '.join(dict.fromkeys(names))}: {reason}" for (lane, reason), names in reasons.items()]
    return ["## Not measured", "\n".join(lines)] if lines else []
