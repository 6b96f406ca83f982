"""The same bits whatever the layout: every result equals the one of contiguous copies, bit for bit."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nonpu
from nonpu import Scalar, Tensor, aclnn
from nonpu.dtypes import DType, can_cast, promote
from nonpu.engine import load
from nonpu.verify import rounding
from nonpu.verify.golden import oracle
from tests import layouts
from tests.layouts import BACKWARD, CONTIGUOUS, FORWARD, LAYOUTS, Layout, Placed, patterns

REAL = ("float32", "float16", "bfloat16", "float64")
SCALARS: dict[str, tuple[float, ...]] = {
    "leaky_relu_backward": (0.3,),
    "sigmoid_backward": (),
    "swish_backward": (1.702,),
}
INTEGRAL = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
CASES = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name in SCALARS
    for dtype in (*REAL, *(("complex64", "complex128") if name == "sigmoid_backward" else ()))
]


def numpy_type(name: str) -> np.dtype:
    """Return a NumPy type by name, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def run(name: str, grad: np.ndarray, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Call the one-call function."""
    result = getattr(nonpu, name)(grad, x, *SCALARS[name], out=out)
    assert out is None or result is out
    return np.asarray(result)


def arguments(dtype: str, shape: tuple[int, ...], seed: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Return two contiguous arrays with specials among their values."""
    return patterns(numpy_type(dtype), shape, seed), patterns(numpy_type(dtype), shape, seed + 1)


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare type, shape and bits; any NaN equals any NaN."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    left, right = rounding.bits_of(found), rounding.bits_of(expected)
    different = np.argwhere(left != right)
    assert different.size == 0, f"{len(different)} elements differ, the first at {different[0].tolist()}"


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_layout_of_inputs_or_output_does_not_show(name, dtype, layout):
    """Each operand in turn and all together; gaps in the output's storage and the inputs stay as they were."""
    for shape in ((3, 5, 37), (1100,), (70, 2), ()):
        grad, x = arguments(dtype, shape)
        expected = run(name, grad, x)
        for where in ((0,), (1,), (2,), (0, 1, 2)):
            placed = [(layout if i in where else CONTIGUOUS).place(array) for i, array in enumerate((grad, x, grad))]
            before = [operand.storage.copy() for operand in placed[:2]]
            run(name, placed[0].view, placed[1].view, placed[2].view)
            assert_same_bits(placed[2].view, expected)
            assert placed[2].untouched
            for operand, storage in zip(placed, before, strict=False):
                assert np.array_equal(operand.storage, storage)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_pair_of_layouts(name, dtype):
    """Inputs in different layouts and the output in a third."""
    grad, x = arguments(dtype, (9, 4, 21), 42)
    expected = run(name, grad, x)
    for i, (first, second) in enumerate(itertools.product(LAYOUTS, LAYOUTS)):
        out = LAYOUTS[(i * 7) % len(LAYOUTS)].empty(grad.shape, grad.dtype)
        run(name, first.place(grad).view, second.place(x).view, out.view)
        assert_same_bits(out.view, expected)
        assert out.untouched


BROADCASTS = [
    ((), ()),
    ((7,), ()),
    ((), (1, 1)),
    ((6, 1), (1, 9)),
    ((300, 1), (300, 40)),
    ((1, 40), (300, 40)),
    ((40,), (300, 40)),
    ((2000, 3), (1, 3)),
    ((2000, 3), (2000, 1)),
    ((1, 1, 1300), (5, 1, 1)),
    ((4, 1, 5, 1), (3, 1, 6)),
    ((2, 1, 2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3, 1, 3)),
    ((1, 2, 1, 3, 2, 1, 2, 5), (3, 1, 2, 3, 1, 2, 1, 5)),
    ((1,) * 8, (2, 1, 2, 1, 2, 1, 2, 600)),
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize(("first", "second"), BROADCASTS, ids=str)
def test_broadcasting_equals_materialised_inputs(name, dtype, first, second):
    """Scalar, row, column and outer products, in ranks 0 to 8, with either operand as the gradient."""
    for left, right in ((first, second), (second, first)):
        grad, x = patterns(numpy_type(dtype), left, 44), patterns(numpy_type(dtype), right, 45)
        shape = np.broadcast_shapes(left, right)
        wide = [np.broadcast_to(array, shape) for array in (grad, x)]
        expected = run(name, *(np.array(array, order="C") for array in wide))
        assert_same_bits(run(name, grad, x), expected)
        assert_same_bits(run(name, *wide), expected)  # stride 0
        out = LAYOUTS[6].empty(expected.shape, expected.dtype)
        run(name, LAYOUTS[3].place(grad).view, LAYOUTS[-1].place(x).view, out.view)
        assert_same_bits(out.view, expected)


def test_numpy_broadcast_views_are_taken_without_a_warning():
    """np.broadcast_arrays marks its views so that NumPy warns when they are about to be written; inputs are not."""
    grad, x = np.broadcast_arrays(patterns("float32", (30, 1), 44), patterns("float32", (40,), 45))
    assert run("swish_backward", grad, x).shape == (30, 40)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("rank", range(9))
def test_every_rank_in_every_order_of_axes(name, dtype, rank):
    """Ranks 0 to 8, contiguous, with axes reversed and in a random order."""
    shape = tuple([3, 2, 1, 4, 2, 1, 3, 2][:rank])
    grad, x = arguments(dtype, shape, 46)
    expected = run(name, grad.reshape(-1), x.reshape(-1)).reshape(shape)
    assert_same_bits(run(name, grad, x), expected)
    order = np.random.default_rng(rank).permutation(rank).tolist()
    drawn = Layout("drawn", lambda _: order, lambda axis, _: 1 + axis % 2)
    out = drawn.empty(shape, grad.dtype)
    run(name, LAYOUTS[6].place(grad).view, drawn.place(x).view, out.view)
    assert_same_bits(out.view, expected)
    assert out.untouched


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_length_and_position(name, dtype):
    """Lengths 0 to 200 and around multiples of the blocks: an element's bits do not depend on where it stands."""
    grad, x = arguments(dtype, (13_000,), 48)
    expected = run(name, grad, x)
    lengths = [*range(201), *(n * 1024 + d for n in (1, 2, 3, 4, 8) for d in (-33, -2, -1, 0, 1, 2, 17))]
    for i, length in enumerate(lengths):
        start = (i * 37) % 67
        part = slice(start, start + length)
        assert_same_bits(run(name, grad[part], x[part]), expected[part])


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_element_in_every_lane(name, dtype):
    """Seventy hard values at 70 positions each: vector lanes, tails and strides give the same bits."""
    grad, x = arguments(dtype, (70,), 50)
    expected = run(name, grad, x)
    for shift in range(70):
        rolled = run(name, np.roll(grad, shift), np.roll(x, shift))
        assert_same_bits(np.roll(rolled, -shift), expected)
        for placed in LAYOUTS[3:5]:
            out = placed.empty((70 - shift,), grad.dtype)
            run(name, placed.place(grad[shift:]).view, x[shift:], out.view)
            assert_same_bits(out.view, expected[shift:])
    for i in range(70):
        assert_same_bits(run(name, grad[i : i + 1], x[i : i + 1]), expected[i : i + 1])


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_output_may_be_an_input(name, dtype, layout):
    """In place over the gradient, over the other input, and over one array that is both."""
    for shape in ((5, 31), (9000,)):
        grad, x = arguments(dtype, shape, 52)
        expected = run(name, grad, x)
        for which in (0, 1):
            placed = [layout.place(array) for array in (grad, x)]
            run(name, placed[0].view, placed[1].view, placed[which].view)
            assert_same_bits(placed[which].view, expected)
            assert placed[which].untouched
        both = layout.place(grad)
        run(name, both.view, both.view, both.view)
        assert_same_bits(both.view, run(name, grad, grad))


SHIFTS: list[tuple[Any, Any]] = [
    (np.s_[0:3000], np.s_[1:3001]),
    (np.s_[1:3001], np.s_[0:3000]),
    (np.s_[0:3000], np.s_[1000:4000]),
    (np.s_[0:3000:2], np.s_[1:1501]),
    (np.s_[1500:3000], np.s_[0:3000:2]),
    (np.s_[0:4000:4], np.s_[2:3002:3]),
    (np.s_[2999::-1], np.s_[0:3000]),
    (np.s_[0:3000], np.s_[3001:1:-1]),
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize(("source", "target"), SHIFTS, ids=str)
def test_partial_overlap_is_as_if_inputs_were_copied(name, dtype, source, target):
    """Shifted, strided and reversed views of one buffer as input and output."""
    values, other = arguments(dtype, (4100,), 54)
    size = values[source].shape[0]
    for swap in (False, True):
        buffer = values.copy()
        grad, x = (other[:size], buffer[source]) if swap else (buffer[source], other[:size])
        expected = run(name, grad.copy(), x.copy())
        untouched = np.ones(values.shape, bool)
        untouched[target] = False
        run(name, grad, x, buffer[target])
        assert_same_bits(buffer[target], expected)
        assert_same_bits(buffer[untouched], values[untouched])
    buffer = values.copy()
    expected = run(name, values[source].copy(), values[target].copy())
    run(name, buffer[source], buffer[target], buffer[target])
    assert_same_bits(buffer[target], expected)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_overlap_in_two_dimensions_and_with_a_transposed_self(name, dtype):
    """A square and its transpose, rows that move down, and a broadcast row inside the output."""
    square, other = arguments(dtype, (61, 61), 56)
    views: list[Callable[[np.ndarray], np.ndarray]] = [
        lambda b: b.T,
        lambda b: b[::-1],
        lambda b: b[:, ::-1],
        lambda b: b[3:4],
        lambda b: b[:, 5:6],
    ]
    for view in views:
        buffer = square.copy()
        expected = run(name, view(square).copy(), other)
        run(name, view(buffer), other, buffer)
        assert_same_bits(buffer, expected)
    buffer = square.copy()
    expected = run(name, square[:-1].copy(), other[1:])
    run(name, buffer[:-1], other[1:], buffer[1:])
    assert_same_bits(buffer[1:], expected)
    assert_same_bits(buffer[:1], square[:1])


def test_overlap_of_different_types():
    """A narrow output inside the memory of a wide input, and the reverse."""
    for wide, narrow in (("float32", "float16"), ("float64", "float32"), ("float64", "bfloat16")):
        values = patterns(numpy_type(wide), (3000,), 58, specials=False)
        for start in (0, 1, 1000):
            buffer = values.copy()
            out = buffer.view(numpy_type(narrow))[start : start + 3000]
            expected = rounding.convert(run("leaky_relu_backward", values, values), DType.parse(narrow))
            run("leaky_relu_backward", buffer, buffer, out)
            assert_same_bits(out, expected)
        small = patterns(numpy_type(narrow), (6000,), 59, specials=False)
        buffer = small.copy()
        out = buffer[: 1000 * (numpy_type(wide).itemsize // small.itemsize)].view(numpy_type(wide))
        expected = rounding.convert(run("leaky_relu_backward", small[:1000], small[7:1007]), DType.parse(wide))
        run("leaky_relu_backward", buffer[:1000], buffer[7:1007], out)
        assert_same_bits(out, expected)


@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5), (2, 0, 3, 1), (0,) * 8], ids=str)
def test_empty_arrays_give_empty_results_and_write_nothing(name, dtype, shape):
    """Empties of every rank, also from broadcasting 1 against 0, and into storage that is not empty."""
    grad = np.empty(shape, numpy_type(dtype))
    ones = np.ones((1,) * len(shape), numpy_type(dtype))
    for pair in ((grad, grad), (grad, ones), (ones, grad)):
        assert run(name, *pair).shape == shape
    out = Layout("gaps", shift=32).empty(shape, numpy_type(dtype))
    run(name, grad, grad, out.view)
    assert (out.storage == layouts.SENTINEL).all()


def promoted_run(name: str, arrays: tuple[np.ndarray, np.ndarray], promoted: DType) -> np.ndarray:
    """Convert the inputs to the promoted type first, exactly, and run contiguously."""
    return run(name, *(rounding.convert(array, promoted) for array in arrays))


@pytest.mark.parametrize("out", [*REAL, *INTEGRAL, "complex64", "complex128"])
@pytest.mark.parametrize("second", REAL)
@pytest.mark.parametrize("first", REAL)
def test_leaky_relu_of_mixed_types_into_every_output_type(first, second, out):
    """Promotion, one rounding to the promoted type, and the conversion, bit for bit as the oracle has them."""
    grad, x = patterns(numpy_type(first), (1500,), 60), patterns(numpy_type(second), (1500,), 61)
    promoted = promote(DType.parse(first), DType.parse(second))
    assert promoted is not None
    expected = oracle("leaky_relu_backward").golden(
        [grad, x], SCALARS["leaky_relu_backward"], promoted, DType.parse(out)
    )
    for layout in (CONTIGUOUS, LAYOUTS[4], LAYOUTS[2]):
        target = layout.empty(grad.shape, numpy_type(out))
        run("leaky_relu_backward", layout.place(grad).view, x, target.view)
        assert_same_bits(target.view, expected)
        assert target.untouched


@pytest.mark.parametrize("second", [*REAL, "complex64", "complex128"])
@pytest.mark.parametrize("first", [*REAL, "complex64", "complex128"])
def test_sigmoid_of_mixed_types_into_every_output_type(first, second):
    """The same bits as with inputs converted beforehand and the result converted afterwards."""
    pair = patterns(numpy_type(first), (500,), 62), patterns(numpy_type(second), (500,), 63)
    promoted = promote(DType.parse(first), DType.parse(second))
    assert promoted is not None
    result = promoted_run("sigmoid_backward", pair, promoted)
    assert_same_bits(run("sigmoid_backward", *pair), result)
    for out in (*REAL, "complex64", "complex128"):
        if can_cast(promoted, DType.parse(out)):
            target = LAYOUTS[4].empty((500,), numpy_type(out))
            run("sigmoid_backward", *pair, target.view)
            assert_same_bits(target.view, rounding.convert(result, DType.parse(out)))
            assert target.untouched


@pytest.mark.parametrize("first", REAL)
@pytest.mark.parametrize("second", REAL)
def test_mixed_types_broadcast_and_stride(first, second):
    """Conversion on the way in, with transposes, gaps and broadcasting at once."""
    grad, x = patterns(numpy_type(first), (40, 1, 33), 64), patterns(numpy_type(second), (7, 33), 65)
    promoted = promote(DType.parse(first), DType.parse(second))
    assert promoted is not None
    for name in ("leaky_relu_backward", "sigmoid_backward"):
        expected = promoted_run(name, (grad, x), promoted)
        for layout in LAYOUTS[3::2]:
            assert_same_bits(run(name, layout.place(grad).view, layout.place(x).view), expected)


@st.composite
def problems(draw: st.DrawFn) -> tuple[str, str, tuple[Placed, Placed, Placed], tuple[np.ndarray, np.ndarray]]:
    """Generate an operator, a type, and views of any layout that broadcast to one shape of rank 0 to 8."""
    name = draw(st.sampled_from(sorted(SCALARS)))
    dtype = draw(st.sampled_from([*REAL, *(("complex64", "complex128") if name == "sigmoid_backward" else ())]))
    rank = draw(st.integers(0, 8))
    largest = 2600 if rank < 3 else 40 if rank < 4 else 5
    shape = tuple(draw(st.lists(st.integers(0, largest), min_size=rank, max_size=rank)))
    while np.prod(shape, dtype=np.int64) > 20_000:
        shape = tuple(max(size // 2, 1) for size in shape)
    inputs, views = [], []
    for i in range(2):
        part = draw(layouts.broadcastable(shape))
        inputs.append(patterns(numpy_type(dtype), part, draw(st.integers(0, 99)) * 2 + i))
        views.append(draw(layouts.layouts(len(part))).place(inputs[-1]))
    shape = np.broadcast_shapes(*(array.shape for array in inputs))
    out = draw(layouts.layouts(len(shape))).empty(shape, numpy_type(dtype))
    return name, dtype, (views[0], views[1], out), (inputs[0], inputs[1])


@settings(max_examples=300, deadline=None)
@given(problems())
def test_random_views_give_the_bits_of_contiguous_arrays(problem):
    """Any ranks, axis orders, steps, directions, alignments and broadcasts together."""
    name, _, (grad, x, out), inputs = problem
    full = [np.array(array, order="C") for array in np.broadcast_arrays(*inputs)]
    run(name, grad.view, x.view, out.view)
    assert_same_bits(out.view, run(name, *full))
    assert out.untouched


PHASES: dict[str, Callable[..., Any]] = {
    "leaky_relu_backward": lambda g, x, out: (
        aclnn.aclnnLeakyReluBackwardGetWorkspaceSize(g, x, Scalar(0.3, "float64"), False, out),
        aclnn.aclnnLeakyReluBackward,
    ),
    "sigmoid_backward": lambda g, x, out: (
        aclnn.aclnnSigmoidBackwardGetWorkspaceSize(g, x, out),
        aclnn.aclnnSigmoidBackward,
    ),
    "swish_backward": lambda g, x, out: (
        aclnn.aclnnSwishBackwardGetWorkspaceSize(g, x, Scalar(1.702, "float64"), out),
        aclnn.aclnnSwishBackward,
    ),
}


def run_in_phases(name: str, grad: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """Plan and run through the two-phase interface, and wait."""
    (size, executor), execute = PHASES[name](*(Tensor.from_numpy(array) for array in (grad, x, out)))
    workspace = np.empty(max(size, 1), np.uint8)
    execute(workspace if size else None, size, executor, None)
    nonpu.synchronize()


@pytest.mark.parametrize(
    ("name", "dtype"), [case for case in CASES if case.values[:2] != ("swish_backward", "float64")]
)
def test_both_phases_give_the_bits_of_the_one_call_function(name, dtype):
    """Every layout that the contract allows, in place, and sizes on both sides of the hand-over to the stream."""
    for shape in ((5, 7, 11), (300, 1000)):
        grad, x = arguments(dtype, shape, 66)
        expected = run(name, grad, x)
        for layout in FORWARD if grad.size < 1000 else FORWARD[::3]:
            placed = [layout.place(array) for array in (grad, x, grad)]
            run_in_phases(name, *(operand.view for operand in placed))
            assert_same_bits(placed[2].view, expected)
            assert placed[2].untouched
            run_in_phases(name, placed[0].view, placed[1].view, placed[1].view)
            assert_same_bits(placed[1].view, expected)


@pytest.mark.parametrize("layout", BACKWARD, ids=str)
def test_negative_strides_are_for_one_call_functions_only(layout):
    """The C contract has no negative strides; the arrays stay untouched."""
    values = patterns(np.dtype("float32"), (4, 5), 68)
    placed, out = layout.place(values), CONTIGUOUS.empty((4, 5), "float32")
    with pytest.raises(nonpu.AclnnError) as caught:
        run_in_phases("swish_backward", placed.view, values, out.view)
    assert caught.value.status == 161002
    assert (out.storage == layouts.SENTINEL).all()


DIGESTS = """
import hashlib, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from tests.test_layouts import digests
for line in digests(int(sys.argv[2])):
    print(line)
"""


def digests(count: int) -> list[str]:
    """Return one digest of the results per operator and type, contiguous and transposed, with every NaN alike."""
    lines = []
    for name, dtype in (case.values[:2] for case in CASES):
        grad, x = arguments(str(dtype), (count // 50, 50), 70)
        outs = run(str(name), grad, x), run(str(name), grad.T, x.T), run(str(name), grad[:, :1], x)
        text = "".join(hashlib.sha256(rounding.bits_of(out).tobytes()).hexdigest() for out in outs)
        lines.append(f"{name} {dtype} {text}")
    return lines


def digests_in_process(count: int, **environment: str) -> list[str]:
    """Return the digests that another process finds with these environment variables."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    result = subprocess.run(
        [sys.executable, "-c", DIGESTS, root, str(count)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_the_number_of_threads_does_not_show():
    """One and two threads on a million elements give the same bits."""
    one, two = (digests_in_process(1_000_000, NONPU_NUM_THREADS=threads) for threads in ("1", "2"))
    assert len(one) == len(CASES)
    assert one == two


@pytest.mark.parametrize("level", load.levels())
def test_the_cpu_level_does_not_show(level):
    """Every level that this processor has gives the bits of the one in use."""
    assert digests_in_process(50_000, NONPU_CPU_LEVEL=level) == digests(50_000)


MEMORY = """
import numpy as np
import nonpu

def array(*shape, dtype=np.float32):
    made = np.empty(shape, dtype)
    made.fill(0.5)
    return made

side = 2048
square, out = array(side, side), array(side, side)
views = {
    "contiguous": array(side, side), "transposed": array(side, side).T, "backwards": array(side, side)[::-1, ::-1],
    "sliced": array(side, 2 * side)[:, ::2], "row": square[:1], "column": square[:, :1], "number": square[:1, :1],
    "narrow": array(side, side, dtype=np.float16), "in place": out,
}
operators = (nonpu.leaky_relu_backward, nonpu.sigmoid_backward)

def peak():
    with open("/proc/self/status") as status:  # getrusage counts what the process was before exec, too
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))

for operator in operators:
    for view in views.values():  # whatever is loaded or started once
        operator(square[:100], np.broadcast_to(view, out.shape)[:100], out=out[:100])
    operator(square, square, out=out)
for name, view in views.items():
    before = peak()
    for operator in operators:
        operator(square, view, out=out)
        operator(square.T, view.T, out=out.T)
    print(name, peak() - before)
before = peak()
operators[1](square[1:], out[:-1], out=out[1:])
print("partial overlap", peak() - before)
"""


def test_no_layout_needs_memory_that_grows_with_the_input():
    """Beside arrays of 16 MiB the peak of the process stays, but for inputs that overlap the output partly."""
    finished = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    lines = (line.rsplit(" ", 1) for line in finished.stdout.splitlines())
    grown = {name: int(kilobytes) for name, kilobytes in lines}
    assert grown.pop("partial overlap") > 10_000
    assert len(grown) == 9
    assert max(grown.values()) < 1000, grown
