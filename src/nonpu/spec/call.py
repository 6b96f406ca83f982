"""One call of an operator on its way through the checks, and how a failure of it reads."""

from __future__ import annotations

from nonpu import products
from nonpu.dtypes import DType, promote
from nonpu.status import AclnnError, AclnnTypeError, Status
from nonpu.tensor import Scalar, Tensor, broadcast_shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from nonpu.products import Product
    from nonpu.spec.model import Op

    FindBlock = Callable[[int], tuple[int, int] | None]
    Probe = Callable[[int, int, bool], str]


class Invalid:
    """Stands for a C handle that is not the live object it should be.

    Attributes
    ----------
    reason : str
        What it is instead, for example ``a destroyed tensor``.
    """

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return self.reason


class Call:
    """The arguments of one call, and what the checks find out about them.

    Attributes
    ----------
    op : Op
        The operator.
    arguments : dict
        By contract name: Tensor, Scalar, bool, Invalid, or None for null.
    product : Product
        Product to judge for.
    one_call : bool
        Whether a one-call function asks; these accept a little more.
    find_block : callable or None
        Gives start and length in bytes of the allocation that an address lies in, None if there is none. Asked for
        tensors whose `extent` is unknown.
    probe : callable or None
        Says why memory outside of such allocations cannot be used: from an address, so many bytes, written or not.
    promoted : DType
        Type that the operator computes in. Set by the checks, like the next two.
    shape : tuple of int
        Shape of the result.
    empty : bool
        Whether a tensor is empty, so that there is nothing to do.
    """

    __slots__ = ("arguments", "empty", "find_block", "one_call", "op", "probe", "product", "promoted", "shape")

    promoted: DType
    shape: tuple[int, ...]

    def __init__(
        self,
        op: Op,
        arguments: dict[str, Any],
        product: Product,
        one_call: bool = False,
        find_block: FindBlock | None = None,
        probe: Probe | None = None,
    ) -> None:
        self.op = op
        self.arguments = arguments
        self.product = product
        self.one_call = one_call
        self.find_block = find_block
        self.probe = probe
        self.empty = False


class Failure:
    """Why a call is refused.

    Attributes
    ----------
    status : Status
        Code that the C function returns.
    parameter, subject : str
        Parameter at fault, and the property of it that is wrong.
    expected, actual : str
        What the contract wants and what came.
    is_type : bool
        Whether Python should see a TypeError.
    """

    __slots__ = ("actual", "expected", "is_type", "parameter", "status", "subject")

    def __init__(
        self, status: Status, parameter: str, subject: str, expected: str, actual: str, is_type: bool = False
    ) -> None:
        self.status = status
        self.parameter = parameter
        self.subject = subject
        self.expected = expected
        self.actual = actual
        self.is_type = is_type

    def error(self, call: Call) -> AclnnError:
        """Return the exception, whose text begins with the function that was called and speaks its language."""
        kind = AclnnTypeError if self.is_type else AclnnError
        op = call.op
        if not call.one_call:
            return kind(
                self.status,
                op.api,
                self.parameter,
                self.expected,
                self.actual,
                function=op.phase_one,
                subject=self.subject,
            )
        return kind(
            self.status,
            op.api,
            self.parameter,
            in_python(op, self.expected),
            in_python(op, self.actual),
            function=f"nonpu.{op.python_name}",
            subject=self.subject,
            argument=in_python(op, self.parameter),
        )


def in_python(op: Op, text: str) -> str:
    """Return a text of the contract with the names that the one-call function has for parameters and types."""
    import re

    words = {member.name: member.python_name for member in DType}
    words |= {param.name: param.python_name for param in op.params}
    words |= {op.output: "out", "null": "None", "true": "True"}
    return re.sub(r"\w+", lambda match: words.get(match[0], match[0]), text)


class Violation:
    """A call that one check refuses, for tests that run over all specifications.

    Attributes
    ----------
    label : str
        What is wrong, a few words.
    call : Call
        The call; everything but the fault is valid.
    parameter : str
        Parameter that the failure must name.
    needs_extent : bool
        Whether the fault shows only where the bounds of the memory are known (Python buffers, aclrtMalloc).
    """

    __slots__ = ("call", "label", "needs_extent", "parameter")

    def __init__(self, label: str, call: Call, parameter: str, needs_extent: bool = False) -> None:
        self.label = label
        self.call = call
        self.parameter = parameter
        self.needs_extent = needs_extent

    def __repr__(self) -> str:
        return f"<Violation {self.call.op.name}: {self.label}>"


def infer_result(call: Call) -> tuple[tuple[int, ...], int]:
    """Return shape and type that the output should have, from inputs that have not been judged yet.

    Inputs that do not fit together give the first input's shape or type: `judge` then finds the fault.
    """
    op = call.op
    tensors = [call.arguments[name] for name in op.inputs]
    known = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    if not known:
        raise TypeError(f"{op.python_name}: no input tensor")
    shape, dtype = known[0].shape, known[0].dtype
    for tensor in known[1:]:
        together = broadcast_shapes(shape, tensor.shape)
        shape = shape if together is None else together
        if op.result_type == "promote":
            promoted = promote(dtype, tensor.dtype)
            dtype = dtype if promoted is None else promoted
    return shape, dtype


def valid_tensor(
    shape: tuple[int, ...] = (2, 3),
    dtype: object = "float32",
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    storage_shape: tuple[int, ...] | None = None,
) -> Tensor:
    """Return a tensor with memory of its own, enough for a contiguous view of `storage_shape` (or else of `shape`)."""
    tensor = Tensor(shape, dtype, strides, offset, "ND", shape if storage_shape is None else storage_shape)
    elements = 1
    for length in shape if storage_shape is None else storage_shape:
        elements *= max(length, 0)
    memory = Tensor((), "uint8", data=bytearray(max(elements, 1) * 16))
    tensor.address, tensor.extent, tensor.owner = memory.address, memory.extent, memory.owner
    return tensor


def valid_call(
    op: Op, changes: Mapping[str, object] | None = None, product: str = products.DEFAULT, one_call: bool = False
) -> Call:
    """Return a call of `op` that passes every check, but for the arguments given in `changes`."""
    from nonpu.spec.model import FlagParam, ScalarParam

    arguments: dict[str, Any] = {}
    for param in op.params:
        if isinstance(param, FlagParam):
            arguments[param.name] = param.default
        elif isinstance(param, ScalarParam):
            arguments[param.name] = Scalar(1.0 if param.default is None else param.default, "float32")
        else:
            arguments[param.name] = valid_tensor()
    for name, value in ({} if changes is None else changes).items():
        if name not in arguments:
            raise ValueError(f"parameter must be one of {op.api}'s (got {name})")
        arguments[name] = value
    return Call(op, arguments, products.find(product), one_call)
