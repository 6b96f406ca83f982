"""The runtime functions of the C interface, called from C."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nonpu.capi import toolkit
from tests.capi.programs import HERE, STRICT, cases, expect_pass, needs_c
from tests.command_line import needs_cpp, run

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


@needs_cpp
@pytest.mark.parametrize("seed", ["1", "2"])
def test_eight_threads_of_a_cpp_client(seed: str, tmp_path: Path) -> None:
    """Plans, repeated executors, copies, events and refusals at once, with every value and text checked."""
    program = tmp_path / "stress"
    flags = ["-std=c++11", "-O1", *STRICT, *toolkit.cflags(), *toolkit.libs(), "-pthread"]
    built = run("c++", HERE / "stress.cpp", *flags, "-o", program)
    assert built.returncode == 0, built.stderr
    finished = run(program, "300", seed)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
