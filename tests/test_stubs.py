"""The type stubs: fresh, true to what runs, and what a type checker makes of them."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nonpu
from nonpu import aclnn, ops
from nonpu.codegen import stubs
from nonpu.spec.model import Op
from tests.command_line import ROOT

PROGRAM = """\
import numpy as np
import nonpu
from nonpu import Scalar, Tensor, aclnn
x = np.ones(3, np.float32)
reveal_type(nonpu.swish_backward(x, [1.0], beta=None, out=x, product="A2"))
reveal_type(nonpu.leaky_relu_backward(x, x, np.float32(0.1), True))
reveal_type(nonpu.sigmoid_backward(x, 0.5))
t, s = Tensor.from_numpy(x), Scalar(1.0, "float32")
reveal_type(aclnn.aclnnSwishBackwardGetWorkspaceSize(t, t, None, gradInput=t))
size, executor = aclnn.aclnnSwishBackwardGetWorkspaceSize(t, t, s, t)
with nonpu.Stream() as stream:
    aclnn.aclnnSwishBackward(None, size, executor, stream)
    nonpu.synchronize(stream)
nonpu.swish_backwards(x, x)  # error: attr-defined
nonpu.swish_backward(x, x, bta=1.0)  # error: call-overload
nonpu.swish_backward(x, x, beta="1")  # error: call-overload
nonpu.swish_backward(x, x, None, x)  # error: call-overload
nonpu.sigmoid_backward(x)  # error: call-overload
nonpu.sigmoid_backward(x, x, product=3)  # error: call-overload
aclnn.aclnnSwishBackwardGetWorkspace(t, t, s, t)  # error: attr-defined
aclnn.aclnnSwishBackwardGetWorkspaceSize(t, t, 1.0, t)  # error: arg-type
aclnn.aclnnSwishBackwardGetWorkspaceSize(x, t, s, t)  # error: arg-type
aclnn.aclnnSigmoidBackward(None, 0, size, None)  # error: arg-type
from nonpu import swish_backwards  # error: attr-defined
import torch
from torch import Tensor as TorchTensor
y: TorchTensor = torch.ones(3)
reveal_type(nonpu.leaky_relu_backward(y, y, torch.tensor(0.1), out=y))
nonpu.sigmoid_backward(y, x)  # error: call-overload
nonpu.sigmoid_backward(y, y, out=x)  # error: call-overload
"""
REVEALED = {
    5: "ndarray[",
    6: "ndarray[",
    7: "ndarray[",
    28: "torch._tensor.Tensor",
    9: "tuple[int, nonpu.aclnn.executor.Executor]",
}
# The modules that the stubs stand for: a type checker would not look at them under their own names.
BEHIND = {"behind_nonpu": "__init__.py", "behind_aclnn": "aclnn/__init__.py"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """What mypy says of each file, with the settings of the project: line number and text."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "program.py").write_text(PROGRAM)
    for name, path in BEHIND.items():
        shutil.copy(stubs.PACKAGE / path, folder / f"{name}.py")
    settings = (ROOT / "pyproject.toml").read_text().partition("[tool.mypy]")[2].partition("\n[")[0]
    settings = re.sub(r"^(mypy_path|files|explicit_package_bases) = .*\n", "", settings, flags=re.M)
    (folder / "pyproject.toml").write_text(f'[tool.mypy]{settings}\nmypy_path = "{stubs.PACKAGE.parent}"\n')
    files = ["program.py", *(f"{name}.py" for name in BEHIND)]
    finished = subprocess.run([sys.executable, "-m", "mypy", *files], cwd=folder, capture_output=True, text=True)
    assert finished.stderr == ""
    found: dict[str, list[tuple[int, str]]] = {name: [] for name in files}
    for line in finished.stdout.splitlines():
        match = re.match(r"(\w+\.py):(\d+): (?:error|note): (.*)", line)
        if match is not None:
            found[match[1]].append((int(match[2]), match[3]))
        else:
            assert line.startswith("Found "), line
    return found


