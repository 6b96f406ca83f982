"""Moves give the exact bits: compared with integer arithmetic written here, at every CPU level of this processor."""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from nonpu.engine import load
from tests.layouts import fenced

REAL = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
ALL = (*REAL, *INTEGERS, "bool", *COMPLEX)
SIZE = {"bool": 1, "bfloat16": 2} | {name: np.dtype(name).itemsize for name in ALL if name not in ("bool", "bfloat16")}
# Precision, exponent of the smallest subnormal number, and bits of an infinity.
FORMATS = {
    "float16": (11, -24, 0x7C00),
    "bfloat16": (8, -133, 0x7F80),
    "float32": (24, -149, 0x7F800000),
    "float64": (53, -1074, 0x7FF0000000000000),
}
WORDS = 8


class Library:
    """The functions of one CPU level's library."""

    def __init__(self, level: str) -> None:
        self._library = ctypes.CDLL(os.path.join(load.FOLDER, f"kernels_{level}.so"))

    def __call__(self, symbol: str, *arguments: int) -> None:
        """Call a function of 8-byte integers."""
        function = getattr(self._library, symbol)
        function.restype, function.argtypes = None, [ctypes.c_int64] * len(arguments)
        function(*arguments)


@pytest.fixture(scope="module", params=load.levels())
def library(request: pytest.FixtureRequest) -> Library:
    return Library(request.param)


def decode(pattern: int, name: str) -> float:
    """Return the value of a bit pattern as a float, which holds all of them."""
    precision, lowest, infinity = FORMATS[name]
    sign = -1.0 if pattern >> (8 * SIZE[name] - 1) else 1.0
    magnitude = pattern & ((1 << (8 * SIZE[name] - 1)) - 1)
    if magnitude >= infinity:
        return sign * math.inf if magnitude == infinity else math.nan
    exponent, mantissa = divmod(magnitude, 1 << (precision - 1))
    if exponent > 0:
        mantissa += 1 << (precision - 1)
    return sign * math.ldexp(mantissa, lowest + max(exponent - 1, 0))


def encode(value: float, name: str) -> int | None:
    """Return the bit pattern nearest to a value, ties to even; None stands for any NaN."""
    precision, lowest, infinity = FORMATS[name]
    sign = (math.copysign(1.0, value) < 0) << (8 * SIZE[name] - 1)
    if math.isnan(value):
        return None
    if math.isinf(value) or value == 0:
        return sign | (infinity if value else 0)
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = max(numerator.bit_length() - denominator.bit_length() - precision, lowest)
    while True:
        scaled, unit = numerator << max(-exponent, 0), denominator << max(exponent, 0)
        count, rest = divmod(scaled, unit)
        if count < 1 << precision:
            break
        exponent += 1
    count += 2 * rest > unit or (2 * rest == unit and count & 1)
    # A count that rounding carried to 2**precision is the next exponent with an empty mantissa: the sum says so.
    return sign | min(((exponent - lowest) << (precision - 1)) + count, infinity)


def to_integer(value: float, name: str) -> int:
    """Truncate toward zero, saturate, NaN gives 0."""
    limits = np.iinfo(name)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(limits.max if value > 0 else limits.min)
    return max(int(limits.min), min(int(limits.max), math.trunc(value)))


def expected_bytes(value: float, name: str) -> tuple[bytes | None, ...]:
    """Return the stored parts of a converted number; None stands for any NaN."""
    if name in COMPLEX:
        part = "float32" if name == "complex64" else "float64"
        return (*expected_bytes(value, part), bytes(SIZE[part]))
    if name == "bool":
        return (bytes([value != 0]),)
    if name in INTEGERS:
        return (to_integer(value, name).to_bytes(SIZE[name], "little", signed=name[0] == "i"),)
    pattern = encode(value, name)
    return (None if pattern is None else pattern.to_bytes(SIZE[name], "little"),)


def agrees(stored: bytes, value: float, name: str) -> bool:
    """Whether stored bytes are the conversion of a value."""
    parts = expected_bytes(value, name)
    size = len(stored) // len(parts)
    for index, part in enumerate(parts):
        found = stored[index * size : (index + 1) * size]
        float_name = {"complex64": "float32", "complex128": "float64"}.get(name, name)
        if part is None and not math.isnan(decode(int.from_bytes(found, "little"), float_name)):
            return False
        if part is not None and part != found:
            return False
    return True


def edges(name: str) -> Iterator[float]:
    """Values where conversions change: limits, ties and their neighbours, of every target type."""
    for precision, lowest, _ in FORMATS.values():
        for exponent in (
            lowest - 1,
            lowest,
            lowest + precision - 2,
            lowest + precision - 1,
            -1,
            0,
            1,
            15,
            16,
            126,
            127,
        ):
            base = math.ldexp(1.0, exponent) if exponent > -1075 else 0.0
            for step in (0, 1, 2, 3):
                yield base * (1 + step * 2.0**-precision)
                yield base * (2 - step * 2.0**-precision)
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        for change in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0):
            yield 2.0**bits + change
    yield from (0.0, 0.25, 0.5, 0.999, 1.0, 1.5, 2.5, 1e10, 1e30, 1e300, 65504.0, 65519.99, 65520.0, 3.39e38, math.inf)
    yield math.nan


