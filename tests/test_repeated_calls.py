"""Calls that are remembered, in C and in the one-call functions: only the very same call is taken for known."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nonpu
from nonpu import AclnnError, Scalar, Tensor, _core, aclnn
from nonpu.engine.plan import STREAM_BYTES
from nonpu.interop import numpy as interop
from nonpu.ops import find
from nonpu.spec.checks import valid_call, valid_tensor
from tests.c_client import Client

LEAKY = find("LeakyReluBackward")

Array = np.ndarray[Any, Any]


class Repeater:
    """Calls phase one again and again with the same handles, changing one argument at a time."""

    def __init__(self, client: Client) -> None:
        self.library = client.library
        call = valid_call(LEAKY)
        self.arguments = [client.argument(type(value), value) for value in call.arguments.values()]
        self.client = client

    def __call__(self) -> int:
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        status: int = self.library.aclnnLeakyReluBackwardGetWorkspaceSize(
            *self.arguments, ctypes.byref(size), ctypes.byref(executor)
        )
        if status == 0:
            assert self.library.aclDestroyAclOpExecutor(executor) == 0
        return status


@pytest.fixture
def repeat(client: Client) -> Repeater:
    """A call that has been accepted twice."""
    repeat = Repeater(client)
    assert (repeat(), repeat()) == (0, 0)
    return repeat


def test_another_product_is_judged_anew(repeat: Repeater, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product is part of the call."""
    monkeypatch.setenv("NONPU_PRODUCT", "Ascend310B1")
    assert repeat() == 161002
    monkeypatch.delenv("NONPU_PRODUCT")
    assert repeat() == 0


def test_a_flag_is_part_of_the_call(repeat: Repeater, client: Client) -> None:
    """A negative slope is fine until the input is said to be the result."""
    repeat.arguments[2] = client.argument(Scalar, Scalar(-1.0, "float32"))
    assert repeat() == 0
    repeat.arguments[3] = ctypes.c_bool(True)
    assert repeat() == 161002


def test_a_tensor_of_another_shape_in_the_same_memory_is_judged_anew(repeat: Repeater, client: Client) -> None:
    """Shape, strides and type are part of the call, not only the address."""
    wrong = valid_tensor((3, 2))
    repeat.arguments[0] = client.argument(type(wrong), wrong)
    assert repeat() == 161002


def test_a_smaller_block_at_the_same_address_is_judged_anew(repeat: Repeater, client: Client) -> None:
    """After aclrtFree another block may lie where the first one was; its size counts, not the old one's."""
    library = client.library
    block = ctypes.c_void_p()
    assert library.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(64), 0) == 0
    shape = (ctypes.c_int64 * 2)(2, 3)
    handle = ctypes.c_void_p(
        library.aclCreateTensor(
            shape, ctypes.c_uint64(2), 0, None, ctypes.c_int64(0), 2, shape, ctypes.c_uint64(2), block
        )
    )
    repeat.arguments[0] = handle
    assert (repeat(), repeat()) == (0, 0)
    first = block.value
    assert library.aclrtFree(block) == 0
    assert library.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(8), 0) == 0
    if block.value == first:  # so it is with this C library; elsewhere the address is unknown now, and accepted
        assert repeat() == 161002
        assert b"gradOutput" in library.aclGetRecentErrMsg()
    assert library.aclrtFree(block) == 0
    assert library.aclDestroyTensor(handle) == 0


def test_a_destroyed_tensor_is_refused_although_its_call_is_known(repeat: Repeater, client: Client) -> None:
    """A known call does not make a dead handle live."""
    gone = client.tensor(valid_tensor())
    repeat.arguments[0] = gone
    assert repeat() == 0
    assert client.library.aclDestroyTensor(gone) == 0
    client.tensors.remove(gone.value or 0)
    assert repeat() == 161002


def test_finalize_forgets(repeat: Repeater, client: Client) -> None:
    """After aclnnFinalize the same call meets a library that is not initialised."""
    client.library.aclnnFinalize()
    try:
        assert repeat() == 561000
    finally:
        client.library.aclnnInit(None)
    assert repeat() == 0


