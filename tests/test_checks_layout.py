"""The layout check: views inside their memory, and outputs whose elements do not share memory."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonpu import ops
from nonpu.spec.checks import judge, valid_call, valid_tensor
from nonpu.spec.layout import self_overlaps
from nonpu.status import AclnnError
from nonpu.tensor import Tensor


def refuse(call):
    """Judge a call that must fail, and return the error."""
    with pytest.raises(AclnnError) as caught:
        judge(call)
    return caught.value


SIGMOID = ops.find("SigmoidBackward")
HUGE = 2**63 - 1


def native(shape, strides, offset=0, storage=None, address=4096, dtype=0):
    return Tensor.from_native(shape, dtype, strides, offset, 2, storage, address)


# view, and the subject of the failure (None: accepted)
LAYOUTS = [
    (native((2, 3), (3, 1), 0, (2, 3)), None),
    (native((2, 3), (3, 1), 4, (10,)), None),
    (native((2, 3), (3, 1), 5, (10,)), "view"),
    (native((2, 3), (3, 1), 0, ()), "view"),
    (native((2, 3), (3, 1), 0, (0, 100)), "view"),
    (native((2, 3), (0, 0), 0, ()), None),
    (native((2, 3), (0, 0), 1, ()), "view"),
    (native((2, 3), (3, 1), -1, (100,)), "view"),
    (native((2, 3), (3, 1), -1), "view"),
    (native((2, 3), (-3, 1), 3, (2, 3)), "strides"),
    (native((2, 3), (3, -1), 2), "strides"),
    (native((2, 3), (3, 1), 0, (-2, -3)), "storage shape"),
    (native((2, 3), (HUGE, 1)), "view"),
    (native((2, 3), (HUGE, HUGE), 0, (HUGE, HUGE)), "view"),
    (native((2, 3), (2**61, 1), 0, (HUGE,)), "view"),
    (native((2, 3), (2**60, 1), HUGE, (HUGE, 4)), "view"),
    (native((2, 3), (3, 1), -(2**63)), "view"),
    (native((2, 3), (-(2**63), 1)), "strides"),
    (native((2, 3), (3, 1), 0, None, 0), "data"),
    (native((2, 3), (3, 1), 0, None, 2**64 - 24), None),
    (native((2, 3), (3, 1), 0, None, 2**64 - 20), "view"),
    (native((2, 3), (2**58, 1), 0, (2**59, 4)), None),
]


@pytest.mark.parametrize(("tensor", "subject"), LAYOUTS)
def test_layout_of_inputs(tensor, subject):
    call = valid_call(SIGMOID, {"gradOutput": tensor})
    if subject is None:
        judge(call)
    else:
        error = refuse(call)
        assert (int(error.status), error.parameter, error.subject) == (161002, "gradOutput", subject)


def test_axes_of_length_1_ignore_their_stride():
    view = native((1, 3), (-HUGE, 1), 0, (3,))
    judge(valid_call(SIGMOID, {"gradOutput": view, "gradInput": native((2, 3), (3, 1), 0, (6,))}))
    output = native((1, 3), (0, 1), 0, (3,))
    judge(valid_call(SIGMOID, {"gradOutput": view, "output": view, "gradInput": output}))


def test_one_empty_tensor_frees_all_from_layout_checks():
    wild = native((1, 3), (HUGE, -HUGE), -(2**63), (-1,), 0)
    empty = native((0, 3), (-5, HUGE), -9, None, 0)
    call = valid_call(SIGMOID, {"gradOutput": wild, "output": empty, "gradInput": empty})
    judge(call)
    assert call.empty


def test_lengths_at_the_end_of_int64_are_judged_not_overflowed():
    """Inputs may repeat one element any number of times; an output of that shape cannot exist."""
    shape = (HUGE, HUGE, HUGE)
    once = native(shape, (0, 0, 0), 0, (1,))
    output = native(shape, (1, 1, 1), 0, (HUGE,))
    error = refuse(valid_call(SIGMOID, {"gradOutput": once, "output": once, "gradInput": output}))
    assert (error.parameter, error.subject) == ("gradInput", "view")


def test_known_memory_bounds_the_view():
    """The offset of a view of a buffer counts from the buffer's start, and neither end may be passed."""
    memory = bytearray(40)
    inside = Tensor((2, 3), "float32", offset=4, data=memory)
    judge(valid_call(SIGMOID, {"gradOutput": inside}))
    for offset in (5, -1):
        error = refuse(valid_call(SIGMOID, {"gradOutput": Tensor((2, 3), "float32", offset=offset, data=memory)}))
        first = offset * 4
        assert error.actual == f"bytes {first} to {first + 24}"
        assert error.expected == "inside its memory, bytes 0 to 40 from its data address"


