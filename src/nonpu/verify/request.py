"""What one case asks for, as plain data that travels to worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nonpu.dtypes import DType
    from nonpu.verify.ranges import Range


@dataclass(frozen=True)
class TensorRequest:
    """A tensor to make.

    Parameters
    ----------
    dtype, shape, strides, offset
        As in `nonpu.Tensor`; strides None: contiguous.
    values : Range
        What it holds.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    offset: int
    values: Range


@dataclass(frozen=True)
class ScalarRequest:
    """A scalar to make: its type, and what to draw its value from."""

    dtype: DType
    values: Range


@dataclass(frozen=True)
class OutputRequest:
    """What is said of the output; None is inferred from the inputs."""

    dtype: DType | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    offset: int = 0


@dataclass(frozen=True)
class Request:
    """One case.

    Parameters
    ----------
    id, index : str, int
        Its name, and its position in the file.
    operator : str
        Python name of the operator.
    product : str
        SoC name.
    seed : int
        Of this case.
    standard : str or None
        Name of a precision standard, as the file has it.
    tensors, scalars, flags : dict
        By parameter name, in contract order. None is a null pointer.
    output : OutputRequest
        The output.
    """

    id: str
    index: int
    operator: str
    product: str
    seed: int
    standard: str | None
    tensors: dict[str, TensorRequest | None] = field(default_factory=dict)
    scalars: dict[str, ScalarRequest | None] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    output: OutputRequest = field(default_factory=OutputRequest)


def case_seed(seed: int, case_id: str) -> int:
    """Return the seed of a case: 64 bits that depend on the file's seed and the case's id."""
    return int.from_bytes(blake2b(f"{seed}:{case_id}".encode(), digest_size=8).digest(), "little")