def test_stubs_are_fresh() -> None:
    """They are what `make docs` would write."""
    assert stubs.outdated() == []
    assert stubs.main(["--check"]) == 0


def test_check_option_notices_a_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`python -m nonpu.codegen.stubs` writes what is missing and mends what was edited."""
    (tmp_path / "aclnn").mkdir()
    monkeypatch.setattr(stubs, "PACKAGE", tmp_path)
    assert stubs.main(["--check"]) == 1
    assert not (tmp_path / "__init__.pyi").exists()
    assert stubs.main([]) == 0
    (tmp_path / "aclnn" / "__init__.pyi").write_text("edited")
    assert stubs.outdated() == ["aclnn/__init__.pyi"]
    assert stubs.main([]) == 0
    assert stubs.outdated() == []
    assert stubs.main(["--fix"]) == 2


def declared(text: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of every function of a stub: kind and default by name, as `inspect` has them."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            space: dict[str, Any] = {}
            node.returns = None
            node.decorator_list = []
            for argument in [*node.args.args, *node.args.kwonlyargs]:
                argument.annotation = None
            exec(compile(ast.unparse(node), "stub", "exec"), space)
            found[node.name] = parameters(space[node.name])
    return found


def parameters(function: Any) -> dict[str, Any]:
    """Return kind and default of every parameter."""
    return {name: (p.kind, p.default) for name, p in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("op", ops.OPS, ids=lambda op: op.api)
def test_stubs_have_the_parameters_of_the_functions(op: Op) -> None:
    """Names, kinds and defaults."""
    one_call, phases = declared(stubs.render_root()), declared(stubs.render_aclnn())
    assert one_call[op.python_name] == parameters(getattr(nonpu, op.python_name))
    for name in (op.phase_one, op.phase_two):
        assert phases[name] == parameters(getattr(aclnn, name))


def test_star_import_binds_every_public_name() -> None:
    """Lazy names too, in a process that has used none of them yet."""
    code = "from nonpu import *; print(*sorted(name for name in globals() if not name.startswith('__')))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = finished.stdout.split()
    assert names == sorted(nonpu.__all__)
    assert {"swish_backward", "Tensor", "aclnn", "synchronize"} <= set(names)
    assert set(dir(nonpu)) == {*names, "__version__"}


def test_mypy_knows_the_result_types(checked: dict[str, list[tuple[int, str]]]) -> None:
    """Arrays from one call, size and executor from phase one."""
    revealed = {line: text for line, text in checked["program.py"] if text.startswith("Revealed type")}
    assert revealed.keys() == REVEALED.keys()
    for line, fragment in REVEALED.items():
        assert fragment in revealed[line]


def test_mypy_finds_misspelt_names_and_wrong_arguments(checked: dict[str, list[tuple[int, str]]]) -> None:
    """Exactly the marked lines."""
    marks = enumerate(PROGRAM.splitlines(), 1)
    expected = {(number, line.partition("# error: ")[2]) for number, line in marks if "# error: " in line}
    codes = ((line, re.search(r"\[([\w-]+)\]$", text)) for line, text in checked["program.py"])
    assert {(line, match[1]) for line, match in codes if match is not None} == expected


@pytest.mark.parametrize("name", BEHIND)
def test_mypy_accepts_the_modules_behind_the_stubs(name: str, checked: dict[str, list[tuple[int, str]]]) -> None:
    """What `make types` cannot see."""
    assert checked[f"{name}.py"] == []


def test_stubs_are_part_of_the_package() -> None:
    """Each stands in the list of data files, next to py.typed."""
    listed = re.search(r"^nonpu = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert listed is not None
    patterns = [pattern.strip(' "') for pattern in listed[1].split(",")]
    assert "py.typed" in patterns
    package = ROOT / "src" / "nonpu"
    files = {path for pattern in patterns for path in package.glob(pattern)}
    assert {package / name for name in stubs.stubs()} <= files
    assert set(package.rglob("*.pyi")) <= files
