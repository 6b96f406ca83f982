"""The build turns plain Python functions into correct loops, and refuses what could not run without Python."""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nonpu.dtypes import DType
from nonpu.engine import compile as build
from nonpu.engine import load
from nonpu.ops import OPS
from nonpu.spec.model import Kernel
from tests.layouts import fenced
from tests.test_faces import bits

TENTH = 0.1
COEFFICIENTS = (0.25, 3.0)
NUMPY = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}


def select(grad: float, x: float, slope: float) -> float:
    return grad if x > 0 else grad * slope


def scaled(value: float) -> float:
    return value * TENTH + COEFFICIENTS[1]


def constants(x: float) -> float:
    return scaled(x) * 0.7


def three_inputs(a: float, b: float, c: float, p: float, q: float) -> float:
    return (a * p + b * q) - c


def product(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    return a * c - b * d, a * d + b * c


# function, compute type, types, number of inputs
TOYS: dict[str, tuple[Callable[..., Any], dict[DType, DType], int]] = {
    "select": (
        select,
        {DType.FLOAT: DType.FLOAT, DType.FLOAT16: DType.FLOAT, DType.BFLOAT16: DType.FLOAT, DType.DOUBLE: DType.DOUBLE},
        2,
    ),
    "wide_select": (select, dict.fromkeys((DType.FLOAT, DType.FLOAT16, DType.BFLOAT16), DType.DOUBLE), 2),
    "constants": (constants, {DType.FLOAT: DType.FLOAT, DType.DOUBLE: DType.DOUBLE}, 1),
    "three_inputs": (three_inputs, {DType.FLOAT: DType.DOUBLE}, 3),
    "product": (product, dict.fromkeys((DType.COMPLEX64, DType.COMPLEX128), DType.DOUBLE), 2),
}


def operator(name: str, function: Callable[..., Any], types: dict[DType, DType], inputs: int) -> Any:
    """Return what the build needs of an operator."""
    kernels = {dtype: Kernel(function, compute) for dtype, compute in types.items()}
    return SimpleNamespace(python_name=name, inputs=("input",) * inputs, kernels=kernels)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ctypes.CDLL]:
    """The toy kernels at every level of this processor."""
    folder = tmp_path_factory.mktemp("kernels")
    operators = [operator(name, *toy) for name, toy in TOYS.items()]
    objects = build.compile_part(list(build.kernel_sources(operators)), load.levels())
    loaded = {}
    for level, code in objects.items():
        build.link([code], folder / f"{level}.so")
        loaded[level] = ctypes.CDLL(str(folder / f"{level}.so"))
    return loaded


def call(function: Any, operands: list[int], count: int, parameters: tuple[float, ...]) -> None:
    """Call a kernel on addresses."""
    addresses, numbers = (ctypes.c_int64 * len(operands))(*operands), (ctypes.c_double * 4)(*parameters)
    function.restype, function.argtypes = None, [ctypes.c_int64] * 3
    function(ctypes.addressof(addresses), count, ctypes.addressof(numbers))


def sample(dtype: str, count: int, seed: int) -> np.ndarray:
    """Return finite values of moderate size."""
    random = np.random.default_rng(seed)
    if dtype.startswith("complex"):
        return (random.normal(size=count) + 1j * random.normal(size=count)).astype(NUMPY[dtype])
    return (random.normal(size=count) * 2.0 ** random.integers(-8, 8, count)).astype(NUMPY[dtype])


def run(library: ctypes.CDLL, name: str, dtype: str, inputs: list[np.ndarray], *parameters: float) -> np.ndarray:
    """Return the result of a toy kernel."""
    result = np.empty_like(inputs[0])
    addresses = [array.ctypes.data for array in (result, *inputs)]
    call(getattr(library, f"nonpu_{name}_{dtype}"), addresses, len(result), parameters)
    return result


