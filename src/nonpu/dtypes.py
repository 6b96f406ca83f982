"""Element types, formats, and the promotion and conversion relations.

Sources: the enumerations ``aclDataType`` and ``aclFormat`` of the ACL headers; the "deduction relationship" (promotion)
and "conversion relationship" documents of the operator library. Where a document and the published implementation
disagree, the tables follow the implementation unless its answer is an artefact (unlisted types promoting to FLOAT).
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class DType(IntEnum):
    """One member per ``aclDataType`` enumerator; the value is the C value, the name is the documents' name.

    Attributes
    ----------
    c_name : str
        Enumerator of the C header, for example ``ACL_BF16``.
    python_name : str
        Name used by NumPy, ml_dtypes and the Python interface, for example ``bfloat16``.
    bits : int
        Width of one element; 0 where the type has no fixed width (STRING, UNDEFINED).
    itemsize : int
        Bytes of one element on its own: ``bits`` rounded up to whole bytes.
    """

    c_name: str
    python_name: str
    bits: int
    itemsize: int

    def __new__(cls, value: int, c_name: str, python_name: str, bits: int) -> DType:
        """Build one member from its table row."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.c_name = c_name
        member.python_name = python_name
        member.bits = bits
        member.itemsize = (bits + 7) // 8
        return member

    # Enum hashes the member's name in Python code, which costs more than a whole table look-up; the value hashes in C.
    __hash__ = int.__hash__

    UNDEFINED = -1, "ACL_DT_UNDEFINED", "undefined", 0
    FLOAT = 0, "ACL_FLOAT", "float32", 32
    FLOAT16 = 1, "ACL_FLOAT16", "float16", 16
    INT8 = 2, "ACL_INT8", "int8", 8
    INT32 = 3, "ACL_INT32", "int32", 32
    UINT8 = 4, "ACL_UINT8", "uint8", 8
    INT16 = 6, "ACL_INT16", "int16", 16
    UINT16 = 7, "ACL_UINT16", "uint16", 16
    UINT32 = 8, "ACL_UINT32", "uint32", 32
    INT64 = 9, "ACL_INT64", "int64", 64
    UINT64 = 10, "ACL_UINT64", "uint64", 64
    DOUBLE = 11, "ACL_DOUBLE", "float64", 64
    BOOL = 12, "ACL_BOOL", "bool", 8
    STRING = 13, "ACL_STRING", "string", 0
    COMPLEX64 = 16, "ACL_COMPLEX64", "complex64", 64
    COMPLEX128 = 17, "ACL_COMPLEX128", "complex128", 128
    BFLOAT16 = 27, "ACL_BF16", "bfloat16", 16
    INT4 = 29, "ACL_INT4", "int4", 4
    UINT1 = 30, "ACL_UINT1", "uint1", 1
    COMPLEX32 = 33, "ACL_COMPLEX32", "complex32", 32
    HIFLOAT8 = 34, "ACL_HIFLOAT8", "hifloat8", 8
    FLOAT8_E5M2 = 35, "ACL_FLOAT8_E5M2", "float8_e5m2", 8
    FLOAT8_E4M3FN = 36, "ACL_FLOAT8_E4M3FN", "float8_e4m3fn", 8
    FLOAT8_E8M0 = 37, "ACL_FLOAT8_E8M0", "float8_e8m0fnu", 8
    FLOAT6_E3M2 = 38, "ACL_FLOAT6_E3M2", "float6_e3m2fn", 6
    FLOAT6_E2M3 = 39, "ACL_FLOAT6_E2M3", "float6_e2m3fn", 6
    FLOAT4_E2M1 = 40, "ACL_FLOAT4_E2M1", "float4_e2m1fn", 4
    FLOAT4_E1M2 = 41, "ACL_FLOAT4_E1M2", "float4_e1m2", 4

    @classmethod
    def parse(cls, value: object) -> DType:
        """Return the member that `value` names.

        Parameters
        ----------
        value : DType, int, str, numpy.dtype or NumPy scalar type
            Any name is taken case-insensitively: Python (``float32``), document (``FLOAT``, ``BF16``) or C
            (``ACL_FLOAT``).

        Raises
        ------
        TypeError
            If nothing of the kind exists, or a NumPy type is not in native byte order.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            member = BY_VALUE.get(value)
        elif isinstance(value, str):
            member = _BY_NAME.get(value.lower())
        elif isinstance(value, type):
            # Python's float, int and complex are wider than the documents' types of the same name: refuse to guess.
            member = None if value in (float, int, complex) else _BY_NAME.get(value.__name__.rstrip("_").lower())
        else:
            if not getattr(value, "isnative", True):
                raise TypeError(f"dtype must be in native byte order (got {value!r})")
            member = _BY_NAME.get(str(getattr(value, "name", "")).lower())
        if member is None:
            raise TypeError(f"dtype must be an aclDataType, for example float32 or ACL_FLOAT (got {value!r})")
        return member


BY_VALUE: Final[dict[int, DType]] = {int(member): member for member in DType}
_BY_NAME: Final[dict[str, DType]] = {
    **{name.lower(): member for member in DType for name in (member.python_name, member.c_name, member.name)},
    "float64": DType.DOUBLE,
    "bf16": DType.BFLOAT16,
    "dt_undefined": DType.UNDEFINED,
}

FLOATS: Final = (DType.FLOAT, DType.FLOAT16, DType.DOUBLE, DType.BFLOAT16)
SMALL_FLOATS: Final = (
    DType.HIFLOAT8,
    DType.FLOAT8_E5M2,
    DType.FLOAT8_E4M3FN,
    DType.FLOAT8_E8M0,
    DType.FLOAT6_E3M2,
    DType.FLOAT6_E2M3,
    DType.FLOAT4_E2M1,
    DType.FLOAT4_E1M2,
)
INTEGERS: Final = (
    DType.INT8,
    DType.UINT8,
    DType.INT16,
    DType.UINT16,
    DType.INT32,
    DType.UINT32,
    DType.INT64,
    DType.UINT64,
)
COMPLEXES: Final = (DType.COMPLEX32, DType.COMPLEX64, DType.COMPLEX128)

_CODES: Final = {
    "f32": DType.FLOAT,
    "f16": DType.FLOAT16,
    "f64": DType.DOUBLE,
    "bf16": DType.BFLOAT16,
    "s8": DType.INT8,
    "u8": DType.UINT8,
    "s16": DType.INT16,
    "s32": DType.INT32,
    "s64": DType.INT64,
    "bool": DType.BOOL,
    "c32": DType.COMPLEX32,
    "c64": DType.COMPLEX64,
    "c128": DType.COMPLEX128,
}

# Every pair that promotes, but for a type with itself. UINT16, UINT32, UINT64 and all unlisted types promote with
# nothing else.
_PROMOTION: Final = """
     f32  f16  f64  bf16 s8   u8   s16  s32  s64  bool c32  c64  c128
