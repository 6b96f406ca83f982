"""A run of the benchmark: it keeps one process per engine and number of threads and has them measure in turns.

Rounds are interleaved: every round measures each lane once, the order turning from round to round, so that whatever
else the machine does meets all lanes alike.  Ratios are taken within a round.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import nonpu
from nonpu.bench import machine
from nonpu.bench.cases import Case

ENGINES = ("nonpu", "torch", "numexpr", "jax", "limit")
VARIABLES = ("NONPU_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SETTLE, SPIN = 0.003, 0.02
"""Seconds before a measurement, after an engine with one thread and with several: until theirs have stopped spinning.
Those of OpenMP do so for some 15 ms, and meanwhile there is no second processor for the next engine."""
SCHEMA = 1


class Plan(NamedTuple):
    """How long to measure.

    Attributes
    ----------
    budget : float
        Seconds for all cases together; each gets its share of what is left.
    batch : float
        Seconds that one measurement aims at.
    rounds : tuple of int
        Fewest and most rounds of a case; the fewest are made even beyond the budget.
    """

    budget: float
    batch: float
    rounds: tuple[int, int]


FULL = Plan(420.0, 0.004, (5, 21))
QUICK = Plan(32.0, 0.002, (3, 11))


class WorkerError(Exception):
    """A worker ended before it answered."""


class Worker:
    """One engine's process with a number of threads.

    Attributes
    ----------
    engine, threads
        What it was started for.
    unavailable : str
        Why the engine cannot be used; empty if it can.
    versions : dict
        Releases that it reported.
    """

    def __init__(self, engine: str, threads: int) -> None:
        self.engine, self.threads = engine, threads
        self.unavailable = ""
        self.versions: dict[str, str] = {}
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        source = os.path.dirname(os.path.dirname(nonpu.__file__))
        inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nonpu.bench.worker", engine, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([source, *inherited]),
                **dict.fromkeys(VARIABLES, str(threads)),
            },
        )

    def begin(self) -> None:
        """Wait until the engine is loaded, or known to be missing."""
        try:
            greeting = self._read()
        except WorkerError as error:
            greeting = {"unavailable": str(error)}
        self.unavailable = greeting.get("unavailable", "")
        self.versions = greeting.get("versions", {})

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command and return the answer; `WorkerError` if there is none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerError(self._last_words()) from None
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"its process ended with status {status}" + (f": {last[:200]}" if last else "")

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class Lane(NamedTuple):
    """One way of running the current case."""

    name: str
    worker: Worker
    calls: int


class Session:
    """Measures cases; a context manager that ends its processes.

    Parameters
    ----------
    threads
        Numbers of threads to measure with.
    engines
        Engines to look for; those that are not installed are reported as such.
    """

    def __init__(self, threads: tuple[int, ...], engines: tuple[str, ...] = ENGINES) -> None:
        self.engines: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, str] = machine.versions()
        self._workers = [Worker(engine, count) for engine in engines for count in threads]
        try:
            for worker in list(self._workers):
                worker.begin()
                self._note(worker)
        except BaseException:
            self.close()
            raise

    def _note(self, worker: Worker) -> None:
        if worker.unavailable:
            self.engines[worker.engine] = {"available": False, "reason": worker.unavailable}
            self._workers.remove(worker)
            worker.close()
            return
        self.engines.setdefault(worker.engine, {"available": True, "reason": ""})
        self.versions.update(worker.versions)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        while self._workers:
            self._workers.pop().close()

    def measure(self, case: Case, seconds: float, plan: Plan) -> dict[str, Any]:
        """Return the record of a case, having spent about so many seconds on it.

        The record is one of those that `nonpu.bench.results` describes.
        """
        started = time.perf_counter()
        record: dict[str, Any] = {**case._asdict(), "times": {}, "refused": {}, "differs": []}
        needed, available = len(self._workers) * case.nbytes, machine.available_memory()
        if needed > available // 2:
            reason = f"needs {needed >> 20} MiB in all processes together, half of {available >> 20} MiB are free"
            record["refused"] = dict.fromkeys(("executor", "call"), reason)
            return record
        samples: dict[str, list[float]] = {}
        lanes = [lane for worker in list(self._workers) for lane in self._prepare(worker, case, record, samples, plan)]
        record["differs"] = disagreeing(samples, case)
        fewest, most = plan.rounds
        pause = SPIN
        for turn in range(most):
            if not lanes or (turn >= fewest and time.perf_counter() - started > seconds):
                break
            for lane in [*lanes[turn % len(lanes) :], *lanes[: turn % len(lanes)]]:
                time.sleep(pause)
                pause = SETTLE if lane.worker.threads == 1 else SPIN
                spent = self._ask(lane.worker, record, do="measure", lane=lane.name, calls=lane.calls).get("seconds")
                by_lane = record["times"].setdefault(str(lane.worker.threads), {})
                if spent is not None:
                    by_lane.setdefault(lane.name, []).append(float(f"{spent:.4g}"))
        for worker in list(self._workers):
            self._ask(worker, record, do="release")
        return record

    def _ask(self, worker: Worker, record: dict[str, Any], **command: Any) -> dict[str, Any]:
        """Return a worker's answer; nothing from a peer that has ended, which is noted and left out from then on."""
        if worker not in self._workers:
            return {}
        try:
            return worker.ask(**command)
        except WorkerError as error:
            if worker.engine == "nonpu":
                raise
            record["refused"][worker.engine] = str(error)
            self.engines[worker.engine] = {"available": True, "reason": f"with {worker.threads} threads {error}"}
            self._workers.remove(worker)
            worker.close()
            return {}

    def _prepare(
        self, worker: Worker, case: Case, record: dict[str, Any], samples: dict[str, list[float]], plan: Plan
    ) -> Iterator[Lane]:
        """Have a worker make its arrays, and find out how many calls fill a batch."""
        answer = self._ask(worker, record, do="prepare", case=list(case))
        record["refused"].update(answer.get("refused", {}))
        samples.update(answer.get("samples", {}))
        for name in answer.get("lanes", ()):
            calls, spent = 1, self._ask(worker, record, do="measure", lane=name, calls=1).get("seconds")
            while spent and calls * spent < plan.batch / 4 and calls < 1 << 20:
                calls *= 8
                spent = self._ask(worker, record, do="measure", lane=name, calls=calls).get("seconds")
            if spent:
                yield Lane(name, worker, max(1, round(plan.batch / spent)))