@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 63, 127, 1000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_loop_equals_numpy_for_every_length(libraries: dict[str, Any], level: str, dtype: str, count: int) -> None:
    grad, x = sample(dtype, count, 1), sample(dtype, count, 2)
    wide = np.dtype("float64" if dtype == "float64" else "float32")
    slope = np.array(0.3, wide)
    expected = np.where(x > 0, grad.astype(wide), grad.astype(wide) * slope).astype(NUMPY[dtype])
    result = run(libraries[level], "select", dtype, [grad, x], 0.3)
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_double_inside_rounds_once(libraries: dict[str, Any], level: str, dtype: str) -> None:
    grad, x = sample(dtype, 2000, 3), np.full(2000, -1.0).astype(NUMPY[dtype])
    result = run(libraries[level], "wide_select", dtype, [grad, x], 1.0 + 2.0**-9 + 2.0**-40)
    exact = grad.astype(np.float64) * (1.0 + 2.0**-9 + 2.0**-40)
    # No neighbour of the result is nearer to the exact product, which a double holds; and ties do not occur here.
    for step in (-1, 1):
        neighbour = (result.view(np.int16) + step).view(NUMPY[dtype]).astype(np.float64)
        assert np.all(np.abs(result.astype(np.float64) - exact) <= np.abs(neighbour - exact))


