"""The runtime functions of the C interface, called from C."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capi.programs import cases, expect_pass, needs_c

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_c
# What a case needs in its environment.
SETTINGS = {"soc_name_of_an_unknown_product_is_null": {"NONPU_PRODUCT": "toaster"}}


@pytest.mark.parametrize("case", cases("runtime.c"))
def test_runtime_function(case: str, tmp_path: Path) -> None:
    """Every rule holds, with its status, in the documents' order."""
    expect_pass("runtime.c", case, tmp_path, SETTINGS.get(case))
