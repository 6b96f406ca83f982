"""The one-call functions on tensors, one per operator, made from its specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from nonpu._core import lib
from nonpu.engine.plan import MAX_OPERANDS
from nonpu.interop.onecall import declare
from nonpu.interop.torch import call
from nonpu.interop.torch.operators import PLAIN
from nonpu.spec.model import TensorParam

if TYPE_CHECKING:
    from collections.abc import Callable

    from nonpu.spec.model import Op

NUMBERS: Final = frozenset({float, int, bool, type(None), np.float32, np.float64})
"""Types of scalars by which calls are remembered; the value of a tensor may change."""

# Written out per operator because it must not cost more than a small kernel: no loops over parameters here.
FUNCTION = """
def {name}({parameters}, {last}):
    {guard}key = None
    if {memorable}:
        try:
            if out is None:
                key = ({layouts}, {scalars}product)
                known = _known.get(key)
                if known is not None and {usable}:
                    result = known.empty() if known.like < 0 else _empty_like(({tensors})[known.like])
                    if known.shared:
                        _limit_threads()
                    if not {into_result}:
                        return result
            else:
                key = ({layouts}, {scalars}product, out.dtype, out.shape, out.stride())
                known = _known.get(key)
                if known is not None and {usable}{usable_out}:
                    if known.shared:
                        _limit_threads()
                    if not {into_out}:
                        _increment_version(out)
                        return out
        except (TypeError, RuntimeError):
            key = None
    return {otherwise}(_op, ({names}), out, product, _known, key)
"""
GUARD = """if (
        _compiling() or not ({plain}) or _modes() or _transforms() or _duals._current_level >= 0
        or (({differentiable}) and _grad_enabled()) or _tracing()
    ):
        return _dispatch(_op, ({names}), out, product, _known, None)
    """


def one_call(op: Op, *, guarded: bool) -> Callable[..., Any]:
    """Return the function of an operator.

    Parameters
    ----------
    op
        The operator.
    guarded
        Whether PyTorch sees the calls that it has to see. If not, the function is the kernel that PyTorch calls.
    """
    given = [param for param in op.params if param.role == "in"]
    tensors = [param.python_name for param in given if isinstance(param, TensorParam)]
    others = [param.python_name for param in given if not isinstance(param, TensorParam)]
    names = "".join(f"{param.python_name}, " for param in given)
    kinds = [f"type({name}) in _plain" for name in tensors] + [f"not isinstance({name}, _tensor)" for name in others]
    guard = GUARD.format(
        plain=" and ".join([*kinds, "(out is None or type(out) in _plain)"]),
        differentiable=" or ".join(
            [f"{name}.requires_grad" for name in tensors] + ["out is not None and out.requires_grad"]
        ),
        names=names,
    )
    usable = {name: _usable(op, name) for name in (*tensors, "out")}
    source = FUNCTION.format(
        name=op.python_name,
        parameters=", ".join(declare(param) for param in given),
        guard=guard if guarded else "",
        otherwise="_dispatch" if guarded else "_run",
        # By position: from `nonpu.interop.onecall` both, from PyTorch's dispatcher the product.
        last="out=None, product=None" if guarded else "product=None, *, out=None",
        memorable=" and ".join([f"type({name}) in _numbers" for name in others]) if others else "True",
        layouts=", ".join(f"{name}.dtype, {name}.shape, {name}.stride()" for name in tensors),
        # A zero is not remembered by value, for its sign: -0.0 == 0.0.
        scalars="".join(f"{name} if {name} else repr({name}), {name}.__class__, " for name in others),
        usable=" and ".join(usable[name] for name in tensors),
        usable_out=f" and {usable['out']}",
        tensors="".join(f"{name}, " for name in tensors),
        into_result=_call_text("result", tensors),
        into_out=_call_text("out", tensors),
        names=names,
    )
    space: dict[str, Any] = {
        "_compiling": torch.compiler.is_dynamo_compiling,
        "_dispatch": call.dispatch,
        "_duals": forward_ad,
        "_empty_like": torch.empty_like,
        "_grad_enabled": torch.is_grad_enabled,
        "_increment_version": torch.autograd.graph.increment_version,
        "_known": {},
        "_limit_threads": call.limit_threads,
        "_missing": _missing,
        "_modes": torch._C._len_torch_dispatch_stack,
        "_numbers": NUMBERS,
        "_op": op,
        "_plain": PLAIN,
        "_run": call.run,
        "_run_ready": lib.nonpu_run_ready,
        "_tensor": Tensor,
        "_tracing": torch._C._is_tracing,
        "_transforms": torch._C._are_functorch_transforms_active,
    }
    exec(source, space)
    function: Callable[..., Any] = space[op.python_name]
    function.__module__ = __name__
    return function


def _usable(op: Op, name: str) -> str:
    """Return the condition under which a tensor of known layout is memory of the CPU that is its value."""
    has_complex = any(dtype.python_name.startswith("complex") for dtype in op.kernels)
    conj = f" and not (known.is_complex and {name}.is_conj())" if has_complex else ""
    return f"{name}.is_cpu and not {name}.is_neg(){conj}"


def _call_text(output: str, inputs: list[str]) -> str:
    """Return the expression that runs `known` on tensors of these names; it is 0 if the call has run."""
    names = [output, *inputs]
    addresses = [f"{name}.data_ptr() or _missing()" for name in names]
    return f"_run_ready(known.launch, {', '.join(addresses + ['0'] * (MAX_OPERANDS - len(names)))})"


def _missing() -> int:
    """Leave the short way for a tensor whose storage was taken away."""
    raise RuntimeError("no storage")
