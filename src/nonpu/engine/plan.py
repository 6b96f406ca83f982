"""From judged views to a launch record: how one elementwise pass walks its operands.

The plan is made of a pair of *tile axes* (rows and columns) and up to six outer axes.  An operand whose tile is
contiguous and already has the kernel's type goes to the kernel as it is (*direct*); any other is moved, tile by tile,
through a scratch block that stays in the first-level cache (*staged*): strides, broadcasting, type conversion and
non-temporal stores are all moves.  Nothing larger than the block is ever allocated, except where an input partly
overlaps the output.

The record is a C structure that is filled field by field (see ``capi/front/launch.h``); this module only needs an
object with those fields.
"""

from __future__ import annotations

from math import prod

from nonpu.dtypes import COMPLEXES
from nonpu.engine.load import address, exists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nonpu.dtypes import DType

MAX_OPERANDS = 6
BLOCK = 1024
"""Elements of a scratch block: 4 KiB of FLOAT, so that all operands of a tile fit into the first-level cache."""
FAR_BLOCK, CACHED = 256, 1 << 20
"""Strided operands that do not fit into the second-level cache are moved in smaller blocks: then the cache lines that a
move has fetched, twice or more what it uses of them, leave the first-level cache to the next ones."""
LINE = 64
"""Bytes of a cache line."""
CHUNK = 16384
"""Elements per kernel call where nothing is staged; also the grain in which threads share the work."""
LEAST, GRAINS = 32 << 10, 16
"""A smaller launch is divided into this many calls, so that threads end together, but none of fewer bytes than that."""
SHORT = 256
"""An innermost axis below this extent is widened to a two-dimensional tile."""
SPLAT = 64
"""From this extent of the innermost axis on, an input broadcast along it goes to a kernel that takes one number."""
TRANSPOSED_ROWS = 16
"""Rows of a tile when an operand runs fastest along the row axis: a whole cache line of 4-byte elements."""
STREAM_BYTES = 32 << 20
"""Outputs of at least this size are written past the caches (non-temporal stores)."""
PART, LEAST_PART = 512, 64
"""Bytes of them that a light kernel computes before they are stored, and then reads ahead: processors read no further
while such stores drain, so that large parts take up to 1.5 times as long.  But no fewer elements than the second
number, for the sake of kernels that clear and read the processor's flags."""
FAR = 12 << 20
"""From so many bytes of all operands on for each thread, far more than second-level caches hold, light kernels are also
called for a part at a time and ask for the next part of the result, as processors ask for what is read, not for what is
written.  Complex kernels lose by it: each call clears and reads the processor's flags."""
LIGHT, HEAVY = 1 / 16, 1 / 9
"""Nanoseconds per byte of the result: up to the first, memory and not the kernel takes the time; above the second, the
kernel hides what plain stores cost, as moves of inputs with gaps do."""
SPLAT_COST = 0.2
"""Nanoseconds per element where the last input is one number: what is dear to compute depends on it alone."""
MOVE_COST = 0.25
"""Nanoseconds per staged element: less where vectors move it, more in a transposition."""


class View:
    """One operand: where its first element lies, its type and its byte strides over the axes of the result."""

    __slots__ = ("address", "dtype", "strides")

    def __init__(self, address: int, dtype: DType, strides: tuple[int, ...]) -> None:
        self.address = address
        self.dtype = dtype
        self.strides = strides


def fill(
    plan: Any,
    kernel: str,
    computed: DType,
    shape: tuple[int, ...],
    views: list[View],
    parameters: tuple[float, ...],
    cost: float,
) -> None:
    """Write the launches of one elementwise pass into ``plan``, a ``nonpu_plan`` structure.

    Parameters
    ----------
    plan
        The structure to fill; its previous content does not matter.
    kernel
        Symbol of the contiguous kernel; it reads and writes ``computed``.  Empty: copy the only input.
    computed
        The promoted type.
    shape
        Shape of the result, without a zero.
    views
        Output first, then the inputs in kernel order, all with ``len(shape)`` strides (0 where broadcast).
    parameters
        Scalar arguments of the kernel.
    cost
        Estimated nanoseconds per element.
    """
    views = _forwards(shape, views)
    output = views[0]
    if any(_overlaps_partly(output, view, shape) for view in views[1:]):
        # Every input may be read after the output was written: compute into a temporary, then copy.
        dense = View(0, output.dtype, _dense_strides(shape, output.dtype.itemsize))
        _launch(plan.main, kernel, computed, shape, [dense, *views[1:]], parameters, cost)
        _launch(plan.tail, "", output.dtype, shape, [output, dense], (), 0.0)
        plan.temporary = output.dtype.itemsize * prod(shape)
        plan.launches = 2
        return
    _launch(plan.main, kernel, computed, shape, views, parameters, cost)
    plan.temporary = 0
    plan.launches = 1


