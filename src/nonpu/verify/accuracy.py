"""The error of every operator of the registry, and of PyTorch beside it, measured against the exact value.

One job is an operator, a data type and a choice of scalars. Jobs run in processes of their own and give the same
numbers in any order and number of processes.
"""

from __future__ import annotations

import importlib.util
import math
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context, resource_tracker
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nonpu.dtypes import DType
from nonpu.ops import find
from nonpu.verify import oracles, rounding, ulp
from nonpu.verify.golden import oracle
from nonpu.verify.sweeps import argument_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nonpu.spec.model import Op
    from nonpu.verify.sweeps import ArgumentSet

COUNT: Final = 1 << 20
ENGINES: Final = ("nonpu", "torch")


@dataclass(frozen=True)
class Job:
    """What one process measures: ``operator`` is a Python name, ``dtype`` a name of the contract."""

    operator: str
    dtype: str
    scalars: tuple[float, ...]
    count: int
    seed: int
    engines: tuple[str, ...]


@dataclass
class Measured:
    """The errors of one engine in one job.

    Attributes
    ----------
    engine, operator, dtype, scalars
        Of what.
    elements, right : int
        Results for finite arguments, and how many of them are correctly rounded.
    largest : float
        Largest error in units in the last place; infinite for a NaN or an infinity where a number belongs.
    where, worst : str
        The set that it is in, and the element in decimal and hexadecimal.
    special, special_wrong : int
        Results for arguments among which is an infinity or a NaN, and how many are not of the documented formula.
    """

    engine: str
    operator: str
    dtype: str
    scalars: tuple[float, ...]
    elements: int = 0
    right: int = 0
    largest: float = 0.0
    where: str = ""
    worst: str = ""
    special: int = 0
    special_wrong: int = 0
    by_set: dict[str, float] = field(default_factory=dict)

    def add(self, chosen: ArgumentSet, actual: NDArray[Any], golden: NDArray[Any], errors: NDArray[np.float64]) -> None:
        """Count the results of one set."""
        with np.errstate(invalid="ignore"):
            same = (rounding.decode(actual) == rounding.decode(golden)) | (_is_nan(actual) & _is_nan(golden))
        sizes = np.abs(errors) if errors.ndim == actual.ndim else np.max(np.abs(errors), axis=-1)
        if not chosen.finite:
            finite = np.all(np.broadcast_arrays(*[np.isfinite(rounding.decode(a)) for a in chosen.arrays]), axis=0)
            self.special += int((~finite).sum())
            self.special_wrong += int((~finite & ~(sizes < 1)).sum())
            return
        self.elements += actual.size
        self.right += int(same.sum())
        index = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        size = float(sizes[index])
        self.by_set[chosen.name] = max(size, self.by_set.get(chosen.name, 0.0))
        if size > self.largest:
            self.largest, self.where = size, chosen.name
            inputs = {f"input {i}": a[index] for i, a in enumerate(np.broadcast_arrays(*chosen.arrays))}
            inputs |= {f"scalar {i}": value for i, value in enumerate(self.scalars)}
            self.worst = ulp.describe(tuple(map(int, index)), size, actual[index], golden[index], inputs)


def jobs(
    operators: Sequence[str], *, count: int = COUNT, seed: int = 0, engines: tuple[str, ...] = ENGINES
) -> list[Job]:
    """Return what is to be measured for operators given by their Python names, the longest first."""
    return [
        Job(name, dtype.name, tuple(scalars), count, seed, engines)
        for name in operators
        for dtype in find(name).kernels
        for scalars in oracles.formula(name).SCALARS
    ]


def measure(job: Job) -> list[Measured]:
    """Measure every engine of a job on the same arguments."""
    op = find(job.operator)
    dtype = DType[job.dtype]
    found = [Measured(engine, op.name, job.dtype, job.scalars) for engine in job.engines]
    functions = [_FUNCTIONS[engine](op, dtype) for engine in job.engines]
    judge = oracle(job.operator)
    with np.errstate(all="ignore"):
        for chosen in argument_sets(job.operator, len(op.inputs), dtype, job.scalars, job.count, job.seed):
            reference = judge.reference(chosen.arrays, job.scalars, dtype)
            golden = judge.golden(chosen.arrays, job.scalars, dtype, dtype)
            for result, function in zip(found, functions, strict=True):
                actual = function(chosen.arrays, job.scalars)
                result.add(chosen, actual, golden, ulp.errors(actual, reference, dtype))
    return found


def run(todo: Sequence[Job], workers: int, progress: Callable[[int, int], None] | None = None) -> list[Measured]:
    """Measure all jobs in processes of their own; the order of the results is that of the jobs."""
    results: list[Measured] = []
    for done, found in enumerate(_results(todo, workers), 1):
        results += found
        if progress is not None:
            progress(done, len(todo))
    return results


def _results(todo: Sequence[Job], workers: int) -> Iterator[list[Measured]]:
    if workers <= 1:
        yield from map(measure, todo)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_at_interrupt)
    try:
        # A terminal's Ctrl-C reaches the workers too. They inherit the mask until they can end without a word.
        resource_tracker.ensure_running()  # once more in the pool, it would lift the mask
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            results = pool.map(measure, todo)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def _end_at_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def torch_available() -> bool:
    """Return whether the peer can be measured."""
    return importlib.util.find_spec("torch") is not None


def merged(results: Sequence[Measured]) -> Measured:
    """Return the sum over several choices of scalars of one engine, operator and data type."""
    first = max(results, key=lambda result: result.largest)
    total = Measured(first.engine, first.operator, first.dtype, first.scalars)
    total.largest, total.where, total.worst = first.largest, first.where, first.worst
    for result in results:
        total.elements += result.elements
        total.right += result.right
        total.special += result.special
        total.special_wrong += result.special_wrong
        for name, size in result.by_set.items():
            total.by_set[name] = max(size, total.by_set.get(name, 0.0))
    return total


def as_records(results: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return the results for JSON, which knows no infinity: it becomes null."""
    records = []
    for result in results:
        record = asdict(result)
        record["largest"] = result.largest if math.isfinite(result.largest) else None
        record["by_set"] = {name: size if math.isfinite(size) else None for name, size in result.by_set.items()}
        records.append(record)
    return records


def _is_nan(array: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.isnan(rounding.decode(array)))


def _nonpu(op: Op, dtype: DType) -> Callable[..., NDArray[Any]]:
    del dtype
    import nonpu

    function = getattr(nonpu, op.python_name)

    def call(arrays: Sequence[NDArray[Any]], scalars: tuple[float, ...]) -> NDArray[Any]:
        return np.asarray(function(*arrays, *scalars))

    return call


def _torch(op: Op, dtype: DType) -> Callable[..., NDArray[Any]]:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    peer = oracles.formula(op.python_name).peer

    def tensor(array: NDArray[Any]) -> Any:
        if dtype is DType.BFLOAT16:
            return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(np.ascontiguousarray(array))

    def call(arrays: Sequence[NDArray[Any]], scalars: tuple[float, ...]) -> NDArray[Any]:
        tensors = torch.broadcast_tensors(*map(tensor, arrays))
        result = peer(torch.ops.aten, *(t.contiguous() for t in tensors), *scalars)
        if dtype is DType.BFLOAT16:
            return np.asarray(result.view(torch.int16).numpy()).view(rounding.numpy_dtype(dtype))
        return np.asarray(result.numpy())

    return call


_FUNCTIONS: Final = {"nonpu": _nonpu, "torch": _torch}
