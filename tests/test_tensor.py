"""Descriptors: shapes, strides, memory, and the exact values of scalars."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nonpu.dtypes import DType, Format
from nonpu.floatformats import decode_bfloat16, decode_small, round_to
from nonpu.tensor import Scalar, Tensor, broadcast_shapes, contiguous_strides

SHAPES = st.lists(st.integers(0, 4), max_size=8).map(tuple)


# --- shapes -----------------------------------------------------------------------------------------------------------


@given(SHAPES, SHAPES)
def test_broadcast_agrees_with_numpy(a, b):
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        expected = None
    assert broadcast_shapes(a, b) == expected
    assert broadcast_shapes(b, a) == expected


def test_broadcast_of_one_and_zero_is_zero():
    assert broadcast_shapes((1, 3), (0, 3)) == (0, 3)
    assert broadcast_shapes((0,), (2,)) is None
    assert broadcast_shapes((), (2, 3)) == (2, 3)


@given(SHAPES)
def test_contiguous_strides_agree_with_numpy(shape):
    strides = np.empty(shape, np.int8).strides
    mine = contiguous_strides(shape)
    if 0 not in shape:
        assert mine == strides
    assert len(mine) == len(shape)


# --- tensors ----------------------------------------------------------------------------------------------------------


def test_attributes_of_a_plain_tensor():
    tensor = Tensor([2, 3], "float16", data=4096)
    assert tensor.shape == (2, 3)
    assert tensor.strides == (3, 1)
    assert tensor.dtype is DType.FLOAT16
    assert (tensor.offset, tensor.format, tensor.storage_shape) == (0, Format.ND, None)
    assert (tensor.address, tensor.extent, tensor.owner) == (4096, None, None)
    assert (tensor.size, tensor.is_empty, tensor.writable, tensor.is_contiguous) == (6, False, True, True)


def test_rank_0_has_one_element():
    tensor = Tensor((), "float32")
    assert (tensor.size, tensor.is_empty, tensor.strides, tensor.address) == (1, False, (), 0)


def test_numpy_integers_become_plain_ints():
    two = np.int64(2)
    tensor = Tensor((two, np.int8(3)), "float32", strides=(two, np.uint8(1)), offset=np.int32(1), storage_shape=[9])
    assert tensor.storage_shape == (9,)
    assert all(type(n) is int for n in (*tensor.shape, *tensor.strides, tensor.offset, *tensor.storage_shape))


@pytest.mark.parametrize("shape", [(2.0,), ("2",), (None,), 3])
def test_lengths_must_be_integers(shape):
    with pytest.raises(TypeError, match="shape must be a sequence of integers"):
        Tensor(shape, "float32")


def test_messages_on_lengths_in_full():
    for arguments, text in (
        ({"shape": 3}, "shape must be a sequence of integers (got 3)"),
        ({"shape": (3,), "strides": 1}, "strides must be a sequence of integers (got 1)"),
        ({"shape": (3,), "storage_shape": 3}, "storage_shape must be a sequence of integers (got 3)"),
        ({"shape": (3,), "offset": 1.5}, "offset must be an integer (got 1.5)"),
    ):
        with pytest.raises(TypeError) as caught:
            Tensor(dtype="float32", **arguments)
        assert str(caught.value) == text


def test_strides_must_match_the_rank():
    with pytest.raises(ValueError, match=r"strides must have as many entries as shape, 2 \(got 1\)"):
        Tensor((2, 3), "float32", strides=(1,))


def test_unknown_dtype_is_refused():
    with pytest.raises(TypeError, match="dtype must be"):
        Tensor((2,), "float33")


@pytest.mark.parametrize("address", [-1, 2**64])
def test_addresses_are_64_bit(address):
    with pytest.raises(ValueError, match="data must be an address"):
        Tensor((2,), "float32", data=address)


@pytest.mark.parametrize(
    ("memory", "writable"), [(bytearray(24), True), (bytes(24), False), (memoryview(bytearray(24)), True)]
)
def test_buffers_give_address_bounds_and_writability(memory, writable):
    tensor = Tensor((2, 3), "float32", data=memory)
    assert tensor.address == np.frombuffer(memory, np.uint8).ctypes.data
    assert tensor.extent == (tensor.address, 24)
    assert tensor.writable is writable


def test_a_buffer_cannot_move_while_a_tensor_uses_it():
    memory = bytearray(8)
    tensor = Tensor((2,), "float32", data=memory)
    with pytest.raises(BufferError):
        memory.extend(bytes(100))
    del tensor
    memory.extend(bytes(100))


def test_numpy_arrays_as_memory():
    array = np.zeros(6, ml_dtypes.bfloat16)
    tensor = Tensor((2, 3), "bfloat16", data=array)
    assert tensor.extent == (array.ctypes.data, 12)
    with pytest.raises(ValueError, match="data must be contiguous memory"):
        Tensor((3,), "float32", data=np.zeros(6, np.float32)[::2])


@pytest.mark.parametrize("data", ["text", 1.5, object(), memoryview(bytearray(8))[::2]])
def test_memory_must_be_memory(data):
    with pytest.raises(ValueError, match="data must be an address or contiguous memory"):
        Tensor((2,), "float32", data=data)


def test_from_native_keeps_what_c_passed():
    tensor = Tensor.from_native((2**62, 4), 5, (-(2**63), 0), -7, 99, (), 8)
    assert (tensor.shape, tensor.dtype, tensor.strides) == ((2**62, 4), 5, (-(2**63), 0))
    assert (tensor.offset, tensor.format, tensor.storage_shape, tensor.address) == (-7, 99, (), 8)
    assert tensor.size == 2**64
    assert Tensor.from_native((2,), 27, (1,), 0, 2, None, 8).dtype is DType.BFLOAT16


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), False),
        ((2, 1, 3), (3, 77, 1), True),
        ((1, 3), (0, 1), True),
        ((2, 3), (6, 2), False),
        ((), (), True),
        ((0, 3), (5, 5), True),
        ((1,), (0,), True),
        ((3,), (0,), False),
    ],
)
def test_contiguity_ignores_axes_of_length_1(shape, strides, expected):
    assert Tensor(shape, "float32", strides).is_contiguous is expected


def test_repr_shows_what_is_not_ordinary():
    assert repr(Tensor((2, 3), "float32", data=255)) == "Tensor((2, 3), float32, data=0xff)"
    odd = Tensor((2,), "bfloat16", (3,), 1, "NCHW", (9,))
    assert repr(odd) == "Tensor((2,), bfloat16, strides=(3,), offset=1, format=NCHW, storage_shape=(9,), data=null)"
    assert "format=99" in repr(Tensor((2,), "float32", format=99))


# --- NumPy ------------------------------------------------------------------------------------------------------------


def views(array):
    return [
        array,
        array.T,
        array[::-1],
        array[:, ::2],
        array[1:, 1:],
        array[None, :, None],
        np.broadcast_to(array[:1], array.shape),
        array[1, 2],
        array[:0],
        array[..., ::-1].T,
    ]


@pytest.mark.parametrize("index", range(10))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.complex128])
def test_from_numpy_keeps_every_view(index, dtype):
    """The descriptor reaches exactly the elements that NumPy reaches."""
    whole = np.arange(20).reshape(4, 5).astype(dtype)
    view = np.asarray(views(whole)[index]) if index != 7 else whole[1:2, 2:3].reshape(())
    tensor = Tensor.from_numpy(view)
    assert tensor.shape == view.shape
    assert tensor.dtype == DType.parse(dtype)
    for position in np.ndindex(view.shape):
        element = tensor.address + sum(i * s for i, s in zip(position, tensor.strides, strict=True)) * whole.itemsize
        place = divmod((element - whole.ctypes.data) // whole.itemsize, 5)
        assert view[position] == whole[place]
    if view.size:
        assert tensor.extent == (whole.ctypes.data, whole.nbytes)


def test_from_numpy_keeps_the_array_alive_and_its_flags():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    tensor = Tensor.from_numpy(array)
    assert tensor.owner is array
    assert not tensor.writable


def test_from_numpy_knows_the_memory_below_as_strided():
    array = np.zeros(6, np.float32)
    wild = np.lib.stride_tricks.as_strided(array, (100,), (4,))
    assert Tensor.from_numpy(wild).extent == (array.ctypes.data, 24)


def test_from_numpy_refuses_strides_between_elements():
    record = np.zeros(4, np.dtype([("a", np.int8), ("b", np.float32)], align=False))
    with pytest.raises(ValueError, match="strides must be multiples of the element size, 4"):
        Tensor.from_numpy(record["b"])


@pytest.mark.parametrize(
    "array", [np.zeros(2, ">f4"), np.zeros(2, "U2"), np.float32(1), [1.0], np.zeros(2, np.longdouble)]
)
def test_from_numpy_refuses_other_types(array):
    with pytest.raises(TypeError):
        Tensor.from_numpy(array)


# --- rounding ---------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.floats(-70000, 70000),
    st.floats(-1e-4, 1e-4),
    st.floats(-1e-37, 1e-37),
)


@given(NUMBERS)
@pytest.mark.parametrize(("dtype", "kind"), [(DType.FLOAT, np.float32), (DType.FLOAT16, np.float16)])
def test_rounding_agrees_with_numpy(dtype, kind, x):
    with np.errstate(all="ignore"):
        expected = float(np.float64(x).astype(kind))
    mine = round_to(x, dtype)
    assert (math.isnan(mine) and math.isnan(expected)) or mine == expected
    assert math.isnan(x) or math.copysign(1, mine) == math.copysign(1, expected)


def exact_nearest(x: Fraction, bits: int, lowest: int, top: int) -> float:
    """Round a rational to nearest even by comparing both neighbours."""
    size = abs(x)
    exponent = lowest
    while size >= Fraction(2) ** (exponent + bits):
        exponent += 1
    unit = Fraction(2) ** exponent
    below = int(size / unit)
    distance = size / unit - below
    count = below + (distance > Fraction(1, 2) or (distance == Fraction(1, 2) and below % 2))
    result = math.inf if count * unit >= Fraction(2) ** top else float(count * unit)
    return -result if x < 0 else result


@given(st.one_of(st.floats(-1e-37, 1e-37), st.floats(-1e39, 1e39), st.integers(-(2**70), 2**70)))
def test_bfloat16_rounds_once_from_the_exact_value(x):
    assert round_to(x, DType.BFLOAT16) == exact_nearest(Fraction(x), 8, -133, 128)


@pytest.mark.parametrize("step", [0, 1, -1])
def test_bfloat16_does_not_round_by_way_of_float(step):
    """One bit below or above the half-way point, which FLOAT could not tell from it."""
    assert round_to(1 + 2**-8 + step * 2**-40, DType.BFLOAT16) == (1 + 2**-7 if step > 0 else 1.0)


def test_integers_round_to_float_directly():
    """By way of a double this one would round twice, to the even neighbour on the wrong side."""
    value = 2**60 + 2**36 + 1
    assert round_to(value, DType.FLOAT) == float(2**60 + 2**37)
    assert float(np.float32(float(value))) == float(2**60)


@given(st.integers(-(2**130), 2**130))
def test_integer_rounding_is_exact(x):
    assert round_to(x, DType.FLOAT) == exact_nearest(Fraction(x), 24, -149, 128)
    assert round_to(x, DType.FLOAT16) == exact_nearest(Fraction(x), 11, -24, 16)


def test_integers_beyond_double_become_infinite():
    assert round_to(10**400, DType.DOUBLE) == math.inf
    assert round_to(-(10**400), DType.FLOAT) == -math.inf


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (DType.FLOAT8_E5M2, ml_dtypes.float8_e5m2),
        (DType.FLOAT8_E4M3FN, ml_dtypes.float8_e4m3fn),
        (DType.FLOAT8_E8M0, ml_dtypes.float8_e8m0fnu),
        (DType.FLOAT6_E3M2, ml_dtypes.float6_e3m2fn),
        (DType.FLOAT6_E2M3, ml_dtypes.float6_e2m3fn),
        (DType.FLOAT4_E2M1, ml_dtypes.float4_e2m1fn),
    ],
)
def test_small_formats_decode_as_ml_dtypes_does(dtype, kind):
    patterns = np.arange(1 << dtype.bits, dtype=np.uint8)
    expected = patterns.view(kind).astype(np.float64)
    mine = np.array([decode_small(int(pattern), dtype) for pattern in patterns])
    np.testing.assert_array_equal(mine, expected)
    assert (np.signbit(mine) == np.signbit(expected))[~np.isnan(expected)].all()


def test_float4_e1m2_is_quarters_up_to_seven():
    assert [decode_small(p, DType.FLOAT4_E1M2) for p in range(16)] == [
        sign * n / 4 for sign in (1.0, -1.0) for n in range(8)
    ]


def test_hifloat8_has_the_published_range():
    values = [decode_small(pattern, DType.HIFLOAT8) for pattern in range(256)]
    finite = sorted({value for value in values if math.isfinite(value) and value > 0})
    assert (finite[0], finite[-1], len(finite)) == (2.0**-22, 2.0**15, 126)
    assert (values[0], values[0x6F], values[0xEF]) == (0.0, math.inf, -math.inf)
    assert math.isnan(values[0x80])
    assert decode_small(0b0_0001_000, DType.HIFLOAT8) == 1.0
    assert decode_small(0b0_0001_111, DType.HIFLOAT8) == 1.875
    assert decode_small(0b0_001_0_000, DType.HIFLOAT8) == 2.0
    assert decode_small(0b0_001_1_000, DType.HIFLOAT8) == 0.5


# --- scalars ----------------------------------------------------------------------------------------------------------

NUMPY_TYPES = [
    np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
    np.int64, np.uint64, np.bool_, np.complex64, np.complex128,
]  # fmt: skip


@pytest.mark.parametrize("kind", NUMPY_TYPES)
@pytest.mark.parametrize("value", [0, 1, 3, 0.25, -2, True])
def test_scalar_bytes_are_numpys(kind, value):
    dtype = DType.parse(kind)
    whole = dtype.name in ("BOOL",) or "INT" in dtype.name
    too_wide = (dtype is DType.BOOL and value not in (0, 1)) or (dtype.name.startswith("UINT") and value < 0)
    if too_wide or (whole and value != int(value)):
        with pytest.raises(ValueError, match="scalar must be an integer from"):
            Scalar(value, dtype)
        return
    scalar = Scalar(value, kind)
    assert scalar.dtype is dtype
    assert scalar.raw == np.asarray(value).astype(kind).tobytes()
    assert scalar.value == value


@pytest.mark.parametrize("kind", NUMPY_TYPES)
def test_scalars_take_numpy_scalars(kind):
    assert Scalar(kind(1), kind).value == 1


@given(st.floats(), st.sampled_from([DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE]))
def test_floating_scalars_hold_the_nearest_value(x, dtype):
    scalar = Scalar(x, dtype)
    value = scalar.value
    assert isinstance(value, float)
    assert len(scalar.raw) == dtype.itemsize
    assert value == round_to(x, dtype) or (math.isnan(x) and math.isnan(value))


def test_double_scalars_keep_every_bit_and_round_once_to_float():
    scalar = Scalar(0.01, "float64")
    assert scalar.to_double() == 0.01
    assert scalar.to_float() == 0.009999999776482582
    assert Scalar(1e300, "float64").to_float() == math.inf
    assert Scalar(-1e-50, "float64").to_double() < 0
    assert math.copysign(1, Scalar(-1e-50, "float64").to_float()) == -1


@pytest.mark.parametrize(
    ("raw", "dtype", "expected"),
    [
        (struct.pack("=f", 1.5), DType.FLOAT, 1.5),
        (struct.pack("=H", 0x3C00), DType.FLOAT16, 1.0),
        (struct.pack("=H", 0x0001), DType.FLOAT16, 2.0**-24),
        (struct.pack("=H", 0x3F80), DType.BFLOAT16, 1.0),
        (struct.pack("=q", 2**53 + 1), DType.INT64, 2.0**53),
        (struct.pack("=Q", 2**64 - 1), DType.UINT64, 2.0**64),
        (b"\x01", DType.BOOL, 1.0),
        (b"\x00", DType.BOOL, 0.0),
        (struct.pack("=2f", 3, 4), DType.COMPLEX64, 0.0),
        (struct.pack("=2d", 3, 4), DType.COMPLEX128, 0.0),
        (b"\x3c", DType.FLOAT8_E5M2, 1.0),
    ],
)
def test_c_bytes_convert_as_aclscalar_does(raw, dtype, expected):
    scalar = Scalar.from_bytes(raw + bytes(16), int(dtype))
    assert scalar.raw == raw
    assert scalar.to_double() == expected
    assert scalar.to_float() == expected


def test_64_bit_integers_round_once_to_float():
    value = 2**60 + 2**36 + 1
    assert Scalar(value, "int64").to_float() == float(2**60 + 2**37)
    assert Scalar(value, "int64").to_double() == float(value)


def test_strange_dtypes_from_c_are_kept_for_the_checks():
    scalar = Scalar.from_bytes(b"abcd", 5)
    assert (scalar.dtype, scalar.value, scalar.to_double(), scalar.to_float()) == (5, None, 0.0, 0.0)


@pytest.mark.parametrize("dtype", ["string", "int4", "uint1", "complex32", "undefined"])
def test_types_without_scalars_are_refused(dtype):
    with pytest.raises(TypeError, match="scalar dtype must be a type that aclCreateScalar takes"):
        Scalar(1, dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, "int8"), (-1, "uint64"), (2**63, "int64"), (0.5, "int32"), (2, "bool"), (math.nan, "int8")],
)
def test_integer_scalars_must_hold_the_value(value, dtype):
    with pytest.raises(ValueError, match="scalar must be an integer from"):
        Scalar(value, dtype)


@pytest.mark.parametrize("value", ["1", None, [1], 1j])
def test_scalars_must_be_numbers(value):
    with pytest.raises(TypeError, match="scalar must be a real number"):
        Scalar(value, "float32")


def test_small_formats_take_exact_values_only():
    assert Scalar(1.5, "float8_e4m3fn").to_float() == 1.5
    assert math.isnan(Scalar(math.nan, "hifloat8").to_float())
    with pytest.raises(ValueError, match="scalar must be representable in FLOAT4_E2M1"):
        Scalar(0.1, "FLOAT4_E2M1")


def test_scalar_repr():
    assert repr(Scalar(0.5, "float16")) == "Scalar(0.5, 'float16')"


def test_bfloat16_patterns_decode():
    patterns = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        expected = patterns.view(ml_dtypes.bfloat16).astype(np.float64)
    mine = [decode_bfloat16(pattern.tobytes()) for pattern in patterns]
    np.testing.assert_array_equal(mine, expected)


def test_scalars_are_equal_by_their_bytes() -> None:
    """Not by value: zeros of either sign differ, a NaN equals itself, and the type counts."""
    assert Scalar(1.5, "float32") == Scalar(1.5, "float32")
    assert hash(Scalar(1.5, "float32")) == hash(Scalar(1.5, "float32"))
    assert Scalar(math.nan, "float32") == Scalar(math.nan, "float32")
    assert Scalar(0.0, "float32") != Scalar(-0.0, "float32")
    assert Scalar(1.5, "float32") != Scalar(1.5, "float64")
    assert Scalar(1.5, "float32") != 1.5
