"""Profiles in a notebook: ``from dlprof_client import compare, connect``."""

from __future__ import annotations

from dlprof_client.changes import Changes, compare
from dlprof_client.client import ClientError, Run, connect

__all__ = ["Changes", "ClientError", "Run", "compare", "connect"]
