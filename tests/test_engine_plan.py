"""What a plan makes of shapes and strides: which operands are moved, in which tiles, and which kernel runs."""

from __future__ import annotations

from typing import Any

import pytest
from nonpu._core import ffi

from nonpu.dtypes import DType
from nonpu.engine import plan
from nonpu.engine.load import address
from nonpu.engine.plan import View, fill

SIGMOID = "nonpu_sigmoid_backward_"
GRADIENT, FORWARD, RESULT = 1 << 30, 2 << 30, 3 << 30


def planned(
    shape: tuple[int, ...],
    *elements: tuple[int, ...],
    dtype: DType = DType.FLOAT,
    stored: DType | None = None,
    cost: float = 0.2,
) -> Any:
    """Return the main launch for the result, the gradient and the forward value with these strides in elements."""
    record = ffi.new("nonpu_plan *")
    types = (dtype, stored or dtype, dtype)
    views = [
        View(start, kind, tuple(step * kind.itemsize for step in steps))
        for start, kind, steps in zip((RESULT, GRADIENT, FORWARD), types, elements, strict=True)
    ]
    fill(record, SIGMOID + dtype.python_name, dtype, shape, views, (), cost)
    assert record.launches == 1
    assert record.temporary == 0
    return record


def moved(record: Any) -> list[bool]:
    """Return which of result, gradient and forward value go through a block."""
    return [record.main.operand[index].move != 0 for index in range(3)]


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE])
@pytest.mark.parametrize("which", [0, 1])
def test_an_input_broadcast_along_rows_is_not_copied(which: int, dtype: DType) -> None:
    """A column and a single number go to the kernel as one number per row."""
    for column in ((1, 0), (0, 0)):
        steps = [(500, 1), (500, 1)]
        steps[which] = column
        record = planned((300, 500), (500, 1), *steps, dtype=dtype)
        assert moved(record) == [False] * 3
        assert record.main.kernel == address(f"{SIGMOID}{dtype.python_name}_splat_{which}")
        assert record.main.tile_rows == 1


def test_of_two_broadcast_inputs_the_last_is_the_number() -> None:
    """The other is spread into a block."""
    record = planned((300, 500), (500, 1), (1, 0), (1, 0))
    assert moved(record) == [False, True, False]
    assert record.main.kernel == address(SIGMOID + "float32_splat_1")


def test_a_broadcast_input_is_spread_where_no_kernel_takes_a_number() -> None:
    """Complex kernels, inputs of another type, and rows too short to be worth a call of the kernel."""
    assert moved(planned((300, 500), (500, 1), (500, 1), (1, 0), dtype=DType.COMPLEX64)) == [False, False, True]
    assert moved(planned((300, 500), (500, 1), (1, 0), (500, 1), stored=DType.FLOAT16)) == [False, True, False]
    record = planned((300, 10), (10, 1), (10, 1), (1, 0))
    assert moved(record) == [False, False, True]
    assert (record.main.tile_rows, record.main.tile_columns) == (102, 10)


def test_a_repeated_row_is_spread_once_over_a_block_of_rows() -> None:
    """Unless the other operands would have to be copied for that."""
    record = planned((256, 256), (256, 1), (256, 1), (0, 1))
    assert moved(record) == [False, False, True]
    assert (record.main.tile_rows, record.main.tile_columns) == (4, 256)
    record = planned((256, 256), (256, 1), (512, 1), (0, 1))
    assert moved(record) == [False] * 3
    assert record.main.tile_rows == 1


@pytest.mark.parametrize(("dtype", "has"), [(DType.FLOAT, True), (DType.DOUBLE, True), (DType.FLOAT16, False)])
def test_inputs_of_every_second_element_go_to_the_kernel_as_they_are(dtype: DType, has: bool) -> None:
    """If all inputs are such, the result is not, and rows need not be joined; not where kernels are guarded."""
    record = planned((300, 500), (500, 1), (1001, 2), (1000, 2), dtype=dtype)
    assert moved(record) == [False, not has, not has]
    assert (
        record.main.kernel == address(f"{SIGMOID}{dtype.python_name}_step_2" if has else SIGMOID + "float16")
    ) is True
    for steps, staged in (
        (((500, 1), (1000, 2), (500, 1)), [False, True, False]),
        (((500, 1), (1500, 3), (1500, 3)), [False, True, True]),
        (((1000, 2), (1000, 2), (1000, 2)), [True, True, True]),
    ):
        other = planned((300, 500), *steps, dtype=dtype)
        assert (moved(other), other.main.kernel) == (staged, address(SIGMOID + dtype.python_name))
    short = planned((300, 10), (10, 1), (21, 2), (21, 2), dtype=dtype)
    assert (moved(short), short.main.kernel) == ([False, True, True], address(SIGMOID + dtype.python_name))
    mixed = planned((300, 10), (10, 1), (20, 2), (21, 2), dtype=dtype)
    assert (moved(mixed), mixed.main.kernel) == ([False, True, True], address(SIGMOID + dtype.python_name))
    joined = planned((300, 10), (10, 1), (20, 2), (20, 2), dtype=dtype)
    assert moved(joined) == [False, not has, not has]


