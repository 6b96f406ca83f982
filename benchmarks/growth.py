"""Whether memory grows over a million calls: resident size before and after, through C and in Python.

A kind of calls is made for a tenth of the number first, so that pools and tables have their size, and then measured.
Exit status 1 if one of them grew by more than the limit.

Usage: python benchmarks/growth.py [--calls N] [--limit KIB] [--json FILE] [KIND ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import nonpu
from nonpu import AclnnError, Scalar, Tensor, aclnn
from nonpu.cli import Failure
from nonpu.cli.compilation import compiled
from nonpu.cli.launch import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).with_name("growth.cpp")
C_KINDS = (
    "changing_shapes",
    "new_addresses",
    "streams_and_events",
    "contexts_and_memory",
    "lists_and_arrays",
    "failing_calls",
)
DATA = np.ones((3, 4096), np.float32)


def one_call(number: int) -> None:
    """Make a one-call function plan and run for a shape and a scalar that change."""
    count = number % 4000 + 1
    nonpu.leaky_relu_backward(DATA[0, :count], DATA[1, :count], 0.001 * (number % 977), out=DATA[2, :count])


def one_call_allocates(number: int) -> None:
    """Make a one-call function allocate its result."""
    nonpu.swish_backward(DATA[0, : number % 100 + 1], DATA[1, : number % 100 + 1])


def two_phases(number: int) -> None:
    """Make both phases on tensors that are new each time."""
    count = number % 4000 + 1
    tensors = [Tensor.from_numpy(row[:count]) for row in DATA]
    beta = Scalar(1 + number % 13, "float32")
    size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(*tensors[:2], beta, tensors[2])
    aclnn.aclnnSwishBackward(None, size, executor, None)


def refused(number: int) -> None:
    """Make a call that is refused, with its text."""
    try:
        nonpu.sigmoid_backward(DATA[0, : number % 50 + 2], DATA[1, :1])
    except AclnnError as error:
        str(error)


PYTHON_KINDS: dict[str, Callable[[int], None]] = {
    "python_one_call": one_call,
    "python_one_call_allocates": one_call_allocates,
    "python_two_phases": two_phases,
    "python_refused": refused,
}


def resident_kib() -> int:
    """Return the resident size of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") // 1024


def in_python(name: str, calls: int) -> dict[str, int | str]:
    """Make the calls of a kind in this process."""
    make = PYTHON_KINDS[name]
    for number in range(calls // 10):
        make(number)
    before = resident_kib()
    for number in range(calls):
        make(number)
    return {"name": name, "calls": calls, "before_kib": before, "after_kib": resident_kib()}


def rows(kinds: list[str], calls: int) -> list[dict[str, int | str]]:
    """Measure the kinds, each in a process of its own."""
    result: list[dict[str, int | str]] = []
    for kind in kinds:
        command = [sys.executable, __file__, "--child", kind, "--calls", str(calls)]
        if kind in C_KINDS:
            command = [str(compiled(str(SOURCE))), str(calls), kind]
        finished = subprocess.run(command, env=environment(None), stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(finished.stdout)
        grown = row["after_kib"] - row["before_kib"]
        print(f"{kind:28}{row['calls']:>10}{row['before_kib']:>10}{row['after_kib']:>10}{grown:>+8}", flush=True)
        result.append(row)
    return result


def main() -> int:
    """Print calls and KiB before and after, a line for each kind."""
    parser = argparse.ArgumentParser(description="Whether memory grows over many calls, in KiB of resident size.")
    parser.add_argument("--calls", type=int, default=1_000_000, metavar="N", help="calls of each kind (1000000)")
    parser.add_argument("--limit", type=int, default=1024, metavar="KIB", help="growth that is a failure (1024)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    parser.add_argument("--child", choices=PYTHON_KINDS, help=argparse.SUPPRESS)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join((*C_KINDS, *PYTHON_KINDS))}")
    options = parser.parse_args()
    unknown = set(options.kinds) - {*C_KINDS, *PYTHON_KINDS}
    if unknown:
        parser.error(f"KIND must be one of {', '.join((*C_KINDS, *PYTHON_KINDS))} (got {min(unknown)})")
    if options.child:
        print(json.dumps(in_python(options.child, options.calls)))
        return 0
    print(f"{'kind':28}{'calls':>10}{'before':>10}{'after':>10}{'KiB':>8}")
    try:
        measured = rows(options.kinds or [*C_KINDS, *PYTHON_KINDS], options.calls)
    except (Failure, subprocess.CalledProcessError) as error:
        print(f"growth.py: {error}", file=sys.stderr)
        return 1
    if options.json is not None:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    return int(any(int(row["after_kib"]) - int(row["before_kib"]) > options.limit for row in measured))


if __name__ == "__main__":
    sys.exit(main())
