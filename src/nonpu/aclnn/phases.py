"""Both phases of every operator: the judge that C and Python share, and the Python functions.

This is the only place where the contract (`nonpu.spec`, `nonpu.ops`), the engine and the native runtime meet.
"""

from __future__ import annotations

from nonpu import products
from nonpu._core import ffi, lib
from nonpu.aclnn.executor import Executor, Stream, native_failure
from nonpu.dtypes import BY_VALUE
from nonpu.engine.plan import View, fill
from nonpu.ops import OPS
from nonpu.spec.call import Call, Invalid
from nonpu.spec.checks import judge, sequence
from nonpu.spec.model import FlagParam, ScalarParam, TensorParam
from nonpu.status import AclnnError, Status
from nonpu.tensor import Scalar, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nonpu.spec.model import Op, Parameter

NULL, LIVE = 0, 1


def find_block(address: int) -> tuple[int, int] | None:
    """Return start and requested bytes of the ``aclrtMalloc`` block that `address` lies in, None if there is none."""
    base = ffi.new("uintptr_t *")
    size = ffi.new("uint64_t *")
    if not lib.nonpu_find_block(address, base, size, ffi.NULL):
        return None
    return base[0], size[0]


PROBED = ("", "not mapped", "not readable", "not writable")


def probe(address: int, size: int, written: bool) -> str:
    """Return why memory that nobody described cannot be used, empty if it can be as far as the system tells."""
    return PROBED[lib.nonpu_probe(address, size, written)]


def environment_value() -> bytes:
    """Return NONPU_PRODUCT as it is now, empty if unset: C code may have set it since Python copied its environment."""
    value = lib.nonpu_environment(products.ENVIRONMENT.encode())
    return b"" if value == ffi.NULL else bytes(ffi.string(value))


def environment_product() -> products.Product:
    """Return the product that NONPU_PRODUCT selects now.

    Raises
    ------
    ValueError
        If the variable names no product.
    """
    return products.current(environment_value().decode("utf-8", "replace"))


def _call(op: Op, arguments: dict[str, Any]) -> Call:
    try:
        return Call(op, arguments, environment_product(), find_block=find_block, probe=probe)
    except ValueError as error:
        # Null pointers come before whatever depends on the product.
        call = Call(op, arguments, products.find(products.DEFAULT))
        failure = sequence(op)[0].run(call)
        if failure is not None:
            raise failure.error(call) from None
        status = Status.ACLNN_ERR_PARAM_INVALID
        expected = f"one that {products.ENVIRONMENT} may name"
        raise AclnnError(status, op.api, "product", expected, str(error), function=op.phase_one) from None


def prepare(call: Call, plan: Any) -> None:
    """Write what phase two has to do for a judged call into `plan`, a ``nonpu_plan *``."""
    op = call.op
    if call.empty:
        plan.launches = plan.temporary = 0
        return
    shape, promoted = call.shape, call.promoted
    views = [_view(call.arguments[name], shape) for name in (op.output, *op.inputs)]
    kernel = op.kernels[promoted]
    symbol = f"nonpu_{op.python_name}_{promoted.python_name}"
    try:
        fill(plan, symbol, promoted, shape, views, op.scalars(call.arguments, promoted), kernel.cost)
    except (LookupError, RuntimeError) as error:
        status = Status.ACLNN_ERR_INNER_FIND_KERNEL_ERROR
        raise AclnnError(status, op.api, "kernel", "found", str(error), function=op.phase_one) from None


def _view(tensor: Tensor, shape: tuple[int, ...]) -> View:
    """Byte strides of a tensor over the axes of the result: 0 where it is broadcast."""
    dtype = BY_VALUE[tensor.dtype]
    itemsize = dtype.itemsize
    strides = [0] * (len(shape) - len(tensor.shape))
    strides += [step * itemsize if length > 1 else 0 for length, step in zip(tensor.shape, tensor.strides, strict=True)]
    return View(tensor.address + tensor.offset * itemsize, dtype, tuple(strides))


# ---------------------------------------------------------------- from C


