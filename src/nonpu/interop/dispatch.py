"""Which module a one-call function's arrays belong to."""

from __future__ import annotations

import sys

from nonpu.interop import numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nonpu.interop.ready import Ready
    from nonpu.spec.model import Op


def run(
    op: Op, values: tuple[Any, ...], out: Any, product: str | None, known: dict[Any, Ready], key: Any = None
) -> Any:
    """Run a call in the module of its arrays; with a `key` they are all NumPy's, see `nonpu.interop.numpy.run`."""
    # Whoever has a Dask array has imported its module.
    loaded = sys.modules.get("dask.array")
    if key is None and loaded is not None:
        array = getattr(loaded, "Array", ())
        if any(isinstance(value, array) for value in (*values, out)):
            from nonpu.interop import dask

            return dask.run(op, values, out, product)
    return numpy.run(op, values, out, product, known, key)
