"""What start-up costs: a compiled example, ``nonpu run`` on it, and a Python process that makes one small call.

The programs are started in turns, one of each per round, and the medians printed.  A C program's interpreter is started
in isolation, without ``site``; a Python that is started the same way shows, by a clock of its own, what the imports,
the opening of the kernels and the first calls take.  What is left of the C program's wall time is the loader, the
interpreter and the end of both.  ``--imports`` lists the modules by their cost.

Usage: python benchmarks/startup.py [--rounds N] [--json FILE] [--imports]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import nonpu
from nonpu.cli import Failure
from nonpu.cli.compilation import compiled
from nonpu.cli.launch import environment

EXAMPLE = Path(__file__).parents[1] / "examples" / "swish_backward.cpp"
COMMAND = "import sys; from nonpu.cli import main; sys.exit(main())"
CALL = "import numpy, nonpu; x = numpy.ones(4, 'f4'); nonpu.swish_backward(x, x)"
# The front library's own order of events, with a clock between them. `time` is built in and costs nothing.
PARTS = """
import sys, time
sys.path[:0] = sys.argv[1:]
clock = time.perf_counter
start = clock()
import nonpu.capi.exports
imports = clock()
from nonpu.engine import load
load.address("nonpu_elementwise")
kernels = clock()
from nonpu import Tensor, aclnn
data = bytearray(16)
tensors = [Tensor((4,), "float32", data=data) for _ in range(3)]
calls = []
for _ in range(2):
    before = clock()
    size, executor = aclnn.aclnnSigmoidBackwardGetWorkspaceSize(*tensors)
    aclnn.aclnnSigmoidBackward(None, size, executor, None)
    calls.append(clock() - before)
print(imports - start, kernels - imports, *calls)
"""
PART_NAMES = ("imports", "kernels", "first call", "second call")
PYTHON_PARTS = """
import time
clock = time.perf_counter
start = clock()
import numpy
numpy_done = clock()
import nonpu
package = clock()
nonpu.swish_backward
function = clock()
from nonpu.engine import load
load.address("nonpu_elementwise")
kernels = clock()
x = numpy.ones(4, "f4")
before = clock()
nonpu.swish_backward(x, x)
print(numpy_done - start, package - numpy_done, function - package, kernels - function, clock() - before)
"""
PYTHON_PART_NAMES = ("numpy", "nonpu", "one-call function", "kernels", "first call")


def isolated(*options: str) -> list[str]:
    """Return the command of an interpreter that is started as the front library starts its own."""
    return [sys.executable, "-I", "-S", *options]


def search_path() -> list[str]:
    """Return the folders that the front library puts on the path."""
    return [os.path.dirname(os.path.dirname(nonpu.__file__)), sysconfig.get_paths()["platlib"]]


def programs() -> dict[str, list[str]]:
    """Return the commands whose wall time is measured, by title."""
    return {
        "compiled example": [compiled(str(EXAMPLE))],
        "nonpu run, compiled before": [sys.executable, "-c", COMMAND, "run", str(EXAMPLE)],
        "python, import and one call": [sys.executable, "-c", CALL],
        "python -c 'import nonpu'": [sys.executable, "-c", "import nonpu"],
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "python -c 'import numpy, nonpu'": [sys.executable, "-c", "import numpy, nonpu"],
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -I -S -c pass": isolated("-c", "pass"),
    }


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return medians in milliseconds: wall times, parts of a C program's start, parts of a Python process."""
    commands = programs()
    env = {**environment(None), "PYTHONPATH": os.pathsep.join(search_path()[:1])}
    walls: dict[str, list[float]] = {title: [] for title in commands}
    parts: dict[str, list[float]] = {name: [] for name in PART_NAMES}
    python_parts: dict[str, list[float]] = {name: [] for name in PYTHON_PART_NAMES}
    for turn in range(rounds + 1):
        for title, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
            if turn:  # the first round warms the file cache
                walls[title].append(time.perf_counter() - start)
        for store, command in (
            (parts, isolated("-c", PARTS, *search_path())),
            (python_parts, [sys.executable, "-c", PYTHON_PARTS]),
        ):
            finished = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
            for name, text in zip(store, finished.stdout.split(), strict=True):
                store[name].append(float(text))
    groups = {"wall": walls, "c": parts, "python": python_parts}
    return {
        group: {name: round(statistics.median(values) * 1e3, 3) for name, values in store.items()}
        for group, store in groups.items()
    }


def show(milliseconds: float | None) -> str:
    """Return a cell of the table."""
    return "none" if milliseconds is None else f"{milliseconds:.1f}"


def split(result: dict[str, dict[str, float]]) -> list[tuple[str, str, str, str]]:
    """Return the rows of the table in docs/architecture.md: part, C++ program, ``nonpu run`` of it, Python."""
    wall, c, python = result["wall"], result["c"], result["python"]
    program, command, script = (
        wall[title] for title in ("compiled example", "nonpu run, compiled before", "python, import and one call")
    )
    known = c["imports"] + c["kernels"] + c["first call"]
    rows: list[tuple[str, float | None, float | None, float | None]] = [
        ("starting the interpreter", program - known, program - known, wall["python -c pass"]),
        ("importing nonpu", c["imports"], c["imports"], python["nonpu"] + python["one-call function"]),
        ("importing NumPy", None, None, python["numpy"]),
        ("opening the kernels", c["kernels"], c["kernels"], python["kernels"]),
        ("first call of both phases", c["first call"], c["first call"], python["first call"]),
        ("the command itself", None, command - program, None),
        ("whole", program, command, script),
    ]
    return [(title, show(first), show(second), show(third)) for title, first, second, third in rows]


def print_imports() -> None:
    """Print what ``-X importtime`` says about a C program's imports, the most expensive modules first."""
    command = isolated("-X", "importtime", "-c", PARTS, *search_path())
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.removeprefix("import time:").split("|") for line in finished.stderr.splitlines()[1:]]
    for own, _, name in sorted(rows, key=lambda row: -int(row[0]) if row[0].strip().isdigit() else 0)[:25]:
        print(f"{int(own) / 1000:8.2f} ms  {name.strip()}")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What start-up costs.")
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="starts of each program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the medians as JSON")
    parser.add_argument("--imports", action="store_true", help="list the modules of a C program's start by their cost")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.imports:
        print_imports()
        return 0
    try:
        result = measure(options.rounds)
    except (Failure, subprocess.CalledProcessError) as error:
        print(f"startup.py: {error}", file=sys.stderr)
        return 1
    for title, milliseconds in result["wall"].items():
        print(f"{title:35} {milliseconds:8.1f} ms")
    print("\n| part | C++ program | `nonpu run` of a compiled program | Python |\n|---|---|---|---|")
    for row in split(result):
        print(f"| {' | '.join(row)} |")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
