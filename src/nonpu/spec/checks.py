"""The conditions that operators put on their arguments, and the judge that tests them in contract order.

A check knows its status, its sentence for the documentation, how to test a call, and how to build calls that violate
it. Those that every operator has are in `nonpu.spec.universal`.
"""

from __future__ import annotations

from nonpu.dtypes import DType, can_cast, promote, show_dtype
from nonpu.products import LINES
from nonpu.spec.call import Call, Failure, Invalid, Violation, infer_result, valid_call, valid_tensor
from nonpu.spec.model import MAX_RANK, FlagParam, show_dtypes
from nonpu.spec.universal import INVALID, Empty, Handles, Layout, NotNull, OnProduct, listed
from nonpu.tensor import Scalar, broadcast_shapes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nonpu.spec.model import Check, Op

__all__ = [
    "Broadcast",
    "Call",
    "Castable",
    "DTypes",
    "Empty",
    "Failure",
    "Handles",
    "Invalid",
    "Layout",
    "NotNegativeWith",
    "NotNull",
    "OnProduct",
    "Promotes",
    "Rank",
    "SameDType",
    "SameShape",
    "ScalarDTypes",
    "Violation",
    "infer_result",
    "judge",
    "sequence",
    "valid_call",
    "valid_tensor",
]

# Numbers that are no aclDataType: one in a gap of the enumeration, one beyond its end, and the smallest a C int holds.
STRANGE_DTYPES: Final = (5, 99, -(2**31))
OLD: Final = next(line.soc for line in LINES if not line.has_bf16 and line.line != "310B")


def judge(call: Call) -> None:
    """Test `call` against every check of its operator, in contract order.

    On return `call.promoted`, `call.shape` and `call.empty` are set.

    Raises
    ------
    AclnnError
        For the first check that fails; AclnnTypeError if it is about an element type.
    """
    op = call.op
    runs = op.prepared.get(call.one_call)
    if runs is None:
        runs = op.prepared[call.one_call] = tuple(check.run for check in sequence(op, call.one_call))
    for run in runs:
        failure = run(call)
        if failure is not None:
            raise failure.error(call)


def sequence(op: Op, one_call: bool = False) -> tuple[Check, ...]:
    """Return all checks of `op` in the order in which they are tested, those that all operators share included."""
    objects = tuple(param.name for param in op.params if not isinstance(param, FlagParam))
    required = tuple(param.name for param in op.params if param.name in objects and not param.optional)
    own = op.one_call_checks if one_call else op.checks
    return (
        NotNull(*required),
        Handles(op, objects),
        OnProduct(op),
        *own,
        Empty(*op.tensors),
        Layout(*op.tensors),
    )


def _wrong_dtype(name: str, allowed: tuple[DType, ...], actual: int, call: Call) -> Failure:
    expected = f"{show_dtypes(allowed)} on {call.product.name}"
    return Failure(INVALID, name, "dtype", expected, show_dtype(actual), is_type=True)


def _refused_dtypes(allowed: tuple[DType, ...]) -> list[int]:
    return [*STRANGE_DTYPES, *(dtype for dtype in DType if dtype not in allowed)]


class DTypes:
    """Types of tensors, as the parameter lists them for the product."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"the dtype of {listed(self.names)} must be in the product's list"

    def run(self, call: Call) -> Failure | None:
        """Return the first type that is not listed."""
        for name in self.names:
            allowed = call.op.tensors[name].allowed(call.product, call.one_call)
            dtype = call.arguments[name].dtype
            if dtype not in allowed:
                return _wrong_dtype(name, allowed, dtype, call)
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per parameter and refused type."""
        return [
            violation
            for name in self.names
            for violation in _dtype_violations(op, name, op.tensors[name].dtypes + op.tensors[name].converted)
        ]


def _dtype_violations(op: Op, name: str, allowed: tuple[DType, ...]) -> list[Violation]:
    found = []
    for dtype in _refused_dtypes(allowed):
        tensor = valid_tensor()
        tensor.dtype = dtype
        found.append(Violation(f"{name} of type {show_dtype(dtype)}", valid_call(op, {name: tensor}), name))
    if DType.BFLOAT16 in allowed:
        tensor = valid_tensor(dtype=DType.BFLOAT16)
        found.append(Violation(f"{name} BFLOAT16 on {OLD}", valid_call(op, {name: tensor}, OLD), name))
    return found


