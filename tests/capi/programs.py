"""Compiling C and C++ against the toolkit stand-in, and running the result, from tests."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nonpu.capi import toolkit
from tests.command_line import run

if TYPE_CHECKING:
    import subprocess

HERE = Path(__file__).parent
CC = os.environ.get("CC", "cc")
STRICT = ("-Wall", "-Wextra", "-Werror")

needs_c = pytest.mark.skipif(shutil.which(CC) is None, reason="this machine has no C compiler")


@functools.cache
def scratch() -> Path:
    """Return a folder for the programs of this process."""
    folder = tempfile.mkdtemp(prefix="nonpu-programs-")
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def compiled(name: str) -> Path:
    """Return the executable of one of the C programs in this folder."""
    program = scratch() / Path(name).stem
    flags = ["-std=gnu11", "-O1", *STRICT, *toolkit.cflags(), f"-I{Path(toolkit.__file__).parent / 'front'}"]
    libraries = ["-Wl,--as-needed", *toolkit.libs(), "-pthread", "-ldl", "-lm"]
    finished = run(CC, *flags, HERE / name, *libraries, "-o", program)
    assert finished.returncode == 0, finished.stderr
    return program


def cases(name: str) -> list[str]:
    """Return the names of the cases in one of the programs, without compiling it."""
    return re.findall(r"^CASE\((\w+)\)", (HERE / name).read_text(), re.MULTILINE)


def run_case(name: str, case: str, folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one case in a folder of its own, with nothing of this process' Python in its environment."""
    clean = {"PYTHONPATH": "", "PYTHONHOME": "", "NONPU_PRODUCT": ""}
    return run(compiled(name), case, env={**clean, **({} if env is None else env)}, cwd=folder)


def expect_pass(name: str, case: str, folder: Path, env: dict[str, str] | None = None) -> None:
    """Run one case and show what it found wrong."""
    finished = run_case(name, case, folder, env)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
