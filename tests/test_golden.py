"""``nonpu golden``: what it writes, that nothing but the case and the seed decides on it, and how it goes on."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nonpu import AclnnError, Scalar, Tensor, aclnn, ops
from nonpu.verify import campaign
from nonpu.verify.campaign import make_folder
from nonpu.verify.casefiles import read_cases
from nonpu.verify.formats import FORMATS, StoreError
from nonpu.verify.store import file_name, open_folder
from tests.command_line import NONPU, ROOT, assert_refused, nonpu, output

OPERATORS = ("aclnnLeakyReluBackward", "aclnnSigmoidBackward", "aclnnSwishBackward")
SMALL = [
    {
        "id": f"case {number}",
        "operator": OPERATORS[number % 3],
        "dtype": ("fp32", "fp16", "bf16")[number // 3 % 3],
        "shape": [1 + number % 5, number % 7],
        "range": [[-4, 4], "special"][number % 2],
    }
    for number in range(60)
]
MANIFEST = {"format": "npz", "seed": 0}


def write(path: Path, cases: object) -> Path:
    """Write a case file and return its path."""
    path.write_text(json.dumps(cases))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Return a file of 900 cases, and what the serial command makes of it."""
    folder = tmp_path_factory.mktemp("many")
    path = write(folder / "many.json", [{**case, "id": f"c{n}-{case['id']}"} for n in range(15) for case in SMALL])
    output("golden", path, "-o", folder / "serial")
    return path, contents(folder / "serial")


