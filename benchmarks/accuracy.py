"""Largest errors of the operators against the exact value, per data type: ``python benchmarks/accuracy.py [--seed N]``.

Every result is compared with the exact real value of the documented formula (``nonpu.verify``), in units in the last
place (ULP) of the result's type.  The arguments, other ones for each seed: ordinary numbers, random bit patterns, the
neighbourhood of the root of the Swish derivative for several beta, and its tails.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import nonpu
from nonpu.dtypes import DType
from nonpu.ops import OPS
from nonpu.spec.model import Op
from nonpu.verify import rounding, ulp
from nonpu.verify.golden import oracle

ROOT = -1.2784645427610738
DOUBLE_ROOTS = 2000
BETAS = (1.0, 1.0, 1.702, -0.3, 1e-3, 40.0)
SLOPES = (0.01, 0.3, -2.5)
COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)

Array = np.ndarray[Any, Any]


def convert(values: Array, dtype: DType) -> Array:
    """Round doubles, or pairs of doubles for a complex type, to a type."""
    if dtype in COMPLEX:
        return (values + 1j * np.roll(values, 1)).astype(dtype.python_name)
    return rounding.convert(values, dtype)


def random_bits(rng: np.random.Generator, count: int, dtype: DType) -> Array:
    """Random finite bit patterns: every exponent is as likely as any other."""
    raw = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    values = raw.view(dtype.python_name) if dtype is not DType.BFLOAT16 else rounding.from_bits(raw.view("u2"), dtype)
    wide = rounding.decode(values)
    return values[np.isfinite(wide)]


def argument_sets(
    op: Op, dtype: DType, rng: np.random.Generator, count: int
) -> Iterator[tuple[str, Array, Array, tuple[float, ...]]]:
    """Yield name, gradient, primal input and scalars."""
    scalars = {"leaky_relu_backward": SLOPES, "swish_backward": BETAS}.get(op.python_name)
    for scalar in scalars if scalars else (None,):
        extra = () if scalar is None else (scalar,)
        grad = convert(rng.standard_normal(count), dtype)
        yield "ordinary", grad, convert(rng.standard_normal(count) * 3, dtype), extra
        yield "unit interval", grad, convert(rng.random(count), dtype), extra
        first, second = random_bits(rng, count, dtype), random_bits(rng, count, dtype)
        size = min(first.size, second.size)
        yield "bit patterns", first[:size], second[:size], extra
        if op.python_name == "swish_backward":
            # Multi-precision decides each of these for DOUBLE, a millisecond each.
            size = min(count, DOUBLE_ROOTS) if dtype is DType.DOUBLE else count
            near = ROOT * (1 + rng.standard_normal(size) * 2.0 ** -rng.integers(1, 53, size)) / extra[0]
            yield "root", grad[:size], convert(near, dtype), extra
            yield "tails", grad, convert(rng.uniform(-760, 120, count) / extra[0], dtype), extra


def measure(op: Op, dtype: DType, seed: int, count: int) -> tuple[float, float, str]:
    """Return largest error in ULP, share of correctly rounded results, and the set of the largest error."""
    rng = np.random.default_rng([seed, int(dtype)])
    worst, where, right, total = 0.0, "", 0, 0
    with np.errstate(all="ignore"):
        for name, grad, primal, scalars in argument_sets(op, dtype, rng, count):
            reference = oracle(op.python_name).reference([grad, primal], scalars, dtype)
            actual = getattr(nonpu, op.python_name)(grad, primal, *scalars)
            errors = np.abs(ulp.errors(actual, reference, dtype))
            golden = oracle(op.python_name).golden([grad, primal], scalars, dtype, dtype)
            equal = (rounding.decode(actual) == rounding.decode(golden)) | np.isnan(rounding.decode(golden))
            right, total = right + int(equal.sum()), total + equal.size
            if errors.max() > worst:
                worst, where = float(errors.max()), name
    return worst, right / total, where


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other arguments")
    parser.add_argument("--count", type=int, default=200_000, help="elements per set")
    options = parser.parse_args()
    print("| operator | data type | largest error, ULP | in the set | correctly rounded |\n|---|---|---|---|---|")
    for op in OPS:
        for dtype in op.kernels:
            worst, share, where = measure(op, dtype, options.seed, options.count)
            print(f"| {op.name} | {dtype.name} | {worst:.4f} | {where} | {100 * share:.3f} % |", flush=True)


if __name__ == "__main__":
    main()