def test_the_sign_of_a_zero_slope_is_part_of_the_call() -> None:
    """-0.0 equals 0.0 in Python, but not as a factor."""
    grad, x = np.ones(3, np.float32), np.full(3, -1, np.float32)
    for slope in (0.0, -0.0, 0.0, -0.0):
        result = nonpu.leaky_relu_backward(grad, x, slope)
        assert (np.signbit(result) == np.signbit(np.float32(slope))).all()


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda a: a,
    "fortran": lambda a: np.asfortranarray(a),
    "transposed": lambda a: a.T,
    "every other": lambda a: a[::2, 1::3],
    "backwards": lambda a: a[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_a_known_call_on_other_arrays_gives_their_results(dtype: Any, layout: str) -> None:
    """The first, the second and the third call with arrays of one layout agree with contiguous copies."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        grad = LAYOUTS[layout](rng.standard_normal((24, 24)).astype(dtype))
        x = LAYOUTS[layout](rng.standard_normal((24, 24)).astype(dtype))
        out = LAYOUTS[layout](np.zeros((24, 24), dtype))
        expected = nonpu.sigmoid_backward(grad.copy(), x.copy())
        assert nonpu.sigmoid_backward(grad, x).tobytes() == expected.tobytes()
        if layout != "broadcast":
            assert nonpu.sigmoid_backward(grad, x, out=out) is out
            assert np.ascontiguousarray(out).tobytes() == expected.tobytes()


def test_a_scalar_that_was_changed_is_judged_anew() -> None:
    """Its bytes count, not the object; the same bytes in another object are the same call."""
    x = np.ones(3, np.float32)
    scalar = Scalar(1.0, "float32")
    expected = {beta: nonpu.swish_backward(x, x, beta).tobytes() for beta in (1.0, 5.0)}
    for beta in (1.0, 1.0, 5.0, 5.0, 1.0):
        scalar.raw = Scalar(beta, "float32").raw
        assert nonpu.swish_backward(x, x, scalar).tobytes() == expected[beta]
        assert nonpu.swish_backward(x, x, Scalar(beta, "float32")).tobytes() == expected[beta]
        out = np.empty_like(x)
        assert nonpu.swish_backward(x, x, scalar, out=out).tobytes() == expected[beta]


def test_a_known_layout_with_an_overlapping_output_is_planned_anew() -> None:
    """Inputs count as if they had been copied first, also when the layouts are known from disjoint arrays."""
    rng = np.random.default_rng(5)
    grad = rng.standard_normal(500).astype(np.float32)
    memory = rng.standard_normal(600).astype(np.float32)
    apart = np.empty(500, np.float32)
    for _ in range(2):
        nonpu.swish_backward(grad, memory[:500], out=apart)
    x = memory[:500]
    expected = nonpu.swish_backward(grad, x.copy())
    nonpu.swish_backward(grad, x, out=memory[3:503])
    assert memory[3:503].tobytes() == expected.tobytes()
    expected = nonpu.swish_backward(grad, x.copy())
    nonpu.swish_backward(grad, x, out=x)
    assert x.tobytes() == expected.tobytes()


def test_large_results_are_remembered_for_inputs_apart_from_them() -> None:
    """Their plan stores past the caches; in place, or at odd addresses, another is better, and is not remembered."""
    count = STREAM_BYTES // 4
    memory = [np.ones(count + 1, np.float32) for _ in range(3)]
    grad, y, out = (block[:count] for block in memory)
    y[:] = 0.25
    y[[0, -1]] = 0.5
    bytes_of = memory[2].view(np.uint8)
    odd = np.frombuffer(bytes_of[1 : 1 + 4 * count], np.float32)
    known: dict[Any, Any] = {}
    sigmoid = find("SigmoidBackward")
    interop.run(sigmoid, (grad, y), y, None, known, "key")
    assert not known
    assert y[[0, 1, -1]].tolist() == [0.25, 0.1875, 0.25]
    interop.run(sigmoid, (grad, y), odd, None, known, "key")
    assert not known
    assert odd[[0, 1, -1]].tolist() == [0.1875, 0.15234375, 0.1875]
    interop.run(sigmoid, (grad, y), out, None, known, "key")
    ready = known["key"].launch
    for inputs in ((y, grad), (grad, y)):
        out[:] = 7
        assert _core.run_on(ready, out, *inputs)
        assert out[[0, 1, -1]].tolist() == ([0.1875, 0.15234375, 0.1875] if inputs[0] is grad else [0, 0, 0])
    assert not _core.run_on(ready, y, grad, y)
    assert not _core.run_on(ready, grad, grad, y)
    assert y[[0, 1, -1]].tolist() == [0.25, 0.1875, 0.25]


def test_a_read_only_output_is_refused_although_the_call_is_known() -> None:
    """Writability is no part of the layout."""
    grad, x = np.ones(4, np.float32), np.ones(4, np.float32)
    for step in (1, 2):
        out = np.zeros(8, np.float32)[::step][:4]
        nonpu.sigmoid_backward(grad, x, out=out)
        out.flags.writeable = False
        with pytest.raises(AclnnError, match=r"out \(gradInput\) must be writable"):
            nonpu.sigmoid_backward(grad, x, out=out)


def test_the_environment_product_counts_for_known_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """NONPU_PRODUCT is read at every call; a product given by name stands above it."""
    grad, x = np.ones(4, np.float32), np.ones(4, np.float32)
    for _ in range(2):
        nonpu.sigmoid_backward(grad, x)
        nonpu.sigmoid_backward(grad, x, product="Ascend910A")
    monkeypatch.setenv("NONPU_PRODUCT", "Ascend310B1")
    with pytest.raises(AclnnError, match="product"):
        nonpu.sigmoid_backward(grad, x)
    nonpu.sigmoid_backward(grad, x, product="Ascend910A")


def test_a_masked_array_is_refused_although_plain_arrays_of_its_layout_are_known() -> None:
    """A mask would be dropped silently."""
    grad, x = np.ones(4, np.float32), np.ones(4, np.float32)
    nonpu.sigmoid_backward(grad, x)
    with pytest.raises(TypeError, match="mask"):
        nonpu.sigmoid_backward(np.ma.array(grad), x)


def test_a_tensor_in_memory_given_back_is_refused(client: Client) -> None:
    """Never a write into freed memory: the call is refused and names the tensor."""
    library = client.library
    block = ctypes.c_void_p()
    assert library.aclrtMalloc(ctypes.byref(block), ctypes.c_size_t(24), 0) == 0
    arguments = [client.argument(type(value), value) for value in valid_call(LEAKY).arguments.values()]
    shape = (ctypes.c_int64 * 2)(2, 3)
    out = library.aclCreateTensor(
        shape, ctypes.c_uint64(2), 0, None, ctypes.c_int64(0), 2, shape, ctypes.c_uint64(2), block
    )
    arguments[4] = ctypes.c_void_p(out)
    assert library.aclrtFree(block) == 0
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    phase_one = library.aclnnLeakyReluBackwardGetWorkspaceSize
    assert phase_one(*arguments, ctypes.byref(size), ctypes.byref(executor)) == 161002
    text = library.aclGetRecentErrMsg()
    assert b"out data must be an address in live memory" in text
    assert library.aclDestroyTensor(arguments[4]) == 0


def test_an_executor_of_another_operator_is_refused_and_stays_usable(client: Client) -> None:
    """Phase two belongs to the phase one of the same operator."""
    library = client.library
    status, _, _, executor = client.phase_one(valid_call(LEAKY))
    assert status == 0
    other, own = library.aclnnSigmoidBackward, library.aclnnLeakyReluBackward
    for run in (other, own):
        run.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
    assert other(None, 0, executor, None) == 161002
    assert b"aclnnSigmoidBackward: executor" in library.aclGetRecentErrMsg()
    blocks, client.blocks = client.blocks, []
    assert own(None, 0, executor, None) == 0
    assert library.aclrtSynchronizeStream(None) == 0
    for block in blocks:
        assert library.aclrtFree(ctypes.c_void_p(block)) == 0


def test_layouts_tell_arrays_apart_by_type_shape_and_strides() -> None:
    """What two arrays share of these decides whether a call is known; their values and addresses do not count."""
    square = np.ones((4, 4), np.float32)
    different = [
        square,
        square.T[:, :3].T,
        square.astype(np.float64),
        square.astype(np.float16),
        square.astype(ml_dtypes.bfloat16),
        square.view(np.int32),
        square[:, ::2],
        square[::2],
        square[::-1],
        square.T[:2],
        square.reshape(2, 8),
        square.reshape(16),
        square.reshape(2, 2, 4),
        np.broadcast_to(square[:1], (4, 4)),
        np.broadcast_to(square[:, :1], (4, 4)),
        square.reshape(16)[:0],
        np.ones((), np.float32),
    ]
    found = [_core.layouts(array) for array in different]
    assert len(set(found)) == len(found)
    assert len({*found, *(_core.layouts(array, square) for array in different)}) == 2 * len(found)
    assert _core.layouts(np.zeros((4, 4), np.float32)) == found[0]
    assert _core.layouts(np.zeros((4, 8), np.float32)[:, ::2]) != found[6]


def test_only_plain_arrays_have_layouts() -> None:
    """Subclasses may mean something else by their memory; no operator takes more arrays or axes than these."""
    plain = np.ones((2, 2), np.float32)
    for other in (np.ma.array(plain), plain.view(np.recarray), [[1.0]], None, np.float32(1), np.ones((1,) * 9)):
        assert _core.layouts(plain, other) is None
    assert _core.layouts(*[plain] * 6) is not None
    assert _core.layouts(*[plain] * 7) is None


def test_a_remembered_call_refuses_what_it_cannot_run_on() -> None:
    """Whoever calls it with too few arrays or none gets an exception, with other objects a refusal."""
    array = np.ones(4, np.float32)
    for arguments in ((), (0,), ("ready",)):
        with pytest.raises(TypeError):
            _core.run_on(*arguments)
    known: dict[Any, Any] = {}
    interop.run(find("SigmoidBackward"), (array, array), np.zeros(4, np.float32), None, known, "key")
    ready = known["key"].launch
    with pytest.raises(TypeError, match=r"run_on: the arrays must be 3 \(got 2\)"):
        _core.run_on(ready, array, array)
    out = np.full(4, 7, np.float32)
    assert not _core.run_on(ready, out, array, [1.0])
    out.flags.writeable = False
    assert not _core.run_on(ready, out, array, array)
    assert out.tolist() == [7] * 4
    out.flags.writeable = True
    assert _core.run_on(ready, out, array, array)
    assert out.tolist() == [0] * 4
    with pytest.raises(TypeError, match="must be a class"):
        _core.arrays_are("ndarray")


def test_types_of_elements_that_are_gone_are_not_taken_for_known_ones() -> None:
    """A known call keeps its types alive: the address of one cannot become that of another."""
    for swapped in (False, True) * 40:
        dtype = np.dtype(np.float32).newbyteorder(">") if swapped else np.dtype(np.float32, align=True, copy=True)
        grad, x = np.full(5, 2, dtype), np.full(5, 0.5, dtype)
        del dtype
        if swapped:
            with pytest.raises(TypeError, match="native byte order"):
                nonpu.sigmoid_backward(grad, x)
        else:
            assert nonpu.sigmoid_backward(grad, x).tolist() == [0.5] * 5


def test_a_client_that_waits_at_once_has_its_work_done_when_a_run_returns() -> None:
    """Not at the first run, and no longer after several without a wait; the results are the same."""
    random = np.random.default_rng(5)
    grad, x = (random.standard_normal(1 << 18).astype(np.float32) for _ in range(2))
    out, expected = np.empty_like(x), nonpu.swish_backward(grad, x)
    grad_tensor, x_tensor, out_tensor = (Tensor.from_numpy(array) for array in (grad, x, out))
    _, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(grad_tensor, x_tensor, None, out_tensor)
    executor.set_repeatable()
    done = False
    for _ in range(1000):  # the system may keep this thread waiting for longer than "at once"
        out[:] = np.nan
        executor.run()
        done = done or bool(_core.lib.nonpu_stream_idle(0))
        _core.lib.nonpu_stream_synchronize(0)
        np.testing.assert_array_equal(out, expected)
        if done:
            break
    assert done
    for runs in (5, 1, 2):
        out[:] = np.nan
        for _ in range(runs):
            executor.run()
        assert _core.lib.nonpu_stream_synchronize(0) == 0
        np.testing.assert_array_equal(out, expected)
