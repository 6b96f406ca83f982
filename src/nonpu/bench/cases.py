"""The table of cases: operator, data types, layout and number of elements."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

SIZES = {"64": 64, "1Ki": 1 << 10, "64Ki": 1 << 16, "1Mi": 1 << 20, "16Mi": 1 << 24}
SIDES = {"1Ki": 32, "64Ki": 256, "1Mi": 1024, "16Mi": 4096}
"""Rows and columns of a case that has two axes."""
FLOATS = ("float32", "float16", "bfloat16", "float64")
COMPLEX = ("complex64", "complex128")
ITEM_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
LAYOUTS = ("contiguous", "transposed", "row-broadcast", "column-broadcast", "scalar-broadcast", "sliced", "mixed")
SLOPE, BETA = 0.01, 1.7


class Operand(NamedTuple):
    """One array: what is allocated, and the view of it that the operator gets.

    Attributes
    ----------
    shape : tuple of int
        Of the allocation, which is contiguous.
    dtype : str
        Element type.
    view : str
        Empty, ``T`` (transposed) or ``::2`` (every second column).
    """

    shape: tuple[int, ...]
    dtype: str
    view: str = ""

    @property
    def elements(self) -> int:
        """Elements of the allocation."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the allocation."""
        return self.elements * ITEM_SIZES[self.dtype]


class Case(NamedTuple):
    """One row of the table.

    Attributes
    ----------
    operator : str
        ``leaky``, ``sigmoid``, ``swish`` (beta 1) or ``swish-beta`` (another beta).
    dtype : str
        Element type of the result; ``mixed`` cases have a gradient of half the width.
    layout : str
        One of `LAYOUTS`.
    size : str
        One of `SIZES`.
    """

    operator: str
    dtype: str
    layout: str
    size: str

    @property
    def name(self) -> str:
        """What ``--cases`` matches, for example ``swish/float32/contiguous/1Mi``."""
        return "/".join(self)

    @property
    def elements(self) -> int:
        """Elements of the result."""
        return SIZES[self.size]

    @property
    def beta(self) -> float:
        """Factor of Swish."""
        return BETA if self.operator == "swish-beta" else 1.0

    def operands(self) -> tuple[Operand, Operand, Operand]:
        """Return gradient, forward value and result.

        The forward value is the operand that is transposed or broadcast; ``sliced`` concerns both inputs.
        """
        if self.layout in ("contiguous", "mixed"):
            flat = Operand((self.elements,), self.dtype)
            half = {"float32": "float16", "float64": "float32"}.get(self.dtype, self.dtype)
            return (flat._replace(dtype=half) if self.layout == "mixed" else flat), flat, flat
        side = SIDES[self.size]
        square = Operand((side, side), self.dtype)
        forward = {
            "transposed": square._replace(view="T"),
            "row-broadcast": square._replace(shape=(1, side)),
            "column-broadcast": square._replace(shape=(side, 1)),
            "scalar-broadcast": square._replace(shape=(1, 1)),
            "sliced": Operand((side, 2 * side), self.dtype, "::2"),
        }[self.layout]
        return (forward if self.layout == "sliced" else square), forward, square

    @property
    def nbytes(self) -> int:
        """Bytes that one engine allocates for the case."""
        return sum(operand.nbytes for operand in self.operands())


def _table() -> tuple[Case, ...]:
    large = ("1Ki", "64Ki", "1Mi", "16Mi")
    contiguous = [
        Case(operator, dtype, "contiguous", size)
        for operator, dtypes in (
            ("leaky", FLOATS),
            ("sigmoid", FLOATS + COMPLEX),
            ("swish", FLOATS),
            ("swish-beta", FLOATS),
        )
        for dtype in dtypes
        for size in (SIZES if dtype == "float32" else large)
    ]
    views = [
        Case(operator, "float32", layout, size)
        for operator in ("leaky", "sigmoid", "swish")
        for layout in LAYOUTS[1:]
        # The contract gives Swish one type for all tensors.
        if (operator, layout) != ("swish", "mixed")
        for size in large
    ]
    return (*contiguous, *views)


CASES = _table()


def is_quick(case: Case) -> bool:
    """Whether the case belongs to the short run: every operator, width and layout once, up to 1 Mi elements."""
    if case.size in ("64", "16Mi"):
        return False
    if case.layout != "contiguous":
        return case.operator == "leaky" and case.size == "1Mi"
    if case.dtype in ("float32", "bfloat16"):
        return case.operator != "swish-beta" or case.size == "64Ki"
    return case.size == "64Ki" and case.operator in ("sigmoid", "swish")


def select(pattern: str | None = None, quick: bool = False) -> list[Case]:
    """Return the cases whose name contains a match of the shell pattern, in the order of the table."""
    return [
        case
        for case in CASES
        if (not quick or is_quick(case)) and (pattern is None or fnmatch.fnmatchcase(case.name, f"*{pattern}*"))
    ]
