"""How fast `nonpu golden` makes cases: many small ones and a large one, serially and with worker processes.

Usage: python benchmarks/golden.py [--cases N] [--elements N] [--workers 1 2] [--json FILE]

Times are those of the whole command, the start of the processes included; and those of the exact and the documented
results alone, in this process, by operator and type.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from nonpu import ops
from nonpu.dtypes import DType
from nonpu.verify.golden import oracle
from nonpu.verify.rounding import COMPONENT, numpy_dtype

NONPU = Path(sys.executable).with_name("nonpu")
SMALL = ("float32", "float16", "bfloat16")


def small_cases(count: int) -> list[dict[str, Any]]:
    """Return cases of 4 to 244 elements, all operators and types in turn."""
    return [
        {
            "id": f"small-{number}",
            "operator": ops.OPS[number % len(ops.OPS)].api,
            "dtype": SMALL[number // len(ops.OPS) % len(SMALL)],
            "shape": [4, 1 + number % 61],
        }
        for number in range(count)
    ]


def large_case(elements: int) -> list[dict[str, Any]]:
    """Return one case that is made in parts."""
    return [
        {"id": "large", "operator": "aclnnSwishBackward", "dtype": "bf16", "shape": [elements], "range": [-12, 12]},
    ]


def run(cases: list[dict[str, Any]], options: list[str]) -> float:
    """Return the seconds of the command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps(cases))
        start = time.perf_counter()
        command = [NONPU, "golden", path, "-o", Path(folder) / "goldens", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def values(count: int) -> dict[str, dict[str, float]]:
    """Return millions of exact and of documented results per second, by operator and type."""
    rng = np.random.default_rng(0)
    found = {}
    for op in ops.OPS:
        for dtype in op.tensors[op.inputs[0]].dtypes:
            arrays = [drawn(rng, dtype, count) for _ in op.inputs]
            scalars = tuple(1.1 for _ in op.scalar_params)
            judge = oracle(op.python_name)
            speeds = {}
            for name, function in (("golden", judge.golden), ("documented", judge.documented)):
                start = time.perf_counter()
                function(arrays, scalars, dtype, dtype)
                speeds[name] = count / (time.perf_counter() - start) / 1e6
            found[f"{op.python_name} {dtype.python_name}"] = speeds
    return found


def drawn(rng: np.random.Generator, dtype: DType, count: int) -> Any:
    """Return values between -3 and 3."""
    parts = rng.uniform(-3, 3, (2, count))
    return (parts[0] + 1j * parts[1] if dtype in COMPONENT else parts[0]).astype(numpy_dtype(dtype))


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="How fast nonpu golden makes cases.")
    parser.add_argument("--cases", type=int, default=20_000, metavar="N", help="small cases (%(default)s)")
    parser.add_argument("--elements", type=int, default=1 << 25, metavar="N", help="of the large case (%(default)s)")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], metavar="N", help="beside the serial run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    options = parser.parse_args()
    result: dict[str, Any] = {"values": values(1 << 18), "runs": []}
    for name, speeds in result["values"].items():
        exact, documented = speeds["golden"], speeds["documented"]
        print(f"{name:32} {exact:8.2f} M exact values/s {documented:8.2f} M documented values/s")
    small, large = small_cases(options.cases), large_case(options.elements)
    elements = sum(4 * case["shape"][1] for case in small)
    for workers in (None, *options.workers):
        chosen = [] if workers is None else ["--workers", str(workers)]
        few, one = run(small, chosen), run(large, chosen)
        result["runs"].append({"workers": workers, "small_s": few, "large_s": one})
        print(
            f"{'serial' if workers is None else f'{workers} workers':10} {len(small)} small cases: {few:6.1f} s,"
            f" {len(small) / few:6.0f} cases/s, {elements / few / 1e6:5.2f} M elements/s;"
            f" one of {options.elements} elements: {one:6.1f} s, {options.elements / one / 1e6:5.1f} M elements/s"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