@pytest.mark.parametrize("level", load.levels())
def test_constants_have_the_compute_type(libraries: dict[str, Any], level: str) -> None:
    for dtype in ("float32", "float64"):
        x = sample(dtype, 100, 4)
        tenth, three, last = np.array([0.1, 3.0, 0.7], dtype)
        expected = (x * tenth + three) * last
        assert run(libraries[level], "constants", dtype, [x]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("level", load.levels())
def test_several_inputs_and_parameters_arrive_in_order(libraries: dict[str, Any], level: str) -> None:
    a, b, c = (sample("float32", 77, seed) for seed in (5, 6, 7))
    expected = (a.astype(float) * 2.0 + b.astype(float) * -3.0) - c.astype(float)
    result = run(libraries[level], "three_inputs", "float32", [a, b, c], 2.0, -3.0)
    assert np.array_equal(result, expected.astype(np.float32))


@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_kernels_get_and_give_both_parts(libraries: dict[str, Any], level: str, dtype: str) -> None:
    a, b = sample(dtype, 101, 8), sample(dtype, 101, 9)
    wide_a, wide_b = a.astype(np.complex128), b.astype(np.complex128)
    real = wide_a.real * wide_b.real - wide_a.imag * wide_b.imag
    imaginary = wide_a.real * wide_b.imag + wide_a.imag * wide_b.real
    result = run(libraries[level], "product", dtype, [a, b])
    part = np.float32 if dtype == "complex64" else np.float64
    assert np.array_equal(result.real, real.astype(part))
    assert np.array_equal(result.imag, imaginary.astype(part))


@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_unaligned_and_in_place_work_has_the_same_bits(libraries: dict[str, Any], level: str, dtype: str) -> None:
    count, size = 333, NUMPY[dtype].itemsize
    grad, x = sample(dtype, count, 10), sample(dtype, count, 11)
    expected = run(libraries[level], "select", dtype, [grad, x], 0.3).tobytes()
    function = getattr(libraries[level], f"nonpu_select_{dtype}")
    for offset, target in itertools.product((0, 1, 3), (0, 1)):
        memory = [bytearray(64 + count * size) for _ in range(2)]
        views = [np.frombuffer(part, np.uint8)[offset : offset + count * size] for part in memory]
        views[0][:], views[1][:] = grad.view(np.uint8), x.view(np.uint8)
        addresses = [view.ctypes.data for view in views]
        call(function, [addresses[target], *addresses], count, (0.3,))
        assert views[target].tobytes() == expected


def test_levels_agree_on_every_operator_kernel() -> None:
    """Special values and random patterns; only a NaN may differ."""
    loaded = [ctypes.CDLL(os.path.join(load.FOLDER, f"kernels_{level}.so")) for level in load.levels()]
    for op in OPS:
        for dtype in op.kernels:
            random = np.random.default_rng(1)
            patterns = [random.integers(0, 256, 4096 * dtype.itemsize, np.uint8) for _ in op.inputs]
            kind = NUMPY[dtype.python_name]
            results = []
            for library in loaded:
                result = np.zeros(4096, kind)
                addresses = [result.ctypes.data, *(array.ctypes.data for array in patterns)]
                call(getattr(library, f"nonpu_{op.python_name}_{dtype.python_name}"), addresses, 4096, (0.75,))
                results.append(bits(result))
            for other in results[1:]:
                assert results[0] == other, f"{op.name} {dtype.python_name}"


def one_by_one(
    symbol: Any, indices: list[int], inputs: tuple[np.ndarray, ...], factors: tuple[float, ...]
) -> np.ndarray:
    """Return some elements of a kernel's result, each computed in a call of its own."""
    alone, item = np.empty(len(indices), inputs[0].dtype), inputs[0].itemsize
    for place, index in enumerate(indices):
        call(symbol, [alone[place:].ctypes.data, *(array.ctypes.data + index * item for array in inputs)], 1, factors)
    return alone


NUMBERS = (0.0, -0.0, 1.0, -1.2784645, -3.5, 80.5, -81.0, -600.0, 3e38, 1e-40, np.inf, -np.inf, np.nan)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_kernel_for_one_number_equals_the_one_for_an_array_of_it(level: str, dtype: str) -> None:
    """Every operator, either input, fast and accurate elements mixed, odd lengths, in place: the same bits."""
    library, kind = ctypes.CDLL(os.path.join(load.FOLDER, f"kernels_{level}.so")), NUMPY[dtype]
    random = np.random.default_rng(12)
    for op, factor, (index, number) in itertools.product(OPS, (1.0, 0.3), enumerate(NUMBERS)):
        one = np.array([number], np.float64).astype(kind)
        for which, count in itertools.product(range(len(op.inputs)), (1, 17, 255, 257, 700 + index)):
            others = [random.integers(0, 256, count * kind.itemsize, np.uint8).view(kind) for _ in op.inputs]
            others[0][::3] = sample(dtype, count, 13)[::3]
            if index % 2:
                others = [np.where(abs(other.astype(float)) < 9, other, kind.type(1)) for other in others]
            plain, expected = [*others], np.empty(count, kind)
            plain[which] = np.full(count, one)
            symbol = f"nonpu_{op.python_name}_{dtype}"
            call(getattr(library, symbol), [array.ctypes.data for array in (expected, *plain)], count, (factor,))
            others[which] = one
            found = np.empty(count, kind)
            for target in (found, others[1 - which]):  # at last in place
                addresses = [array.ctypes.data for array in (target, *others)]
                call(getattr(library, f"{symbol}_splat_{which}"), addresses, count, (factor,))
                assert bits(expected) == bits(target), (symbol, which, number, factor, count)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("factor", [1.0, -2.25])
def test_doubtful_elements_get_the_same_bits_among_many_and_alone(level: str, dtype: str, factor: float) -> None:
    """None, few, many and only arguments outside the fast function's range, NaN and infinite ones between them."""
    library, kind = ctypes.CDLL(os.path.join(load.FOLDER, f"kernels_{level}.so")), NUMPY[dtype]
    random, count = np.random.default_rng(16), 20_001
    edge, most = {"float16": (80.0, 14), "float64": (700.0, 900)}.get(dtype, (80.0, 90))
    for op, share in itertools.product(OPS, (0.0, 0.005, 0.05, 0.7, 1.0)):
        symbol = getattr(library, f"nonpu_{op.python_name}_{dtype}")
        grad = np.ldexp(random.uniform(-2, 2, count), random.integers(-15, most, count)).astype(kind)
        large = edge * random.uniform(0.9, 1.4, count) * random.choice([-1, 1], count) / factor
        is_large = random.random(count) < share
        x = np.where(is_large, large, random.normal(0, 2, count)).astype(kind)
        x[700::997] = (-np.inf, np.inf, np.nan, 0)[int(10 * share) % 4]
        together, indices = np.empty(count, kind), [*np.flatnonzero(is_large)[:300], *range(0, count, 71), count - 1]
        call(symbol, [array.ctypes.data for array in (together, grad, x)], count, (factor,))
        alone = bits(one_by_one(symbol, indices, (grad, x), (factor,)))
        call(symbol, [array.ctypes.data for array in (grad, grad, x)], count, (factor,))
        for found in (together[indices], grad[indices]):  # the second in place
            assert alone == bits(found), (op.name, share)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("share", [0.0, 0.002, 0.05, 0.4, 1.0])
def test_complex_elements_out_of_range_get_the_same_bits_among_many_and_alone(
    level: str, dtype: str, share: float
) -> None:
    """Numbers whose products become subnormal or nothing, or infinite, between ordinary ones and zeros."""
    library, kind, count = ctypes.CDLL(os.path.join(load.FOLDER, f"kernels_{level}.so")), NUMPY[dtype], 20_001
    part, limit = (np.float32, 128) if dtype == "complex64" else (np.float64, 1024)
    random = np.random.default_rng(17)
    parts = random.normal(0, 1, (2, 2 * count)).astype(part)
    powers = random.integers(-limit, limit, parts.shape) * (random.random(parts.shape) < share)
    parts = np.where(random.random(parts.shape) < 0.1, part(0), np.ldexp(parts, powers)).astype(part)
    grad, y = parts.view(kind)
    together = np.empty(count, kind)
    indices = [*np.flatnonzero(powers[1].reshape(-1, 2).any(axis=1))[:400], *range(0, count, 71), count - 1]
    symbol = getattr(library, f"nonpu_sigmoid_backward_{dtype}")
    call(symbol, [array.ctypes.data for array in (together, grad, y)], count, ())
    assert bits(one_by_one(symbol, indices, (grad, y), ())) == bits(together[indices])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("level", load.levels())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_for_every_second_element_equals_the_one_for_an_array_of_them(level: str, dtype: str) -> None:
    """Any bytes, odd lengths and offsets: the same bits, and nothing beyond the last element is read."""
    library, kind = ctypes.CDLL(os.path.join(load.FOLDER, f"kernels_{level}.so")), NUMPY[dtype]
    random, size = np.random.default_rng(14), NUMPY[dtype].itemsize
    with_step = [op for op in OPS if hasattr(library, f"nonpu_{op.python_name}_{dtype}_step_2")]
    assert len(with_step) >= 2
    room = 31 * mmap.PAGESIZE
    with fenced(bytes(room)) as one, fenced(bytes(room)) as other:
        for op, count in itertools.product(with_step, (1, 2, 15, 16, 17, 63, 64, 257, 1024, 1025, 4001)):
            symbol, span = f"nonpu_{op.python_name}_{dtype}", (2 * count - 1) * size
            places, copies = [start + room - span for start in (one, other)], []
            for place in places:
                patterns = random.integers(0, 256, span, np.uint8)
                patterns.view(kind)[::4] = sample(dtype, 2 * count - 1, 15)[::4]
                ctypes.memmove(place, patterns.tobytes(), span)
                copies.append(patterns.view(kind)[::2].copy())
            expected, found = np.zeros(count, kind), np.zeros(count + 3, kind)
            addresses = [array.ctypes.data for array in (expected, *copies)]
            call(getattr(library, symbol), addresses, count, (0.3,))
            call(getattr(library, f"{symbol}_step_2"), [found[1:].ctypes.data, *places], count, (0.3,))
            assert bits(expected) == bits(found[1 : 1 + count]), (symbol, count)
            assert not found[[0, *range(1 + count, count + 3)]].any()


# What the build refuses -----------------------------------------------------------------------------------------------


def raises(grad: float, x: float) -> float:
    if x > 3:
        raise ValueError("x")
    return grad


def allocates(grad: float, x: float) -> float:
    values = [grad, x]
    values.append(x)
    return values[int(x)]


def calls_library(grad: float, x: float) -> float:
    return grad * math.exp(x)


def hidden_call(grad: float, x: float) -> float:
    return grad % x


@pytest.mark.parametrize(
    ("function", "symbol"), [(raises, "Py"), (allocates, "NRT"), (calls_library, "exp"), (hidden_call, "fmod")]
)
def test_kernels_that_need_a_runtime_are_refused(function: Callable[..., float], symbol: str) -> None:
    sources = list(build.kernel_sources([operator("refused", function, {DType.DOUBLE: DType.DOUBLE}, 2)]))
    with pytest.raises(build.KernelError, match=rf"nonpu_refused_float64.*{symbol}"):
        build.compile_part(sources, load.levels()[-1:])


def test_double_cannot_be_computed_as_float() -> None:
    sources = list(build.kernel_sources([operator("narrow", select, {DType.DOUBLE: DType.FLOAT}, 2)]))
    with pytest.raises(ValueError, match="float64 cannot be computed as float32"):
        build.compile_part(sources, load.levels()[-1:])


def test_build_is_skipped_when_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = operator("select", select, {DType.FLOAT: DType.FLOAT}, 2)
    monkeypatch.setattr(build, "sources", lambda operators: list(build.kernel_sources(operators)))
    assert build.build(tmp_path, [toy])
    written = sorted(path.name for path in tmp_path.iterdir())
    assert not build.build(tmp_path, [toy])
    (tmp_path / written[0]).unlink()
    assert build.build(tmp_path, [toy])
    monkeypatch.setattr(build, "fingerprint", lambda: "other")
    assert build.build(tmp_path, [toy])
    assert sorted(path.name for path in tmp_path.iterdir()) == written


def operator_sources() -> list[build.Source]:
    return list(build.kernel_sources(OPS))


@pytest.mark.parametrize("source", operator_sources(), ids=lambda source: source.symbols[0])
@pytest.mark.parametrize("level", [level for level in load.levels() if level != "x86_64_v2"])
def test_operator_loops_run_in_full_width_vectors(source: build.Source, level: str) -> None:
    machine = build.Machine(level)
    assembly = machine.target.emit_assembly(machine.compile(build.intermediate(source), source))
    register = {"x86_64_v4": "%zmm", "x86_64_v3": "%ymm", "aarch64": ".2d"}[level]
    assert assembly.count(register) > 8
    assert "call" not in assembly


# The driver -----------------------------------------------------------------------------------------------------------


class Launch:
    """A launch record, filled word by word as its C declaration orders them."""

    def __init__(self, kernel: str, shape: tuple[int, int], tile: tuple[int, int], outer: tuple[int, ...]) -> None:
        self.words = [0] * 88
        self.words[1] = load.address(kernel)
        self.words[4:8] = [*shape, *tile]
        self.words[8] = len(outer)
        self.words[9 : 9 + len(outer)] = outer
        self.words[15] = struct.unpack("<q", struct.pack("<d", 0.5))[0]
        self.tiles = math.prod(outer) * math.prod(-(-extent // part) for extent, part in zip(shape, tile, strict=True))

    def add(self, array: np.ndarray, move: str | None, item: int) -> None:
        """Add an operand whose last two axes are the tile axes."""
        place = 21 + 11 * self.words[2]
        self.words[2] += 1
        rows, columns = array.strides[-2:]
        record = [array.ctypes.data, load.address(move) if move else 0, item, rows, columns, *array.strides[:-2]]
        self.words[place : place + len(record)] = record

    def run(self, first: int, last: int) -> None:
        """Run some of the tiles."""
        record = (ctypes.c_int64 * 88)(*self.words)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        kind(load.address("nonpu_elementwise"))(ctypes.addressof(record), first, last)


def views(shape: tuple[int, ...], kind: str, seed: int) -> np.ndarray:
    """Return an array of a shape whose memory is laid out in a special way."""
    random = np.random.default_rng(seed)
    if kind == "transposed":
        return random.normal(size=shape[:-2] + shape[:-3:-1]).astype(np.float32).swapaxes(-1, -2)
    if kind == "gaps":
        return random.normal(size=(*shape[:-1], 2 * shape[-1])).astype(np.float32)[..., ::2]
    if kind == "reversed":
        return random.normal(size=shape).astype(np.float32)[..., ::-1, ::-1]
    thin = {"rows": (*shape[:-1], 1), "columns": (*shape[:-2], 1, shape[-1]), "scalar": (1,) * len(shape)}
    return np.broadcast_to(random.normal(size=thin.get(kind, shape)).astype(np.float32), shape)


KINDS = ("plain", "transposed", "gaps", "reversed", "rows", "columns", "scalar")


@pytest.mark.parametrize("kinds", [*itertools.product(KINDS, KINDS)], ids="-".join)
@pytest.mark.parametrize("out_kind", ["plain", "transposed", "gaps", "float16"])
def test_driver_equals_numpy_on_strided_and_broadcast_views(kinds: tuple[str, str], out_kind: str) -> None:
    for shape, tile in (((2, 3, 37, 53), (16, 48)), ((70, 5), (64, 5)), ((1, 2050), (1, 1024))):
        grad, x = (views(shape, kind, seed) for seed, kind in enumerate(kinds))
        expected = np.where(x > 0, grad, grad * np.float32(0.5))
        dtype = "float16" if out_kind == "float16" else "float32"
        out = np.zeros(shape, NUMPY[dtype]) if dtype == "float16" else np.zeros_like(views(shape, out_kind, 0))
        if out_kind == "gaps":
            out = np.zeros((*shape[:-1], 2 * shape[-1]), np.float32)[..., ::2]
        launch = Launch("nonpu_leaky_relu_backward_float32", shape[-2:], tile, shape[:-2])
        launch.add(out, f"nonpu_move_float32_{dtype}", 4)
        for array in (grad, x):
            launch.add(array, "nonpu_move_float32_float32", 4)
        middle = launch.tiles // 3
        for first, last in ((middle, launch.tiles), (0, middle), (middle, middle)):
            launch.run(first, last)
        assert np.array_equal(out, expected.astype(NUMPY[dtype]))


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_driver_walks_whole_rows_over_outer_axes(rows: int) -> None:
    """Rows that need no move, one number per row and a repeated row among the operands; any range of tiles."""
    shape, outer = (3, 2, rows, 70), (3, 2)
    random = np.random.default_rng(rows)
    grad = random.normal(size=(3, 2, rows, 90)).astype(np.float32)[..., :70]
    x = np.broadcast_to(random.normal(size=(3, 1, rows, 1)).astype(np.float32), shape)
    expected = np.where(x > 0, grad, grad * np.float32(0.5))
    out = np.zeros((3, 2, rows, 75), np.float32)[..., :70]
    launch = Launch("nonpu_leaky_relu_backward_float32_splat_1", (rows, 70), (1, 70), outer)
    for array in (out, grad, x):
        launch.add(array, None, 4)
    for first, last in itertools.pairwise((0, 1, launch.tiles // 2, launch.tiles)):
        launch.run(first, last)
        flat = out.reshape(-1, 70)
        assert np.array_equal(flat[:last], expected.reshape(-1, 70)[:last])
        assert not flat[last:].any()


def test_driver_runs_contiguous_operands_in_place_and_streams_results() -> None:
    count = 10_000
    for offset in (0, 4, 12):
        memory = [np.random.default_rng(seed).normal(size=count + 16).astype(np.float32) for seed in (1, 2, 3)]
        out, grad, x = (array[offset : offset + count].reshape(1, count) for array in memory)
        expected = np.where(x > 0, grad, grad * np.float32(0.5))
        launch = Launch("nonpu_leaky_relu_backward_float32", (1, count), (1, 1000), ())
        launch.add(out, "nonpu_stream_float32", 4)
        launch.add(grad, None, 4)
        launch.add(x, None, 4)
        guard = memory[0].copy()
        guard[offset : offset + count] = expected
        for part in (0, 16, 128):
            out[:] = 0
            launch.words[20] = part
            launch.run(0, launch.tiles)
            assert np.array_equal(out, expected)
            assert np.array_equal(memory[0], guard)
        direct = Launch("nonpu_leaky_relu_backward_float32", (1, count), (1, 4096), ())
        for array in (grad, grad, x):
            direct.add(array, None, 4)
        direct.run(0, direct.tiles)
        assert np.array_equal(grad, expected)


def test_driver_computes_rows_in_parts_beside_one_number_and_a_repeated_row() -> None:
    random = np.random.default_rng(5)
    grad = random.normal(size=(7, 300)).astype(np.float32)
    for kernel, x in (
        ("nonpu_leaky_relu_backward_float32_splat_1", np.broadcast_to(grad[:, :1], grad.shape)),
        ("nonpu_leaky_relu_backward_float32", np.broadcast_to(grad[:1], grad.shape)),
    ):
        out = np.zeros((7, 303), np.float32)
        launch = Launch(kernel, grad.shape, (1, 300), ())
        launch.words[20] = 64
        launch.add(out[:, 1:301], "nonpu_stream_float32", 4)
        launch.add(grad, None, 4)
        launch.add(x, None, 4)
        launch.run(1, 6)
        expected = np.zeros_like(out)
        expected[1:6, 1:301] = np.where(x > 0, grad, grad * np.float32(0.5))[1:6]
        assert np.array_equal(out, expected)


# Loading --------------------------------------------------------------------------------------------------------------


def test_named_level_is_used_and_an_unknown_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for level in load.levels():
        monkeypatch.setenv("NONPU_CPU_LEVEL", level)
        assert load.cpu_level() == level
    monkeypatch.setenv("NONPU_CPU_LEVEL", "x86_64_v9")
    with pytest.raises(RuntimeError, match=r"NONPU_CPU_LEVEL: must be one of .* \(got 'x86_64_v9'\)"):
        load.cpu_level()
    monkeypatch.delenv("NONPU_CPU_LEVEL")
    assert load.cpu_level() == load.levels()[-1]


def test_unknown_symbol_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match="nonpu_nothing"):
        load.address("nonpu_nothing")


def test_loading_needs_neither_numba_nor_numpy() -> None:
    code = (
        "import sys; from nonpu.engine import load; load.address('nonpu_elementwise');"
        "assert not {'numba', 'llvmlite', 'numpy', 'ctypes'} & set(sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(load.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
