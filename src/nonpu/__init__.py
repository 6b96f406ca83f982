"""Ascend aclnn operators on any CPU: the C interface, the two-phase Python interface and one-call functions.

The operators' one-call functions (`leaky_relu_backward`, `sigmoid_backward`, `swish_backward`) take NumPy and Dask
arrays and PyTorch's tensors; the module `aclnn` has both phases of every operator under the names of the documents.
``nonpu.ops`` holds the contracts: ``nonpu.ops["swish_backward"]`` shows one. With PyTorch, ``import nonpu.torch``
brings activations whose backward passes are the operators.

>>> import numpy as np
>>> import nonpu
>>> nonpu.swish_backward(np.ones(2, np.float32), np.array([0, 1], np.float32))
array([0.5      , 0.9276705], dtype=float32)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# Where the public names live; loaded when first used, since C programs import this package too and need few of them.
# What a type checker sees is the stub beside this file.
_HOMES = {
    "AclnnError": "nonpu.status",
    "AclnnTypeError": "nonpu.status",
    "DType": "nonpu.dtypes",
    "Executor": "nonpu.aclnn.executor",
    "Scalar": "nonpu.tensor",
    "Status": "nonpu.status",
    "Stream": "nonpu.aclnn.executor",
    "Tensor": "nonpu.tensor",
    "synchronize": "nonpu.aclnn.executor",
}
_MODULES = ("aclnn", "ops")


def _public_names() -> list[str]:
    """Return the names that ``from nonpu import *`` binds."""
    from nonpu.ops import OPS

    return sorted([*_HOMES, *_MODULES, *(op.python_name for op in OPS)])


def __getattr__(name: str) -> Any:
    import importlib

    value: Any
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"nonpu.{name}")
    elif name == "__all__":
        value = _public_names()  # not before it is asked for: it takes the operators
    elif name.startswith("_"):
        raise AttributeError(f"module 'nonpu' has no attribute {name!r}")
    else:
        from nonpu.ops import OPS

        op = next((op for op in OPS if op.python_name == name), None)
        if op is None:
            raise AttributeError(f"module 'nonpu' has no attribute {name!r}")
        from nonpu.interop.onecall import one_call

        value = one_call(op)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*_public_names(), "__version__"]
