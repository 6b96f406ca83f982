"""The one-call functions: one per operator, made from its specification."""

from __future__ import annotations

import sys

import numpy as np

from nonpu._core import layouts, run_on
from nonpu.interop import dispatch
from nonpu.spec.call import in_python
from nonpu.spec.contract import WIDTH, wrap
from nonpu.spec.model import FlagParam, ScalarParam, TensorParam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nonpu.spec.model import Op


# Written out per operator because it must not cost more than a small kernel: no loops over parameters here.
FUNCTION = """
def {name}({parameters}, *, out=None, product=None):
    key = None
    if type({first}) is _array:
        key = _layouts({tensors}) if out is None else _layouts(out, {tensors})
    if key is not None:
        try:
            key = (key, {scalars}product)
            ready = _known.get(key)
            if ready is not None:
                result = _empty(ready.shape, ready.dtype) if out is None else out
                if _run_on(ready.launch, result, {tensors}):
                    return result
        except (TypeError, ValueError):
            key = None
    else:
        other = _others.get(type({first})) or _other(_op, ({tensors}, out), _others)
        if other is not None:
            return other({names}, out, product)
    return _run(_op, ({names},), out, product, _known, key)
"""

RESULT = (
    "    NumPy arrays and lists give a NumPy array, numbers alone a NumPy scalar, PyTorch's tensors a tensor; a tensor"
    " and an array do not go together. If one is a Dask array, so is the result, whose chunks are computed when Dask"
    " computes them; `out` must be None then."
)


def one_call(op: Op) -> Callable[..., Any]:
    """Return the function ``nonpu.<python_name>`` of an operator, with its real parameter list and documentation."""
    given = [param for param in op.params if param.role == "in"]
    tensors = [param.python_name for param in given if isinstance(param, TensorParam)]
    others = [param.python_name for param in given if not isinstance(param, TensorParam)]
    source = FUNCTION.format(
        name=op.python_name,
        parameters=", ".join(declare(param) for param in given),
        names=", ".join(param.python_name for param in given),
        first=tensors[0],
        tensors=", ".join(tensors),
        # A zero is not remembered by value, for its sign: -0.0 == 0.0.
        scalars="".join(f"{name} if {name} else repr({name}), {name}.__class__, " for name in others),
    )
    space: dict[str, Any] = {
        "_array": np.ndarray,
        "_empty": np.empty,
        "_known": {},
        "_layouts": layouts,
        "_other": _other,
        "_others": {},
        "_op": op,
        "_run": dispatch.run,
        "_run_on": run_on,
    }
    exec(source, space)
    function: Callable[..., Any] = space[op.python_name]
    function.__module__ = "nonpu"  # not as a global __name__: torch.compile would look there for the other globals
    function.__doc__ = _document(op)
    return function


def _other(op: Op, arrays: tuple[Any, ...], others: dict[type, Any]) -> Callable[..., Any] | None:
    """Return the function for the kind of arrays that is there, None for NumPy's; note it for the commonest types."""
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    tensor = getattr(torch, "Tensor", None)
    if tensor is not None and any(isinstance(array, tensor) for array in arrays):
        from nonpu.interop.torch.contracts import ONE_CALL

        found = others[tensor] = ONE_CALL[op.name]
        return found
    return None


def declare(param: Any) -> str:
    """Return a parameter with its default, as the one-call function declares it."""
    if isinstance(param, TensorParam):
        return param.python_name
    return f"{param.python_name}={None if param.optional else param.default!r}"


def _document(op: Op) -> str:
    """Return the documentation, in Python's names of parameters and types."""
    lines = [op.text, "", "Parameters", "----------"]
    for param in op.params:
        if isinstance(param, TensorParam) and param.role == "in":
            types = ", ".join(dtype.python_name for dtype in param.dtypes + param.one_call)
            lines += [f"{param.python_name} : array", f"    {in_python(op, param.text)}"]
            lines += [f"    Types: {types}. Any strides, negative ones too."]
        elif isinstance(param, ScalarParam):
            lines += [f"{param.python_name} : number or nonpu.Scalar{', optional' if param.optional else ''}"]
            lines += [f"    {in_python(op, param.text)}"]
        elif isinstance(param, FlagParam):
            lines += [f"{param.python_name} : bool", f"    {in_python(op, param.text)}"]
    target = op.tensors[op.output]
    kinds = ", ".join(dtype.python_name for dtype in target.dtypes + target.converted + target.one_call)
    lines += ["out : array, optional", f"    Where to put the result. Types: {kinds}. Any strides without overlap."]
    lines += [
        "product : str, optional",
        "    Product or SoC whose contract is checked; the default is NONPU_PRODUCT's.",
    ]
    inputs = " and ".join(in_python(op, name) for name in op.inputs)
    result = f"the type that {inputs} promote to" if op.result_type == "promote" else f"the one type of {inputs}"
    lines += ["", "Returns", "-------", "array"]
    lines += [f"    `out`, or a new array: of the shape that {inputs} broadcast to, and of {result}."]
    lines += [RESULT]
    lines += [
        "",
        "Raises",
        "------",
        "nonpu.AclnnError",
        "    Also a ValueError (and a TypeError where a type is at fault):",
    ]
    lines += ["    the contract refuses the call; nothing is written.", "", "Notes", "-----"]
    lines += [in_python(op, note) for note in op.notes]
    lines += ["", f"Source: document {op.document}."]
    if op.example:
        lines += ["", "Examples", "--------", ">>> import numpy as np", ">>> import nonpu", *op.example.splitlines()]
    return "\n".join(piece for line in lines for piece in _broken(line))


def _broken(line: str) -> list[str]:
    """Return a line as several where it would be too long for a screen."""
    if len(line) <= WIDTH or line.startswith(">>>"):
        return [line]
    return wrap(line.strip(), len(line) - len(line.lstrip()))
