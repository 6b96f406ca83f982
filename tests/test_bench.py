"""The benchmark's table of cases, engines and processes. Nothing here depends on how fast anything is."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nonpu.bench import cases, engines, limit, machine, report, results, session, worker
from nonpu.bench.cases import CASES, SIZES, Case
from tests.command_line import nonpu

HIDDEN = ("torch", "numexpr", "jax")


@pytest.fixture
def without_peers(tmp_path: Path) -> dict[str, str]:
    """An environment in which no peer can be imported."""
    folder = tmp_path / "hidden"
    folder.mkdir()
    for name in HIDDEN:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')\n")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


@pytest.fixture
def threads_restored() -> Iterator[None]:
    """Engines bind the process to a number of threads: undo it."""
    from nonpu._core import lib

    yield
    lib.nonpu_set_threads(0)


class TestTable:
    """The table of cases."""

    def test_every_operator_type_size_and_layout_is_there(self) -> None:
        names = {case.name for case in CASES}
        assert len(names) == len(CASES)
        sizes = [size for size in SIZES if size != "64"]
        for operator in ("leaky", "sigmoid", "swish", "swish-beta"):
            dtypes = cases.FLOATS + (cases.COMPLEX if operator == "sigmoid" else ())
            assert {f"{operator}/{dtype}/contiguous/{size}" for dtype in dtypes for size in sizes} <= names
            assert f"{operator}/float32/contiguous/64" in names
        for layout in cases.LAYOUTS:
            for operator in ("leaky", "sigmoid", "swish"):
                expected = layout != "mixed" or operator != "swish"
                for size in sizes:
                    assert (f"{operator}/float32/{layout}/{size}" in names) is expected

    @pytest.mark.parametrize("case", [case for case in CASES if case.size == "1Ki"], ids=lambda case: case.name)
    def test_views_are_what_the_layout_says(self, case: Case) -> None:
        grad, forward, out = engines.arrays(case)
        assert out.size == case.elements
        assert out.flags.c_contiguous
        assert np.broadcast_shapes(grad.shape, forward.shape) == out.shape
        assert out.dtype == forward.dtype == engines.numpy_dtype(case.dtype)
        assert (grad.dtype != out.dtype) is (case.layout == "mixed")
        item = out.itemsize
        rows, columns = {
            "transposed": (item, 32 * item),
            "row-broadcast": (0, item),
            "column-broadcast": (item, 0),
            "scalar-broadcast": (0, 0),
            "sliced": (64 * item, 2 * item),
        }.get(case.layout, (0, 0))
        if out.ndim == 2:
            assert np.broadcast_to(forward, out.shape).strides == (rows, columns)

    def test_bytes_are_those_of_all_allocations(self) -> None:
        assert Case("leaky", "float32", "contiguous", "1Ki").nbytes == 3 * 4096
        assert Case("leaky", "float32", "sliced", "1Ki").nbytes == 5 * 4096
        assert Case("leaky", "float32", "mixed", "1Ki").nbytes == 2 * 4096 + 2048
        assert Case("sigmoid", "complex128", "contiguous", "1Ki").nbytes == 3 * 16384

    def test_quick_run_has_every_operator_and_layout_and_nothing_large(self) -> None:
        quick = cases.select(quick=True)
        assert {case.operator for case in quick} == {case.operator for case in CASES}
        assert {case.layout for case in quick} == set(cases.LAYOUTS)
        assert {case.dtype for case in quick} == {case.dtype for case in CASES}
        assert max(case.elements for case in quick) <= 1 << 20

    def test_pattern_may_match_anywhere(self) -> None:
        assert cases.select() == list(CASES)
        assert {case.size for case in cases.select("/16Mi")} == {"16Mi"}
        assert {case.operator for case in cases.select("swish*/float64")} == {"swish", "swish-beta"}
        assert cases.select("SWISH") == []


class TestWorker:
    """The process around an engine, here without the process."""

    @pytest.mark.usefixtures("threads_restored")
    @pytest.mark.parametrize("case", [case for case in CASES if case.size == "1Ki"], ids=lambda case: case.name)
    def test_both_lanes_of_ours_give_the_same(self, case: Case) -> None:
        served = worker.Worker(engines.Nonpu(1))
        answer = served.answer({"do": "prepare", "case": list(case)})
        one_call_only = case.operator.startswith("swish") and (case.dtype == "float64" or "broadcast" in case.layout)
        assert set(answer["refused"]) == ({"executor"} if one_call_only else set())
        assert answer["lanes"] == (["call"] if one_call_only else ["executor", "call"])
        first, *others = answer["samples"].values()
        assert len(first) == engines.SAMPLE
        assert any(first)
        assert all(other == first for other in others)
        assert served.answer({"do": "measure", "lane": "call", "calls": 3})["seconds"] > 0
        assert served.answer({"do": "release"}) == {}

    @pytest.mark.parametrize(("calls", "made"), [(1, 1), (2, 3), (16, 17), (17, 19), (160, 170)])
    def test_batch_makes_so_many_calls_after_its_warm_up(self, calls: int, made: int) -> None:
        seen: list[int] = []
        assert worker.seconds_per_call(lambda: seen.append(1), calls) > 0
        assert len(seen) == made

    @pytest.mark.parametrize("compiler", [True, False], ids=["C", "NumPy"])
    @pytest.mark.parametrize("threads", [1, 2])
    def test_triad_adds(self, monkeypatch: pytest.MonkeyPatch, compiler: bool, threads: int) -> None:
        if not compiler:
            monkeypatch.setattr(limit, "find_compiler", list)
        elif not limit.find_compiler():
            pytest.skip("this machine has no C compiler")
        triad = limit.Limit(threads)
        case = Case("leaky", "float16", "contiguous", "1Ki")
        for lane in triad.lanes:
            if lane == "streaming triad" and (not compiler or os.uname().machine != "x86_64"):
                with pytest.raises(engines.UnsupportedError):
                    triad.prepare(case, lane)
                continue
            run = triad.prepare(case, lane)
            triad._arrays[0].fill(0)
            run()
            assert np.array_equal(triad._arrays[0], np.full(512, 2, np.float32))
            assert worker.seconds_per_call(run, 3) > 0
        with pytest.raises(engines.UnsupportedError):
            triad.prepare(Case("leaky", "float32", "sliced", "1Ki"), "plain triad")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", HIDDEN)
    def test_installed_peers_agree_with_us(self, name: str) -> None:
        pytest.importorskip(name)
        chosen = [case for case in CASES if case.size == "1Ki" and case.dtype in ("float32", "bfloat16", "complex64")]
        measured = session.run(chosen, session.Plan(0.0, 1e-5, (1, 1)), ("nonpu", name))
        assert measured["engines"][name] == {"available": True, "reason": ""}
        assert [record for record in measured["cases"] if record["differs"]] == []
        assert any(name in record["times"]["1"] for record in measured["cases"])


class TestSession:
    """Real processes: peers that are missing, broken or end early."""

    CHOSEN = (Case("leaky", "float32", "contiguous", "64"), Case("swish", "float32", "row-broadcast", "1Ki"))
    PLAN = session.Plan(0.0, 1e-5, (2, 2))

    def run(self, *names: str) -> dict[str, Any]:
        """Measure the two cases as briefly as can be."""
        return results.check(json.loads(results.dump(session.run(list(self.CHOSEN), self.PLAN, names))))

    def test_without_peers(self, monkeypatch: pytest.MonkeyPatch, without_peers: dict[str, str]) -> None:
        monkeypatch.setenv("PYTHONPATH", without_peers["PYTHONPATH"])
        measured = self.run(*session.ENGINES)
        for name in HIDDEN:
            assert measured["engines"][name] == {"available": False, "reason": "not installed"}
        assert measured["engines"]["nonpu"]["available"]
        first, second = measured["cases"]
        for count in measured["settings"]["threads"]:
            assert {"executor", "call", "plain triad"} <= set(first["times"][str(count)])
            assert set(second["times"][str(count)]) == {"call"}
            assert all(len(rounds) == 2 for rounds in first["times"][str(count)].values())
        assert "executor" in second["refused"]
        page = report.render(measured)
        assert "torch (not installed)" in page
        assert "relative to PyTorch" not in page

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("raise ValueError('two\\nlines')", "ValueError: two lines"),
            ("raise ModuleNotFoundError('no sympy', name='sympy')", "ModuleNotFoundError: no sympy"),
            ("import os, sys; print('a library talks'); sys.stderr.write('last words\\n'); os._exit(3)", "last words"),
            ("import os; os.kill(os.getpid(), 9)", "status -9"),
        ],
        ids=["error", "incomplete", "exit", "killed"],
    )
    def test_peer_that_does_not_start(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, reason: str
    ) -> None:
        (tmp_path / "numexpr.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        measured = self.run("nonpu", "numexpr")
        assert not measured["engines"]["numexpr"]["available"]
        assert reason in measured["engines"]["numexpr"]["reason"]
        assert measured["cases"][0]["times"]["1"]["executor"]

    def test_peer_that_ends_in_the_middle_is_left_out(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "numexpr.py").write_text(
            "import os\n__version__ = '0'\ncalls = []\ndef set_num_threads(count): pass\n"
            "def evaluate(*_, **__):\n    calls.append(1)\n    if len(calls) > 2:\n        os._exit(4)\n"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        measured = self.run("nonpu", "numexpr")
        assert "status 4" in measured["engines"]["numexpr"]["reason"]
        assert "status 4" in measured["cases"][0]["refused"]["numexpr"]
        assert len(measured["cases"][0]["times"]["1"]["executor"]) == 2
        assert measured["cases"][1]["times"]["1"]["call"]

    def test_ours_that_does_not_start_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NONPU_CPU_LEVEL", "pdp11")
        with pytest.raises(session.WorkerError, match="NONPU_CPU_LEVEL"):
            self.run("nonpu")

    def test_case_that_does_not_fit_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 0)
        for record in self.run("nonpu")["cases"]:
            assert record["times"] == {}
            assert "MiB" in record["refused"]["executor"]

    def test_disagreement_is_noticed_beyond_rounding_only(self) -> None:
        case = self.CHOSEN[0]
        samples = {"executor": [1.0, 2.0], "torch": [1.0001, 2.0], "jax": [1.0, 2.1], "numexpr": [math.nan, 2.0]}
        assert session.disagreeing({**samples, "plain triad": []}, case) == ["jax", "numexpr"]
        assert session.disagreeing(samples, case._replace(dtype="bfloat16")) == ["numexpr"]


def test_run_without_peers(tmp_path: Path, without_peers: dict[str, str]) -> None:
    """The command from end to end: the file that it writes and the page that it prints agree."""
    file = tmp_path / "out.json"
    finished = nonpu("bench", "--quick", "--cases", "leaky/float32/contiguous/1Ki", "--json", file, env=without_peers)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == report.render(results.load(str(file)))
    assert "Share of the memory limit" in finished.stdout
