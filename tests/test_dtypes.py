"""Types, formats, promotion and conversion, against the tables of the documents copied by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nonpu.dtypes import DType, Format, can_cast, promote, show_dtype

# aclDataType as in the header: enumerator, value, bits.
ENUMERATORS = """
ACL_DT_UNDEFINED -1 0
ACL_FLOAT 0 32
ACL_FLOAT16 1 16
ACL_INT8 2 8
ACL_INT32 3 32
ACL_UINT8 4 8
ACL_INT16 6 16
ACL_UINT16 7 16
ACL_UINT32 8 32
ACL_INT64 9 64
ACL_UINT64 10 64
ACL_DOUBLE 11 64
ACL_BOOL 12 8
ACL_STRING 13 0
ACL_COMPLEX64 16 64
ACL_COMPLEX128 17 128
ACL_BF16 27 16
ACL_INT4 29 4
ACL_UINT1 30 1
ACL_COMPLEX32 33 32
ACL_HIFLOAT8 34 8
ACL_FLOAT8_E5M2 35 8
ACL_FLOAT8_E4M3FN 36 8
ACL_FLOAT8_E8M0 37 8
ACL_FLOAT6_E3M2 38 6
ACL_FLOAT6_E2M3 39 6
ACL_FLOAT4_E2M1 40 4
ACL_FLOAT4_E1M2 41 4
"""

# The document's table of the deduction relationship, x for "cannot be promoted"; BF16 with COMPLEX32 as implemented.
PROMOTION = """
row  f32  f16  f64  bf16 s8   u8   s16  u16  s32  u32  s64  u64  bool c32  c64  c128
f32  f32  f32  f64  f32  f32  f32  f32  x    f32  x    f32  x    f32  c64  c64  c128
f16  f32  f16  f64  f32  f16  f16  f16  x    f16  x    f16  x    f16  c32  c64  c128
f64  f64  f64  f64  f64  f64  f64  f64  x    f64  x    f64  x    f64  c128 c128 c128
bf16 f32  f32  f64  bf16 bf16 bf16 bf16 x    bf16 x    bf16 x    bf16 c64  c64  c128
s8   f32  f16  f64  bf16 s8   s16  s16  x    s32  x    s64  x    s8   c32  c64  c128
u8   f32  f16  f64  bf16 s16  u8   s16  x    s32  x    s64  x    u8   c32  c64  c128
s16  f32  f16  f64  bf16 s16  s16  s16  x    s32  x    s64  x    s16  c32  c64  c128
u16  x    x    x    x    x    x    x    u16  x    x    x    x    x    x    x    x
s32  f32  f16  f64  bf16 s32  s32  s32  x    s32  x    s64  x    s32  c32  c64  c128
u32  x    x    x    x    x    x    x    x    x    u32  x    x    x    x    x    x
s64  f32  f16  f64  bf16 s64  s64  s64  x    s64  x    s64  x    s64  c32  c64  c128
u64  x    x    x    x    x    x    x    x    x    x    x    u64  x    x    x    x
bool f32  f16  f64  bf16 s8   u8   s16  x    s32  x    s64  x    bool c32  c64  c128
c32  c64  c32  c128 c64  c32  c32  c32  x    c32  x    c32  x    c32  c32  c64  c128
c64  c64  c64  c128 c64  c64  c64  c64  x    c64  x    c64  x    c64  c64  c64  c128
c128 c128 c128 c128 c128 c128 c128 c128 x    c128 x    c128 x    c128 c128 c128 c128
"""

# The document's table of the conversion relationship, rows to columns.
CONVERSION = """
row  f32 f16 f64 bf16 s8 u8 s16 u16 s32 u32 s64 u64 bool c32 c64 c128
f32  y   y   y   y    .  .  .   .   .   .   .   .   .    y   y   y
f16  y   y   y   y    .  .  .   .   .   .   .   .   .    y   y   y
f64  y   y   y   y    .  .  .   .   .   .   .   .   .    y   y   y
bf16 y   y   y   y    .  .  .   .   .   .   .   .   .    y   y   y
s8   y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
u8   y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
s16  y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
u16  y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
s32  y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
u32  y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
s64  y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
u64  y   y   y   y    y  y  y   y   y   y   y   y   .    y   y   y
bool y   y   y   y    y  y  y   y   y   y   y   y   y    y   y   y
c32  .   .   .   .    .  .  .   .   .   .   .   .   .    y   y   y
c64  .   .   .   .    .  .  .   .   .   .   .   .   .    y   y   y
c128 .   .   .   .    .  .  .   .   .   .   .   .   .    y   y   y
"""

VALUES = {
    "f32": 0, "f16": 1, "f64": 11, "bf16": 27, "s8": 2, "u8": 4, "s16": 6, "u16": 7,
    "s32": 3, "u32": 8, "s64": 9, "u64": 10, "bool": 12, "c32": 33, "c64": 16, "c128": 17,
}  # fmt: skip
SMALL_FLOATS = range(34, 42)
UNLISTED = (13, 29, 30)  # STRING, INT4, UINT1


def cells(table):
    """Yield row, column and cell of a table."""
    header, *rows = table.strip().splitlines()
    for row in rows:
        name, *entries = row.split()
        for column, entry in zip(header.split()[1:], entries, strict=True):
            yield name, column, entry


def test_enumeration_is_the_headers():
    rows = [line.split() for line in ENUMERATORS.strip().splitlines()]
    assert [(member.c_name, int(member), member.bits) for member in sorted(DType)] == [
        (name, int(value), int(bits)) for name, value, bits in rows
    ]


def test_itemsize_agrees_with_numpy():
    for member in DType:
        scalar_type = getattr(ml_dtypes, member.python_name, None) or np.sctypeDict.get(member.python_name)
        if scalar_type is not None and member.bits >= 8:
            assert np.dtype(scalar_type).itemsize == member.itemsize, member


@pytest.mark.parametrize(("a", "b", "expected"), list(cells(PROMOTION)))
def test_promotion_table(a, b, expected):
    assert promote(VALUES[a], VALUES[b]) == (None if expected == "x" else VALUES[expected])


def test_promotion_of_unlisted_types_is_identity_only():
    for a in (*SMALL_FLOATS, *UNLISTED):
        for b in DType:
            assert promote(a, b) == (a if a == b else None)
            assert promote(b, a) == (a if a == b else None)


@pytest.mark.parametrize("strange", [-1, 5, 28, 99, -(2**31)])
def test_strange_numbers_neither_promote_nor_convert(strange):
    assert promote(strange, strange) is None
    assert promote(0, strange) is None
    assert not can_cast(strange, 0)
    assert not can_cast(0, strange)


@pytest.mark.parametrize(("source", "target", "expected"), list(cells(CONVERSION)))
def test_conversion_table(source, target, expected):
    assert can_cast(VALUES[source], VALUES[target]) is (expected == "y")


def test_conversion_of_small_floats_is_that_of_floats():
    for small in SMALL_FLOATS:
        for name, value in VALUES.items():
            assert can_cast(small, value) is can_cast(0, value), name
            assert can_cast(value, small) is (name[0] in "fbsu"), name


def test_conversion_of_unclassified_types_is_identity_only():
    for a in UNLISTED:
        for b in DType:
            assert can_cast(a, b) is (a == b)
            assert can_cast(b, a) is (a == b)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float32", DType.FLOAT), ("FLOAT", DType.FLOAT), ("acl_float", DType.FLOAT), (0, DType.FLOAT),
        ("bfloat16", DType.BFLOAT16), ("BF16", DType.BFLOAT16), ("ACL_BF16", DType.BFLOAT16),
        ("BFLOAT16", DType.BFLOAT16),
        ("float64", DType.DOUBLE), ("double", DType.DOUBLE), ("bool", DType.BOOL), ("Complex128", DType.COMPLEX128),
        (np.float32, DType.FLOAT), (np.dtype("float16"), DType.FLOAT16), (np.dtype("?"), DType.BOOL),
        (np.bool_, DType.BOOL),
        (ml_dtypes.bfloat16, DType.BFLOAT16), (np.dtype(ml_dtypes.bfloat16), DType.BFLOAT16),
        (np.dtype(ml_dtypes.float8_e5m2), DType.FLOAT8_E5M2), (np.uint64, DType.UINT64), (DType.INT4, DType.INT4),
    ],
)  # fmt: skip
def test_parse_knows_every_spelling(given, expected):
    assert DType.parse(given) is expected


def test_the_string_float_is_the_documents_type():
    assert DType.parse("float") is DType.FLOAT


@pytest.mark.parametrize("given", ["half32", 5, True, None, float, int, np.dtype(">f4"), np.dtype("U3"), 1.0])
def test_parse_refuses_what_is_no_type(given):
    with pytest.raises(TypeError, match="dtype must be"):
        DType.parse(given)


def test_show_names_types_as_documents_do_and_numbers_otherwise():
    assert show_dtype(27) == "BFLOAT16"
    assert show_dtype(5) == "5, which is no aclDataType"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("ND", 2), ("nchw", 0), ("ACL_FORMAT_NC1HWC0", 3), (Format.NCL, 47), (77, 77), ("FRACTAL_Z_3D", 33)],
)
def test_format_parse(given, expected):
    assert Format.parse(given) == expected


def test_format_refuses_unknown_names():
    with pytest.raises(ValueError, match="format must be"):
        Format.parse("NDX")


def test_format_enumerators_are_the_headers():
    names = {member.c_name: int(member) for member in Format}
    assert len(names) == 20
    assert names["ACL_FORMAT_UNDEFINED"] == -1
    assert names["ACL_FORMAT_FRACTAL_NZ_C0_8"] == 54
    assert names["ACL_FRACTAL_Z_3D"] == 33
    assert names["ACL_FORMAT_NC"] == 35
