"""The two-phase interface from Python: the same names, parameters and order as in C."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import nonpu
from nonpu import AclnnError, Scalar, Tensor, aclnn


def show(label: str, values: NDArray[np.float32]) -> None:
    """Print an array beside its label."""
    print(f"{label:14}" + np.array2string(values, precision=6, prefix=" " * 14))


def main() -> None:
    """Run aclnnSwishBackward once, then plan it once and run it on new data; show what a refused call says."""
    grad_output = np.ones((2, 3), np.float32)
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    grad_input = np.zeros_like(x)
    gradient, argument, result = map(Tensor.from_numpy, (grad_output, x, grad_input))
    beta = Scalar(1.1, "float32")

    workspace_size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(gradient, argument, beta, result)
    workspace = np.empty(workspace_size, np.uint8) if workspace_size > 0 else None
    aclnn.aclnnSwishBackward(workspace, workspace_size, executor, None)
    nonpu.synchronize()
    show("beta = 1.1", grad_input)

    # A Tensor shares the array's memory, so a repeatable executor sees what is written to the arrays between runs.
    workspace_size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(
        gradOutput=gradient, self=argument, betaOptional=None, gradInput=result
    )
    executor.set_repeatable()
    for scale in (1, -1):
        x[...] = scale * np.arange(1, 7).reshape(2, 3)
        executor.run()
        nonpu.synchronize()
        show(f"x = {scale} to {6 * scale}", grad_input)

    try:
        aclnn.aclnnSwishBackwardGetWorkspaceSize(gradient, Tensor.from_numpy(x.T), beta, result)
    except AclnnError as error:
        print(f"refused with status {error.status:d} {error.status.name}: {error}")


if __name__ == "__main__":
    main()
