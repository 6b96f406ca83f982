"""One-call functions on NumPy arrays: no copies, any strides, bfloat16 through ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from nonpu import products
from nonpu._core import ffi, lib
from nonpu.aclnn.phases import environment_product, prepare
from nonpu.dtypes import BY_VALUE, DType
from nonpu.interop.ready import CAPACITY, Ready, remember
from nonpu.spec.call import Call, in_python, infer_result
from nonpu.spec.checks import judge
from nonpu.spec.model import FlagParam, ScalarParam
from nonpu.status import AclnnError, AclnnTypeError, Status
from nonpu.tensor import Scalar, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nonpu.products import Product
    from nonpu.spec.model import Op, Parameter


def run(
    op: Op, values: tuple[Any, ...], out: Any, product: str | None, known: dict[Any, Ready], key: Any = None
) -> Any:
    """Check, compute at once in the calling thread, and return the result; see `nonpu.interop.onecall`.

    With a `key`, the call is remembered under it in `known`.
    """
    arguments: dict[str, Any] = {}
    wants_array = out is not None
    inputs: list[Any] = []
    for param, value in zip((p for p in op.params if p.role == "in"), values, strict=True):
        if isinstance(param, FlagParam):
            arguments[param.name] = as_flag(op, param, value)
        elif isinstance(param, ScalarParam):
            arguments[param.name] = as_scalar(op, param, value)
        else:
            array = as_array(op, param, value)
            wants_array = wants_array or isinstance(value, np.ndarray)
            tensor = arguments[param.name] = as_tensor(op, param, array)
            if tensor.owner is not array:
                key = None  # a copy: its layout is not the array's
            inputs.append(array)
    target = op.tensors[op.output]
    call = Call(op, arguments, find_product(op, product), one_call=True)
    result = _result(call) if out is None else as_array(op, target, out, is_output=True)
    arguments[op.output] = as_tensor(op, target, result, is_output=True)
    judge(call)
    if not call.empty:
        plan = ffi.new("nonpu_plan *")
        prepare(call, plan)
        if lib.nonpu_run_plan(plan):
            raise MemoryError(f"nonpu.{op.python_name}: no memory for inputs that overlap the output")
        if key is not None:
            ready = remember(call, plan, (result, *inputs), product is not None)
            if ready is not None:
                if len(known) >= CAPACITY:
                    known.clear()
                known[key] = ready
    if out is not None:
        return out
    return result if wants_array else result[()]


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Return NumPy's type, ml_dtypes.bfloat16 for BFLOAT16."""
    return np.dtype(ml_dtypes.bfloat16 if dtype is DType.BFLOAT16 else dtype.python_name)


def refuse(
    op: Op,
    param: Parameter,
    expected: str,
    actual: str,
    subject: str = "",
    kind: Any = AclnnError,
    status: Status = Status.ACLNN_ERR_PARAM_INVALID,
) -> AclnnError:
    """Return the exception "nonpu.<function>: <parameter> must be <expected> (got <actual>)"."""
    name, argument = f"nonpu.{op.python_name}", in_python(op, param.name)
    error: AclnnError = kind(
        status, op.api, param.name, expected, actual, function=name, subject=subject, argument=argument
    )
    return error


def find_product(op: Op, name: str | None) -> Product:
    """Return the product of a name; the one of NONPU_PRODUCT for None."""
    try:
        return environment_product() if name is None else products.find(name)
    except (TypeError, ValueError) as error:
        raise type(error)(f"nonpu.{op.python_name}: {error}") from None


