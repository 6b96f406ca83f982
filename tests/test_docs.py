"""The documentation says what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nonpu import ops
from nonpu.capi import functions
from nonpu.cli import COMMANDS
from nonpu.codegen import docs, runtime_docs
from nonpu.spec.model import Op
from tests.command_line import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
READMES = ("README.md", "README.zh.md")


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / name).read_text(encoding="utf-8"), re.M | re.S)


def without_comments(text: str) -> str:
    """Return shell or Python lines without what follows a hash."""
    return "\n".join(line.split("#")[0].rstrip() for line in text.splitlines())


def test_operator_pages_are_fresh() -> None:
    """docs/ops and docs/runtime.md are what `make docs` would write."""
    assert docs.outdated() == []


def test_check_option_notices_a_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`python -m nonpu.codegen.docs` writes missing pages, mends edited ones and deletes what is left over."""
    (tmp_path / "pyproject.toml").touch()
    folder = tmp_path / "docs" / "ops"
    monkeypatch.setattr(docs, "FOLDER", folder)
    assert docs.main(["--check"]) == 1
    assert not folder.exists()
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0
    (folder / f"{ops.OPS[0].api}.md").write_text("edited")
    (folder / "aclnnGone.md").write_text("left over")
    (folder.parent / "runtime.md").write_text("edited")
    assert docs.outdated() == sorted(["ops/aclnnGone.md", f"ops/{ops.OPS[0].api}.md", "runtime.md"])
    assert docs.main([]) == 0
    assert docs.outdated() == []


def test_runtime_page_has_every_exported_function() -> None:
    """Each function and each bare name has one row, with tier, state and header."""
    page = (ROOT / "docs" / "runtime.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d) \| ([a-z ]+) \| (?:`([\w/.]+)`|none) \| .+ \|$", page, re.M)
    operators = [name for op in ops.OPS for name in (op.phase_one, op.phase_two)]
    working = {*operators, *(function.name for function in functions.FUNCTIONS)}
    bare = {name.name for name in functions.NAMES}
    assert len(rows) == len(working) + len(bare)
    assert {name for name, tier, state, _ in rows if state == "works" and tier in "12"} == working
    assert {name for name, tier, state, _ in rows if state == "name only" and tier == "3"} == bare
    assert working >= runtime_docs.TIER_ONE


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_operator_page_has_every_fact(op: Op) -> None:
    """Parameters, checks with their status, notes and differences stand on the page."""
    page = docs.render_page(op)
    facts = op.describe(docs.product_with(True))
    for parameter in facts["parameters"]:
        assert f"| `{parameter['name']}` |" in page
    for check in facts["checks"]:
        assert f"| {check['sentence'].replace('|', chr(92) + '|')} | {check['status']} |" in page
    for sentence in (*op.notes, *op.differences, *facts["one_call"]):
        assert f"* {sentence}" in page


@pytest.mark.parametrize("name", READMES)
def test_readme_names_only_commands_that_exist(name: str) -> None:
    """Every make target and every nonpu command of the text exists."""
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    used_targets = set(re.findall(r"^make ([a-z]+)", text, re.M))
    assert used_targets >= {"run", "test"}
    assert used_targets <= set(targets)
    used_commands = set(re.findall(r"(?:`|\$\()nonpu ([a-z]+)", text))
    assert used_commands == set(COMMANDS)


def test_both_readmes_show_the_same_commands() -> None:
    """The fenced blocks agree but for their comments."""
    for language in ("sh", "python"):
        english, chinese = (list(map(without_comments, blocks(name, language))) for name in READMES)
        assert english == chinese
        assert english


def test_python_of_the_readme_runs() -> None:
    """The Python blocks, one after the other."""
    namespace: dict[str, Any] = {}
    for block in blocks("README.md", "python"):
        exec(block, namespace)
    assert np.array_equal(
        namespace["result"], namespace["nonpu"].swish_backward(np.ones(7, np.float32), namespace["x"], 1.1)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links name files of the repository."""
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_architecture_places_every_module() -> None:
    """The table of layers names every module below nonpu."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "nonpu"
    modules = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    modules |= {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert {name for name in modules if f"`{name}`" not in text} == set()