def source_patterns(name: str) -> np.ndarray:
    """Return bit patterns of a source type: all of a 16-bit type, edges and random ones of a larger type."""
    if SIZE[name] == 2:
        return np.arange(65536, dtype=np.uint16)
    patterns = set()
    for value in edges(name):
        pattern = encode(value, name)
        if pattern is not None:
            patterns |= {pattern, pattern + 1, max(pattern - 1, 0)}
    top = 1 << (8 * SIZE[name] - 1)
    patterns |= {pattern | top for pattern in patterns}
    infinity = FORMATS[name][2]
    patterns |= {infinity | 1, infinity | (infinity & -infinity) >> 1, top | (top - 1)}  # NaNs: signalling, quiet, full
    random = np.random.default_rng(20240527)
    unsigned = np.dtype(f"u{SIZE[name]}")
    drawn = random.integers(0, 1 << (8 * SIZE[name]), 3000, dtype=unsigned)
    near_one = np.abs(random.normal(0, 1, 2000)) * 2.0 ** random.integers(-30, 30, 2000)
    drawn_near = [encode(float(value), name) for value in near_one]
    return np.array([*sorted(patterns), *drawn.tolist(), *drawn_near], dtype=unsigned)


def fresh(size: int, offset: int = 0) -> tuple[np.ndarray, int]:
    """Return a buffer filled with a guard value and the address of its middle part."""
    buffer = np.full(size + 256, 0xA5, np.uint8)
    return buffer, buffer.ctypes.data + (-buffer.ctypes.data) % 64 + 64 + offset


CONVERSIONS = [(source, target) for source in REAL for target in ALL if source != target]


@pytest.mark.parametrize(("source", "target"), CONVERSIONS, ids=lambda name: name)
def test_real_conversion_has_the_bits_of_exact_arithmetic(library: Library, source: str, target: str) -> None:
    patterns = source_patterns(source)
    count, size = len(patterns), SIZE[target]
    buffer, address = fresh(count * size)
    library(
        f"nonpu_move_{source}_{target}",
        *(address, count * size, size),
        *(patterns.ctypes.data, count * SIZE[source], SIZE[source]),
        *(1, count),
    )
    start = address - buffer.ctypes.data
    stored = buffer[start : start + count * size].tobytes()
    for index, pattern in enumerate(patterns.tolist()):
        value = decode(pattern, source)
        found = stored[index * size : (index + 1) * size]
        assert agrees(found, value, target), f"{source} {pattern:#x} = {value!r} became {target} {found.hex()}"


