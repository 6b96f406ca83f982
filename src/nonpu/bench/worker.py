"""The process around one engine: commands come as lines of JSON on standard input, answers go to standard output.

``{"do": "prepare", "case": [...]}`` answers which lanes can run the case,
``{"do": "measure", "lane": ..., "calls": n}`` the seconds per call, ``{"do": "release"}`` gives the memory back.  The
first line that is written says whether the engine is installed.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from typing import Any

from nonpu.bench.cases import Case
from nonpu.bench.engines import Engine, Jax, Nonpu, Numexpr, Run, Torch, UnsupportedError
from nonpu.bench.limit import Limit, TriadRun

ENGINES: dict[str, type[Any]] = {"nonpu": Nonpu, "torch": Torch, "numexpr": Numexpr, "jax": Jax, "limit": Limit}
WARM_UP = 16
"""One in so many calls is made before the clock starts, at least one unless there is only one call."""


def seconds_per_call(run: Run, calls: int) -> float:
    """Time a batch of calls, after a few that wake caches and threads."""
    warm = -(-calls // WARM_UP) if calls > 1 else 0
    if isinstance(run, TriadRun):
        run.timed(max(warm, 1))
        return run.timed(calls) / calls
    for _ in range(warm):
        run()
    turns = itertools.repeat(None, calls)
    start = time.perf_counter()
    for _ in turns:
        run()
    return (time.perf_counter() - start) / calls


class Worker:
    """Answers commands with one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._runs: dict[str, Run] = {}

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command."""
        if command["do"] == "prepare":
            return self._prepare(Case(*command["case"]))
        if command["do"] == "measure":
            return {"seconds": seconds_per_call(self._runs[command["lane"]], command["calls"])}
        self._runs.clear()
        self._engine.release()
        return {}

    def _prepare(self, case: Case) -> dict[str, Any]:
        refused, samples = {}, {}
        for lane in self._engine.lanes:
            try:
                run = self._engine.prepare(case, lane)
                run()
                samples[lane] = self._engine.sample()
                self._runs[lane] = run
            except UnsupportedError as reason:
                refused[lane] = str(reason)
            except Exception as error:
                refused[lane] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return {"lanes": list(self._runs), "refused": refused, "samples": samples}


def main(arguments: list[str]) -> int:
    """Serve one engine until standard input ends."""
    name, threads = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the session ends its workers itself
    # A library that prints must not disturb the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        engine = ENGINES[name](int(threads))
        versions = engine.versions()
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        reason = "not installed" if missing else f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        print(json.dumps({"unavailable": reason}), file=answers, flush=True)
        return 0
    print(json.dumps({"versions": versions}), file=answers, flush=True)
    worker = Worker(engine)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