class TestFolder:
    """What lies in it."""

    @pytest.mark.parametrize("format", FORMATS)
    def test_example_in_every_format(self, tmp_path: Path, format: str) -> None:
        printed = output("golden", ROOT / "examples" / "cases.json", "-o", tmp_path / "g", "--format", format)
        assert printed == f"{tmp_path}/g: 8 cases: 8 done, 0 refused by the contract, 0 failed\n"
        folder = open_folder(tmp_path / "g")
        assert folder.manifest.items() >= {"kind": "golden", "format": format, "seed": 1, "count": 8}.items()
        assert [case.index for case in folder.cases] == list(range(8))
        for case in folder.cases:
            (out,) = case.outputs
            for key in (out["name"], out["name"] + ".documented"):
                found = folder.load(case.id, key)
                assert (found.dtype.name, list(found.shape)) == (out["dtype"], out["shape"])
        half = folder.load("sigmoid-bf16", "gradOutput")
        assert half.dtype == ml_dtypes.bfloat16
        assert folder.load("sigmoid-complex", "output").dtype == np.complex64

    def test_goldens_are_the_exact_value_rounded_once(self, tmp_path: Path) -> None:
        """Against rational arithmetic, for types whose rounding Python's own conversion from a Fraction gives."""
        cases = [
            {"id": "leaky", "operator": "aclnnLeakyReluBackward", "dtype": "fp64", "shape": [200], "range": [-3, 3],
             "inputs": {"negativeSlope": {"dtype": "fp64", "value": 0.1}}},
            {"id": "sigmoid", "operator": "aclnnSigmoidBackward", "dtype": "fp64", "shape": [200], "range": [-3, 3]},
        ]  # fmt: skip
        folder = make(tmp_path, cases)
        grad, x = (folder.load("leaky", name).tolist() for name in ("gradOutput", "self"))
        slope = Fraction(0.1)
        exact = [float(Fraction(g) * (1 if v > 0 else slope)) for g, v in zip(grad, x, strict=True)]
        assert folder.load("leaky", "out").tolist() == exact
        grad, y = (folder.load("sigmoid", name).tolist() for name in ("gradOutput", "output"))
        exact = [float(Fraction(g) * Fraction(v) * (1 - Fraction(v))) for g, v in zip(grad, y, strict=True)]
        assert folder.load("sigmoid", "gradInput").tolist() == exact
        documented = folder.load("sigmoid", "gradInput.documented").tolist()
        assert documented == [((1 - v) * g) * v for g, v in zip(grad, y, strict=True)]
        assert documented != exact

    def test_documented_column_shows_what_the_device_loses(self, tmp_path: Path) -> None:
        case = {"id": "tail", "operator": "aclnnSwishBackward", "dtype": "fp32", "shape": [3], "range": -97.5}
        folder = make(tmp_path, [{**case, "inputs": {"gradOutput": {"range": 1}}}])
        assert (folder.load("tail", "gradInput") < 0).all()
        assert (folder.load("tail", "gradInput.documented") == 0).all()

    def test_strided_views_that_share_memory_hold_equal_values(self, tmp_path: Path) -> None:
        tensor = {"shape": [3, 4], "strides": [0, 2], "offset": 1}
        case = {"id": "s", "operator": "aclnnSigmoidBackward", "dtype": "fp32", "inputs": {"output": tensor}}
        folder = make(tmp_path, [{**case, "shape": [3, 4]}])
        found = folder.load("s", "output")
        assert (found == found[0]).all()
        assert len(set(found[0].tolist())) == 4
        (entry,) = (one for one in folder.cases[0].inputs if one["name"] == "output")
        assert (entry["strides"], entry["offset"]) == ([0, 2], 1)

    def test_refusals_are_those_of_the_first_phase(self, tmp_path: Path) -> None:
        """Status and text equal what the Python function of phase one raises for the same arguments."""
        swish = {"operator": "aclnnSwishBackward", "dtype": "fp32", "shape": [2, 3]}
        leaky = {"operator": "aclnnLeakyReluBackward", "dtype": "fp32", "shape": [2]}
        cases = [
            {**swish, "id": "double", "dtype": "fp64"},
            {**swish, "id": "shapes", "inputs": {"self": {"shape": [3]}}},
            {**leaky, "id": "slope", "inputs": {"negativeSlope": -1.0, "selfIsResult": True}},
            {**swish, "id": "null", "inputs": {"self": None}},
            {**swish, "id": "product", "product": "310B"},
            {**swish, "id": "type", "dtype": "int4"},
            {**swish, "id": "negative", "shape": [2, -3]},
            {**swish, "id": "beta", "inputs": {"beta": {"dtype": "complex64", "value": 1}}},
            {**swish, "id": "out", "outputs": {"out": {"dtype": "fp16"}}},
        ]
        folder = make(tmp_path, cases)
        assert [case.status for case in folder.cases] == ["refused"] * 9
        records = {case.id: case.record for case in folder.cases}
        assert [record["code"] for record in records.values()] == [161002] * 3 + [161001] + [161002] * 5
        x, double = Tensor((2, 3), "float32", data=1 << 40), Tensor((2, 3), "float64", data=1 << 40)
        one = Scalar(-1.0, "float32")
        nothing: Any = None
        for name, call in {
            "double": lambda: aclnn.aclnnSwishBackwardGetWorkspaceSize(double, double, None, double),
            "null": lambda: aclnn.aclnnSwishBackwardGetWorkspaceSize(x, nothing, None, x),
            "slope": lambda: aclnn.aclnnLeakyReluBackwardGetWorkspaceSize(x, x, one, True, x),
        }.items():
            with pytest.raises(AclnnError) as caught:
                call()
            assert records[name]["error"] == str(caught.value)
        assert not list((tmp_path / "g" / "data").iterdir())
        assert "310B" in records["product"]["error"] or "200I" in records["product"]["error"]

    def test_values_that_were_moved_are_noted(self, tmp_path: Path) -> None:
        leaky = {"operator": "aclnnLeakyReluBackward", "dtype": "fp16", "shape": [2], "range": [-1e6, 1]}
        folder = make(tmp_path, [{**leaky, "inputs": {"negativeSlope": {"dtype": "uint8", "value": -3}}}])
        assert folder.cases[0].record["notes"] == [
            "gradOutput: [-1000000.0, 1] became [-65504.0, 1] to fit float16",
            "self: [-1000000.0, 1] became [-65504.0, 1] to fit float16",
            "negativeSlope: -3 became 0 to fit uint8",
        ]

    def test_scalars_that_are_no_numbers_are_words(self, tmp_path: Path) -> None:
        swish = {"operator": "aclnnSwishBackward", "dtype": "fp16", "shape": [2], "inputs": {"beta": "nan"}}
        folder = make(tmp_path, [swish])
        assert [one.get("value") for one in folder.cases[0].inputs] == [None, None, "nan"]
        assert np.isnan(folder.load("swish_backward-000000", "gradInput")).all()
        assert "NaN" not in (tmp_path / "g" / "cases.jsonl").read_text()