def _forwards(shape: tuple[int, ...], views: list[View]) -> list[View]:
    """Turn the axes along which the output runs backwards, for all views alike."""
    backwards = [axis for axis, extent in enumerate(shape) if extent > 1 and views[0].strides[axis] < 0]
    if not backwards:
        return views
    turned = []
    for view in views:
        strides = list(view.strides)
        start = view.address
        for axis in backwards:
            start += (shape[axis] - 1) * strides[axis]
            strides[axis] = -strides[axis]
        turned.append(View(start, view.dtype, tuple(strides)))
    return turned


def _dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    step = itemsize
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _reach(view: View, shape: tuple[int, ...]) -> tuple[int, int]:
    """First and one past the last byte that the view touches."""
    low = high = view.address
    for extent, stride in zip(shape, view.strides, strict=True):
        if stride > 0:
            high += (extent - 1) * stride
        else:
            low += (extent - 1) * stride
    return low, high + view.dtype.itemsize


def _overlaps_partly(output: View, view: View, shape: tuple[int, ...]) -> bool:
    """Whether writing the output could change elements of the input that are still to be read.

    The very same elements in the same places are harmless, since every tile is read before it is written.
    """
    low, high = _reach(output, shape)
    view_low, view_high = _reach(view, shape)
    if view_high <= low or high <= view_low:
        return False
    if view.address != output.address or view.dtype.itemsize != output.dtype.itemsize:
        return True
    pairs = zip(shape, output.strides, view.strides, strict=True)
    return any(extent > 1 and a != b for extent, a, b in pairs)


def _walk(shape: tuple[int, ...], views: list[View]) -> tuple[list[int], list[list[int]], list[int]]:
    """Drop, sort and merge axes: the same elements in the order of the output's memory.

    Returns the extents (outermost first), the strides of each view over them and the views' start addresses.
    """
    starts = [view.address for view in views]
    axes = [(extent, [view.strides[axis] for view in views]) for axis, extent in enumerate(shape) if extent > 1]
    axes.sort(key=_axis_order, reverse=True)
    merged: list[tuple[int, list[int]]] = []
    for extent, strides in axes:
        if merged:
            outer, outer_strides = merged[-1]
            if all(a == b * extent for a, b in zip(outer_strides, strides, strict=True)):
                merged[-1] = (outer * extent, strides)
                continue
        merged.append((extent, strides))
    extents = [extent for extent, _ in merged]
    return extents, [[strides[i] for _, strides in merged] for i in range(len(views))], starts


def _axis_order(axis: tuple[int, list[int]]) -> tuple[int, int]:
    return axis[1][0], sum(abs(stride) for stride in axis[1][1:])


def _row_axis(extents: list[int], strides: list[list[int]]) -> tuple[int, bool]:
    """Which axis to pair with the columns, and whether an operand runs fastest along it (a transposition)."""
    columns = len(extents) - 1
    best, fastest = -1, 0
    for view in strides:
        across = abs(view[columns])
        for axis in range(columns):
            along = abs(view[axis])
            if 0 < along < across and (best < 0 or across > fastest):
                best, fastest = axis, across
    if best >= 0:
        return best, True
    return max(range(columns), key=lambda axis: (extents[axis], axis)), False


