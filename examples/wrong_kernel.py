"""A stand-in for a device whose kernels have faults, to show what `nonpu compare` and `nonpu report` find.

    nonpu golden examples/cases.json -o build/goldens
    python examples/wrong_kernel.py build/goldens build/actual
    nonpu compare build/actual build/goldens
    nonpu report build/actual -o build/report.html

It computes the documented formulas in FLOAT arithmetic, which is right for most cases, and then: forgets the last rows
of one result, writes nothing into another, and gives a third the wrong shape.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from nonpu.verify.store import Case, Folder, open_folder, write_arrays


def compute(case: Case, goldens: Folder) -> np.ndarray[Any, Any]:
    """Return what the device makes of a case."""
    tensors = [goldens.load(case.id, entry["name"]) for entry in case.inputs if entry["kind"] == "tensor"]
    scalars = {entry["name"]: entry["value"] for entry in case.inputs if entry["kind"] != "tensor"}
    kind = np.complex64 if tensors[0].dtype.kind == "c" else np.float32
    grad, x = (tensor.astype(kind) for tensor in tensors)
    with np.errstate(all="ignore"):
        if case.operator == "aclnnLeakyReluBackward":
            result = np.where(x > 0, grad, grad * np.float32(scalars["negativeSlope"]))
        elif case.operator == "aclnnSigmoidBackward":
            result = grad * np.conj(x * (1 - x))
        else:
            beta = scalars.get("betaOptional")
            scaled = x * np.float32(1.0 if beta is None else beta)
            sigmoid = 1 / (1 + np.exp(-scaled))
            result = grad * (sigmoid * (1 + scaled * (1 - sigmoid)))
        return result.astype(goldens.load(case.id, case.outputs[0]["name"]).dtype)


def main(goldens_path: str, actual_path: str) -> None:
    """Write a result for every case."""
    os.makedirs(actual_path, exist_ok=True)
    goldens = open_folder(goldens_path)
    for case in goldens.cases:
        result = compute(case, goldens)
        if case.id == "swish-fp16":
            result[-1, 500:] = 0
        elif case.id == "leaky-fp32-broadcast":
            result[...] = 0
        elif case.id == "sigmoid-complex":
            result = result[:-1]
        write_arrays(f"{actual_path}/{case.id}", {case.outputs[0]["name"]: result}, "npz")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: wrong_kernel.py GOLDENS ACTUAL")
    main(sys.argv[1], sys.argv[2])
