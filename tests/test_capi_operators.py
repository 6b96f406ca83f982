"""Objects, both phases of the operators, and the team of threads, called from C."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from nonpu.codegen import front
from nonpu.dtypes import DType
from nonpu.tensor import Scalar
from tests.capi.programs import cases, expect_pass, needs_c

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_c


@pytest.mark.parametrize("case", cases("handles.c"))
def test_handle(case: str, tmp_path: Path) -> None:
    """Objects live until they are destroyed; anything else is refused with a status and a text."""
    expect_pass("handles.c", case, tmp_path)


@pytest.mark.parametrize("dtype", DType)
def test_scalar_types_are_those_of_python(dtype: DType) -> None:
    """C and Python accept the same types for scalars."""
    try:
        Scalar(1, dtype)
    except TypeError:
        assert dtype not in front.SCALARS
    else:
        assert dtype in front.SCALARS


@pytest.mark.parametrize("threads", ["1", "2", ""])
@pytest.mark.parametrize("case", cases("operators.c"))
def test_two_phases(case: str, threads: str, tmp_path: Path) -> None:
    """Both phases behave as documented, whatever the number of threads."""
    expect_pass("operators.c", case, tmp_path, {"NONPU_NUM_THREADS": threads})


@pytest.mark.parametrize("case", [case for case in cases("team.c") if not case.startswith("the_environment")])
def test_team(case: str, tmp_path: Path) -> None:
    """Launches are complete, whoever takes part; the host's modes and signals are kept apart."""
    expect_pass("team.c", case, tmp_path)


@pytest.mark.parametrize("setting", ["", "3", "0", "-2", "many", "2x"])
def test_number_of_threads(setting: str, tmp_path: Path) -> None:
    """NONPU_NUM_THREADS counts if it is a positive number; otherwise every processor of the affinity mask."""
    expected = setting if setting == "3" else str(min(256, len(os.sched_getaffinity(0))))
    env = {"NONPU_NUM_THREADS": setting, "EXPECTED_THREADS": expected}
    expect_pass("team.c", "the_environment_sets_the_number_of_threads", tmp_path, env)
