"""The pictures of a report: inline SVG whose colours come from the page, so that they follow light and dark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from nonpu.verify import survey
from nonpu.verify.survey import MISPLACED, TOP, UNIT_BINS, VALUE_BINS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nonpu.verify.survey import Curve, Group, Places

WIDTH: Final = 400
LEVELS: Final = 6
"""Steps of the colour scale, classes ``l1`` to ``l6``; ``bad`` is the one of misplaced NaN and infinities."""
_LEFT: Final = 52
_RIGHT: Final = 10
# Largest error, in units, of the levels of a map.
_LIMITS: Final = (0.5, 1.0, 4.0, 64.0, 2.0**16)
MAP_LEGEND: Final = ("up to ½ ULP", "up to 1", "up to 4", "up to 64", "up to 65536", "more")


def unit_label(index: int) -> str:
    """Return the name of a bin of errors."""
    if index in (0, 1):
        return ("0", "≤½")[index]
    if index == MISPLACED:
        return "NaN/∞"
    power = index - 2
    if power > TOP:
        return f">2{_raised(TOP)}"
    return f"≤{2**power}" if power < 10 else f"≤2{_raised(power)}"


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def value_label(value: float) -> str:
    """Return a value at the axis: a power of two as one where its digits would be many."""
    mantissa, exponent = math.frexp(abs(value))
    sign = "−" if value < 0 else ""
    if mantissa == 0.5 and not 0.1 <= abs(value) < 10000:
        return f"{sign}2{_raised(exponent - 1)}"
    digits = f"{abs(value):.4g}" if value == 0 or 0.001 <= abs(value) < 10000 else f"{abs(value):.1e}"
    return f"{sign}{digits}"


def count_label(count: int) -> str:
    """Return a count of at most five characters."""
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 10 * limit:
            return f"{count / limit:.0f}{unit}"
        if count >= limit:
            return f"{count / limit:.1f}{unit}"
    return str(count)


def svg(name: str, height: int, title: str, text: str, body: Sequence[str]) -> str:
    """Return a picture with a title and a description for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(text)}</desc>{"".join(body)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _line(x: float, y: float, x2: float, y2: float, kind: str = "grid") -> str:
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}"/>'


def _cells(levels: NDArray[np.int64], left: float, top: float, width: float, height: float) -> list[str]:
    """Return a grid of cells, one path per level; level 0 is left out, one above the last is misplaced."""
    parts = []
    for level in range(1, LEVELS + 2):
        rows, columns = np.nonzero(levels == level)
        if rows.size:
            path = "".join(
                f"M{left + c * width:.1f} {top + r * height:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"
                for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
            )
            parts.append(f'<path class="{"bad" if level > LEVELS else f"l{level}"}" d="{path}"/>')
    return parts


def histogram(name: str, group: Group) -> str:
    """Return the distribution of errors, counts on a logarithmic scale."""
    counts = group.by_size
    last = max([i for i in range(MISPLACED) if counts[i]], default=0)
    shown = list(range(max(last, 3) + 1)) + ([MISPLACED] if counts[MISPLACED] else [])
    top, base = 18, 176
    decades = max(1, math.ceil(math.log10(max(int(counts.max()), 2))))
    body = []
    for decade in range(decades + 1):
        y = base - (base - top) * decade / decades
        body += [_line(_LEFT, y, WIDTH - _RIGHT, y), _text(_LEFT - 5, y + 4, count_label(10**decade), "end")]
    step = (WIDTH - _LEFT - _RIGHT) / len(shown)
    crowded = step < 40
    height = 226 if crowded else 216
    for place, index in enumerate(shown):
        x, count = _LEFT + place * step, int(counts[index])
        if count:
            # A single element has no height on a logarithmic scale, and must be seen.
            size = max(4.0, (base - top) * math.log10(count) / decades)
            kind = "bad" if index == MISPLACED else "bar"
            tip = f"<title>{unit_label(index)} ULP: {count}</title>"
            body.append(
                f'<rect class="{kind}" x="{x + step * 0.1:.1f}" y="{base - size:.1f}" width="{step * 0.8:.1f}"'
                f' height="{size:.1f}">{tip}</rect>'
            )
            if not crowded:
                body.append(_text(x + step / 2, base - size - 4, count_label(count)))
        if step < 15 and place % 2:
            continue
        middle = x + step / 2
        turn = f' transform="rotate(-50 {middle + 3:.1f} {base + 12:.1f})"' if crowded else ""
        body.append(
            _text(middle + (3 if crowded else 0), base + 14, unit_label(index), "end" if turn else "middle", turn)
        )
    if not crowded:
        body.append(_text((WIDTH + _LEFT) / 2, height - 4, "error in ULP"))
    total = max(int(counts.sum()), 1)
    text = "; ".join(f"{unit_label(i)} ULP: {int(counts[i])} of {total} elements" for i in shown if counts[i])
    return svg(name, height, "Elements by size of error", text, body)