def as_array(op: Op, param: Parameter, value: Any, *, is_output: bool = False) -> np.ndarray[Any, Any]:
    """Return an array as it is, and Python's numbers and lists as a new one."""
    if isinstance(value, np.ma.MaskedArray):
        raise _masked(op, param)
    if isinstance(value, np.ndarray):
        return value
    if value is None:
        raise refuse(op, param, "an array", "None", status=Status.ACLNN_ERR_PARAM_NULLPTR)
    if not is_output:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023:
            value = float(value)
        if isinstance(value, np.generic | float | complex):
            return np.asarray(value)
        if isinstance(value, list | tuple):
            try:
                array = np.asarray(value)
            except (TypeError, ValueError, RuntimeError) as error:  # the last is PyTorch's, for tensors in lists
                reason = str(error).partition("\n")[0]
                raise refuse(op, param, "a list of numbers or of equally long lists", reason) from None
            if _has_mask(value):
                raise _masked(op, param)
            return array
    raise refuse(op, param, "a NumPy array", type(value).__name__, kind=AclnnTypeError)


def _masked(op: Op, param: Parameter) -> AclnnError:
    return refuse(op, param, "a NumPy array without a mask", "a masked array", kind=AclnnTypeError)


def _has_mask(value: Any) -> bool:
    """Return whether a masked array is in a list that has become an array: NumPy drops its mask."""
    if isinstance(value, list | tuple):
        return any(map(_has_mask, value))
    return isinstance(value, np.ma.MaskedArray)


def as_tensor(op: Op, param: Parameter, array: np.ndarray[Any, Any], *, is_output: bool = False) -> Tensor:
    """Describe an array; one whose strides elements cannot express is copied first."""
    if is_output and not array.flags.writeable:
        raise refuse(op, param, "writable", "a read-only array")
    try:
        return Tensor.from_numpy(array)
    except TypeError:
        pass
    except ValueError:
        # Byte strides that elements cannot express, as a field of a packed structure has them.
        if not is_output:
            return Tensor.from_numpy(np.ascontiguousarray(array))
        raise refuse(op, param, "a multiple of the element size", str(array.strides), "strides") from None
    allowed = op.tensors[param.name]
    names = ", ".join(dtype.python_name for dtype in allowed.dtypes + allowed.converted + allowed.one_call)
    raise refuse(op, param, f"one of {names}, in native byte order", str(array.dtype), "dtype", AclnnTypeError)


def _result(call: Call) -> np.ndarray[Any, Any]:
    shape, dtype = infer_result(call)
    member = BY_VALUE[dtype]
    try:
        return np.empty(shape, numpy_dtype(member))
    except (MemoryError, ValueError):  # ValueError: more bytes than an address can count
        raise MemoryError(
            f"nonpu.{call.op.python_name}: no memory for a result of shape {list(shape)} and dtype {member.python_name}"
        ) from None


def as_scalar(op: Op, param: ScalarParam, value: Any) -> Scalar | None:
    """Return a number with the type that it has in Python or NumPy; None stands for the default."""
    if value is None:
        if param.optional:
            return None
        raise refuse(op, param, "a number", "None", status=Status.ACLNN_ERR_PARAM_NULLPTR)
    if isinstance(value, Scalar):
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        try:
            return Scalar(value[()] if isinstance(value, np.ndarray) else value, DType.parse(value.dtype))
        except TypeError:
            raise refuse(
                op, param, "of a type that scalars can have", str(value.dtype), "dtype", AclnnTypeError
            ) from None
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        try:
            value = float(value)
        except OverflowError:
            raise refuse(
                op, param, "a number in the range of float64", f"an int of {value.bit_length()} bits"
            ) from None
    for kind, dtype in ((bool, DType.BOOL), (int, DType.INT64), (float, DType.DOUBLE), (complex, DType.COMPLEX128)):
        if isinstance(value, kind):
            return Scalar(value, dtype)
    raise refuse(op, param, "a number or a nonpu.Scalar", type(value).__name__, kind=AclnnTypeError)


def as_flag(op: Op, param: FlagParam, value: Any) -> bool:
    """Return a bool; other numbers are refused."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise refuse(op, param, "a bool", repr(value), kind=AclnnTypeError)
