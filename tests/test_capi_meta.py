"""The meta interface beyond tensors and scalars, called from C and C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capi.programs import cases, expect_pass, needs_c

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_c


@pytest.mark.parametrize("case", cases("meta.c"))
def test_meta_function(case: str, tmp_path: Path) -> None:
    """Arrays, lists, getters, data buffers: documented statuses, and never a crash."""
    expect_pass("meta.c", case, tmp_path)


@pytest.mark.parametrize("case", cases("rebind.c"))
def test_rebinding(case: str, tmp_path: Path) -> None:
    """Executors move to other addresses, judged as in phase one; what is gone or never was memory is refused."""
    expect_pass("rebind.c", case, tmp_path)
