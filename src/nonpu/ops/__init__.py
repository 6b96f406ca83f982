"""The registry of operators: every module of this package that defines ``SPEC``, sorted by name and frozen."""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that contain a name, or else the one that is spelt much like it."""
    import difflib

    def letters(word: str) -> str:
        return word.lower().replace("_", "").removeprefix("aclnn")

    wanted = letters(name)
    by_letters = {letters(word): word for word in known}
    inside = [word for spelt, word in by_letters.items() if wanted and wanted in spelt]
    return inside if inside else [by_letters[word] for word in difflib.get_close_matches(wanted, by_letters, n=1)]


class Registry(type(sys)):  # type: ignore[misc]  # the class of modules
    """This module itself: ``nonpu.ops["swish_backward"]`` is the contract of an operator."""

    OPS: tuple[Op, ...]

    def __getitem__(self, name: str) -> Op:
        """Return an operator by its Python or C name, in any case; KeyError with the likely names if there is none."""
        if isinstance(name, str):
            try:
                return find(name)
            except ValueError:
                pass
        names = [op.python_name for op in OPS]
        close = similar(name, names) if isinstance(name, str) else []
        question = f"did you mean {' or '.join(close)}?" if close else f"the operators are {', '.join(names)}"
        raise KeyError(f"no operator {name!r}: {question}")

    def __iter__(self) -> Iterator[str]:
        """Yield the Python names."""
        return iter([op.python_name for op in OPS])

    def __len__(self) -> int:
        return len(OPS)

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except KeyError:
            return False
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


sys.modules[__name__].__class__ = Registry
