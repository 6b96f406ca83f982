"""The examples for PyTorch run and print what they show."""

from __future__ import annotations

import doctest

import pytest
import torch

import nonpu.torch
from tests.command_line import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def test_page() -> None:
    """docs/torch.md, top to bottom."""
    torch._dynamo.reset()
    found = doctest.testfile(str(ROOT / "docs" / "torch.md"), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 10


def test_docstrings() -> None:
    """nonpu.torch."""
    found = doctest.testmod(nonpu.torch)
    assert found.failed == 0
    assert found.attempted > 5