@dataclass(frozen=True)
class Columns:
    """The columns of a table by value, and where values stand among them.

    Parameters
    ----------
    counts : int array
        Elements by column and bin of the error.
    ticks : list of tuple
        Position, in columns, and label of the marks of the axis; the important ones first.
    strange : bool
        The last column is of NaN and infinities, and the one before it is empty.
    """

    counts: NDArray[np.int64]
    ticks: list[tuple[float, str]]
    strange: bool


def _columns(table: NDArray[np.int64]) -> Columns:
    """Return columns of merged bins: the negative ones, one around 0, the positive ones; empty ends are left out."""
    filled = table.sum(axis=1) > 0
    sides = filled[: survey.HALF][::-1], filled[survey.HALF : 2 * survey.HALF]  # outwards from 0
    away = np.flatnonzero(sides[0] | sides[1])
    away = away[away > 0]
    nearest = int(away[0]) // survey.STEPS * survey.STEPS if away.size else 1
    ends = [max([i + 1 for i in np.flatnonzero(side) if i >= nearest], default=0) for side in sides]
    lengths = [max(end - nearest, 0) for end in ends]
    merged = max(1, -(-sum(lengths) // 54))
    parts: list[NDArray[np.int64]] = []
    ticks: list[tuple[float, str]] = []
    for sign, end, length in zip((-1, 1), ends, lengths, strict=True):
        bins = np.arange(nearest, nearest + -(-length // merged) * merged).clip(max=survey.HALF - 1)
        bins = np.where(np.arange(bins.size) < length, bins, -1)
        rows = np.where(bins[:, None] >= 0, table[survey.HALF + bins if sign > 0 else survey.HALF - 1 - bins], 0)
        side = rows.reshape(-1, merged, UNIT_BINS).sum(axis=1)
        edges = [(i, survey.value_edge(survey.HALF + i)) for i in range(nearest, end + 1)] if length else []
        width = len(side)
        if sign < 0:
            ticks += [(width - (i - nearest) / merged, value_label(-value)) for i, value in _marked(edges)]
            middle = table[survey.HALF - nearest : survey.HALF + nearest].sum(axis=0)
            ticks.insert(0, (width + 0.5, "0"))
            parts += [side[::-1], middle[None]]
        else:
            start = sum(map(len, parts))
            ticks += [(start + (i - nearest) / merged, value_label(value)) for i, value in _marked(edges)]
            parts.append(side)
    strange = bool(filled[VALUE_BINS - 1])
    if strange:
        parts += [np.zeros((1, UNIT_BINS), np.int64), table[VALUE_BINS - 1 :]]
    return Columns(np.concatenate(parts), ticks, strange)


def _marked(edges: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the last edge and then the powers of two, from the outermost to 0."""
    powers = [edge for edge in edges if math.frexp(edge[1])[0] == 0.5]
    return list(dict.fromkeys([*edges[-1:], *reversed(powers)]))


def against_value(name: str, group: Group) -> str:
    """Return the number of elements by input value and size of error."""
    columns = _columns(group.table)
    grid = columns.counts.T
    rows = np.flatnonzero(grid.sum(axis=1))
    ordinary = [int(row) for row in rows if row < MISPLACED]
    shown = list(range(max([*ordinary, 3]) + 1)) + ([MISPLACED] if MISPLACED in rows else [])
    grid = grid[shown[::-1]]
    top, base, height = 10, 178, 216
    wide, tall = (WIDTH - _LEFT - _RIGHT) / grid.shape[1], (base - top) / grid.shape[0]
    with np.errstate(divide="ignore"):
        level = 1 + np.floor(np.log10(grid) / math.log10(max(int(grid.max()), 2) + 1) * LEVELS)
    level = np.where(grid > 0, np.clip(level, 1, LEVELS), 0).astype(np.int64)
    if MISPLACED in shown:
        level[0] = np.where(grid[0] > 0, LEVELS + 1, 0)
    body = _cells(level, _LEFT, top, wide, tall)
    every = max(1, math.ceil(12 / tall))
    for place, index in enumerate(reversed(shown)):
        # The largest error always has its label; from 0 upwards there are as many as fit under it.
        if place == 0 or ((len(shown) - 1 - place) % every == 0 and place >= every):
            body.append(_text(_LEFT - 5, top + (place + 0.5) * tall + 4, unit_label(index), "end"))
    body += [_line(_LEFT, base, WIDTH - _RIGHT, base, "axis"), _line(_LEFT, top, _LEFT, base, "axis")]
    body += _value_ticks(columns, wide, base)
    axis = group.axis if group.axis else "value"
    body.append(_text((WIDTH + _LEFT) / 2, height - 4, f"{axis} (each binade equally wide)"))
    worst = int(rows[-1]) if rows.size else 0
    text = (
        f"{axis}: {', '.join(label for _, label in columns.ticks[:2])} and more; largest error {unit_label(worst)} ULP"
    )
    return svg(name, height, f"Error against {axis}", text, body)


def _value_ticks(columns: Columns, wide: float, base: float) -> list[str]:
    """Return marks whose labels do not overlap, the first ones before the later."""
    taken: list[tuple[float, float]] = []
    body = []
    ticks = [(_LEFT + place * wide, label) for place, label in columns.ticks]
    if columns.strange:
        ticks.insert(0, (WIDTH - _RIGHT - wide / 2, "NaN, ∞"))
    for x, label in ticks:
        half = 3.4 * len(label) + 4
        middle = min(max(x, half), WIDTH - half)
        if all(middle + half < begin or middle - half > end for begin, end in taken):
            taken.append((middle - half, middle + half))
            body += [_line(x, base, x, base + 4, "axis"), _text(middle, base + 15, label)]
    return body


def map_levels(grid: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the level of each largest error: 0 for none, one above the last for a misplaced NaN or infinity."""
    level = 1 + np.searchsorted(np.array(_LIMITS), grid, side="left")
    level = np.where(grid == 0, 0, level)
    return np.asarray(np.where(np.isinf(grid), LEVELS + 1, level), np.int64)


def placement(name: str, found: Places) -> str:
    """Return the map of the largest error in each block of elements."""
    rows, columns = found.grid.shape
    left, top = 22.0, 18.0
    wide = (WIDTH - left - _RIGHT) / columns
    tall = min(max(wide, 7.0), 180 / rows, 28.0)
    height = math.ceil(top + rows * tall + 8)
    body = [
        f'<rect class="ground" x="{left}" y="{top}" width="{columns * wide:.1f}" height="{rows * tall:.1f}"/>',
        *_cells(map_levels(found.grid), left, top, wide, tall),
        _text(left, top - 6, f"{found.columns} →", "start"),
    ]
    middle = top + rows * tall / 2
    if rows * tall > 60:
        body.append(_text(12, middle, "rows ↓", "middle", f' transform="rotate(-90 12 {middle:.1f})"'))
    wrong = int(np.count_nonzero(found.grid))
    if not wrong:
        body.append(_text(left + columns * wide / 2, middle + 4, "no errors"))
    text = f"{found.rows}, {found.columns}; {wrong} of {rows * columns} blocks have an error"
    return svg(name, height, "Largest error by place in the tensor", text, body)


def gradient(name: str, found: Curve) -> str:
    """Return the gradient curve, expected and actual, with the largest error under it."""
    top, base, under, floor, height = 10, 140, 156, 206, 240
    low, high = float(found.edges[0]), float(found.edges[-1])
    bottom, peak = _span(found)

    def across(x: float) -> float:
        return _LEFT + (x - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return base - (y - bottom) / (peak - bottom) * (base - top)

    body = []
    for y in _ticks(bottom, peak, 4):
        body += [_line(_LEFT, up(y), WIDTH - _RIGHT, up(y)), _text(_LEFT - 5, up(y) + 4, value_label(y), "end")]
    for x in _ticks(low, high, 6):
        body += [_line(across(x), top, across(x), floor), _text(across(x), floor + 14, value_label(x))]
    middles = (found.edges[:-1] + found.edges[1:]) / 2
    points = [(x, y) for x, y in zip(middles.tolist(), found.expected.tolist(), strict=True) if math.isfinite(y)]
    if points:
        path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in points)
        body.append(f'<path class="curve" d="M{path}"/>')
    inside = [(x, y) for x, y in found.dots.tolist() if bottom <= y <= peak]
    # A path of zero-length strokes with round caps: a dot each, in half the bytes of circles.
    dots = "".join(f"M{across(x):.1f} {up(y):.1f}h0" for x, y in inside)
    body.append(f'<path class="dots" d="{dots}"/>')
    body += _error_bars(found, across, under, floor)
    body.append(_text((WIDTH + _LEFT) / 2, height - 4, found.name))
    text = (
        f"Expected output over incoming gradient against {found.name} from {low:.4g} to {high:.4g}; largest error there"
        f" {'a misplaced NaN or infinity' if np.isinf(found.errors).any() else f'{found.errors.max():.4g} ULP'}"
    )
    return svg(name, height, "Gradient curve and error", text, body)


def _span(found: Curve) -> tuple[float, float]:
    """Return the ends of the vertical axis of a curve: all of the line, and the dots that are not far off."""
    line = found.expected[np.isfinite(found.expected)]
    values = np.clip(np.concatenate([line, found.dots[:, 1]]), -1e300, 1e300)
    if not values.size:
        return 0.0, 1.0
    bottom, peak = (float(end) for end in np.quantile(values, (0.005, 0.995)))
    bottom, peak = min([bottom, *values[: line.size].tolist()]), max([peak, *values[: line.size].tolist()])
    # Some room around a constant, whose rounding errors would fill the picture otherwise.
    margin = max((peak - bottom) * 0.06, 0.05 * max(abs(bottom), abs(peak)))
    margin = margin if margin > survey.SMALLEST else 1.0
    return bottom - margin, peak + margin


def _error_bars(found: Curve, across: object, under: float, floor: float) -> list[str]:
    assert callable(across)
    finite = found.errors[np.isfinite(found.errors)]
    most = max(float(finite.max(initial=0.0)), 1.0)
    # Linear while the errors are small, logarithmic beyond: a few units must be told apart, and millions must fit.
    logarithmic = most > 16
    body = [
        _line(_LEFT, floor, WIDTH - _RIGHT, floor, "axis"),
        _text(_LEFT - 5, under + 6, count_label(round(most)) if most >= 10 else f"{most:.2g}", "end"),
        _text(_LEFT - 5, floor + 2, "0", "end"),
        _text(_LEFT - 5, (under + floor) / 2 + 4, "ULP", "end"),
    ]
    for left, right, size in zip(found.edges[:-1], found.edges[1:], found.errors, strict=True):
        if size > 0:
            bad = math.isinf(size)
            share = 1.0 if bad else math.log2(1 + size) / math.log2(1 + most) if logarithmic else size / most
            x, wide, tall = across(left), across(right) - across(left), max(1.5, share * (floor - under))
            body.append(
                f'<rect class="{"bad" if bad else "bar"}" x="{x:.1f}" y="{floor - tall:.1f}" width="{wide * 0.9:.1f}"'
                f' height="{tall:.1f}"/>'
            )
    return body


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between two ends."""
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= raw)
    first = math.ceil(low / step)
    return [i * step + 0.0 for i in range(first, math.floor(high / step) + 1)]