f32  f32  f32  f64  f32  f32  f32  f32  f32  f32  f32  c64  c64  c128
f16  f32  f16  f64  f32  f16  f16  f16  f16  f16  f16  c32  c64  c128
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 c128
bf16 f32  f32  f64  bf16 bf16 bf16 bf16 bf16 bf16 bf16 c64  c64  c128
s8   f32  f16  f64  bf16 s8   s16  s16  s32  s64  s8   c32  c64  c128
u8   f32  f16  f64  bf16 s16  u8   s16  s32  s64  u8   c32  c64  c128
s16  f32  f16  f64  bf16 s16  s16  s16  s32  s64  s16  c32  c64  c128
s32  f32  f16  f64  bf16 s32  s32  s32  s32  s64  s32  c32  c64  c128
s64  f32  f16  f64  bf16 s64  s64  s64  s64  s64  s64  c32  c64  c128
bool f32  f16  f64  bf16 s8   u8   s16  s32  s64  bool c32  c64  c128
c32  c64  c32  c128 c64  c32  c32  c32  c32  c32  c32  c32  c64  c128
c64  c64  c64  c128 c64  c64  c64  c64  c64  c64  c64  c64  c64  c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""


def _read_promotion(table: str) -> dict[tuple[int, int], DType]:
    """Turn the table's text into a look-up by pair."""
    header, *rows = table.strip().splitlines()
    columns = [_CODES[code] for code in header.split()]
    pairs: dict[tuple[int, int], DType] = {(member, member): member for member in DType if member >= 0}
    for row in rows:
        first, *cells = row.split()
        pairs.update(((_CODES[first], column), _CODES[cell]) for column, cell in zip(columns, cells, strict=True))
    return pairs


