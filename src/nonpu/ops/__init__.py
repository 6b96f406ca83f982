"""The registry of operators: every module of this package that defines ``SPEC``, sorted by name and frozen."""

from __future__ import annotations

import importlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nonpu.spec.model import Op


def _discover() -> tuple[Op, ...]:
    # A plain directory listing: pkgutil costs several milliseconds of imports at the start of every C program.
    names = {entry.split(".")[0] for path in __path__ for entry in os.listdir(path) if entry.endswith((".py", ".pyc"))}
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names if not name.startswith("_"))
    specs: list[Op] = sorted((module.SPEC for module in modules), key=lambda op: op.name)
    return tuple(specs)


# The position in this tuple is the number by which the generated C entries name an operator.
OPS: Final = _discover()


def find(name: str) -> Op:
    """Return the operator called ``SwishBackward``, ``aclnnSwishBackward`` or ``swish_backward``, in any case.

    Raises
    ------
    ValueError
        If there is none; the message lists all.
    """
    wanted = name.lower().removeprefix("aclnn")
    for op in OPS:
        if wanted in (op.name.lower(), op.python_name):
            return op
    raise ValueError(f"operator must be one of {', '.join(op.api for op in OPS)} (got {name!r})")
