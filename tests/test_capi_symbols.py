"""The symbols of the front library, and the names that it goes by."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from nonpu.capi import functions, toolkit
from nonpu.ops import OPS
from tests.command_line import run

LIB64 = Path(toolkit.home()) / "lib64"
NAMES = (
    "libascendcl.so",
    "libacl_rt.so",
    "libnnopbase.so",
    "libopapi.so",
    "libopapi_nn.so",
    "libopapi_math.so",
    "libopapi_cv.so",
    "libopapi_transformer.so",
    "libaclnn_ops_infer.so",
    "libaclnn_math.so",
)
needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="this machine has no nm")


def symbols(*flags: str) -> set[str]:
    """Return names in the dynamic symbol table."""
    finished = run("nm", "-D", *flags, LIB64 / "libascendcl.so")
    return {line.split()[-1].split("@")[0] for line in finished.stdout.splitlines()}


@needs_nm
def test_exported_symbols_are_those_of_the_tables() -> None:
    """Functions and bare names of the tables, two per operator, and what nonpu._core uses: nothing else."""
    native = (Path(toolkit.__file__).parent / "front" / "native.h").read_text()
    own = set(re.findall(r"^\w[\w *]*?\b(nonpu_\w+)\(", native, re.MULTILINE))
    operators = {name for op in OPS for name in (op.phase_one, op.phase_two)}
    assert len(own) > 10
    tables = {function.name for function in functions.FUNCTIONS} | {name.name for name in functions.NAMES}
    assert symbols("--defined-only") == own | operators | tables


@needs_nm
def test_no_python_symbol_is_needed() -> None:
    """The library is not linked against libpython, so that it can join or load one."""
    assert not [name for name in symbols("--undefined-only") if name.startswith(("Py", "_Py"))]


def test_all_names_are_one_file() -> None:
    """Every library name is a link to the same file, which a process loads once."""
    assert sorted(NAMES) == sorted(entry.name for entry in LIB64.iterdir())
    assert len({os.stat(LIB64 / name).st_ino for name in NAMES}) == 1


@pytest.mark.skipif(shutil.which("readelf") is None, reason="this machine has no readelf")
def test_soname_is_the_plain_name() -> None:
    """No version number is part of it."""
    finished = run("readelf", "-d", LIB64 / "libopapi.so")
    assert "soname: [libascendcl.so]" in finished.stdout
    assert "NODELETE" in finished.stdout
