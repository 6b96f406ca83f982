"""The aclnn interface in Python: both phases of every operator, under the names of the documents.

``aclnnXxxGetWorkspaceSize(...)`` takes the parameters of the C function without the two out-parameters and returns
``(workspace_size, executor)``; ``aclnnXxx(workspace, workspace_size, executor, stream)`` runs the executor.  All
parameters can be given by name.  A failing check raises `nonpu.AclnnError`.

>>> import numpy as np
>>> import nonpu
>>> from nonpu import Scalar, Tensor, aclnn
>>> grad_output, x, grad_input = np.ones(3, np.float32), np.arange(3, dtype=np.float32), np.empty(3, np.float32)
>>> size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(
...     gradOutput=Tensor.from_numpy(grad_output),
...     self=Tensor.from_numpy(x),
...     betaOptional=Scalar(1.0, "float32"),
...     gradInput=Tensor.from_numpy(grad_input),
... )
>>> size
0
>>> aclnn.aclnnSwishBackward(None, size, executor, None)
>>> nonpu.synchronize()
>>> grad_input
array([0.5      , 0.9276705, 1.0907843], dtype=float32)
"""

from __future__ import annotations

from nonpu.ops import OPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nonpu.spec.model import Op


def _define(op: Op) -> dict[str, Callable[..., Any]]:
    """Make the two functions of an operator, with the real parameter lists."""
    from nonpu.aclnn.phases import phase_one, phase_two

    names = ", ".join(param.name for param in op.params)
    source = (
        f"def {op.phase_one}({names}): return _one(_op, ({names},))\n"
        f"def {op.phase_two}(workspace, workspaceSize, executor, stream=None):"
        f" return _two(_op, workspace, workspaceSize, executor, stream)\n"
    )
    space: dict[str, Any] = {"_one": phase_one, "_two": phase_two, "_op": op, "__name__": __name__}
    exec(source, space)
    first, second = space[op.phase_one], space[op.phase_two]
    first.__doc__ = _document(op)
    second.__doc__ = (
        f"Run what {op.phase_one} planned.\n\n"
        "Parameters\n----------\n"
        "workspace : int, buffer or None\n    Memory of workspaceSize bytes; None where that is 0.\n"
        "workspaceSize : int\n    What phase one returned.\n"
        "executor : nonpu.Executor\n    What phase one returned; consumed unless it is repeatable.\n"
        "stream : nonpu.Stream or None\n    None: the default stream. Results are there after nonpu.synchronize.\n\n"
        "Raises\n------\nAclnnError\n    161001 for a null executor or workspace, 161002 for a consumed executor.\n"
    )
    return {op.phase_one: first, op.phase_two: second}


def _document(op: Op) -> str:
    lines = [f"Check the arguments of {op.api} and plan the run.", "", op.text, "", "Parameters", "----------"]
    for param in op.params:
        kind = {"const aclScalar *": "nonpu.Scalar", "bool": "bool"}.get(param.c_type, "nonpu.Tensor")
        lines += [f"{param.name} : {kind}{' or None' if param.optional else ''}", f"    {param.text}"]
    lines += [
        "",
        "Returns",
        "-------",
        "workspace_size : int",
        "    Bytes that phase two wants.",
        "executor : nonpu.Executor",
    ]
    lines += [
        "    The plan.",
        "",
        "Raises",
        "------",
        "AclnnError",
        "    161001 for a missing argument, 161002 for any",
    ]
    lines += ["    other violation of the contract; see the operator's page.", "", f"Source: document {op.document}."]
    return "\n".join(lines)


def __getattr__(name: str) -> Callable[..., Any]:
    """Define an operator's functions when one of them is asked for: C programs come through here and need none."""
    for op in OPS:
        if name in (op.phase_one, op.phase_two):
            functions = _define(op)
            globals().update(functions)
            return functions[name]
    raise AttributeError(f"module {__name__!r} has no function {name!r}")


def __dir__() -> list[str]:
    return sorted([name for op in OPS for name in (op.phase_one, op.phase_two)])
