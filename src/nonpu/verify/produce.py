"""From a request to arrays: judged by the contract, inputs drawn, correct results computed.

Everything here depends on the request alone and touches no file, so that it may run anywhere, and again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu import ops, products
from nonpu.dtypes import BY_VALUE, DType
from nonpu.spec.call import Call, infer_result
from nonpu.spec.checks import judge
from nonpu.spec.model import FlagParam, ScalarParam
from nonpu.status import AclnnError
from nonpu.tensor import Scalar, Tensor, broadcast_shapes, contiguous_strides
from nonpu.verify.formats import encode_arrays
from nonpu.verify.golden import oracle
from nonpu.verify.ranges import gather, positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nonpu.spec.model import Op
    from nonpu.verify.request import Request, TensorRequest

    Record = dict[str, Any]
    Files = dict[str, bytes]

_SOMEWHERE: Final = 1 << 40  # an address that is not null; nothing is read there
DOCUMENTED: Final = ".documented"


@dataclass(frozen=True)
class Judged:
    """A request and what the contract says of it.

    Parameters
    ----------
    request : Request
        The case.
    op : Op
        Its operator.
    shape, out : tuple of int, DType
        Shape and type of the output.
    promoted : DType or None
        Type to compute in; None if the contract refuses the call.
    scalars : dict
        By name: type and value, None for null.
    refusal : AclnnError or None
        Why the contract refuses the call.
    """

    request: Request
    op: Op
    shape: tuple[int, ...]
    out: int
    promoted: DType | None
    scalars: dict[str, Scalar | None]
    refusal: AclnnError | None

    def record(self) -> Record:
        """Return the case's line of the journal."""
        request = self.request
        record: Record = {"id": request.id, "index": request.index, "operator": self.op.api}
        if self.refusal is None:
            record["status"] = "done"
        else:
            record |= {"status": "refused", "error": str(self.refusal), "code": int(self.refusal.status)}
        record |= {"seed": request.seed, "product": request.product}
        if request.standard is not None:
            record["standard"] = request.standard
        record["inputs"] = [entry for param in self.op.params if param.role == "in" for entry in [self._input(param)]]
        out = BY_VALUE.get(self.out)
        name = self.op.output
        record["outputs"] = [
            {"name": name, "dtype": None if out is None else out.python_name, "shape": list(self.shape)}
        ]
        if self.promoted is not None:
            record["promoted"] = self.promoted.python_name
        notes = self._notes()
        return {**record, "notes": notes} if notes else record

    def _input(self, param: Any) -> Record:
        entry: Record = {"name": param.name}
        if isinstance(param, FlagParam):
            return {**entry, "kind": "attr", "value": self.request.flags[param.name]}
        if isinstance(param, ScalarParam):
            scalar = self.scalars[param.name]
            if scalar is None:
                return {**entry, "kind": "scalar", "dtype": None, "value": None}
            return {
                **entry,
                "kind": "scalar",
                "dtype": BY_VALUE[scalar.dtype].python_name,
                "value": _json(scalar.value),
            }
        tensor = self.request.tensors[param.name]
        if tensor is None:
            return {**entry, "kind": "tensor", "dtype": None, "shape": None}
        entry |= {"kind": "tensor", "dtype": tensor.dtype.python_name, "shape": list(tensor.shape)}
        if tensor.strides is not None:
            entry["strides"] = list(tensor.strides)
        return {**entry, "offset": tensor.offset} if tensor.offset else entry

    def _notes(self) -> list[str]:
        given = {**self.request.tensors, **self.request.scalars}
        return [f"{name}: {note}" for name, one in given.items() if one is not None for note in one.values.notes]

    def inputs(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return elements `start` to `stop` of every input tensor, broadcast to the output's shape, flat."""
        return {name: self._elements(name, self.shape, start, stop) for name in self.op.inputs}

    def own(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Return elements `start` to `stop` of an input tensor in its own shape, flat."""
        return self._elements(name, self._tensor(name).shape, start, stop)

    def nbytes(self) -> int:
        """Return the size of all arrays of the case."""
        inputs = [(self._tensor(name).shape, self._tensor(name).dtype) for name in self.op.inputs]
        arrays = [*inputs, *2 * [(self.shape, BY_VALUE[self.out])]]
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in arrays)

    def whole(self, name: str) -> NDArray[Any]:
        """Return an input tensor."""
        shape = self._tensor(name).shape
        return self.own(name, 0, math.prod(shape)).reshape(shape)

    def _tensor(self, name: str) -> TensorRequest:
        tensor = self.request.tensors[name]
        assert tensor is not None  # the contract has refused null tensors
        return tensor

    def _elements(self, name: str, over: Sequence[int], start: int, stop: int) -> NDArray[Any]:
        tensor = self._tensor(name)
        strides = contiguous_strides(tensor.shape) if tensor.strides is None else tensor.strides
        where = positions(tensor.shape, strides, tensor.offset, over, start, stop)
        stream = [param.name for param in self.op.params].index(name)
        return gather(tensor.values, self.request.seed, stream, where)

    def results(self, arrays: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the golden and what the documented formula gives, by key."""
        assert self.promoted is not None  # the contract has accepted the call
        judged = oracle(self.op.python_name)
        scalars = tuple(None if scalar is None else scalar.value for scalar in self.scalars.values())
        arguments: Any = (arrays, scalars, self.promoted, BY_VALUE[self.out])
        name = self.op.output
        return {name: judged.golden(*arguments), name + DOCUMENTED: judged.documented(*arguments)}


def judged(request: Request) -> Judged:
    """Ask the contract about a request."""
    op = ops.find(request.operator)
    streams = {param.name: index for index, param in enumerate(op.params)}
    scalars: dict[str, Scalar | None] = {}
    for name, wanted in request.scalars.items():
        if wanted is None:
            scalars[name] = None
        else:
            value = _number(wanted.values.draw(request.seed, streams[name], 0, 1)[0], wanted.values.dtype)
            scalars[name] = _scalar(value, wanted.dtype)
    arguments: dict[str, Any] = {**scalars, **request.flags}
    for name, tensor in request.tensors.items():
        arguments[name] = (
            None if tensor is None else _described(tensor.shape, tensor.dtype, tensor.strides, tensor.offset)
        )
    call = Call(op, arguments, products.find(request.product))
    output = request.output
    shape, dtype = infer_result(call) if any(request.tensors.values()) else ((), int(DType.FLOAT))
    shape = shape if output.shape is None else output.shape
    dtype = dtype if output.dtype is None else output.dtype
    arguments[op.output] = _described(shape, dtype, output.strides, output.offset)
    try:
        judge(call)
    except AclnnError as error:
        return Judged(request, op, shape, dtype, None, scalars, error)
    return Judged(request, op, shape, dtype, call.promoted, scalars, None)


def _described(shape: Sequence[int], dtype: int, strides: Sequence[int] | None, offset: int) -> Tensor:
    tensor = Tensor(shape, dtype, strides if strides is None or len(strides) == len(shape) else None, offset)
    tensor.address = _SOMEWHERE
    return tensor


def _scalar(value: Any, dtype: DType) -> Scalar:
    try:
        return Scalar(value, dtype)
    except (TypeError, ValueError):
        return Scalar.from_bytes(bytes(16), dtype)  # no type that an operator takes


def _number(value: Any, dtype: DType) -> Any:
    kind = np.asarray(value).dtype.kind
    if kind == "c":
        return complex(value)
    return float(value) if kind in "fV" else bool(value) if dtype == DType.BOOL else int(value)


def _json(value: Any) -> Any:
    if isinstance(value, complex):
        return [_json(value.real), _json(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def size(request: Request) -> int:
    """Return the number of elements of the largest tensor; 0 if the shapes do not fit together."""
    shapes = [tensor.shape for tensor in request.tensors.values() if tensor is not None]
    together: tuple[int, ...] | None = ()
    for shape in shapes:
        together = None if together is None else broadcast_shapes(together, shape)
    if together is None or any(min(shape, default=0) < 0 for shape in shapes):
        return 0
    return max(math.prod(shape) for shape in [*shapes, together])


# ---------------------------------------------------------------- tasks, which worker processes run


def make_cases(requests: Sequence[Request], format: str) -> list[tuple[Record, Files]]:
    """Return the journal's line and the contents of the files of each case."""
    return [make_case(request, format) for request in requests]


def make_case(request: Request, format: str) -> tuple[Record, Files]:
    """Return the journal's line of a case, and the contents of its files by what follows the stem in their paths."""
    try:
        case = judged(request)
        if case.refusal is not None:
            return case.record(), {}
        inputs = {name: case.whole(name) for name in case.op.inputs}
        arrays = inputs | case.results(list(inputs.values()))
        return case.record(), encode_arrays(arrays, format)
    except Exception as error:
        return failed(request, error), {}


def failed(request: Request, error: BaseException) -> Record:
    """Return the journal's line of a case that could not be made."""
    text = " ".join(str(error).split())
    return {
        "id": request.id,
        "index": request.index,
        "operator": ops.find(request.operator).api,
        "status": "failed",
        "error": f"{type(error).__name__}: {text}" if text else type(error).__name__,
        "seed": request.seed,
        "product": request.product,
    }


def make_part(request: Request, start: int, stop: int) -> dict[str, NDArray[Any]]:
    """Return elements `start` to `stop` of a case's outputs and of the inputs that have the output's shape, flat."""
    case = judged(request)
    inputs = case.inputs(start, stop)
    same = {name: array for name, array in inputs.items() if case._tensor(name).shape == case.shape}
    return same | case.results(list(inputs.values()))


def make_input(request: Request, name: str, start: int, stop: int) -> dict[str, NDArray[Any]]:
    """Return elements `start` to `stop` of an input, flat."""
    return {name: judged(request).own(name, start, stop)}