def _launch(
    launch: Any,
    kernel: str,
    computed: DType,
    shape: tuple[int, ...],
    views: list[View],
    parameters: tuple[float, ...],
    cost: float,
) -> None:
    extents, strides, starts = _walk(shape, views)
    if not extents:
        extents, strides = [1], [[0] for _ in views]
    columns = len(extents) - 1
    count = prod(extents)
    item = computed.itemsize
    same_type = [view.dtype is computed for view in views]
    steps = [s[columns] for s in strides]
    splat = _splat(kernel, extents[columns], steps, same_type)
    step = _step(kernel, steps, same_type, item)
    rows, tile_rows, tile_columns, direct = _tiling(extents, strides, same_type, item, splat, step)
    if step > 1 and all(direct):
        kernel = f"{kernel}_step_{step}"
    elif step > 1:  # several rows to a tile, with something between them
        rows, tile_rows, tile_columns, direct = _tiling(extents, strides, same_type, item, splat, 1)
    if splat and direct[splat]:
        kernel = f"{kernel}_splat_{splat - 1}"
        cost = min(cost, SPLAT_COST) if splat == len(views) - 1 else cost
    has_gaps = any(s > view.dtype.itemsize and not ok for s, view, ok in zip(steps, views, direct, strict=True))
    light = not has_gaps and cost <= HEAVY * item
    stream = light and direct[0] and tile_rows == 1 and _may_stream(count, extents[columns], item, starts)
    if stream or not kernel:
        direct[0] = False
    is_large = count * item * len(views) >= FAR and direct[0] and tile_rows == 1 and computed not in COMPLEXES
    far = _bytes(extents, strides, item) // FAR if is_large else 0
    in_parts = (stream or far) and kernel and all(direct[1:]) and cost <= LIGHT * item
    part = max(PART // item, LEAST_PART) if in_parts else 0
    if not part and not all(direct) and tile_rows * tile_columns > BLOCK:
        tile_columns = BLOCK
    row_extent = extents[rows] if rows >= 0 else 1
    outer = [axis for axis in range(columns) if axis != rows]
    launch.driver = address("nonpu_elementwise")
    launch.kernel = address(kernel) if kernel else 0
    launch.operands = len(views)
    launch.tiles = (
        -(-row_extent // tile_rows) * -(-extents[columns] // tile_columns) * prod(extents[axis] for axis in outer)
    )
    launch.rows, launch.columns = row_extent, extents[columns]
    launch.tile_rows, launch.tile_columns = tile_rows, tile_columns
    launch.outer_rank = len(outer)
    for i, axis in enumerate(outer):
        launch.outer_shape[i] = extents[axis]
    for i, value in enumerate(parameters):
        launch.parameters[i] = value
    launch.part = part
    launch.far = far
    launch.cost = int(count * (cost + MOVE_COST * direct.count(False))) + 1
    for i, view in enumerate(views):
        operand = launch.operand[i]
        operand.data = starts[i]
        operand.item = item
        operand.move = 0 if direct[i] else address(_move(view.dtype, computed, i == 0, stream))
        operand.row_stride = strides[i][rows] if rows >= 0 else 0
        operand.column_stride = strides[i][columns]
        for j, axis in enumerate(outer):
            operand.outer_strides[j] = strides[i][axis]


def _splat(kernel: str, extent: int, steps: list[int], same_type: list[bool]) -> int:
    """Return the operand that the kernel could take as one number per row, 0 if there is none."""
    if kernel and extent >= SPLAT:
        for index in range(len(steps) - 1, 0, -1):  # the gradient comes first, and what depends on it is least
            if steps[index] == 0 and same_type[index] and exists(f"{kernel}_splat_{index - 1}"):
                return index
    return 0


def _step(kernel: str, steps: list[int], same_type: list[bool], item: int) -> int:
    """Return every how manieth element of all inputs counts, where the kernel can take them like that; else 1."""
    if steps[-1] != 2 * item or not kernel or steps[0] != item or not all(same_type):
        return 1
    return 2 if all(step == 2 * item for step in steps[1:]) and exists(f"{kernel}_step_2") else 1


def _tiling(
    extents: list[int], strides: list[list[int]], same_type: list[bool], item: int, splat: int, step: int
) -> tuple[int, int, int, list[bool]]:
    """Return the row axis (-1: none), the extents of a tile, and which operands go to the kernel as they are."""
    columns = len(extents) - 1
    extent = extents[columns]
    rows, transposed = _row_axis(extents, strides) if columns > 0 else (-1, False)
    units = [item] + [step * item] * (len(strides) - 1)
    unit = [
        same and (extent == 1 or s[columns] == size) for same, s, size in zip(same_type, strides, units, strict=True)
    ]
    is_strided = step == 1 and any(not 0 <= s[columns] <= item for s in strides)
    block = FAR_BLOCK if is_strided and len(strides) * prod(extents) * item > CACHED else BLOCK
    tile_rows = 1
    if transposed:
        tile_rows = min(extents[rows], TRANSPOSED_ROWS)
    elif splat:
        unit[splat] = True
    elif rows >= 0 and (extent < SHORT or (extent < block and _repeats(unit, strides, rows, extent * item))):
        tile_rows = min(extents[rows], block // extent)
    whole = block // tile_rows
    if all(unit) and tile_rows == 1:
        whole = max(LEAST // item, min(CHUNK, prod(extents) // GRAINS))
    tile_columns = min(extent, whole)
    direct = [
        ok and (tile_rows == 1 or (s[rows] == tile_columns * size and tile_columns == extent))
        for ok, s, size in zip(unit, strides, units, strict=True)
    ]
    return rows, tile_rows, tile_columns, direct


def _repeats(unit: list[bool], strides: list[list[int]], rows: int, stack: int) -> bool:
    """Whether a block of several rows would serve all rows without anything else being staged for it."""
    steps = [s[rows] for ok, s in zip(unit, strides, strict=True) if ok]
    return 0 in steps and all(step in (0, stack) for step in steps)


def _may_stream(count: int, columns: int, item: int, starts: list[int]) -> bool:
    """Large outputs gain from stores that do not read the cache line first."""
    return count * item >= STREAM_BYTES and columns >= BLOCK and may_stream_to(starts, item)


def may_stream_to(starts: list[int], item: int) -> bool:
    """Whether the addresses allow for stores past the caches: an aligned output that no input shares."""
    return starts[0] % item == 0 and starts[0] not in starts[1:]


def _bytes(extents: list[int], strides: list[list[int]], item: int) -> int:
    """Return how much the operands are, broadcast ones without their repetitions."""
    return sum(prod(n for n, s in zip(extents, view, strict=True) if s) * item for view in strides)


def _move(stored: DType, computed: DType, is_output: bool, stream: bool) -> str:
    if stream and is_output:
        return "nonpu_stream_" + computed.python_name
    source, target = (computed, stored) if is_output else (stored, computed)
    return f"nonpu_move_{source.python_name}_{target.python_name}"