def make(tmp_path: Path, cases: object, **options: Any) -> Any:
    """Make a folder in this process and open it."""
    requests, _ = read_cases(write(tmp_path / "cases.json", cases))
    make_folder(tmp_path / "g", requests, MANIFEST, **options)
    return open_folder(tmp_path / "g")


class TestReproducibility:
    """The same bits whatever else happens."""

    def test_order_selection_and_batches_do_not_matter(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        requests, _ = read_cases(write(tmp_path / "a.json", SMALL))
        make_folder(tmp_path / "a", requests, MANIFEST)
        monkeypatch.setattr(campaign, "_BATCH_CASES", 7)
        reverse, _ = read_cases(write(tmp_path / "b.json", SMALL[::-1]))
        make_folder(tmp_path / "b", reverse, MANIFEST)
        one = [request for request in requests if request.id == "case 13"]
        make_folder(tmp_path / "c", one, MANIFEST)
        first, second, third = (contents(tmp_path / name / "data") for name in "abc")
        assert first == second
        assert third == {"case%2013.npz": first["case%2013.npz"]}

    def test_the_seed_decides(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", SMALL[:6])
        for name, options in (("a", ()), ("b", ("--seed", "0")), ("c", ("--seed", "1"))):
            output("golden", path, "-o", tmp_path / name, *options)
        a, b, c = (contents(tmp_path / name / "data") for name in "abc")
        assert a == b
        assert a.keys() == c.keys()
        assert all(a[name] != c[name] for name in a if name != "case%200.npz")

    def test_parts_of_a_large_case_are_the_whole(self, tmp_path: Path) -> None:
        """Broadcast, strided, bfloat16 and complex inputs, in parts of 1000 elements."""
        cases = [
            {"id": "same", "operator": "aclnnSwishBackward", "dtype": "bf16", "shape": [70, 999], "range": "special"},
            {"id": "wide", "operator": "aclnnLeakyReluBackward", "inputs": {
                "gradOutput": {"dtype": "fp16", "shape": [300, 1]},
                "self": {"dtype": "fp32", "shape": [7], "strides": [3], "offset": 2}}},
            {"id": "turned", "operator": "aclnnSigmoidBackward", "dtype": "complex64", "inputs": {
                "gradOutput": {"shape": [60, 50], "strides": [1, 60]}, "output": {"shape": [50]}}},
            {"id": "none", "operator": "aclnnSigmoidBackward", "dtype": "fp32", "inputs": {
                "gradOutput": {"shape": [0, 5000]}, "output": {"shape": [5000]}}},
        ]  # fmt: skip
        requests, _ = read_cases(write(tmp_path / "a.json", cases))
        make_folder(tmp_path / "whole", requests, MANIFEST)
        make_folder(tmp_path / "parts", requests, MANIFEST, chunk=1000)
        whole, parts = open_folder(tmp_path / "whole"), open_folder(tmp_path / "parts")
        assert whole.cases == parts.cases
        assert {path.name for path in (tmp_path / "parts" / "data").iterdir()} == {"same", "wide", "turned", "none"}
        for case in whole.cases:
            for key in whole.keys(case.id):
                assert whole.load(case.id, key).tobytes() == parts.load(case.id, key).tobytes(), (case.id, key)

    @pytest.mark.slow
    def test_a_case_larger_than_memory(self, tmp_path: Path) -> None:
        """64 Mi elements: five arrays of 256 MiB with 1.2 GiB of address space, most of which the libraries take."""
        case = {"id": "big", "operator": "aclnnLeakyReluBackward", "dtype": "fp32", "shape": [64, 1 << 20]}
        path = write(tmp_path / "big.json", [case])
        limited = f"ulimit -v 1200000; OPENBLAS_NUM_THREADS=1 {NONPU} golden {path} -o {tmp_path}/g"
        finished = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, timeout=300)
        assert (finished.returncode, finished.stderr) == (0, "")
        folder = open_folder(tmp_path / "g")
        grad, x, out = (folder.load("big", name)[17] for name in ("gradOutput", "self", "out"))
        assert np.array_equal(out, np.where(x > 0, grad, grad * np.float32(0.01)))


class TestWorkers:
    """Processes of a Dask cluster."""

    def test_two_workers_give_the_serial_bits(self, tmp_path: Path, many: tuple[Path, dict[str, bytes]]) -> None:
        path, expected = many
        with socket.socket() as taken:
            try:
                # The port that Dask would like, which says on stderr if it cannot have it.
                taken.bind(("127.0.0.1", 8787))
                taken.listen()
            except OSError:
                pass  # somebody else has it: the same
            output("golden", path, "-o", tmp_path / "g", "--workers", "2")
        assert contents(tmp_path / "g") == expected

    def test_a_worker_that_dies_loses_nothing(self, tmp_path: Path, many: tuple[Path, dict[str, bytes]]) -> None:
        path, expected = many
        with started(path, tmp_path / "g", "--workers", "2") as process:
            victim = workers_of(process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            assert finish(process) == (0, "")
        assert contents(tmp_path / "g") == expected

    def test_a_case_that_kills_its_workers_fails_alone(self, tmp_path: Path) -> None:
        """Its batch is split: the others are made, and the line of the case says why it has failed."""
        dask = pytest.importorskip("dask")
        from nonpu.verify.cluster import Cluster

        requests, _ = read_cases(write(tmp_path / "a.json", SMALL[:5]))
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}), Cluster(workers=1) as cluster:
            outcome = make_folder(
                tmp_path / "g",
                requests,
                MANIFEST,
                runner=lambda tasks: cluster.run(Deadly(task.requests, task.format) for task in tasks),
            )
        assert (outcome.done, outcome.failed) == (4, 1)
        case = open_folder(tmp_path / "g").case("case 2")
        assert case is not None
        assert case.status == "failed"
        assert "worker processes died of it" in case.record["error"]

    def test_an_existing_cluster(self, tmp_path: Path) -> None:
        """Of a scheduler that somebody else has started; its workers' results are written by the command."""
        distributed = pytest.importorskip("distributed")
        path = write(tmp_path / "a.json", SMALL)
        output("golden", path, "-o", tmp_path / "serial")
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0", local_directory=tmp_path / "dask"
        ) as cluster:
            output("golden", path, "-o", tmp_path / "g", "--scheduler", cluster.scheduler_address)
        assert contents(tmp_path / "g") == contents(tmp_path / "serial")

    def test_a_scheduler_that_is_none(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", SMALL)
        refused = nonpu("golden", path, "-o", tmp_path / "g", "--scheduler", "somewhere")
        assert_refused(refused, 1, "scheduler must be an address like tcp://host:8786 (got somewhere)")
        assert not (tmp_path / "g").exists()


class Deadly(campaign.Task):
    """A task that ends its process where it meets a certain case."""

    def run(self) -> object:
        """Die, or do the work."""
        if any(request.id == "case 2" for request in self.requests):
            os._exit(1)
        return super().run()


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command as a terminal does, in a group of its own, and wait until it has finished some cases."""
    process = subprocess.Popen(
        [NONPU, "golden", arguments[0], "-o", *arguments[1:]],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = Path(arguments[1]) / "cases.jsonl"
    until = time.monotonic() + 120
    while not (journal.exists() and journal.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    return process


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the command and return its exit status and what it wrote on stderr."""
    _, errors = process.communicate(timeout=240)
    return process.returncode, errors


def workers_of(pid: int) -> list[int]:
    """Return the processes that multiprocessing has spawned for a process, in order."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return sorted(found)


class TestInterruption:
    """Ctrl-C, --resume, and folders that hold something already."""

    @pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["serial", "workers"])
    def test_finished_cases_stay_and_resume_makes_the_rest(
        self, tmp_path: Path, many: tuple[Path, dict[str, bytes]], options: tuple[str, ...]
    ) -> None:
        """A terminal sends SIGINT to every process of the group; one line answers it."""
        path, expected = many
        for attempt in range(5):  # on a busy machine the command may be done before the signal is sent
            folder = tmp_path / str(attempt)
            with started(path, folder, *options) as process:
                os.killpg(process.pid, signal.SIGINT)
                status, errors = finish(process)
            if status != 0:
                break
        assert status == 130
        assert errors == f"nonpu: interrupted; {folder} keeps the finished cases: go on with --resume\n"
        before = open_folder(folder)
        assert 0 < len(before.cases) < 900
        for case in before.cases[:20]:
            assert before.load(case.id, case.outputs[0]["name"]).size == math.prod(case.outputs[0]["shape"])
        sample = folder / "data" / f"{file_name(before.cases[0].id)}.npz"
        kept = sample.stat().st_mtime_ns
        assert output("golden", path, "-o", folder, "--resume").endswith(
            "900 done, 0 refused by the contract, 0 failed\n"
        )
        assert contents(folder) == expected
        assert sample.stat().st_mtime_ns == kept

    def test_resume_where_nothing_was_begun(self, tmp_path: Path, many: tuple[Path, dict[str, bytes]]) -> None:
        """Ctrl-C may come before the folder is there; a journal without a manifest tells too little."""
        path, expected = many
        output("golden", path, "-o", tmp_path / "g", "--resume")
        assert contents(tmp_path / "g") == expected
        (tmp_path / "g" / "manifest.json").unlink()
        assert_refused(nonpu("golden", path, "-o", tmp_path / "g", "--resume"), 1, "manifest.json is missing")

    def test_a_case_larger_than_the_disk_is_failed_at_once(self, tmp_path: Path) -> None:
        """And nothing of it is begun; the other cases are made."""
        cases = [{"operator": OPERATORS[2], "dtype": "fp32", "shape": [length]} for length in (1 << 58, 3)]
        path = write(tmp_path / "cases.json", cases)
        finished = nonpu("golden", path, "-o", tmp_path / "g")
        assert finished.returncode == 1
        assert finished.stdout.endswith("2 cases: 1 done, 0 refused by the contract, 1 failed\n")
        first = open_folder(tmp_path / "g").cases[0].record
        assert f"needs {4 * 4 * (1 << 58)} bytes for this case" in first["error"]
        assert sorted(contents(tmp_path / "g")) == ["cases.jsonl", "data/swish_backward-000001.npz", "manifest.json"]

    def test_a_case_called_data(self, tmp_path: Path) -> None:
        """Its folder is data/data."""
        path = write(tmp_path / "cases.json", [{**SMALL[1], "id": "data"}])
        output("golden", path, "-o", tmp_path / "g", "--format", "npy")
        assert open_folder(tmp_path / "g").names() == ["data"]
        assert "1 case: 1 pass" in nonpu("compare", tmp_path / "g", tmp_path / "g").stdout

    def test_a_kill_loses_only_what_was_in_work(self, tmp_path: Path, many: tuple[Path, dict[str, bytes]]) -> None:
        path, expected = many
        with started(path, tmp_path / "g") as process:
            process.kill()
            finish(process)
        with (tmp_path / "g" / "cases.jsonl").open("a") as file:
            file.write('{"id": "cut')
        output("golden", path, "-o", tmp_path / "g", "--resume", "--workers", "2")
        assert contents(tmp_path / "g") == expected

    def test_an_error_on_the_way_keeps_what_is_done(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(campaign, "_BATCH_CASES", 10)
        requests, _ = read_cases(write(tmp_path / "a.json", SMALL))

        def breaks(tasks):
            for number, done in enumerate(campaign.serially(tasks)):
                if number == 2:
                    raise KeyboardInterrupt
                yield done

        with pytest.raises(KeyboardInterrupt):
            make_folder(tmp_path / "g", requests, MANIFEST, runner=breaks)
        assert len(open_folder(tmp_path / "g").cases) == 20
        seen = []
        make_folder(tmp_path / "g", requests, MANIFEST, resume=True, progress=lambda cases, _: seen.append(cases))
        assert seen == [20, 10, 10, 10, 10]

    def test_missing_data_and_failures_are_made_again(self, tmp_path: Path) -> None:
        folder = make(tmp_path, SMALL[:4])
        (tmp_path / "g" / "data" / "case%201.npz").unlink()
        lines = (tmp_path / "g" / "cases.jsonl").read_text().replace('"status": "done"', '"status": "failed"', 1)
        (tmp_path / "g" / "cases.jsonl").write_text(lines)
        before = contents(tmp_path / "g")
        again = make(tmp_path, SMALL[:4], resume=True)
        assert again.cases == folder.cases
        assert contents(tmp_path / "g").keys() == {*before, "data/case%201.npz"}

    def test_a_folder_that_holds_cases_is_not_overwritten(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", SMALL[:3])
        output("golden", path, "-o", tmp_path / "g")
        before = contents(tmp_path / "g")
        assert_refused(nonpu("golden", path, "-o", tmp_path / "g"), 1, "holds cases already: give --resume")
        for options, text in (
            (("--seed", "4"), "seed must be 0, as in the run to go on with (got 4)"),
            (("--format", "npy"), "format must be 'npz'"),
            (("--product", "A3"), "product must be 'Ascend910B1'"),
        ):
            assert_refused(nonpu("golden", path, "-o", tmp_path / "g", "--resume", *options), 1, text)
        write(path, SMALL[:4])
        assert_refused(nonpu("golden", path, "-o", tmp_path / "g", "--resume"), 1, "a.json has changed since")
        assert contents(tmp_path / "g") == before


class TestCommand:
    """Usage, failures, and what is imported."""

    @pytest.mark.parametrize(
        ("arguments", "fragment"),
        [
            (["a.json"], "--output"),
            (["none.json", "-o", "g"], "none.json"),
            (["a.json", "-o", "g", "--format", "zip"], "--format"),
            (["a.json", "-o", "g", "--seed", "-1"], "--seed"),
            (["a.json", "-o", "g", "--workers", "0"], "--workers"),
            (["a.json", "-o", "g", "--workers", "1", "--scheduler", "tcp://a:1"], "give one of them"),
            (["a.json", "-o", "g", "--only", "nothing"], "--only: no case 'nothing' in the file"),
            (["a.json", "-o", "a.json"], "a.json"),
            (["a.json", "-o", "g", "--product", "Ascend1"], "Ascend910B1"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_wrong_usage(self, tmp_path: Path, arguments: list[str], fragment: str) -> None:
        write(tmp_path / "a.json", SMALL[:1])
        assert_refused(nonpu("golden", *arguments, cwd=tmp_path), 2, fragment)
        assert not (tmp_path / "g").exists()

    def test_malformed_cases_leave_nothing(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", [*SMALL, {**SMALL[0], "id": "bad", "dtype": "fp17"}])
        refused = nonpu("golden", path, "-o", tmp_path / "g")
        assert_refused(refused, 1, f"{path}: case 61 (id bad): inputs.gradOutput.dtype must be", "'fp17'")
        assert not (tmp_path / "g").exists()

    def test_only_makes_one_case(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", SMALL)
        assert "1 case: 1 done" in output("golden", path, "-o", tmp_path / "g", "--only", "case 7")
        assert [case.id for case in open_folder(tmp_path / "g").cases] == ["case 7"]

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", SMALL[:1])
        assert_refused(nonpu("golden", path, "-o", "/proc/g"), 1, "/proc/g")

    def test_product_of_the_option_is_the_default_of_cases(self, tmp_path: Path) -> None:
        cases = [{**SMALL[6], "id": "default"}, {**SMALL[6], "id": "own", "product": "A2"}]
        path = write(tmp_path / "a.json", cases)
        printed = output("golden", path, "-o", tmp_path / "g", "--product", "310P")
        assert "1 done, 1 refused" in printed
        assert [case.record["product"] for case in open_folder(tmp_path / "g").cases] == ["Ascend310P1", "Ascend910B1"]

    @pytest.mark.parametrize(
        ("module", "arguments", "extra"),
        [("mpmath", (), "verify"), ("distributed", ("--workers", "1"), "dask"), ("torch", ("--format", "pt"), "torch")],
    )
    def test_a_missing_extra_is_one_line(
        self, tmp_path: Path, module: str, arguments: tuple[str, ...], extra: str
    ) -> None:
        path = write(tmp_path / "a.json", SMALL[:1])
        code = (
            "import sys, importlib.util as u; find = u.find_spec;"
            f"u.find_spec = lambda name, *rest: None if name == {module!r} else find(name, *rest);"
            "from nonpu.cli import main; sys.exit(main(sys.argv[1:]))"
        )
        finished = subprocess.run(
            [sys.executable, "-c", code, "golden", path, "-o", tmp_path / "g", *arguments],
            capture_output=True,
            text=True,
        )
        assert_refused(finished, 1, f"install 'nonpu[{extra}]'")

    def test_help_imports_nothing_heavy(self) -> None:
        code = (
            "import sys; from nonpu.cli import main; main(['golden', '--help']);"
            "print(*(name for name in ('numpy', 'mpmath', 'dask', 'rich', 'torch') if name in sys.modules))"
        )
        finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert finished.stdout.endswith("\n\n"), finished.stdout

    def test_every_operator_can_have_goldens(self, tmp_path: Path) -> None:
        """With the first type that each lists, so that an operator without an oracle is found out."""
        cases = [
            {"operator": op.api, "dtype": op.tensors[op.inputs[0]].dtypes[0].python_name, "shape": [3]}
            for op in ops.OPS
        ]
        folder = make(tmp_path, cases)
        assert [case.status for case in folder.cases] == ["done"] * len(ops.OPS)

    def test_a_case_that_fails_is_recorded_and_the_status_tells(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from nonpu.cli import main
        from nonpu.verify.golden import Oracle

        def broken(*_: object) -> None:
            raise ArithmeticError("no\nvalue")

        monkeypatch.setattr(Oracle, "golden", broken)
        path = write(tmp_path / "a.json", SMALL[:2])
        assert main(["golden", str(path), "-o", str(tmp_path / "g")]) == 1
        captured = capsys.readouterr()
        assert "0 done, 0 refused by the contract, 2 failed" in captured.out
        assert captured.err == f"nonpu: 2 of 2 cases failed: {tmp_path}/g/cases.jsonl says why\n"
        records = [case.record for case in open_folder(tmp_path / "g").cases]
        assert [record["error"] for record in records] == ["ArithmeticError: no value"] * 2

    def test_disk_errors_are_one_line(self, tmp_path: Path) -> None:
        requests, _ = read_cases(write(tmp_path / "a.json", SMALL[:1]))
        (tmp_path / "g").write_text("")
        with pytest.raises(StoreError, match="g"):
            make_folder(tmp_path / "g", requests, MANIFEST)
