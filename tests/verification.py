"""Folders of goldens and of results, for the tests of verdicts and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nonpu.dtypes import DType
from nonpu.verify import rounding, store
from nonpu.verify.golden import oracle

OPERATORS = {
    "aclnnLeakyReluBackward": ("leaky_relu_backward", "self", "out", {"negativeSlope": 0.01}),
    "aclnnSigmoidBackward": ("sigmoid_backward", "output", "gradInput", {}),
    "aclnnSwishBackward": ("swish_backward", "self", "gradInput", {"beta": 1.0}),
}


@dataclass
class Folders:
    """A golden folder and one of results, both in `root`."""

    root: Path
    format: str = "npz"
    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def golden(self) -> Path:
        """EXPECTED."""
        return self.root / "golden"

    @property
    def actual(self) -> Path:
        """ACTUAL."""
        return self.root / "actual"

    def add(
        self,
        case: str,
        operator: str = "aclnnSwishBackward",
        dtype: DType = DType.FLOAT,
        shape: tuple[int, ...] = (8, 16),
        seed: int = 0,
        **record: Any,
    ) -> np.ndarray:
        """Make a case with random inputs and return its golden, which is also written as the result."""
        name, second, output, scalars = OPERATORS[operator]
        rng = np.random.default_rng(seed)
        grad, x = self.draw(rng, shape, dtype), self.draw(rng, shape, dtype)
        golden = oracle(name).golden([grad, x], list(scalars.values()), dtype, dtype)
        arrays = {"gradOutput": grad, second: x, output: golden, f"{output}.documented": nudged(golden, 0)}
        self.write(self.golden / "data", case, arrays)
        self.result(case, golden, output)
        tensors = [
            {"name": n, "kind": "tensor", "dtype": dtype.python_name, "shape": [*shape]} for n in ("gradOutput", second)
        ]
        self.records.append(
            {
                "id": case,
                "index": len(self.records),
                "operator": operator,
                "status": "done",
                "inputs": [
                    *tensors,
                    *({"name": n, "kind": "scalar", "dtype": "float32", "value": v} for n, v in scalars.items()),
                ],
                "outputs": [{"name": output, "dtype": dtype.python_name, "shape": [*shape]}],
                **record,
            }
        )
        return golden

    @staticmethod
    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Return normal numbers of a type."""
        values: Any = rng.normal(size=shape) * 3
        if dtype in rounding.COMPONENT:
            values = values + 1j * rng.normal(size=shape)
        return np.asarray(values).astype(rounding.numpy_dtype(dtype))

    def write(self, folder: Path, case: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the arrays of a case."""
        folder.mkdir(parents=True, exist_ok=True)
        store.write_arrays(folder / store.file_name(case), arrays, self.format)

    def result(self, case: str, array: np.ndarray, output: str = "gradInput") -> None:
        """Write what the device produced for a case."""
        self.write(self.actual, case, {output: array})

    def finish(self, **manifest: Any) -> None:
        """Write manifest and journal."""
        facts = {"nonpu": "0", "kind": "golden", "format": self.format, "seed": 7, "cases_file": "my cases.json"}
        journal = store.Journal(self.golden, {**facts, "count": len(self.records), **manifest})
        journal.append(self.records)
        journal.close(whole=True)


def nudged(array: np.ndarray, index: int, steps: int = 1) -> np.ndarray:
    """Return a copy with the bit pattern of one element moved, which is that many units within a binade."""
    copy = np.array(array)
    if copy.size:
        width = copy.dtype.itemsize // (2 if copy.dtype.kind == "c" else 1)
        copy.reshape(-1)[index : index + 1].view(f"u{width}")[0] += np.uint8(steps)
    return copy