@pytest.mark.parametrize(("source", "target"), [COMPLEX, COMPLEX[::-1]], ids=lambda name: name)
def test_complex_conversion_rounds_both_parts(library: Library, source: str, target: str) -> None:
    part, target_part = ("float32", "float64") if source == "complex64" else ("float64", "float32")
    patterns = source_patterns(part)
    patterns = patterns[: len(patterns) // 2 * 2]
    count, size = len(patterns) // 2, SIZE[target]
    buffer, address = fresh(count * size)
    library(f"nonpu_move_{source}_{target}", address, 0, size, patterns.ctypes.data, 0, SIZE[source], 1, count)
    start = address - buffer.ctypes.data
    for index, pattern in enumerate(patterns.tolist()):
        found = buffer[start + index * size // 2 : start + (index + 1) * size // 2].tobytes()
        assert agrees(found, decode(pattern, part), target_part)


# Layouts --------------------------------------------------------------------------------------------------------------


def reference_move(dst: Callable[[int, int], int], source: np.ndarray, before: np.ndarray, size: int) -> np.ndarray:
    """Return the destination buffer after element (r, c) of a tile was copied to offset ``dst(r, c)``."""
    after = before.copy()
    for row, column in np.ndindex(source.shape[:2]):
        offset = dst(row, column)
        after[offset : offset + size] = source[row, column]
    return after


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_copy_handles_any_strides_and_touches_nothing_else(library: Library, size: int) -> None:
    name = {1: "bool", 2: "bfloat16", 4: "int32", 8: "complex64", 16: "complex128"}[size]
    random = np.random.default_rng(size)
    shapes = [(1, 1), (1, 70), (70, 1), (3, 5), (17, 33), (32, 32), (5, 129)]
    for (rows, columns), kind, offset in itertools.product(shapes, range(9), (0, 1, 7)):
        memory = random.integers(0, 256, 300_000, dtype=np.uint8)
        block, middle = np.full(rows * columns * size, 0xA5, np.uint8), 150_000 + offset
        row_stride, column_stride = (
            (columns * size, size),
            (size, rows * size),
            (-columns * size, -size),
            (columns * size * 2, size),
            (0, size),
            (columns * size, 0),
            (0, 0),
            (2 * columns * size, 2 * size),
            (0, 2 * size),
        )[kind]
        places = np.array([[middle + r * row_stride + c * column_stride for c in range(columns)] for r in range(rows)])
        library(
            f"nonpu_move_{name}_{name}",
            *(block.ctypes.data, columns * size, size),
            *(memory.ctypes.data + middle, row_stride, column_stride, rows, columns),
        )
        gathered = np.stack([memory[places + byte] for byte in range(size)], axis=-1)
        assert np.array_equal(block.reshape(rows, columns, size), gathered), (rows, columns, kind)
        if kind < 4:
            written, image = memory.copy(), random.integers(0, 256, (rows, columns, size), dtype=np.uint8)
            library(
                f"nonpu_move_{name}_{name}",
                *(written.ctypes.data + middle, row_stride, column_stride),
                *(image.ctypes.data, columns * size, size, rows, columns),
            )
            assert np.array_equal(written, reference_move(lambda r, c: places[r, c], image, memory, size))  # noqa: B023


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_copy_reads_nothing_outside_its_source(library: Library, size: int, step: int) -> None:
    """The source ends where the process may read no more, or begins there: vectors must not reach over its elements."""
    name = {1: "bool", 2: "bfloat16", 4: "int32", 8: "complex64", 16: "complex128"}[size]
    page = mmap.PAGESIZE
    values = np.random.default_rng(size).integers(0, 256, 4 * page, np.uint8)
    with fenced(values.tobytes()) as start:
        for count in (*range(1, 70), 127, 128, 129, 200):
            reach = (count - 1) * abs(step) * size
            low, high = 0, 4 * page - size - reach
            for offset in (low, high):
                first = offset if step > 0 else offset + reach
                found = np.zeros((count, size), np.uint8)
                move = (found.ctypes.data, count * size, size, start + first, 0, step * size, 1, count)
                library(f"nonpu_move_{name}_{name}", *move)
                places = first + step * size * np.arange(count)
                assert np.array_equal(found, values[places[:, None] + np.arange(size)]), (count, offset)


@pytest.mark.parametrize(("source", "target"), CONVERSIONS, ids=lambda name: name)
def test_conversion_of_strided_memory_equals_that_of_contiguous(library: Library, source: str, target: str) -> None:
    patterns = np.random.default_rng(1).integers(0, 256, 40 * 40 * SIZE[source], dtype=np.uint8)
    rows, columns, size, item = 23, 37, SIZE[target], SIZE[source]
    plain = np.zeros((rows, columns, size), np.uint8)
    tile = np.ascontiguousarray(patterns[: rows * columns * item])
    move = f"nonpu_move_{source}_{target}"
    library(move, plain.ctypes.data, columns * size, size, tile.ctypes.data, columns * item, item, rows, columns)
    turned = np.zeros((columns, rows, size), np.uint8)
    library(move, turned.ctypes.data, size, rows * size, tile.ctypes.data, columns * item, item, rows, columns)
    assert np.array_equal(turned.transpose(1, 0, 2), plain)
    back = np.zeros((rows, columns, size), np.uint8)
    last = tile.ctypes.data + (rows * columns - 1) * item
    library(move, back.ctypes.data, columns * size, size, last, -columns * item, -item, rows, columns)
    assert np.array_equal(back[::-1, ::-1], plain)
    same = np.zeros((rows, columns, size), np.uint8)
    library(move, same.ctypes.data, columns * size, size, tile.ctypes.data, item, 0, rows, columns)
    assert all(np.array_equal(same[row, column], plain[0, row]) for row, column in np.ndindex(rows, columns))


@pytest.mark.parametrize("name", ["int8", "float16", "float32", "uint64", "complex128"])
def test_streaming_copies_at_every_alignment_and_touches_nothing_else(library: Library, name: str) -> None:
    size = SIZE[name]
    for offset, bytes_wanted in itertools.product(range(64), (0, 16, 48, 64, 112, 128, 192, 1024, 4096 + 16)):
        count = bytes_wanted // size
        source = np.random.default_rng(offset).integers(0, 256, count * size, dtype=np.uint8)
        buffer, address = fresh(count * size, offset)
        wanted, start = buffer.copy(), address - buffer.ctypes.data
        wanted[start : start + count * size] = source
        library(f"nonpu_stream_{name}", address, 0, size, source.ctypes.data, 0, size, 1, count)
        assert np.array_equal(buffer, wanted), (offset, count)


def test_moves_and_streams_exist_for_every_type_of_the_contract() -> None:
    for name in ALL:
        assert load.address(f"nonpu_move_{name}_{name}") != 0
        assert load.address(f"nonpu_stream_{name}") != 0
