"""One call on tensors: the way to the kernel, and the way through PyTorch's dispatcher.

Plain tensors whose derivative nobody asks for go straight to the kernel.  What PyTorch has to see (autograd, the
transforms of ``torch.func``, modes, tracing, subclasses of tensors) goes through the operators of ``torch.ops.nonpu``,
whose kernel then comes back here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from nonpu import products
from nonpu._core import lib
from nonpu.interop import numpy
from nonpu.interop.ready import CAPACITY
from nonpu.interop.torch.layouts import DTYPES, allocate, array_of, infer, is_lazy, missing_bytes
from nonpu.interop.torch.operators import OPERATORS, PLAIN, observed
from nonpu.spec.call import Call, Failure
from nonpu.spec.checks import ScalarDTypes, judge
from nonpu.spec.model import MAX_RANK, FlagParam, ScalarParam
from nonpu.status import AclnnError, Status
from nonpu.tensor import Scalar
from nonpu.tensor import Tensor as Descriptor

if TYPE_CHECKING:
    from nonpu.dtypes import DType
    from nonpu.interop.ready import Ready
    from nonpu.spec.model import Op, Parameter

SHARED: Final = 10000
"""Nanoseconds of work from which on threads share it."""
INVALID: Final = Status.ACLNN_ERR_PARAM_INVALID
OWN_THREADS: Final[int] = lib.nonpu_get_threads()


class Known:
    """What is remembered of a call: the launch, and how to make the result.

    Attributes
    ----------
    launch
        ``nonpu_ready *``.
    shape, strides, dtype
        Of the result.
    like : int
        Number of the input that has the result's layout and type, -1 if none has.
    is_complex : bool
        Whether a tensor is complex and so may be a lazy conjugate.
    shared : bool
        Whether threads may share the work.
    """

    __slots__ = ("dtype", "is_complex", "launch", "like", "shape", "shared", "strides")

    def __init__(self, ready: Ready, result: Tensor, inputs: list[Tensor]) -> None:
        self.launch = ready.record
        self.shared = ready.record.launch.cost >= SHARED
        self.shape, self.strides, self.dtype = result.shape, result.stride(), result.dtype
        self.is_complex = any(tensor.is_complex() for tensor in (result, *inputs))
        same = [
            index
            for index, tensor in enumerate(inputs)
            if (tensor.shape, tensor.stride(), tensor.dtype) == (self.shape, self.strides, self.dtype)
        ]
        self.like = same[0] if same else -1

    def empty(self) -> Tensor:
        """Return a new tensor for the result."""
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="cpu")


def limit_threads() -> None:
    """Use no more threads than PyTorch does, now and until its number changes."""
    threads = min(OWN_THREADS, torch.get_num_threads())
    if lib.nonpu_get_threads() != threads:
        lib.nonpu_set_threads(threads)


def run(
    op: Op, values: tuple[Any, ...], out: Tensor | None, product: str | None, known: dict[Any, Known], key: Any = None
) -> Tensor:
    """Check, compute at once in the calling thread, and return the result, whoever may ask for derivatives.

    With a `key`, the call is remembered under it in `known`.
    """
    arguments: list[Any] = []
    inputs: list[Tensor] = []
    for param, value in zip((p for p in op.params if p.role == "in"), values, strict=True):
        if param.name not in op.tensors:
            is_number = isinstance(value, Tensor) and isinstance(param, ScalarParam)
            arguments.append(_number(op, param, value) if is_number else value)
        elif value is None:
            arguments.append(None)
        else:
            inputs.append(value)
            arguments.append(array_of(_on_cpu(op, param, value)))
    target = op.tensors[op.output]
    fit = infer(op, inputs) if len(inputs) == len(op.inputs) else None
    if out is not None:
        _on_cpu(op, target, out)
        result = torch.empty_like(out) if is_lazy(out) else out
    elif fit is None:
        numpy.run(op, tuple(arguments), None, product, {})
        raise AssertionError(f"nonpu.{op.python_name}: inputs that do not fit were accepted")
    else:
        result = allocate(inputs, *fit)
    limit_threads()
    if any(is_lazy(tensor) for tensor in (*inputs, result if out is None else out)):
        key = None  # the arrays are not the tensors' memory
    found: dict[Any, Ready] = {}
    numpy.run(op, tuple(arguments), array_of(result), product, found, key)
    if key in found:
        if len(known) >= CAPACITY:
            known.clear()
        known[key] = Known(found[key], result, inputs)
    if out is None:
        return result
    if result is out:
        torch.autograd.graph.increment_version(out)
    else:
        with torch.no_grad():
            out.copy_(result)
    return out


def dispatch(
    op: Op, values: tuple[Any, ...], out: Any, product: str | None, known: dict[Any, Known], key: Any
) -> Tensor:
    """Run a call that PyTorch may have to see; tell it only if it has to."""
    given = [param for param in op.params if param.role == "in"]
    if torch.compiler.is_compiling():
        values = tuple(_traceable(param, value) for param, value in zip(given, values, strict=True))
    pairs: list[tuple[Parameter, Any]] = [
        (p, value) for p, value in zip(given, values, strict=True) if p.name in op.tensors and value is not None
    ]
    pairs += [] if out is None else [(op.tensors[op.output], out)]
    tensors = [_of_pytorch(op, param, value) for param, value in pairs]
    numbers = [(p, value) for p, value in zip(given, values, strict=True) if p.name not in op.tensors]
    pairs += [(param, value) for param, value in numbers if isinstance(value, Tensor)]
    scalars = [value for _, value in pairs[len(tensors) :]]
    if not observed([]):
        for param, tensor in pairs:
            if type(tensor) in PLAIN:
                _reachable(op, param, tensor)
    differentiated = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*tensors, *scalars))
    if out is not None and differentiated:
        raise not_differentiable(op)
    if not differentiated and not observed([*tensors, *scalars]):
        return run(op, values, out, product, known, key)
    plain = [_plain(op, param, value, bool(scalars), product) for param, value in zip(given, values, strict=True)]
    if out is None:
        return OPERATORS[op.python_name, "Tensor" if scalars else "default"](*plain, product)
    getattr(torch.ops.nonpu, op.python_name).out(*plain, product, out=out)
    found: Tensor = out
    return found


def _traceable(param: Parameter, value: Any) -> Any:
    """Return a number of NumPy's as a tensor: while a call is traced it is an array, whose value may be open."""
    if isinstance(param, ScalarParam) and isinstance(value, (np.generic, np.ndarray)):
        return torch.as_tensor(value)
    return value


