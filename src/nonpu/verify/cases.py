"""Cases: what a case file asks for, checked and in one form whatever the file looks like.

A case in our own form names everything as the documents do, and a name that nothing knows is an error. The list form of
device test suites (`aclnn_name`, a list of input records) is taken as it comes: parameters whose names are unknown
count by position, and what has no meaning here is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nonpu import products
from nonpu.dtypes import BY_VALUE, DType
from nonpu.ops import OPS, find
from nonpu.spec.model import FlagParam, ScalarParam, TensorParam
from nonpu.verify.ranges import Range, RangeError
from nonpu.verify.request import OutputRequest, Request, ScalarRequest, TensorRequest, case_seed
from nonpu.verify.rounding import COMPONENT, INTEGERS, LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nonpu.spec.model import Op, Parameter

_LONGEST: Final = 1000  # characters of an error text
DEFAULT_RANGE: Final = (-2.0, 2.0)
KNOWN_DTYPES: Final = (*LAYOUTS, *COMPONENT, *INTEGERS, DType.BOOL)
_SPELLINGS: Final = {
    "fp16": DType.FLOAT16,
    "half": DType.FLOAT16,
    "f16": DType.FLOAT16,
    "fp32": DType.FLOAT,
    "f32": DType.FLOAT,
    "fp64": DType.DOUBLE,
    "f64": DType.DOUBLE,
    "bf16": DType.BFLOAT16,
    "int": DType.INT32,
    "long": DType.INT64,
    "short": DType.INT16,
    "cfloat": DType.COMPLEX64,
    "cdouble": DType.COMPLEX128,
}
_CASE_KEYS: Final = {
    *("id", "operator", "dtype", "shape", "range", "inputs", "scalars", "attributes", "outputs"),
    *("product", "seed", "standard", "comment"),
}
_TENSOR_KEYS: Final = {"name", "type", "dtype", "shape", "range", "range_values", "strides", "offset"}
_SCALAR_KEYS: Final = {"name", "type", "dtype", "value", "range", "range_values"}


class CaseError(ValueError):
    """A case file that cannot be used; the text names file, case and field."""


@dataclass(frozen=True)
class Defaults:
    """What holds for every case of a file that does not say otherwise."""

    seed: int
    product: str


class FieldError(Exception):
    """What is wrong with a field."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name} {text}" if name else text)


def parse_cases(file: str, raw: Iterable[tuple[str, object]], defaults: Defaults) -> list[Request]:
    """Check all cases of a file.

    Parameters
    ----------
    file : str
        Name for error texts.
    raw : pairs of str and object
        Where in the file a case is, and what is there.
    defaults : Defaults
        For cases that have none of their own.

    Raises
    ------
    CaseError
        For the first case that is wrong.
    """
    requests: list[Request] = []
    places: dict[str, str] = {}
    for index, (place, case) in enumerate(raw):
        name = case.get("id") if isinstance(case, dict) else None
        label = place if name is None else f"{place} (id {name})"
        try:
            request = _parse(case, index, defaults)
            if request.id in places:
                raise FieldError("id", f"must be unique (got {request.id!r} as in {places[request.id]})")
        except (FieldError, RangeError) as error:
            raise CaseError(brief(f"{file}: {label}: {error}")) from None
        places[request.id] = place
        requests.append(request)
    if not requests:
        raise CaseError(f"{file}: no cases")
    return requests