_PROMOTES: Final = _read_promotion(_PROMOTION)

_FROM_FLOAT: Final = frozenset(FLOATS + SMALL_FLOATS + COMPLEXES)
_FROM_INTEGER: Final = _FROM_FLOAT.union(INTEGERS)
_FROM_BOOL: Final = _FROM_INTEGER.union((DType.BOOL,))
_FROM_COMPLEX: Final = frozenset(COMPLEXES)
_CASTS: Final[dict[int, frozenset[DType]]] = {
    **dict.fromkeys(FLOATS + SMALL_FLOATS, _FROM_FLOAT),
    **dict.fromkeys(INTEGERS, _FROM_INTEGER),
    **dict.fromkeys(COMPLEXES, _FROM_COMPLEX),
    DType.BOOL: _FROM_BOOL,
    # Not classified by the documents: nothing but themselves.
    DType.STRING: frozenset((DType.STRING,)),
    DType.INT4: frozenset((DType.INT4,)),
    DType.UINT1: frozenset((DType.UINT1,)),
}


def promote(a: int, b: int) -> DType | None:
    """Return the type that two tensors of types `a` and `b` compute in (PromoteType), None if there is none."""
    return _PROMOTES.get((a, b))


def can_cast(source: int, target: int) -> bool:
    """Return whether the conversion relation (CanCast) lets `source` become `target`."""
    return target in _CASTS.get(source, ())


def show_dtype(dtype: int) -> str:
    """Return the document name of `dtype`; the number itself if it is no aclDataType, as C callers can pass any."""
    member = BY_VALUE.get(dtype)
    return f"{int(dtype)}, which is no aclDataType" if member is None else member.name


class Format(IntEnum):
    """One member per ``aclFormat`` enumerator; the value is the C value."""

    UNDEFINED = -1
    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    NC1HWC0_C04 = 12
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33
    NC = 35
    NCL = 47
    FRACTAL_NZ_C0_16 = 50
    FRACTAL_NZ_C0_32 = 51
    FRACTAL_NZ_C0_2 = 52
    FRACTAL_NZ_C0_4 = 53
    FRACTAL_NZ_C0_8 = 54

    @property
    def c_name(self) -> str:
        """Enumerator of the C header; FRACTAL_Z_3D alone lacks the word FORMAT there."""
        return "ACL_FRACTAL_Z_3D" if self is Format.FRACTAL_Z_3D else f"ACL_FORMAT_{self.name}"

    @classmethod
    def parse(cls, value: object) -> int:
        """Return the number of a format given as member, name (``ND``, ``ACL_FORMAT_ND``) or number.

        Raises
        ------
        ValueError
            If a name is unknown. Unknown numbers pass, as they do in C: operators never look at the format.
        """
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        name = str(value).upper().removeprefix("ACL_").removeprefix("FORMAT_")
        member = cls.__members__.get(name)
        if member is None:
            raise ValueError(f"format must be an aclFormat, for example ND (got {value!r})")
        return int(member)
