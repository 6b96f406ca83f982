"""DTensor over two gloo processes: placements pass through, values are those of one process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.spawn import spawn

import nonpu

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    lambda grad, x: nonpu.swish_backward(grad, x, 1.5),
    nonpu.leaky_relu_backward,
    nonpu.sigmoid_backward,
)
PROCESSES = 2


def tensors() -> tuple[Tensor, Tensor]:
    """Return the same gradient and input in every process."""
    generator = torch.Generator().manual_seed(3)
    return torch.randn(6, 4, generator=generator), torch.randn(6, 4, generator=generator)


def elementwise(mesh: Any) -> None:
    """Shard and Replicate pass through; other axes than those that broadcast can be split."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    grad, x = tensors()
    for function in FUNCTIONS:
        for placement in (Shard(0), Shard(1), Replicate()):
            result = function(*(distribute_tensor(value, mesh, [placement]) for value in (grad, x)))
            assert result.placements == (placement,)
            assert torch.equal(result.full_tensor(), function(grad, x))
        whole = distribute_tensor(x[0], mesh, [Replicate()])
        result = function(distribute_tensor(grad, mesh, [Shard(0)]), whole)
        assert result.placements == (Shard(0),)
        assert torch.equal(result.full_tensor(), function(grad, x[0]))
        split = distribute_tensor(x[0], mesh, [Shard(0)])
        result = function(distribute_tensor(grad, mesh, [Shard(1)]), split)
        assert result.placements == (Shard(1),)
        assert torch.equal(result.full_tensor(), function(grad, x[0]))


def linear(mesh: Any) -> None:
    """Partial sums of the gradient stay partial sums; of the other input they are summed first."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor

    grad, x = tensors()
    weight = mesh.get_rank() + 1.0
    for function in FUNCTIONS:
        partial = DTensor.from_local(grad * weight, mesh, [Partial()])
        result = function(partial, distribute_tensor(x, mesh, [Replicate()]))
        assert result.placements == (Partial(),)
        torch.testing.assert_close(result.full_tensor(), function(3 * grad, x))
        partial = DTensor.from_local(x * weight, mesh, [Partial()])
        result = function(distribute_tensor(grad, mesh, [Replicate()]), partial)
        assert not result.placements[0].is_partial()
        torch.testing.assert_close(result.full_tensor(), function(grad, 3 * x))


def training(mesh: Any) -> None:
    """A module with a parameter: gradients of the sharded input and of the replicated parameter."""
    from torch.distributed.tensor import Shard, distribute_module, distribute_tensor

    from nonpu.torch import Swish

    _, x = tensors()
    module, sharded = Swish(1.5, trainable=True), distribute_module(Swish(1.5, trainable=True), mesh)
    alone: Any = x.clone().requires_grad_()
    split: Any = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    module(alone).sum().backward()
    result = sharded(split)
    assert result.placements == (Shard(0),)
    result.sum().backward()
    assert split.grad.placements == (Shard(0),)
    assert torch.equal(split.grad.full_tensor(), alone.grad)
    beta: Any = (module.beta, sharded.beta)
    torch.testing.assert_close(beta[1].grad.full_tensor(), beta[0].grad)


def work(rank: int, folder: str, job: Callable[[Any], None]) -> None:
    """Run a job in one of the processes."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=PROCESSES
    )
    job(torch.distributed.device_mesh.init_device_mesh("cpu", (PROCESSES,)))
    # DTensor's caches keep the group, and so gloo's threads, beyond destroy_process_group. One that
    # lets go of a tensor while the interpreter ends is ended by CPython before 3.14, and the process
    # with it ("terminate called without an active exception"): so the interpreter does not end here.
    os._exit(0)


@pytest.mark.parametrize("job", [elementwise, linear, training], ids=lambda job: job.__name__)
def test_two_processes(job: Callable[[Any], None], tmp_path: Path) -> None:
    """Every process checks what it sees; a failure in one is raised here."""
    spawn(work, (str(tmp_path), job), nprocs=PROCESSES)
