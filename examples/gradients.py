"""Draw the three gradients and their error in ULP against the exact value.

    nonpu run examples/gradients.py [-- FILE.png]

Needs the extra "verify": pip install "nonpu[verify]".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import matplotlib as mpl
import mpmath
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

import nonpu

Floats = NDArray[np.float32]


class Curve(NamedTuple):
    """One line of the picture: the gradient as computed and the formula it stands for."""

    label: str
    computed: Callable[[Floats], Floats]
    exact: Callable[[mpmath.mpf], mpmath.mpf]


def leaky_relu(slope: float) -> Curve:
    """Return the gradient for one slope; the exact value takes the slope as FLOAT, which the contract rounds it to."""
    rounded = mpmath.mpf(float(np.float32(slope)))
    return Curve(
        f"slope = {slope}",
        lambda x: nonpu.leaky_relu_backward(np.ones_like(x), x, slope),
        lambda x: mpmath.mpf(1) if x > 0 else rounded,
    )


def sigmoid() -> Curve:
    """Return the gradient over the function's value y."""
    return Curve("", lambda y: nonpu.sigmoid_backward(np.ones_like(y), y), lambda y: y * (1 - y))


def swish(beta: float) -> Curve:
    """Return the gradient for one beta, which the contract rounds to FLOAT as well."""
    rounded = mpmath.mpf(float(np.float32(beta)))

    def exact(x: mpmath.mpf) -> mpmath.mpf:
        t = rounded * x
        sigma = 1 / (1 + mpmath.exp(-t))
        return sigma * (1 + t * (1 - sigma))

    return Curve(f"beta = {beta}", lambda x: nonpu.swish_backward(np.ones_like(x), x, beta), exact)


def ulp_error(computed: Floats, exact: list[mpmath.mpf]) -> NDArray[np.float64]:
    """Return (computed - exact) in units of the FLOAT spacing at the computed value."""
    spacing = np.spacing(np.abs(computed))
    pairs = zip(computed, exact, spacing, strict=True)
    return np.array([float((mpmath.mpf(float(c)) - e) / mpmath.mpf(float(u))) for c, e, u in pairs])


PANELS = [
    ("LeakyReluBackward", "self", np.linspace(-3, 3, 1201), [leaky_relu(0.01), leaky_relu(0.2)]),
    ("SigmoidBackward", "output", np.linspace(0, 1, 1201), [sigmoid()]),
    ("SwishBackward", "self", np.linspace(-8, 8, 1201), [swish(0.5), swish(1.0), swish(2.0)]),
]


def main(path: str) -> None:
    """Write the picture to ``path`` and print the largest error of each curve."""
    mpl.use("Agg")
    mpmath.mp.prec = 200
    figure, axes = plt.subplots(2, len(PANELS), figsize=(13, 7), layout="constrained")
    for (title, name, points, curves), upper, lower in zip(PANELS, axes[0], axes[1], strict=True):
        x = points.astype(np.float32)
        for curve in curves:
            y = curve.computed(x)
            error = ulp_error(y, [curve.exact(mpmath.mpf(float(v))) for v in x])
            upper.plot(x, y, label=curve.label)
            lower.plot(x, error, ".", markersize=2)
            print(f"{title:18} {curve.label:13} largest error {np.abs(error).max():.3f} ULP")
        upper.set(title=title, ylabel="gradient")
        lower.set(xlabel=name, ylabel="error (ULP)", ylim=(-4, 4))
        if len(curves) > 1:
            upper.legend()
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "gradients.png")
