"""What a call on PyTorch's tensors costs, beside PyTorch's own operators, paired in one run.

Usage: python benchmarks/torch_calls.py [--elements N] [--rounds N] [--json FILE]

Every pair is timed in turns, round by round, in one thread, and the medians of both are printed with the median of the
rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import nonpu
import nonpu.torch

CALLS = 2000
Pair = tuple[Callable[[], object], Callable[[], object]]


def with_out(operator: str, grad: torch.Tensor, forward: torch.Tensor) -> Pair:
    """Return our call and PyTorch's with `out=`: of ``leaky``, ``sigmoid`` or ``swish``."""
    aten, out, other = torch.ops.aten, torch.empty_like(grad), torch.empty_like(grad)
    return {
        "leaky": (
            lambda: nonpu.leaky_relu_backward(grad, forward, 0.01, out=out),
            lambda: aten.leaky_relu_backward.grad_input(grad, forward, 0.01, False, grad_input=other),
        ),
        "sigmoid": (
            lambda: nonpu.sigmoid_backward(grad, forward, out=out),
            lambda: aten.sigmoid_backward.grad_input(grad, forward, grad_input=other),
        ),
        "swish": (
            lambda: nonpu.swish_backward(grad, forward, out=out),
            lambda: aten.silu_backward.grad_input(grad, forward, grad_input=other),
        ),
    }[operator]


def pairs(elements: int) -> dict[str, Pair]:
    """Return ours and PyTorch's call by title."""
    grad, x = torch.randn(elements), torch.randn(elements)
    y, aten, ours = torch.sigmoid(x), torch.ops.aten, torch.ops.nonpu
    leaf = x.clone().requires_grad_()
    return {
        "leaky_relu_backward, out=": with_out("leaky", grad, x),
        "sigmoid_backward, out=": with_out("sigmoid", grad, y),
        "swish_backward, out= (silu_backward)": with_out("swish", grad, x),
        "sigmoid_backward, new result": (
            lambda: nonpu.sigmoid_backward(grad, y),
            lambda: aten.sigmoid_backward.default(grad, y),
        ),
        "torch.ops.nonpu.sigmoid_backward": (
            lambda: ours.sigmoid_backward.default(grad, y),
            lambda: aten.sigmoid_backward.default(grad, y),
        ),
        "nonpu.torch.sigmoid, forward and backward": (
            lambda: nonpu.torch.sigmoid(leaf).backward(grad),
            lambda: torch.sigmoid(leaf).backward(grad),
        ),
    }


def seconds(call: Callable[[], object], calls: int = 1) -> float:
    """Return the seconds per call of a loop."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(elements: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return microseconds of both calls, and their ratio, by title."""
    found = {}
    for title, (ours, theirs) in pairs(elements).items():
        seconds(ours, CALLS // 10), seconds(theirs, CALLS // 10)
        times = [(seconds(ours, CALLS), seconds(theirs, CALLS)) for _ in range(rounds)]
        found[title] = {
            "nonpu_us": statistics.median(own for own, _ in times) * 1e6,
            "torch_us": statistics.median(other for _, other in times) * 1e6,
            "ratio": statistics.median(own / other for own, other in times),
        }
    return found


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description="What a call on PyTorch's tensors costs, beside PyTorch's own.")
    parser.add_argument("--elements", type=int, default=1024, help="FLOAT elements per tensor (default 1024)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each pair (default 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(options.elements, options.rounds)
    print(f"{'microseconds per call':44}{'nonpu':>9}{'torch':>9}{'ratio':>8}")
    for title, row in found.items():
        print(f"{title:44}{row['nonpu_us']:9.2f}{row['torch_us']:9.2f}{row['ratio']:8.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