@pytest.mark.parametrize(("side", "block"), [(256, plan.BLOCK), (2048, plan.FAR_BLOCK)])
def test_strided_operands_are_moved_in_blocks_that_suit_the_cache(side: int, block: int) -> None:
    """Large ones in smaller blocks; contiguous ones are not concerned."""
    sliced = planned((side, side), (side, 1), (3 * side, 3), (side, 1)).main
    assert sliced.tile_rows * sliced.tile_columns == block
    turned = planned((side, side), (side, 1), (side, 1), (1, side)).main
    assert turned.tile_rows * turned.tile_columns == block
    narrow = planned((side, side), (side, 1), (side, 1), (side, 1), stored=DType.FLOAT16).main
    assert narrow.tile_rows * narrow.tile_columns == plan.BLOCK


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.FLOAT16, DType.DOUBLE, DType.COMPLEX128])
def test_contiguous_launches_are_divided_so_that_threads_end_together(dtype: DType) -> None:
    """A kernel call of 32 KiB at least and of 16384 elements at most."""
    for count in (1, 1000, 1 << 15, 1 << 16, 1 << 20):
        launch = planned((count,), (1,), (1,), (1,), dtype=dtype).main
        columns = launch.tile_columns
        assert columns <= plan.CHUNK
        assert columns == count or columns * dtype.itemsize >= plan.LEAST
        assert launch.tiles == -(-count // columns)
    assert launch.tiles >= plan.GRAINS


def test_large_results_of_light_kernels_are_stored_in_parts() -> None:
    """A part is eight cache lines, or 64 elements.

    What is staged anyway, or takes the kernel longer than memory, is not divided.
    """
    rows = (16384, 1)
    for dtype, elements in ((DType.FLOAT, 128), (DType.DOUBLE, 64), (DType.COMPLEX128, 64), (DType.BFLOAT16, 0)):
        record = planned((1024, 16384), rows, rows, rows, dtype=dtype)
        assert moved(record) == [True, False, False]
        assert (record.main.part, record.main.far) == (elements, 0)
        assert record.main.tile_columns == (16384 if elements else plan.BLOCK)
    for steps in ((0, 1), (1, 0)):
        assert planned((1024, 16384), rows, rows, steps).main.part == 128
    assert planned((1024, 16384), rows, rows, (32768, 2)).main.operand[0].move == 0
    assert planned((1024, 16384), rows, (32768, 2), (32768, 2)).main.part == 128
    heavy = planned((1024, 16384), rows, rows, rows, cost=0.4).main
    assert (heavy.operand[0].move, heavy.part) == (address("nonpu_stream_float32"), 0)
    assert planned((1024, 16384), rows, rows, rows, cost=0.5).main.operand[0].move == 0
    assert planned((1024, 16384), rows, rows, (1, 0), cost=0.5).main.part == 128
    assert planned((1024, 16384), rows, (1, 0), rows, cost=0.6).main.operand[0].move == 0


@pytest.mark.parametrize(
    ("dtype", "least"),
    [(DType.FLOAT, 1 << 20), (DType.DOUBLE, 1 << 19), (DType.FLOAT16, None), (DType.COMPLEX64, None)],
)
def test_operands_beyond_the_near_caches_are_read_ahead(dtype: DType, least: int | None) -> None:
    """12 MiB of them; results are written where they belong, without a move."""
    for count in (1 << 18, 1 << 19, 1 << 20, 3 << 20):
        record = planned((count,), (1,), (1,), (1,), dtype=dtype)
        assert moved(record) == [False, False, False]
        assert (record.main.part > 0) == (least is not None and count >= least)
        assert record.main.far == 3 * count * dtype.itemsize // plan.FAR * (dtype is not DType.COMPLEX64)
    one = planned((1 << 20,), (1,), (1,), (0,), dtype=dtype).main
    assert (one.part > 0) == (dtype is DType.DOUBLE)
    assert planned((1 << 20,), (1,), (1,), (2,), dtype=dtype).main.part == 0
