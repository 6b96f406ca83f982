"""Running tasks on a Dask cluster: one of local processes, or an existing one."""

from __future__ import annotations

import contextlib
import logging
import pickle
import re
import signal
import tempfile
from importlib.metadata import version
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Final

import dask
import distributed
from distributed.comm.core import CommClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nonpu.verify.campaign import Task

_AHEAD: Final = 4  # tasks in work for each worker: enough to hide the way there and back
_WAIT: Final = "20s"


class ClusterError(Exception):
    """The cluster cannot be used; the text is one line."""


class Cluster:
    """Worker processes.

    Parameters
    ----------
    workers : int
        Start so many processes here.
    scheduler : str, optional
        Address of a scheduler, whose workers are used instead.

    Raises
    ------
    ClusterError
        If there is no such scheduler, or its workers cannot run the tasks.
    """

    def __init__(self, workers: int = 1, scheduler: str | None = None) -> None:
        if scheduler is not None and not re.fullmatch(r"(tcp|tls|ws|wss)://\S+:\d+", scheduler):
            raise ClusterError(f"scheduler must be an address like tcp://host:8786 (got {scheduler})")
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("distributed"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        self._exits = contextlib.ExitStack()
        self._address = scheduler
        try:
            if scheduler is None:
                self._client = self._local(workers)
            else:
                self._client = self._exits.enter_context(
                    distributed.Client(scheduler, timeout=_WAIT, set_as_default=False)
                )
                self._check(scheduler)
        except (OSError, TimeoutError, ValueError) as error:
            self.close()
            raise ClusterError(f"scheduler {scheduler}: cannot be reached ({' '.join(str(error).split())})") from error
        except BaseException:
            self.close()
            raise

    def _local(self, workers: int) -> Any:
        scratch = self._exits.enter_context(tempfile.TemporaryDirectory(prefix="nonpu-"))
        # Dask makes its workers' allocator give all memory back at once, which costs more than the arithmetic.
        spawn = {**dask.config.get("distributed.nanny.pre-spawn-environ")}
        spawn.pop("MALLOC_TRIM_THRESHOLD_", None)
        settings = {
            "distributed.worker.daemon": True,
            "distributed.worker.profile.enabled": False,
            "distributed.nanny.pre-spawn-environ": spawn,
        }
        self._exits.enter_context(dask.config.set(settings))
        cluster = _uninterrupted(
            distributed.LocalCluster,
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # the tasks are small by themselves
            dashboard_address="127.0.0.1:0",  # None would be a fixed port, and a warning where that is taken
            scheduler_kwargs={"dashboard": False},
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
        )
        self._exits.enter_context(cluster)
        return self._exits.enter_context(distributed.Client(cluster, set_as_default=False))

    def _check(self, scheduler: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_WAIT)
        except TimeoutError:
            raise ClusterError(f"scheduler {scheduler}: has no workers") from None
        try:
            found = self._client.run(releases)
        except Exception as error:
            raise ClusterError(f"scheduler {scheduler}: its workers cannot run nonpu ({error})") from error
        for worker, theirs in found.items():
            for name, release in releases().items():
                if theirs.get(name) != release:
                    wanted = f"{name} must be {release}, as here, for the same bits"
                    raise ClusterError(f"worker {worker}: {wanted} (got {theirs.get(name)})")

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Run tasks and yield each with its result as it is done; the work of a worker that dies is done again.

        What is in work again and again where workers die is tried once more at the end, case by case and nothing beside
        it: then it is known whose fault it is.
        """
        suspects: list[Task] = []
        for task, result in self._run(tasks, _AHEAD * self._width()):
            if not isinstance(result, distributed.KilledWorker):
                yield task, result
            else:
                suspects += task.split()
        for task, result in self._run(suspects, 1):
            died = isinstance(result, distributed.KilledWorker)
            yield task, task.given_up(RuntimeError(f"worker processes died of it ({result})")) if died else result

    def _width(self) -> int:
        return max(len(self._client.scheduler_info(n_workers=-1)["workers"]), 1)

    def _run(self, tasks: Iterable[Task], width: int) -> Iterator[tuple[Task, Any]]:
        """Run tasks, `width` at a time; a `KilledWorker` is a result."""
        waiting = iter(tasks)
        running: dict[Any, Task] = {}
        completed = distributed.as_completed(loop=self._client.loop)

        def submit(task: Task) -> None:
            future = self._client.submit(_run, task, pure=False, retries=2)
            running[future] = task
            completed.add(future)

        for _, task in zip(range(width), waiting, strict=False):
            submit(task)
        while running:
            future = next(completed)
            task = running.pop(future)
            try:
                result = pickle.loads(future.result())
            except distributed.KilledWorker as error:
                result = error
            except (distributed.CancelledError, CommClosedError, OSError) as error:
                where = "the worker processes" if self._address is None else f"scheduler {self._address}"
                lost = "the connection was lost; finished cases stay: go on with --resume"
                raise ClusterError(f"{where}: {lost}") from error
            future.release()
            yield task, result
            following = next(waiting, None)
            if following is not None:
                submit(following)

    def close(self) -> None:
        """End the worker processes that were started here, and the connection."""
        self._exits.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _uninterrupted(start: Callable[..., Any], **options: Any) -> Any:
    """Call `start` so that Ctrl-C, which a terminal sends to all processes, reaches none that come from it.

    They inherit the mask of the thread that starts them, and those that take the place of a dead one too. A Ctrl-C on
    the way is served when this is over.
    """
    # The tracker, which is started with the first process, would lift the mask.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return start(**options)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def releases() -> dict[str, str]:
    """Return the releases that results may depend on."""
    return {name: version(name) for name in ("nonpu", "numpy", "ml_dtypes", "mpmath")}


def _run(task: Task) -> bytes:
    # One object: Dask would look into lists and dicts and send their many members one by one.
    return pickle.dumps(task.run(), pickle.HIGHEST_PROTOCOL)
