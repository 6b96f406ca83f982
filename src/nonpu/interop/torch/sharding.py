"""How DTensor may split calls over a mesh.

The operators are elementwise.  Any axis of the result may be split, inputs that are broadcast along it staying whole;
and where an operator is linear in one input, partial sums of that input give partial sums of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from nonpu.interop.torch.operators import PRODUCT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nonpu.interop.torch.operators import Operator

Choice = tuple[list[Placement], list[Placement | None]]

_registered: Final[set[object]] = set()


def register(operators: Iterable[Operator]) -> None:
    """Register the strategies of operators that have none yet."""
    for operator in operators:
        if operator.call not in _registered:
            _registered.add(operator.call)
            register_sharding(operator.call)(_strategies(operator))


def _strategies(operator: Operator) -> Any:
    def choices(*given: Any, **named: Any) -> list[Choice]:
        """Return the acceptable placements of the result, each with those of the arguments."""
        pairs = list(zip(given, (*operator.parameters, PRODUCT), strict=False))
        # Scalars have no axes.
        shapes = [tuple(value.shape) if parameter.is_array else () for value, parameter in pairs]
        rank = max(len(shape) for shape in shapes)
        whole: list[Placement | None] = [Replicate() if parameter.is_tensor else None for _, parameter in pairs]
        found: list[Choice] = [([Replicate()], whole)]
        for axis in range(rank):
            split = [_split(axis, rank, *pair) for pair in zip(shapes, whole, strict=True)]
            if split != whole:
                found.append(([Shard(axis)], split))
        if operator.linear is not None:
            partial = list(whole)
            partial[operator.linear] = Partial()
            found.append(([Partial()], partial))
        return found

    return choices


def _split(axis: int, rank: int, shape: tuple[int, ...], placement: Placement | None) -> Placement | None:
    """Return the placement of an argument when an axis of the result is split."""
    own = axis - (rank - len(shape))
    return placement if own < 0 or shape[own] == 1 else Shard(own)
