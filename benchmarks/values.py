"""Whether results take longer for some values than for others, beside PyTorch, paired in one run.

Usage: python benchmarks/values.py [--elements N] [--rounds N] [--json FILE]

PyTorch's `out=` operators and ours are timed in turns, in one thread, on the same tensors. A ratio is the median of the
rounds' ratios: above 1 nonpu is faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch_calls import seconds, with_out

DTYPES = {
    "leaky": (torch.float32, torch.float16, torch.bfloat16),
    "sigmoid": (torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    "swish": (torch.float32, torch.float16, torch.bfloat16, torch.float64),
}
Values = Callable[[torch.Tensor], torch.Tensor]
# What becomes of standard normal numbers, as the forward value; of Sigmoid that is its output.
INPUTS: dict[str, Values] = {
    "normal": lambda z: z,
    "normal, deviation 30": lambda z: 30 * z,
    "normal, deviation 300": lambda z: 300 * z,
    "0 to 255": lambda z: torch.special.ndtr(z) * 255,
    "-100": lambda z: torch.full_like(z, -100),
    "half zeros": torch.relu,
    "1 % infinite": lambda z: torch.where(z > 2.3, torch.inf, z),
}
OUTPUTS: dict[str, Values] = {
    "sigmoid of normal": torch.sigmoid,
    "sigmoid of deviation 3": lambda z: torch.sigmoid(3 * z),
    "sigmoid of deviation 30": lambda z: torch.sigmoid(30 * z),
    "half zeros": torch.relu,
    "1 % infinite": INPUTS["1 % infinite"],
}


def measure(elements: int, rounds: int) -> list[dict[str, str | float]]:
    """Return a row per operator, type and kind of values."""
    rows: list[dict[str, str | float]] = []
    generator = torch.Generator().manual_seed(1)
    normal, other = (torch.randn(elements, generator=generator, dtype=torch.float64) for _ in range(2))
    for operator, dtypes in DTYPES.items():
        for dtype in dtypes:
            for title, change in (OUTPUTS if operator == "sigmoid" else INPUTS).items():
                mine, theirs = with_out(operator, other.to(dtype), change(normal).to(dtype))
                seconds(mine), seconds(theirs)
                times = [(seconds(mine), seconds(theirs)) for _ in range(rounds)]
                rows.append(
                    {
                        "operator": operator,
                        "dtype": str(dtype).removeprefix("torch."),
                        "values": title,
                        "nonpu_us": statistics.median(ours for ours, _ in times) * 1e6,
                        "torch_us": statistics.median(theirs for _, theirs in times) * 1e6,
                        "ratio": statistics.median(theirs / ours for ours, theirs in times),
                    }
                )
    return rows


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description="Whether results take longer for some values than for others.")
    parser.add_argument("--elements", type=int, default=65536, help="elements per tensor (default 65536)")
    parser.add_argument("--rounds", type=int, default=200, help="rounds of each pair (default 200)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)  # nonpu uses no more on tensors
    rows = measure(options.elements, options.rounds)
    print(f"{'microseconds':18}{'':28}{'nonpu':>9}{'torch':>9}{'ratio':>8}")
    for row in rows:
        title = f"{row['operator']:9}{row['dtype']:11}{row['values']:26}"
        print(f"{title:46}{row['nonpu_us']:9.1f}{row['torch_us']:9.1f}{row['ratio']:8.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
