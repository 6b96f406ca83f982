"""Fixtures that several files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.c_client import client
from tests.command_line import SEEDS

__all__ = ["client"]


@pytest.fixture
def swish_program(tmp_path: Path) -> Path:
    """The program of the Swish document, as the document has it."""
    document = SEEDS / "aclnnSwishBackward.txt"
    if not document.exists():
        pytest.skip(f"{document} is not on this machine")
    text = document.read_text(encoding="utf-8")
    source = tmp_path / "swish.cpp"
    source.write_text(text[text.index("#include <iostream>") :], encoding="utf-8")
    return source