def brief(text: str) -> str:
    """Return a text of bearable length: the start and the end of a long one."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 110]} ... {text[-100:]}"


def parse_dtype(raw: object, name: str) -> DType:
    """Return the type of a name as the documents, Python or test suites spell it."""
    if isinstance(raw, str):
        word = raw.strip().lower().removeprefix("torch.").removeprefix("np.").removeprefix("numpy.")
        known = _SPELLINGS.get(word)
        if known is not None:
            return known
        try:
            return DType.parse(word.removeprefix("dt_"))
        except TypeError:
            pass
    elif isinstance(raw, int) and not isinstance(raw, bool) and raw in BY_VALUE:
        return BY_VALUE[raw]
    raise FieldError(name, f"must be a data type, for example fp16 or float32 (got {raw!r})")


def _parse(case: object, index: int, defaults: Defaults) -> Request:
    if not isinstance(case, dict):
        raise FieldError("", f"must be an object (got {type(case).__name__})")
    lenient = "aclnn_name" in case
    op = _operator(case.get("aclnn_name" if lenient else "operator"), "aclnn_name" if lenient else "operator")
    if not lenient:
        _only(case, _CASE_KEYS, "")
    case_id = _case_id(case.get("id"), op, index)
    seed = case.get("seed")
    given = _arguments(op, case, lenient)
    tensors, scalars, flags, output = _parameters(op, case, given, lenient)
    return Request(
        case_id,
        index,
        op.python_name,
        _product(case.get("product"), defaults.product),
        case_seed(defaults.seed, case_id) if seed is None else _seed(seed),
        _standard(case.get("standard")),
        tensors,
        scalars,
        flags,
        output,
    )


def _only(given: Mapping[str, Any], allowed: set[str], where: str) -> None:
    for key in given:
        if key not in allowed:
            raise FieldError(f"{where}{key}", f"is not known here; known are {', '.join(sorted(allowed))}")


def _operator(raw: object, name: str) -> Op:
    try:
        return find(str(raw))
    except ValueError:
        apis = ", ".join(op.api for op in OPS)
        raise FieldError(name, f"must be one of {apis} (got {raw!r})") from None


def _case_id(raw: object, op: Op, index: int) -> str:
    if raw is None:
        return f"{op.python_name}-{index:06d}"
    if isinstance(raw, bool) or not isinstance(raw, str | int) or str(raw).strip() == "":
        raise FieldError("id", f"must be a name or a number (got {raw!r})")
    return _text(str(raw), "id")


def _text(raw: str, name: str) -> str:
    # JSON can write half of a surrogate pair, which no file takes.
    if not raw.isascii() and raw.encode("utf-8", "replace").decode() != raw:
        raise FieldError(name, f"must be Unicode text without lone surrogates (got {raw!r})")
    return raw


def _seed(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw < 1 << 64:
        raise FieldError("seed", f"must be an integer from 0 to 2**64 - 1 (got {raw!r})")
    return raw


def _product(raw: object, default: str) -> str:
    try:
        return products.find(default if raw is None else raw).soc  # type: ignore[arg-type]  # find refuses others
    except (ValueError, TypeError) as error:
        raise FieldError("", str(error)) from None


def _standard(raw: object) -> str | None:
    if isinstance(raw, dict):
        raw = raw.get("acc")
        if isinstance(raw, dict):
            raw = next(iter(raw), None)
    if raw is None or isinstance(raw, str):
        return None if raw is None else _text(raw, "standard")
    raise FieldError("standard", f"must be a name (got {raw!r})")


def _arguments(op: Op, case: dict[str, Any], lenient: bool) -> dict[str, tuple[str, Any]]:
    """Return by parameter name the field that an argument is in, and what the file has for it."""
    named: list[tuple[str, str | None, Any]] = []
    for group in ("inputs", "scalars", "attributes", "outputs"):
        named += _named(group, case.get(group))
    names = {_letters(name): param for param in op.params for name in (param.name, param.python_name)}
    names.setdefault("out", op.tensors[op.output])
    found: dict[str, tuple[str, Any]] = {}
    unknown: list[tuple[str, Any]] = []
    for where, name, value in named:
        param = names.get(_letters(name)) if name is not None else None
        if param is None and name is not None and not lenient:
            raise FieldError(where, f"is no parameter of {op.api}: {', '.join(param.name for param in op.params)}")
        if param is None or param.name in found:
            unknown.append((where, value))
        else:
            found[param.name] = where, value
    for where, value in unknown:
        free = [param for param in op.params if param.name not in found]
        param = _by_position(free, value)
        if param is None:
            raise FieldError(where, f"is one more than the parameters of {op.api} of its kind")
        found[param.name] = where, value
    return found


def _named(group: str, raw: object) -> list[tuple[str, str | None, Any]]:
    if raw is None:
        return []
    if isinstance(raw, dict):
        return [(f"{group}.{name}", name, value) for name, value in raw.items()]
    if not isinstance(raw, list):
        raise FieldError(group, f"must be a list of records or an object (got {type(raw).__name__})")
    found: list[tuple[str, str | None, Any]] = []
    for number, record in enumerate(raw):
        if not isinstance(record, dict):
            raise FieldError(f"{group}[{number}]", f"must be an object (got {record!r})")
        name = record.get("name")
        if name is not None and not isinstance(name, str):
            raise FieldError(f"{group}[{number}].name", f"must be a name (got {name!r})")
        found.append((f"{group}[{number}]" if name is None else f"{group}.{name}", name, record))
    return found


def _letters(name: str) -> str:
    return name.lower().replace("_", "").removesuffix("optional")


def _by_position(free: list[Parameter], value: Any) -> Parameter | None:
    kind = value.get("type", "tensor") if isinstance(value, dict) else "attr"
    if kind == "tensor":
        kinds: tuple[type, ...] = (TensorParam,)
        free = [param for param in free if param.role == "in"]
    else:
        # Suites call a slope an attribute or a scalar; a bool can only be a flag.
        is_bool = isinstance(value, bool) or (isinstance(value, dict) and value.get("dtype") == "bool")
        kinds = (FlagParam, ScalarParam) if is_bool else (ScalarParam, FlagParam)
    for wanted in kinds:
        for param in free:
            if isinstance(param, wanted):
                return param
    return None


def _parameters(
    op: Op, case: dict[str, Any], given: dict[str, tuple[str, Any]], lenient: bool
) -> tuple[dict[str, TensorRequest | None], dict[str, ScalarRequest | None], dict[str, bool], OutputRequest]:
    tensors: dict[str, TensorRequest | None] = {}
    scalars: dict[str, ScalarRequest | None] = {}
    flags: dict[str, bool] = {}
    output = OutputRequest()
    for param in op.params:
        where, value = given.get(param.name, (f"inputs.{param.name}", ...))
        if isinstance(param, FlagParam):
            flags[param.name] = param.default if value is ... else _flag(where, value)
        elif isinstance(param, TensorParam):
            if param.role == "out":
                output = OutputRequest() if value is ... or value is None else _output(where, value, case, lenient)
            elif value is ... and not {"dtype", "shape"} <= case.keys():
                raise FieldError(where, f"is missing: {op.api} needs it")
            else:
                tensors[param.name] = _tensor(where, {} if value is ... else value, case, lenient)
    wide = any(tensor is not None and tensor.dtype in (DType.DOUBLE, DType.COMPLEX128) for tensor in tensors.values())
    for param in op.scalar_params:
        where, value = given.get(param.name, (f"inputs.{param.name}", ...))
        if value is ... and not param.optional:
            value = param.default
        scalars[param.name] = _scalar(where, value, DType.DOUBLE if wide else DType.FLOAT, lenient)
    return tensors, scalars, flags, output


def _tensor(where: str, raw: Any, case: dict[str, Any], lenient: bool) -> TensorRequest | None:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise FieldError(where, f"must be an object with dtype, shape and range (got {raw!r})")
    if not lenient:
        _only(raw, _TENSOR_KEYS, f"{where}.")
    dtype = parse_dtype(raw.get("dtype", case.get("dtype")), f"{where}.dtype")
    shape = raw.get("shape", case.get("shape"))
    if lenient and shape is None and raw.get("required") is False:
        return None
    lengths = _integers(shape, f"{where}.shape")
    values = _range(raw, case, where, dtype)
    return TensorRequest(dtype, lengths, *_layout(where, raw, lengths), values)


def _layout(where: str, raw: dict[str, Any], shape: tuple[int, ...]) -> tuple[tuple[int, ...] | None, int]:
    strides, offset = raw.get("strides"), raw.get("offset", 0)
    steps = None if strides is None else _integers(strides, f"{where}.strides")
    if steps is not None and len(steps) != len(shape):
        raise FieldError(
            f"{where}.strides", f"must have as many entries as the shape, {len(shape)} (got {list(steps)})"
        )
    return steps, _integers([offset], f"{where}.offset")[0]


def _output(where: str, raw: Any, case: dict[str, Any], lenient: bool) -> OutputRequest:
    if not isinstance(raw, dict):
        raise FieldError(where, f"must be an object with dtype, shape, strides or offset (got {raw!r})")
    if not lenient:
        _only(raw, _TENSOR_KEYS - {"range", "range_values"}, f"{where}.")
    dtype = raw.get("dtype")
    shape = None if raw.get("shape") is None else _integers(raw["shape"], f"{where}.shape")
    if raw.get("strides") is not None and shape is None:
        shape = _integers(case.get("shape"), f"{where}.shape")
    steps, offset = _layout(where, raw, () if shape is None else shape)
    return OutputRequest(None if dtype is None else parse_dtype(dtype, f"{where}.dtype"), shape, steps, offset)


def _integers(raw: object, name: str) -> tuple[int, ...]:
    if isinstance(raw, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in raw):
        if all(-(1 << 63) <= one < 1 << 63 for one in raw):
            return tuple(raw)
        raise FieldError(name, f"must fit 64 bits (got {raw!r})")
    raise FieldError(name, f"must be a list of integers (got {raw!r})")


def _range(raw: dict[str, Any], case: dict[str, Any], where: str, dtype: DType) -> Range:
    for source, name in ((raw, f"{where}.range"), (raw, f"{where}.range_values"), (case, "range")):
        key = name.rpartition(".")[2]
        if source.get(key) is not None:
            return _parsed(source[key], name, dtype)
    return Range.parse(list(DEFAULT_RANGE), dtype if dtype in KNOWN_DTYPES else DType.FLOAT)


def _parsed(raw: object, name: str, dtype: DType) -> Range:
    try:
        # Types that no operator takes have no values; the contract refuses them later.
        return Range.parse(raw, dtype if dtype in KNOWN_DTYPES else DType.FLOAT)
    except RangeError as error:
        raise FieldError(name, str(error)) from None


def _scalar(where: str, raw: Any, usual: DType, lenient: bool) -> ScalarRequest | None:
    if raw is ... or raw is None:
        return None
    if not isinstance(raw, dict):
        return ScalarRequest(usual, _parsed(raw, where, usual))
    if not lenient:
        _only(raw, _SCALAR_KEYS, f"{where}.")
    key = next((key for key in ("value", "range", "range_values") if raw.get(key) is not None), None)
    if key is None:
        if lenient and raw.get("required") is not True:
            return None
        raise FieldError(f"{where}.value", "is missing")
    dtype = usual if raw.get("dtype") is None else parse_dtype(raw["dtype"], f"{where}.dtype")
    return ScalarRequest(dtype, _parsed(raw[key], f"{where}.{key}", dtype))


def _flag(where: str, raw: Any) -> bool:
    if isinstance(raw, dict):
        raw = next((raw[key] for key in ("value", "range", "range_values") if raw.get(key) is not None), False)
    if isinstance(raw, str) and raw.strip().lower() in ("true", "false"):
        return raw.strip().lower() == "true"
    if raw is None or isinstance(raw, bool | int | float | list):
        return bool(raw)  # a list that is not empty is true, whatever it holds
    raise FieldError(where, f"must be true or false (got {raw!r})")
