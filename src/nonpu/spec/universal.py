"""The checks that every operator has: null, handles, product before its own; empty tensors and layout after them."""

from __future__ import annotations

from nonpu.products import LINES
from nonpu.spec.call import Call, Failure, Invalid, Violation, valid_call, valid_tensor
from nonpu.spec.layout import find_fault
from nonpu.status import Status
from nonpu.tensor import Scalar, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nonpu.spec.model import Op

INVALID: Final = Status.ACLNN_ERR_PARAM_INVALID


def listed(names: tuple[str, ...]) -> str:
    """Return names as text: ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class NotNull:
    """Mandatory parameters, tested in C order."""

    status = Status.ACLNN_ERR_PARAM_NULLPTR

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return f"{listed(self.names)} must not be null"

    def run(self, call: Call) -> Failure | None:
        """Return the first null."""
        arguments = call.arguments
        for name in self.names:
            if arguments[name] is None:
                kind = "tensor" if name in call.op.tensors else "scalar"
                return Failure(self.status, name, "", f"a {kind}", "null")
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per parameter."""
        return [Violation(f"{name} null", valid_call(op, {name: None}), name) for name in self.names]


class Handles:
    """Live objects of the right kind; null has been refused before where it may not be."""

    status = INVALID

    def __init__(self, op: Op, names: tuple[str, ...]) -> None:
        self.kinds = tuple((name, Tensor if name in op.tensors else Scalar) for name in names)

    def describe(self) -> str:
        """Say what must hold."""
        return "every tensor and scalar must be a live object"

    def run(self, call: Call) -> Failure | None:
        """Return the first argument that is something else."""
        arguments = call.arguments
        for name, kind in self.kinds:
            value = arguments[name]
            if not isinstance(value, kind) and value is not None:
                word = "tensor" if kind is Tensor else "scalar"
                actual = repr(value) if isinstance(value, Invalid) else type(value).__name__
                return Failure(INVALID, name, "", f"a live {word}", actual, is_type=not isinstance(value, Invalid))
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per parameter."""
        gone = Invalid("a destroyed object")
        return [Violation(f"{name} destroyed", valid_call(op, {name: gone}), name) for name, _ in self.kinds]


class OnProduct:
    """The product must be one that the document lists."""

    status = INVALID

    def __init__(self, op: Op) -> None:
        self.products = op.products

    def describe(self) -> str:
        """Say what must hold."""
        names = tuple(line.name for line in LINES if line.line in self.products)
        return f"the product must support the operator: {'; '.join(names)}"

    def run(self, call: Call) -> Failure | None:
        """Return a failure on other products."""
        product = call.product
        if product.line in self.products:
            return None
        names = "; ".join(line.name for line in LINES if line.line in self.products)
        return Failure(INVALID, "product", "", f"one of {names}", f"{product.name}, {product.soc}")

    def violations(self, op: Op) -> list[Violation]:
        """Return one call per unsupported product."""
        lines = [line for line in LINES if line.line not in self.products]
        return [Violation(f"product {line.line}", valid_call(op, product=line.soc), "product") for line in lines]


class Empty:
    """No condition: notes that a tensor is empty. The call then succeeds, needs no workspace and writes nothing."""

    status = Status.ACLNN_SUCCESS

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what happens."""
        return f"if {' or '.join(self.names)} is empty: success, workspaceSize 0, nothing is written"

    def run(self, call: Call) -> Failure | None:
        """Note whether there is nothing to do."""
        arguments = call.arguments
        for name in self.names:
            if arguments[name].is_empty:
                call.empty = True
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return nothing: this cannot fail."""
        return []


class Layout:
    """Views inside their memory, and an output whose elements do not share memory. Empty calls touch none."""

    status = INVALID

    def __init__(self, *names: str) -> None:
        self.names = names

    def describe(self) -> str:
        """Say what must hold."""
        return (
            f"the views of {listed(self.names)} must lie inside their storage shape and their memory, with strides that"
            " are not negative and data that is not null; no two elements of the output may share memory"
        )

    def run(self, call: Call) -> Failure | None:
        """Return the first fault."""
        if call.empty:
            return None
        output = call.op.output
        for name in self.names:
            fault = find_fault(call.arguments[name], name == output, call.one_call, call.find_block, call.probe)
            if fault is not None:
                return Failure(INVALID, name, *fault)
        return None

    def violations(self, op: Op) -> list[Violation]:
        """Return every kind of fault, for every tensor it can befall."""
        found = []
        for name in self.names:
            for label, tensor, needs_extent in _layout_faults(name == op.output):
                found.append(Violation(f"{name} {label}", valid_call(op, {name: tensor}), name, needs_extent))
        return found


def _layout_faults(is_output: bool) -> list[tuple[str, Tensor, bool]]:
    """Return tensors of shape [2, 3] with one fault each, and whether it shows only in known memory."""
    null = valid_tensor()
    null.address, null.extent = 0, None
    beyond_memory = valid_tensor(strides=(3, 1), storage_shape=(2, 3))
    beyond_memory.storage_shape, beyond_memory.offset = None, 2**20
    far, huge = valid_tensor(offset=2**63 - 1), valid_tensor(strides=(2**63 - 1, 1))
    far.storage_shape = huge.storage_shape = (2**62, 2**62)
    faults = [
        ("data null", null, False),
        ("beyond its storage", valid_tensor(offset=1), False),
        ("strided beyond its storage", valid_tensor(strides=(4, 1)), False),
        ("before its storage", valid_tensor(offset=-1, storage_shape=(20,)), False),
        ("with negative strides", valid_tensor(strides=(-3, 1), offset=3), False),
        ("with a negative storage dimension", valid_tensor(storage_shape=(-2, -3)), False),
        ("with overflowing strides", huge, False),
        ("with an overflowing offset", far, False),
        ("beyond its memory", beyond_memory, True),
    ]
    if is_output:
        faults += [
            ("with stride 0", valid_tensor(strides=(0, 1)), False),
            ("with overlapping rows", valid_tensor(strides=(2, 1)), False),
            ("with interleaved overlapping axes", valid_tensor(strides=(2, 2), storage_shape=(20,)), False),
        ]
    return faults
