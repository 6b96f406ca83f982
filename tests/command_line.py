"""Running the command, compilers and programs from tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SEEDS = ROOT.parent / "shared" / "seeds"
NONPU = Path(sys.executable).with_name("nonpu")

needs_cpp = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="this machine has no C++ compiler"
)


def run(
    *command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with this environment changed by ``env`` and its output captured."""
    return subprocess.run(
        list(map(str, command)),
        env={**os.environ, **({} if env is None else env)},
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
    )


def nonpu(
    *arguments: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    return run(NONPU, *arguments, env=env, cwd=cwd, text=text)


def output(*arguments: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Return what the command printed, having made sure that it succeeded without a word on stderr."""
    finished = nonpu(*arguments, env=env, cwd=cwd)
    assert (finished.returncode, finished.stderr) == (0, ""), finished
    return finished.stdout


def assert_refused(finished: subprocess.CompletedProcess[str], status: int, *fragments: str) -> None:
    """Check exit status and the one line on stderr."""
    assert finished.returncode == status, finished.stderr
    assert finished.stdout == "", finished.stdout
    assert finished.stderr.startswith("nonpu: "), finished.stderr
    assert finished.stderr.count("\n") == 1, finished.stderr
    for fragment in fragments:
        assert fragment in finished.stderr