def _plain(op: Op, param: Parameter, value: Any, as_tensor: bool, product: str | None) -> Any:
    """Return an argument as the operator's schema wants it."""
    if value is None and not param.optional:
        kind = "a number" if isinstance(param, ScalarParam) else "an array"
        raise refuse(op, param.name, "", kind, "None", status=Status.ACLNN_ERR_PARAM_NULLPTR)
    if not isinstance(param, ScalarParam):
        return value
    if isinstance(value, Tensor):
        return rank_zero(op, param, value)
    number = value
    if not torch.compiler.is_compiling():  # the value may be open then
        scalar = numpy.as_scalar(op, param, value)
        _check_scalar(op, param, scalar, product)
        number = None if scalar is None else scalar.value
    if as_tensor and number is None:
        number = param.default
    return torch.tensor(number, dtype=torch.float64) if as_tensor else number


def _check_scalar(op: Op, param: Parameter, scalar: Scalar | None, product: str | None) -> None:
    """Refuse a type that the contract does not take: a schema knows numbers only."""
    arguments = {other.name: scalar if other is param else None for other in op.scalar_params}
    asked = Call(op, arguments, numpy.find_product(op, product), one_call=True)
    failure = ScalarDTypes(param.name).run(asked)
    if failure is not None:
        raise failure.error(asked)