class ScalarDTypes:
    """Types of scalars: a list or a rule, as the parameter has it."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"the dtype of {listed(self.names)} must be one that the parameter takes on the product"

    def run(self, call: Call) -> Failure | None:
        """Return the first type that is not allowed; a null scalar has none."""
        for param in call.op.scalar_params:
            scalar = call.arguments[param.name]
            if scalar is None or param.name not in self.names:
                continue
            if scalar.dtype not in param.allowed(call.product):
                if param.castable_to is None:
                    return _wrong_dtype(param.name, param.allowed(call.product), scalar.dtype, call)
                expected = f"a type that converts to {param.castable_to.name}"
                return Failure(INVALID, param.name, "dtype", expected, show_dtype(scalar.dtype), is_type=True)
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per parameter and refused type that a C scalar can have."""
        found = []
        for param in op.scalar_params:
            for dtype in _refused_dtypes(param.dtypes):
                label = f"{param.name} of type {show_dtype(dtype)}"
                scalar = Scalar.from_bytes(bytes(16), dtype)
                found.append(Violation(label, valid_call(op, {param.name: scalar}), param.name))
            if param.dtypes != param.dtypes_old:
                call = valid_call(op, {param.name: Scalar(1.0, DType.BFLOAT16)}, OLD)
                found.append(Violation(f"{param.name} BFLOAT16 on {OLD}", call, param.name))
        return found


class SameDType:
    """One type for all, which is then the type to compute in."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"{listed(self.names)} must have the same dtype"

    def run(self, call: Call) -> Failure | None:
        """Return the first type that differs from the first tensor's."""
        arguments = call.arguments
        first = self.names[0]
        dtype = arguments[first].dtype
        for name in self.names:
            if arguments[name].dtype != dtype:
                expected = f"{show_dtype(dtype)}, the dtype of {first}"
                return Failure(INVALID, name, "dtype", expected, show_dtype(arguments[name].dtype), is_type=True)
        call.promoted = dtype
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per parameter and allowed type other than the others'; outputs take any type at all."""
        found = []
        for name in self.names[1:]:
            allowed = list(op.tensors[name].dtypes) if op.tensors[name].role == "in" else [*_refused_dtypes(()), *DType]
            for dtype in allowed:
                if dtype != DType.FLOAT:
                    tensor = valid_tensor()
                    tensor.dtype = dtype
                    label = f"{name} {show_dtype(dtype)}, the others FLOAT"
                    found.append(Violation(label, valid_call(op, {name: tensor}), name))
        return found


class Rank:
    """At most eight axes, none of them negative."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"the rank of {listed(self.names)} must be at most {MAX_RANK}, and no dimension negative"

    def run(self, call: Call) -> Failure | None:
        """Return the first shape that is none."""
        for name in self.names:
            shape = call.arguments[name].shape
            if len(shape) > MAX_RANK:
                return Failure(INVALID, name, "rank", f"at most {MAX_RANK}", str(len(shape)))
            if shape and min(shape) < 0:
                return Failure(INVALID, name, "shape", "without negative dimensions", str(list(shape)))
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return calls with one tensor, and with all tensors, of rank 9; and negative dimensions."""
        found = []
        for name in self.names:
            nine = valid_tensor((1,) * (MAX_RANK + 1))
            found.append(Violation(f"{name} of rank 9", valid_call(op, {name: nine}), name))
            negative = valid_tensor((2, -3))
            found.append(Violation(f"{name} with a negative dimension", valid_call(op, {name: negative}), name))
        nines = {name: valid_tensor((1,) * (MAX_RANK + 1)) for name in op.tensors}
        return [*found, Violation("all of rank 9", valid_call(op, nines), self.names[0])]


