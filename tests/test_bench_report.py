"""The benchmark's files, ratios, pages and command line, from canned results."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from nonpu.bench import plot, report, results
from nonpu.bench.cases import CASES
from tests.command_line import ROOT, assert_refused, nonpu

HEAD = {
    "schema": 1,
    "begun": "2026-01-02T03:04:05Z",
    "machine": {
        "processor": "Testium",
        "architecture": "x86_64",
        "processors": 2,
        "caches": ["L1 32K"],
        "memory": 8 << 30,
        "system": "Linux 6",
        "load": 0.25,
    },
    "versions": {"python": "3.11.7", "nonpu": "0.1.0"},
    "settings": {"threads": [1, 2], "budget": 1.0, "batch": 0.1, "rounds": [3, 3]},
    "engines": {
        "nonpu": {"available": True, "reason": ""},
        "torch": {"available": True, "reason": ""},
        "jax": {"available": False, "reason": "not installed"},
    },
}
RECORD = {
    "operator": "leaky",
    "dtype": "float32",
    "layout": "contiguous",
    "size": "1Ki",
    "times": {
        "1": {
            "executor": [1e-6, 2e-6, 4e-6],
            "call": [2e-6, 2e-6, 2e-6],
            "torch": [3e-6, 4e-6, 4e-6],
            "plain triad": [5e-7, 5e-7, 5e-7],
            "streaming triad": [2e-6, 2e-6, 2e-6],
        },
        "2": {"executor": [1e-6, 1e-6, 2e-6], "torch": [3e-6, 3e-6, 3e-6]},
    },
    "refused": {"numexpr": "it is in a bad mood"},
    "differs": [],
}


@pytest.fixture
def canned() -> dict[str, Any]:
    """Results as a run would write them: two sizes of one operator, and one case that has no executor."""
    other = {**copy.deepcopy(RECORD), "size": "1Mi"}
    swish = {
        **copy.deepcopy(RECORD),
        "operator": "swish",
        "dtype": "float64",
        "times": {"1": {"call": [2e-6, 2e-6], "torch": [5e-6, 5e-6]}},
        "refused": {"executor": "the contract refuses it"},
    }
    return results.check(copy.deepcopy({**HEAD, "cases": [RECORD, other, swish]}))


@pytest.fixture
def canned_file(canned: dict[str, Any], tmp_path: Path) -> Path:
    """The same in a file."""
    path = tmp_path / "canned.json"
    path.write_text(results.dump(canned))
    return path


class TestResults:
    """The file and the ratios."""

    def test_ratios_are_medians_of_rounds(self) -> None:
        assert results.speed(RECORD, 1, "executor", "torch") == 2.0  # 3, 2, 1
        assert results.speed(RECORD, 1, "call", "torch") == 2.0  # 1.5, 2, 2
        assert results.speed(RECORD, 2, "executor", "torch") == 3.0  # 3, 3, 1.5
        assert results.scaling(RECORD, "executor", 2) == 2.0  # 1, 2, 2
        assert results.median(RECORD, 1, "executor") == 2e-6
        assert results.paired([4.0, 9.0, 8.0], [2.0, 3.0]) == 2.5
        for nothing in ("jax", "fortran"):
            assert results.speed(RECORD, 1, "executor", nothing) is None
        assert results.scaling(RECORD, "call", 2) is None

    def test_limit_is_the_quicker_triad(self) -> None:
        assert results.limit(RECORD, 1) == "plain triad"
        assert results.share_of_limit(RECORD, 1) == 0.25  # 1/2, 1/4, 1/8
        assert results.limit(RECORD, 2) is None
        assert results.share_of_limit(RECORD, 2) is None

    def test_file_comes_back_with_one_line_per_case(self, canned: dict[str, Any], canned_file: Path) -> None:
        assert results.load(str(canned_file)) == canned
        text = canned_file.read_text()
        assert sum('"operator"' in line for line in text.splitlines()) == text.count('"operator"') == 3

    @pytest.mark.parametrize(
        ("path", "value", "fragment"),
        [
            (("schema",), 2, "schema must be 1"),
            (("begun",), None, "begun"),
            (("machine", "load"), None, "load"),
            (("versions", "python"), 3.11, "versions"),
            (("settings", "threads"), [], "threads"),
            (("engines", "jax"), {}, "jax"),
            (("cases",), {}, "cases"),
            (("cases", 1), 7, r"cases\[1\]"),
            (("cases", 1, "size"), 7, r"cases\[1\]: size"),
            (("cases", 1, "refused"), [], "refused"),
            (("cases", 1, "differs"), None, "differs"),
            (("cases", 1, "times", "one"), {}, "number of threads"),
            (("cases", 1, "times", "1", "call"), [], "times of call"),
            (("cases", 1, "times", "1", "call"), [0.0], "times of call"),
            (("cases", 1, "times", "1", "call"), ["1"], "times of call"),
        ],
    )
    def test_wrong_files_are_refused(
        self, canned: dict[str, Any], path: tuple[Any, ...], value: object, fragment: str
    ) -> None:
        place: Any = canned
        for step in path[:-1]:
            place = place[step]
        if value is None:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        with pytest.raises(ValueError, match=fragment):
            results.check(canned)


class TestReport:
    """The page and the picture."""

    def test_page_shows_machine_versions_and_ratios(self, canned: dict[str, Any]) -> None:
        page = report.render(canned, "speed.png")
        for text in ("Testium", "8.0 GiB", "nonpu 0.1.0", "2026-01-02T03:04:05Z", "jax (not installed)", "(speed.png)"):
            assert text in page
        one, two = page.split("## Speed relative to PyTorch, 2 threads")
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in one.splitlines() if line.startswith("|")]
        assert cells[0] == ["operator", "type", "layout", "1Ki", "1Mi"]
        assert cells[2:] == [
            ["leaky", "float32", "contiguous", "2.00 / 2.00", "2.00 / 2.00"],
            ["swish", "float64", "contiguous", "- / 2.50", "-"],
        ]
        assert "| 3.00 / - " in two
        assert "0.25 p" in two
        assert "executor, swish/float64/contiguous: the contract refuses it" in page
        assert "numexpr, leaky/float32/contiguous: it is in a bad mood" in page

    @pytest.mark.parametrize(("load", "busy"), [(0.5, False), (0.6, True)])
    def test_page_warns_of_a_busy_machine(self, canned: dict[str, Any], load: float, busy: bool) -> None:
        canned["machine"]["load"] = load
        assert ("machine was busy" in report.render(canned)) is busy

    def test_page_says_whose_results_differ(self, canned: dict[str, Any]) -> None:
        canned["cases"][0]["differs"] = ["torch"]
        assert "* torch, leaky/float32/contiguous: its results are not ours" in report.render(canned)

    def test_tables_are_aligned(self, canned: dict[str, Any]) -> None:
        for block in report.render(canned).split("\n\n"):
            lines = block.splitlines()
            if lines[0].startswith("|"):
                assert len({len(line) for line in lines}) == 1

    def test_page_of_nothing(self, canned: dict[str, Any]) -> None:
        assert "|" not in report.render({**canned, "cases": []})

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "-"),
            (0.0123, "0.01"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1e5, "100000"),
        ],
    )
    def test_numbers(self, value: float | None, text: str) -> None:
        assert report.number(value) == text

    def test_committed_page_is_fresh(self) -> None:
        """docs/performance.md is what the results beside the benchmarks say."""
        measured = results.load(str(ROOT / "benchmarks" / "results.json"))
        page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
        picture = "performance.png" if (ROOT / "docs" / "performance.png").exists() else None
        assert page == report.render(measured, picture)

    def test_curves_are_nanoseconds_per_element(self, canned: dict[str, Any]) -> None:
        panel = plot.curves(canned["cases"], 1)["leaky", "float32"]
        counts, times = zip(*panel["executor"], strict=True)
        assert counts == (1024, 1 << 20)
        assert times == pytest.approx([2000 / 1024, 2000 / (1 << 20)])
        assert set(panel) == {"executor", "call", "torch", "plain triad", "streaming triad"}

    def test_picture(self, canned: dict[str, Any], tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        plot.draw(canned, str(tmp_path / "a.png"))
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(ValueError, match="no contiguous case"):
            plot.draw({**canned, "cases": []}, str(tmp_path / "b.png"))


class TestCommand:
    """``nonpu bench``."""

    def test_earlier_results_become_a_page(self, tmp_path: Path, canned: dict[str, Any], canned_file: Path) -> None:
        assert nonpu("bench", "--from", canned_file).stdout == report.render(canned)
        page = tmp_path / "page.md"
        finished = nonpu("bench", "--from", canned_file, "--report", page)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
        assert page.read_text() == report.render(canned)

    def test_page_names_the_picture_as_seen_from_it(self, tmp_path: Path, canned_file: Path) -> None:
        pytest.importorskip("matplotlib")
        (tmp_path / "docs").mkdir()
        finished = nonpu("bench", "--from", canned_file, "--report", "docs/a.md", "--plot", "docs/a.png", cwd=tmp_path)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
        assert "(a.png)" in (tmp_path / "docs" / "a.md").read_text()

    def test_list_names_the_cases(self) -> None:
        assert nonpu("bench", "--list").stdout.split() == [case.name for case in CASES]
        assert nonpu("bench", "--list", "--cases", "complex*/64Ki").stdout.split() == [
            "sigmoid/complex64/contiguous/64Ki",
            "sigmoid/complex128/contiguous/64Ki",
        ]

    @pytest.mark.parametrize(
        ("arguments", "fragment"),
        [
            (["extra"], "extra"),
            (["--slow"], "--slow"),
            (["--cases"], "--cases"),
            (["--cases", "fly"], "fly"),
            (["--quick", "--cases", "16Mi"], "quick"),
            (["--json", "missing/out.json"], "missing"),
            (["--json", "."], "directory"),
            (["--report", "missing/page.md"], "missing"),
            (["--plot", "missing/a.png"], "missing"),
            (["--plot", "a.txt"], ".png"),
            (["--from", "missing.json"], "missing.json"),
            (["--from", "canned.json", "--quick"], "--from"),
            (["--from", "canned.json", "--json", "out.json"], "--from"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_wrong_usage_is_one_line(
        self, tmp_path: Path, canned_file: Path, arguments: list[str], fragment: str
    ) -> None:
        assert canned_file.parent == tmp_path
        assert_refused(nonpu("bench", *arguments, cwd=tmp_path), 2, fragment)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "\xff", '{"schema": 0}'])
    def test_file_without_results_is_one_line(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "wrong.json"
        path.write_bytes(text.encode("latin-1"))
        assert_refused(nonpu("bench", "--from", path), 1, "wrong.json", "holds no results")
