"""Single elements and small facts as text: decimal, bit pattern, index, shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def decimal(value: Any) -> str:
    """Return the shortest decimal that reads back as the same value of its type; other things as they print."""
    return str(value[()] if isinstance(value, np.ndarray) else value)


def hexadecimal(value: Any) -> str:
    """Return the bit pattern of a NumPy scalar, of both components of a complex one; empty for anything else."""
    if not isinstance(value, (np.generic, np.ndarray)):
        return ""
    array = np.asarray(value)
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    return " ".join(f"0x{part.tobytes()[::-1].hex()}" for part in parts)  # the machines here are little-endian


def number(value: float) -> float | str:
    """Return a measure as JSON can hold it: infinities and NaN by name."""
    return float(value) if math.isfinite(value) else str(float(value))


def shape_text(shape: Any) -> str:
    """Return a shape as ``2x3``; ``scalar`` for rank 0."""
    return "x".join(str(length) for length in shape) if len(shape) else "scalar"
