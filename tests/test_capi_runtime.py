"""The runtime functions of the C interface, called from C."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capi.programs import cases, expect_pass, needs_c

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
