"""Fixtures that several files share."""

from __future__ import annotations

from tests.c_client import client

__all__ = ["client"]
