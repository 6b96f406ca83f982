"""The runtime functions of the C interface, called from C."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.capi.programs import cases, compiled, expect_pass, needs_c
from tests.command_line import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_c
PROGRAMS = (
    "runtime.c",
    "tier2_callbacks.c",
    "tier2_contexts.c",
    "tier2_events.c",
    "tier2_memory.c",
    "tier2_process.c",
    "tier2_streams.c",
)
# What a case needs in its environment.
SETTINGS = {
    "soc_name_of_an_unknown_product_is_null": {"NONPU_PRODUCT": "toaster"},
    "the_architecture_is_the_products": {"NONPU_PRODUCT": "Ascend310P3"},
}


@pytest.mark.parametrize(("program", "case"), [(program, case) for program in PROGRAMS for case in cases(program)])
def test_runtime_function(program: str, case: str, tmp_path: Path) -> None:
    """Every rule holds, with its status, in the documents' order."""
    expect_pass(program, case, tmp_path, SETTINGS.get(case))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_eight_threads_mix_everything(threads: str, tmp_path: Path) -> None:
    """Streams, events, callbacks, copies and operators under each other's hands: right values, and an end."""
    expect_pass("stress.c", "eight_threads_mix_everything", tmp_path, {"NONPU_NUM_THREADS": threads})


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="this machine has no valgrind")
def test_eight_threads_touch_no_wrong_memory(tmp_path: Path) -> None:
    """The same for fewer rounds, with every access watched."""
    env = {"STRESS_ROUNDS": "3", "PYTHONPATH": "", "PYTHONHOME": "", "NONPU_PRODUCT": ""}
    command = ("valgrind", "--quiet", "--error-exitcode=9", compiled("stress.c"), "eight_threads_mix_everything")
    finished = run(*command, env=env, cwd=tmp_path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