class Broadcast:
    """Inputs that broadcast, and an output of exactly the broadcast shape."""

    status = INVALID

    def __init__(self, *names: str, into: str) -> None:
        self.names = names
        self.into = into

    def describe(self) -> str:
        """Say what must hold."""
        return f"{listed(self.names)} must broadcast, and {self.into} must have exactly the broadcast shape"

    def run(self, call: Call) -> Failure | None:
        """Return the first shape that does not fit."""
        arguments = call.arguments
        shape: tuple[int, ...] = arguments[self.names[0]].shape
        for name in self.names[1:]:
            other = arguments[name].shape
            if other != shape:
                together = broadcast_shapes(shape, other)
                if together is None:
                    expected = f"broadcastable with {list(shape)}"
                    return Failure(INVALID, name, "shape", expected, str(list(other)))
                shape = together
        if arguments[self.into].shape != shape:
            expected = f"{list(shape)}, the broadcast shape of {listed(self.names)}"
            return Failure(INVALID, self.into, "shape", expected, str(list(arguments[self.into].shape)))
        call.shape = shape
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return shapes that do not broadcast, and outputs of another shape, also of equal size or rank 9."""
        first, second = self.names[0], self.names[-1]
        pairs = (((2, 3), (2,)), ((2, 3), (3, 2)), ((0, 3), (2, 3)), ((4,), (2, 3)))
        found = []
        for a, b in pairs:
            call = valid_call(op, {first: valid_tensor(a), second: valid_tensor(b), self.into: valid_tensor(a)})
            found.append(Violation(f"{list(a)} with {list(b)}", call, second))
        for shape in ((3, 2), (6,), (1, 2, 3), (), (2, 1), (1,) * (MAX_RANK + 1), (2, 0), (2, -3)):
            call = valid_call(op, {self.into: valid_tensor(shape)})
            found.append(Violation(f"{self.into} {list(shape)} for [2, 3]", call, self.into))
        inner = {first: valid_tensor((2, 1)), second: valid_tensor((1, 3)), self.into: valid_tensor((2, 1))}
        return [*found, Violation("output of an input's shape", valid_call(op, inner), self.into)]


class SameShape:
    """Exactly one shape for all."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"{listed(self.names)} must have the same shape"

    def run(self, call: Call) -> Failure | None:
        """Return the first shape that differs from the first tensor's."""
        arguments = call.arguments
        first = self.names[0]
        shape = arguments[first].shape
        for name in self.names:
            if arguments[name].shape != shape:
                expected = f"{list(shape)}, the shape of {first}"
                return Failure(INVALID, name, "shape", expected, str(list(arguments[name].shape)))
        call.shape = shape
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per parameter and other shape, broadcastable ones, empty ones and rank 0 included."""
        found = []
        for name in self.names[1:]:
            for shape in ((3, 2), (6,), (1, 3), (2, 1), (1, 2, 3), (), (0,), (2, 0)):
                call = valid_call(op, {name: valid_tensor(shape)})
                found.append(Violation(f"{name} {list(shape)} for [2, 3]", call, name))
        return found


class Promotes:
    """Inputs that promote to a type the operator knows, which is then the type to compute in."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"the dtypes of {listed(self.names)} must promote"

    def run(self, call: Call) -> Failure | None:
        """Return a failure if they do not."""
        arguments = call.arguments
        first = self.names[0]
        dtype = arguments[first].dtype
        for name in self.names[1:]:
            promoted = promote(dtype, arguments[name].dtype)
            if promoted is None or promoted not in call.op.tensors[first].allowed(call.product, call.one_call):
                expected = f"a type that promotes with {show_dtype(dtype)}"
                return Failure(INVALID, name, "dtype", expected, show_dtype(arguments[name].dtype), is_type=True)
            dtype = promoted
        call.promoted = dtype
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return the pairs of allowed types that do not promote; many operators have none."""
        first, second = self.names[0], self.names[-1]
        found = []
        for a in op.tensors[first].dtypes:
            for b in op.tensors[second].dtypes:
                if promote(a, b) not in op.tensors[first].dtypes:
                    call = valid_call(op, {first: valid_tensor(dtype=a), second: valid_tensor(dtype=b)})
                    found.append(Violation(f"{a.name} with {b.name}", call, second))
        return found


class Castable:
    """An output that the type computed in converts to."""

    status = INVALID

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> str:
        """Say what must hold."""
        return f"the dtype of {self.name} must be in the product's list, and the promoted dtype must convert to it"

    def run(self, call: Call) -> Failure | None:
        """Return a failure for other types."""
        name = self.name
        param = call.op.tensors[name]
        dtype = call.arguments[name].dtype
        if dtype not in param.allowed(call.product, call.one_call):
            return _wrong_dtype(name, param.allowed(call.product, call.one_call), dtype, call)
        if dtype not in param.converted and not can_cast(call.promoted, dtype):
            expected = f"a type that {call.promoted.name} converts to"
            return Failure(INVALID, name, "dtype", expected, show_dtype(dtype), is_type=True)
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per type that is refused, and per pair of listed types without conversion."""
        param = op.tensors[self.name]
        found = _dtype_violations(op, self.name, param.dtypes + param.converted)
        for source in op.tensors[op.inputs[0]].dtypes:
            for target in param.dtypes:
                if not can_cast(source, target):
                    inputs = {name: valid_tensor(dtype=source) for name in op.inputs}
                    call = valid_call(op, inputs | {self.name: valid_tensor(dtype=target)})
                    found.append(Violation(f"{source.name} into {target.name}", call, self.name))
        return found


class NotNegativeWith:
    """A scalar that must not be negative while a flag is set; NaN and -0.0 are not negative."""

    status = INVALID

    def __init__(self, scalar: str, flag: str) -> None:
        self.scalar = scalar
        self.flag = flag

    def describe(self) -> str:
        """Say what must hold."""
        return f"{self.scalar} must not be negative if {self.flag} is true (compared as double)"

    def run(self, call: Call) -> Failure | None:
        """Return a failure for a negative scalar, before it is rounded to a narrower type."""
        if call.arguments[self.flag]:
            value = call.arguments[self.scalar].to_double()
            if value < 0:
                return Failure(INVALID, self.scalar, "", f"at least 0 if {self.flag} is true", str(value))
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return negative scalars of several types, one so small that FLOAT would lose it."""
        found = []
        values = ((-1.0, DType.FLOAT), (-1e-50, DType.DOUBLE), (-3, DType.INT8), (float("-inf"), DType.FLOAT16))
        for value, dtype in values:
            call = valid_call(op, {self.flag: True, self.scalar: Scalar(value, dtype)})
            found.append(Violation(f"{self.scalar} {value} with {self.flag}", call, self.scalar))
        return found
