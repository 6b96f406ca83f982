"""What a call costs through C: compile calls.cpp, run it, and print its medians.

Usage: python benchmarks/calls.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from nonpu.cli import Failure
from nonpu.cli.compilation import compiled
from nonpu.cli.launch import environment

SOURCE = Path(__file__).with_name("calls.cpp")
TITLES = {
    "both_phases_known_ns": "both phases of a call judged before",
    "both_phases_new_ns": "both phases of a new call",
    "repeatable_run_ns": "run of a repeatable executor",
    "create_destroy_tensor_ns": "creating and destroying a tensor",
}


def measure() -> dict[str, float]:
    """Compile the program if need be, run it and return nanoseconds per call of 64 elements."""
    finished = subprocess.run(
        [compiled(str(SOURCE))], env=environment(None), stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, float] = json.loads(finished.stdout)
    return result


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description="What a call of 64 elements costs through C.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the nanoseconds as JSON")
    options = parser.parse_args()
    try:
        result = measure()
    except (Failure, subprocess.CalledProcessError) as error:
        print(f"calls.py: {error}", file=sys.stderr)
        return 1
    for name, nanoseconds in result.items():
        print(f"{TITLES.get(name, name):40} {nanoseconds / 1000:9.3f} us")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
