"""The page docs/accuracy.md: what `nonpu verify` measured."""

from __future__ import annotations

import math
import platform
from typing import TYPE_CHECKING

from nonpu.dtypes import DType
from nonpu.ops import OPS, find
from nonpu.verify import accuracy, oracles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nonpu.verify.accuracy import Measured

GENERATED = "<!-- Written by `nonpu verify`; do not edit. -->"

INTRODUCTION = """\
# Accuracy

Every result is compared with the exact real value of the documented formula, in units in the last place (ULP) of its
type; `nonpu.verify` computes that value from the formula alone, in intervals where doubles leave a digit open. Of
complex results the larger error of both components counts, relative to the modulus where a component cancels.

The arguments: the ends of each type in all combinations; of a 16-bit type every value; bit patterns at a constant
distance over the whole range; ordinary numbers and the unit interval; and the neighbourhood of every place where the
formula vanishes, cancels, branches or leaves the range. Infinities and NaN among the arguments are counted apart: there
the documented formula in IEEE arithmetic decides."""


def number(size: float) -> str:
    """Return an error with the digits that mean something."""
    if not math.isfinite(size):
        return "NaN or infinite"
    if size >= 1e5:
        return f"{size:.1e}"
    return f"{size:.4f}" if size < 10 else f"{size:.0f}"


def share(part: int, whole: int) -> str:
    """Return a share in per cent, 100 only where nothing is missing."""
    if part == whole:
        return "100 %"
    return f"{min(100 * part / whole, 99.999):.3f} %"


def held(result: Measured) -> bool:
    """Return whether an operator of ours keeps its bound, and the documented formula at infinities and NaN."""
    bound = find(result.operator).bounds[DType[result.dtype]]
    correct = bound != 0.5 or result.right == result.elements  # a tie errs by 0.5 either way
    return result.largest <= bound and correct and result.special_wrong == 0


def groups(results: Sequence[Measured]) -> list[tuple[str, str, str, list[Measured], list[Measured]]]:
    """Return operator, type, scalars in words, and the results of ours and of the peer, one entry per row."""
    rows = []
    for op in OPS:
        for dtype in op.kernels:
            first, *others = oracles.formula(op.python_name).SCALARS
            for chosen in ([first], others):
                if not chosen:
                    continue
                of = [r for r in results if (r.operator, r.dtype) == (op.name, dtype.name) and r.scalars in chosen]
                if of:
                    ours, theirs = ([r for r in of if r.engine == engine] for engine in accuracy.ENGINES)
                    rows.append((op.name, dtype.name, words(op.scalar_params, chosen), ours, theirs))
    return rows


def words(params: Sequence[object], chosen: Sequence[tuple[float, ...]]) -> str:
    """Return the scalars of a row in words."""
    if not params:
        return "-"
    return ", ".join(" ".join(f"{value:g}" for value in values) for values in chosen)


def table(results: Sequence[Measured]) -> list[list[str]]:
    """Return the header and the rows of the table."""
    header = ["operator", "data type", "scalar", "results", "largest error, ULP", "bound", "in the set"]
    header += ["correctly rounded", "PyTorch: largest error", "PyTorch: correctly rounded"]
    rows = [header]
    for name, dtype, scalars, ours, theirs in groups(results):
        mine = accuracy.merged(ours)
        bound = find(name).bounds[DType[dtype]]
        row = [name, dtype, scalars, f"{mine.elements:,}", number(mine.largest), f"{bound:g}", mine.where]
        row.append(share(mine.right, mine.elements))
        if theirs:
            peer = accuracy.merged(theirs)
            row += [number(peer.largest), share(peer.right, peer.elements)]
        else:
            row += ["-", "-"]
        rows.append(row)
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def render(results: Sequence[Measured], *, count: int, seed: int, versions: dict[str, str]) -> str:
    """Return the page."""
    special = sum(result.special for result in results if result.engine == "nonpu")
    wrong = sum(result.special_wrong for result in results if result.engine == "nonpu")
    circumstances = ", ".join(f"{name} {version}" for name, version in versions.items())
    parts = [
        GENERATED,
        INTRODUCTION,
        f"Run: `nonpu verify --count {count} --seed {seed}` on {platform.machine()}; {circumstances}.",
        "## Largest errors",
        markdown(table(results)),
        "PyTorch has Swish's gradient (`silu_backward`) for beta = 1 only; for others the column shows the composition"
        " of its operators that takes its place.",
        "## Infinities and NaN",
        f"{special:,} results for arguments among which is an infinity or a NaN: {wrong or 'none'} of them"
        " differ from the documented formula in IEEE arithmetic.",
        "## The worst elements",
        "\n".join(
            f"* {name} {dtype}, scalar {scalars}: `{accuracy.merged(ours).worst}`"
            for name, dtype, scalars, ours, _ in groups(results)
            if accuracy.merged(ours).largest > 0.5
        ),
    ]
    return "\n\n".join(parts) + "\n"
