"""What a C program's first call imports, and what it must not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import _cffi_backend

from tests.command_line import ROOT

# Each costs more than all of nonpu; measured in docs/architecture.md.
HEAVY = {
    "numpy",
    "ml_dtypes",
    "numba",
    "llvmlite",
    "click",
    "cffi",
    "dataclasses",
    "typing",
    "logging",
    "pathlib",
    "inspect",
    "json",
    "re",
    "importlib.metadata",
    "concurrent.futures",
}
# One call of both phases, as the front library makes it: without site, on explicit paths.
CALL = """
import sys
sys.path[:0] = sys.argv[1:]
import nonpu.capi.exports
from nonpu import Tensor, aclnn
data = bytearray(16)
tensors = [Tensor((4,), "float32", data=data) for _ in range(3)]
size, executor = aclnn.aclnnSigmoidBackwardGetWorkspaceSize(*tensors)
aclnn.aclnnSigmoidBackward(None, size, executor, None)
print(*sys.modules)
"""


def test_first_call_from_c_imports_nothing_heavy() -> None:
    """Judge, plan and run need none of the modules that would dominate the start of a program."""
    paths = [str(ROOT / "src"), str(Path(_cffi_backend.__file__).parent)]
    command = [sys.executable, "-I", "-S", "-c", CALL, *paths]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert HEAVY & set(finished.stdout.split()) == set()


def test_package_itself_imports_nothing() -> None:
    """``import nonpu`` costs nothing until a name is used."""
    code = "import sys; before = set(sys.modules); import nonpu; print(*(set(sys.modules) - before))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(finished.stdout.split()) - {"__future__"} == {"nonpu"}
