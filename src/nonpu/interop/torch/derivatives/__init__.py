"""The derivatives of the operators, one module per operator, named as its one-call function.

``LINEAR`` names the input in which the operator is linear: its derivative is the operator itself.  ``PARTIALS`` maps
every other input, and every scalar, to a function of a tensor ``v`` and the operator's arguments in order; it returns
``v`` times the partial derivative, of the shape that all of them broadcast to.  The same functions serve reverse and
forward mode.  They are made of PyTorch's operators, so that PyTorch knows their derivatives in turn.

Real types compute in DOUBLE: the caller rounds once, to the type that is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from nonpu.spec.model import Op


class Derivatives(NamedTuple):
    """What is known of an operator."""

    linear: str | None
    partials: dict[str, Callable[..., torch.Tensor]]


def find(op: Op) -> Derivatives:
    """Return the derivatives of an operator; none if no module of its name is there."""
    name = f"{__name__}.{op.python_name}"
    if importlib.util.find_spec(name) is None:
        return Derivatives(None, {})
    module = importlib.import_module(name)
    return Derivatives(module.LINEAR, module.PARTIALS)


def wide(value: torch.Tensor) -> torch.Tensor:
    """Return a real tensor as DOUBLE, a complex one as it is."""
    return value if value.is_complex() else value.double()
