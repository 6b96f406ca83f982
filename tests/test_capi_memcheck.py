"""Every case of the C programs again, with each access to memory watched by valgrind."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from nonpu.capi import toolkit
from tests.capi.programs import HERE, cases, compiled, needs_c
from tests.command_line import run
from tests.test_capi_python import LIBPYTHON, SETTINGS, SPECIAL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    needs_c,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="this machine has no valgrind"),
]
LEFT_OUT = {
    # Another test prepares a library for these, which then refuses to start Python.
    *(SPECIAL - {"a_host_with_python_of_its_own"}),
    *(() if LIBPYTHON.is_file() else {"a_host_with_python_of_its_own"}),
    "the_environment_sets_the_number_of_threads",
    # Valgrind computes without flushing subnormals and with one rounding mode.
    "the_floating_point_mode_of_the_host_does_not_reach_the_kernels",
    # Limits on memory, threads and time bind valgrind as well.
    "the_first_call_without_memory",
    "calls_without_memory",
    "without_threads_the_caller_does_the_work",
    "queued_work_without_memory_fails_when_somebody_waits",
    "signals_of_the_host_reach_its_handler",
    # These end otherwise than with 0, most of them with work under way.
    *(case for case in cases("surroundings.c") if "_exit" in case or "exit_" in case or "queued_work" in case),
    "an_interrupt_ends_the_host",
    "the_main_thread_ends_first",
}
ENVIRONMENT = {
    **SETTINGS,
    **{"PYTHONPATH": "", "PYTHONHOME": "", "NONPU_PRODUCT": ""},
    **{"ROUNDS": "300", "STRESS_ROUNDS": "3"},
}
PRODUCTS = {"soc_name_of_an_unknown_product_is_null": "toaster", "the_architecture_is_the_products": "Ascend310P3"}
ALL = [(path.name, case) for path in sorted(HERE.glob("*.c")) for case in cases(path.name) if case not in LEFT_OUT]


@pytest.mark.parametrize(("program", "case"), ALL)
def test_no_wrong_access(program: str, case: str, tmp_path: Path) -> None:
    """No read or write outside of what is allocated, and no decision that depends on what was never written."""
    env = {**ENVIRONMENT, "NONPU_PRODUCT": PRODUCTS.get(case, "")}
    finished = run("valgrind", "--quiet", "--error-exitcode=9", compiled(program), case, env=env, cwd=tmp_path)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_all_programs_are_covered() -> None:
    """The watched library is the one that other tests use, and what is left out exists."""
    known = {case for path in HERE.glob("*.c") for case in cases(path.name)}
    assert known >= LEFT_OUT
    assert len(ALL) > 100
    assert toolkit.home() in SETTINGS["NONPU_LIBRARY"]