def judge_native(op_index: int, arguments: Any, plan: Any) -> None:
    """Judge a call that came through C and fill its plan.

    Parameters
    ----------
    op_index
        Position of the operator in `nonpu.ops.OPS`.
    arguments
        ``nonpu_argument *``, one per parameter of the first phase.
    plan
        ``nonpu_plan *``.

    Raises
    ------
    AclnnError
        If the contract refuses the call.
    """
    op = OPS[op_index]
    values = {param.name: _received(param, arguments[index]) for index, param in enumerate(op.params)}
    call = _call(op, values)
    judge(call)
    prepare(call, plan)


def _received(param: Parameter, argument: Any) -> Tensor | Scalar | bool | Invalid | None:
    if isinstance(param, FlagParam):
        return bool(argument.integer)
    if argument.state == NULL:
        return None
    if argument.state != LIVE:
        kind = "tensor" if isinstance(param, TensorParam) else "scalar"
        return Invalid(f"{argument.integer:#x}, which is no live {kind}")
    if isinstance(param, ScalarParam):
        scalar = ffi.cast("const nonpu_scalar *", argument.record)
        return Scalar.from_bytes(ffi.buffer(scalar.value)[:], scalar.dtype)
    record = ffi.cast("const nonpu_tensor *", argument.record)
    rank, storage_rank = record.rank, record.storage_rank
    return Tensor.from_native(
        tuple(ffi.unpack(record.dims, rank)) if rank else (),
        record.dtype,
        tuple(ffi.unpack(record.strides, rank)) if rank else (),
        record.offset,
        record.format,
        None if storage_rank < 0 else tuple(ffi.unpack(record.storage, storage_rank)) if storage_rank else (),
        record.data,
    )


# ---------------------------------------------------------------- from Python


def phase_one(op: Op, values: tuple[object, ...]) -> tuple[int, Executor]:
    """Judge and plan a call; see the functions of `nonpu.aclnn`."""
    for param, value in zip(op.params, values, strict=True):
        _check_kind(op, param, value)
    arguments = {param.name: value for param, value in zip(op.params, values, strict=True)}
    call = _call(op, arguments)
    judge(call)
    plan = ffi.new("nonpu_plan *")
    prepare(call, plan)
    handle = lib.nonpu_executor_create(plan)
    if not handle:
        raise native_failure(Status.ACLNN_ERR_INNER_CREATE_EXECUTOR, op.api, op.phase_one)
    return 0, Executor(op, handle, tuple(value for value in values if isinstance(value, Tensor)))


def _check_kind(op: Op, param: Parameter, value: object) -> None:
    if isinstance(param, FlagParam):
        expected: tuple[type, str] = (bool, "a bool")
        if type(value).__name__ in ("bool", "bool_") or value in (0, 1):
            return
    elif value is None:
        return
    elif isinstance(param, ScalarParam):
        expected = (Scalar, "a nonpu.Scalar")
    else:
        expected = (Tensor, "a nonpu.Tensor")
    if not isinstance(value, expected[0]):
        raise TypeError(f"{op.phase_one}: {param.name} must be {expected[1]} (got {type(value).__name__})")


def phase_two(
    op: Op, workspace: object, workspace_size: int, executor: Executor | None, stream: Stream | int | None
) -> None:
    """Run or queue what phase one planned; see the functions of `nonpu.aclnn`."""
    if executor is None:
        raise AclnnError(Status.ACLNN_ERR_PARAM_NULLPTR, op.api, "executor", "not null", "null", function=op.phase_two)
    if not isinstance(executor, Executor):
        raise TypeError(f"{op.phase_two}: executor must be a nonpu.Executor (got {type(executor).__name__})")
    if executor.op is not op:
        raise AclnnError(
            Status.ACLNN_ERR_PARAM_INVALID,
            op.api,
            "executor",
            f"one that {op.phase_one} made",
            f"one of {executor.op.api}",
            function=op.phase_two,
        )
    if workspace_size > 0 and workspace is None:
        executor.discard()
        raise AclnnError(
            Status.ACLNN_ERR_PARAM_NULLPTR,
            op.api,
            "workspace",
            f"not null for a workspaceSize of {workspace_size}",
            "null",
            function=op.phase_two,
        )
    executor.run(stream)


__all__ = [
    "OPS",
    "environment_product",
    "environment_value",
    "find_block",
    "judge_native",
    "phase_one",
    "phase_two",
    "prepare",
    "probe",
]
