"""A picture of the results: time per element over size, with the memory limit."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from typing import Any

from nonpu.bench import results as measured
from nonpu.bench.cases import COMPLEX, FLOATS, SIZES

STYLES = {
    "executor": ("nonpu, executor", "C0", "-", "o"),
    "call": ("nonpu, one call", "C0", ":", "."),
    "torch": ("PyTorch", "C1", "-", "s"),
    "numexpr": ("NumExpr", "C2", "--", "^"),
    "jax": ("JAX", "C3", "--", "v"),
    "plain triad": ("limit: triad, plain stores", "0.4", "--", "_"),
    "streaming triad": ("limit: triad, non-temporal stores", "0.4", ":", "_"),
}


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def curves(records: list[dict[str, Any]], threads: int) -> dict[tuple[str, str], dict[str, list[tuple[int, float]]]]:
    """Return nanoseconds per element by operator and type, lane and size; contiguous cases only."""
    found: dict[tuple[str, str], dict[str, list[tuple[int, float]]]] = {}
    for record in records:
        if record["layout"] != "contiguous":
            continue
        count = SIZES[record["size"]]
        for lane in STYLES:
            seconds = measured.median(record, threads, lane)
            if seconds is not None:
                panel = found.setdefault((record["operator"], record["dtype"]), {})
                panel.setdefault(lane, []).append((count, seconds * 1e9 / count))
    return found


def draw(results: dict[str, Any], path: str) -> None:
    """Write the picture: one panel per operator and type, with the largest number of threads.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If there is no contiguous case, or the file's suffix names no kind of picture.
    """
    threads = max(results["settings"]["threads"])
    panels = curves(results["cases"], threads)
    if not panels:
        raise ValueError("there is no contiguous case to draw")
    # Without a window system and without touching the user's configuration.
    os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    operators = list(dict.fromkeys(operator for operator, _ in panels))
    dtypes = [dtype for dtype in FLOATS + COMPLEX if any(dtype == shown for _, shown in panels)]
    figure_size = (3.2 * len(dtypes) + 0.6, 2.6 * len(operators) + 1.0)
    sizes = [size for size in SIZES if any(record["size"] == size for record in results["cases"])]
    figure, axes = pyplot.subplots(
        len(operators), len(dtypes), figsize=figure_size, squeeze=False, sharex=True, sharey=True, layout="constrained"
    )
    handles: dict[str, Any] = {}
    for row, operator in enumerate(operators):
        for column, dtype in enumerate(dtypes):
            panel = axes[row][column]
            lanes = panels.get((operator, dtype))
            if lanes is None:
                panel.set_visible(False)
                continue
            for lane, points in lanes.items():
                label, color, line, marker = STYLES[lane]
                (handles[label],) = panel.loglog(*zip(*points, strict=True), line, color=color, marker=marker, ms=4)
            panel.set_title(f"{operator} {dtype}", fontsize=9)
            panel.grid(True, which="major", alpha=0.3)
            panel.set_xticks([SIZES[size] for size in sizes], sizes)
            panel.minorticks_off()
            panel.tick_params(labelsize=8, labelbottom=True, labelleft=True)
    figure.supylabel("nanoseconds per element", fontsize=10)
    number = "one thread" if threads == 1 else f"{threads} threads"
    title = f"Time per element over the number of elements; {results['machine']['processor']}, {number}"
    figure.suptitle(title, fontsize=10)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