def test_registry_is_asked_for_unknown_memory_only():
    asked = []

    def find_block(address):
        asked.append(address)
        return (address - 8, 32) if address == 4096 else None

    call = valid_call(SIGMOID, {"gradOutput": native((2, 3), (3, 1)), "output": native((2, 3), (3, 1), 0, None, 512)})
    call.find_block = find_block
    judge(call)
    assert asked == [4096, 512]
    call.arguments["gradOutput"] = native((2, 3), (3, 1), 1)
    error = refuse(call)
    assert error.expected == "inside its memory, bytes -8 to 24 from its data address"
    assert error.actual == "bytes 4 to 28"
    call.arguments["gradOutput"] = native((2, 3), (3, 1), -2)
    judge(call)


def test_strided_arrays_are_bounded_by_the_array_below():
    array = np.zeros(6, np.float32)
    wild = np.lib.stride_tricks.as_strided(array, (2, 3), (16, 4))
    assert refuse(valid_call(SIGMOID, {"output": Tensor.from_numpy(wild)})).subject == "view"


def test_read_only_memory_is_no_output():
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    judge(valid_call(SIGMOID, {"output": Tensor.from_numpy(array)}))
    error = refuse(valid_call(SIGMOID, {"gradInput": Tensor.from_numpy(array)}))
    assert (error.subject, error.actual) == ("data", "read-only memory")


def test_stride_0_is_for_inputs():
    repeated = valid_tensor(strides=(0, 1))
    judge(valid_call(SIGMOID, {"gradOutput": repeated, "output": repeated}))
    error = refuse(valid_call(SIGMOID, {"gradInput": repeated}))
    assert error.actual == "overlapping elements: shape [2, 3], strides [0, 1]"


def test_outputs_may_be_transposed_and_spread():
    judge(valid_call(SIGMOID, {"gradInput": valid_tensor(strides=(1, 2))}))
    judge(valid_call(SIGMOID, {"gradInput": valid_tensor(strides=(5, 2), offset=3, storage_shape=(40,))}))


# --- overlap ----------------------------------------------------------------------------------------------------------


def overlaps_by_listing(shape, strides):
    places = [sum(map(int.__mul__, position, strides)) for position in itertools.product(*map(range, shape))]
    return len(set(places)) < len(places)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-30, 30)), max_size=6))
@settings(max_examples=500)
def test_overlap_agrees_with_listing_all_addresses(axes):
    shape = tuple(length for length, _ in axes)
    strides = tuple(stride for _, stride in axes)
    if math.prod(shape) <= 4000:
        assert self_overlaps(shape, strides) is overlaps_by_listing(shape, strides)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((2, 3), (3, 2), False),  # 0 2 4 | 3 5 7: interleaved, and yet free of overlap
        ((3, 3), (3, 2), False),
        ((3, 4), (3, 2), True),
        ((HUGE, HUGE), (1, HUGE), False),
        ((HUGE, HUGE), (1, HUGE - 1), True),
        ((10**9, 10**9), (10**9 + 7, 10**9 + 9), False),
        ((10**9 + 10, 10**9 + 10), (10**9 + 7, 10**9 + 9), True),
        ((10**6, 10**6, 20), (10**12 + 39, 10**12 + 61, 1), False),
        ((10**6, 10**6, 23), (10**12 + 39, 10**12 + 61, 1), True),
        ((2,) * 8, (1, 2, 4, 8, 16, 32, 64, 128), False),
        ((2,) * 8, (1, 2, 4, 8, 16, 32, 64, 127), True),
        ((2,) * 8, (128, -64, 32, -16, 8, -4, 2, -1), False),
        ((1, 1), (0, 0), False),
        ((), (), False),
        ((2,), (0,), True),
    ],
)
def test_overlap_of_large_and_odd_views(shape, strides, expected):
    assert self_overlaps(shape, strides) is expected


@pytest.mark.parametrize("seed", range(20))
def test_overlap_of_irregular_views_is_decided_in_time(seed):
    """Three to eight interleaved axes; the answer must agree with the list of addresses where that is not too long."""
    random = np.random.default_rng(seed)
    rank = int(random.integers(3, 9))
    shape = tuple(int(n) for n in random.integers(2, 12, rank))
    strides = tuple(int(n) for n in random.integers(1, 10**6, rank))
    answer = self_overlaps(shape, strides)
    assert answer is not None
    if math.prod(shape) <= 10**6:
        places = np.zeros(1, np.int64)
        for length, stride in zip(shape, strides, strict=True):
            places = (places[:, None] + np.arange(length) * stride).ravel()
        assert answer is (np.unique(places).size < places.size)