def disagreeing(samples: dict[str, list[float]], case: Case) -> list[str]:
    """Return the lanes whose first results are not those of our executor or call, beyond rounding."""
    ours = samples.get("executor") or samples.get("call") or []
    tolerance = 0.05 if case.dtype in ("float16", "bfloat16") or case.layout == "mixed" else 1e-3
    return [
        lane
        for lane, values in samples.items()
        if any(not abs(a - b) <= tolerance * (1 + abs(a)) for a, b in zip(ours, values, strict=False))
    ]


def run(
    cases: list[Case],
    plan: Plan,
    engines: tuple[str, ...] = ENGINES,
    progress: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> dict[str, Any]:
    """Measure cases and return the results that `nonpu.bench.results` describes.

    Raises
    ------
    WorkerError
        If a process ended in the middle, or our own could not start.
    """
    threads = (1, 2) if machine.processors() > 1 else (1,)
    begun, described = machine.now(), machine.describe()  # before our own processes add to the load
    records = []
    with Session(threads, engines) as session:
        ours = session.engines["nonpu"]
        if not ours["available"]:
            raise WorkerError(f"nonpu: {ours['reason']}")
        end = time.perf_counter() + plan.budget
        for index, case in enumerate(cases):
            progress(index, len(cases), case.name)
            share = max(0.0, end - time.perf_counter()) / (len(cases) - index)
            records.append(session.measure(case, share, plan))
        progress(len(cases), len(cases), "")
        return {
            "schema": SCHEMA,
            "begun": begun,
            "machine": described,
            "versions": session.versions,
            "settings": {"threads": list(threads), **plan._asdict()},
            "engines": session.engines,
            "cases": records,
        }