def examine(
    op: Op, tensors: list[Tensor], others: list[Any], product: str | None, out: Tensor | None = None
) -> tuple[Any, torch.dtype]:
    """Return shape and type of the result of a call whose tensors have no memory; sizes may be symbolic.

    Raises
    ------
    AclnnError
        If the contract refuses the call.
    """
    values = iter(tensors)
    rest = iter(others)
    arguments: dict[str, Any] = {}
    for param in op.params:
        if param.role == "out":
            continue
        if param.name in op.tensors:
            tensor = next(values)
            arguments[param.name] = Descriptor((0,), _dtype(op, param, tensor))
        elif isinstance(param, FlagParam):
            arguments[param.name] = next(rest)
        else:
            arguments[param.name] = _known_scalar(param, next(rest))
    fit = infer(op, tensors)
    target = op.tensors[op.output]
    if out is None:
        arguments[op.output] = Descriptor((0,), DTYPES[tensors[0].dtype if fit is None else fit[1]])
    else:
        arguments[op.output] = Descriptor((0,), _dtype(op, target, out))
    judge(Call(op, arguments, numpy.find_product(op, product), one_call=True))
    if fit is None:
        first, last = list(tensors[0].shape), list(tensors[-1].shape)
        raise refuse(op, op.inputs[-1], "shape", f"broadcastable with {first}", str(last))
    if out is not None and out.shape != fit[0]:
        raise refuse(op, op.output, "shape", f"{list(fit[0])}, the broadcast shape", str(list(out.shape)))
    return fit


def _known_scalar(param: Parameter, value: Any) -> Scalar | None:
    """Return a scalar to judge; while a call is traced its value may be open, and any that is valid stands for it."""
    for kind, dtype in ((bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128")):
        if type(value) is kind:
            return Scalar(value, dtype)
    return None if param.optional else Scalar(1.0, "float64")


def refuse(
    op: Op, parameter: str, subject: str, expected: str, actual: str, *, is_type: bool = False, status: Status = INVALID
) -> AclnnError:
    """Return the exception for an argument that is at fault before the contract is asked."""
    failure = Failure(status, parameter, subject, expected, actual, is_type)
    return failure.error(Call(op, {}, products.find(products.DEFAULT), one_call=True))


def _of_pytorch(op: Op, param: Parameter, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    raise refuse(op, param.name, "", "a torch.Tensor, as the others are", type(value).__name__, is_type=True)


def _on_cpu(op: Op, param: Parameter, tensor: Tensor) -> Tensor:
    """Refuse a tensor whose elements are not in this process's memory."""
    _reachable(op, param, tensor)
    missing = missing_bytes(tensor)
    if missing:
        raise refuse(op, param.name, "", "a tensor within its storage", f"a storage {missing} bytes too short")
    return tensor


def _reachable(op: Op, param: Parameter, tensor: Tensor) -> None:
    if tensor.device.type != "cpu":
        raise refuse(op, param.name, "", "a tensor on the CPU", f"one on {tensor.device}")
    if tensor.layout is not torch.strided:
        raise refuse(op, param.name, "", "a strided tensor", f"one of layout {tensor.layout}")
    if tensor.is_nested:
        raise refuse(op, param.name, "", "one tensor", "a nested tensor")
    if tensor.dim() > MAX_RANK:  # here: NumPy's arrays have up to 64 axes, tensors more
        raise refuse(op, param.name, "rank", f"at most {MAX_RANK}", str(tensor.dim()))
    _dtype(op, param, tensor)


def _dtype(op: Op, param: Parameter, tensor: Tensor) -> DType:
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        product = products.find(products.DEFAULT)
        dtypes = (
            param.allowed(product) if isinstance(param, ScalarParam) else op.tensors[param.name].allowed(product, True)
        )
        names = ", ".join(member.name for member in dtypes)
        raise refuse(op, param.name, "dtype", f"one of {names}", str(tensor.dtype), is_type=True)
    return dtype


def not_differentiable(op: Op) -> AclnnError:
    """Return the exception for an output of the caller's where a derivative is asked for: it would have none."""
    return refuse(op, op.output, "", "None where derivatives are asked for", "a tensor")


def _number(op: Op, param: Parameter, tensor: Tensor) -> Any:
    """Return a tensor that stands for a number as a NumPy array, which knows its type."""
    return array_of(_on_cpu(op, param, rank_zero(op, param, tensor)))


def rank_zero(op: Op, param: Parameter, tensor: Tensor) -> Tensor:
    """Return a tensor that stands for a number, or refuse it."""
    if tensor.dim() != 0:
        raise refuse(op, param.name, "", "a number or a tensor of rank 0", f"a tensor of rank {tensor.dim()}")
    return tensor
