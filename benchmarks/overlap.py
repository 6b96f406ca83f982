"""Whether two streams overlap on two processors: compile overlap.cpp, run it, and print the times and their ratio.

The same pieces of work (Swish gradients of 128 Ki FLOAT elements, one thread each) are queued on one stream and, in
turns, over two. The ratio of a machine with two idle processors is near 2; where other programs run, it is less.

Usage: python benchmarks/overlap.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from nonpu.cli import Failure
from nonpu.cli.compilation import compiled
from nonpu.cli.launch import environment

SOURCE = Path(__file__).with_name("overlap.cpp")


def measure(rounds: int) -> list[dict[str, float]]:
    """Compile the program if need be, run it and return seconds for each round."""
    env = {**environment(None), "NONPU_NUM_THREADS": "1"}
    command = [compiled(str(SOURCE)), str(rounds)]
    finished = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    result: list[dict[str, float]] = json.loads(finished.stdout)
    return result


def main() -> int:
    """Print medians, and the ratio within rounds."""
    parser = argparse.ArgumentParser(description="The same work on one stream and on two.")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="rounds (15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the seconds as JSON")
    options = parser.parse_args()
    try:
        result = measure(options.rounds)
    except (Failure, subprocess.CalledProcessError) as error:
        print(f"overlap.py: {error}", file=sys.stderr)
        return 1
    ratios = sorted(row["one"] / row["two"] for row in result)
    print(f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}")
    for name, title in (("one", "one stream"), ("two", "two streams")):
        print(f"{title:14}{1000 * statistics.median(row[name] for row in result):9.2f} ms")
    print(f"{'ratio':14}{statistics.median(ratios):9.2f}    ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
