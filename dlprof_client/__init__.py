"""Profiles in a notebook: ``from dlprof_client import compare, compare_memory, connect``."""

from __future__ import annotations

from dlprof_client.changes import Changes, compare, compare_memory
from dlprof_client.client import connect
from dlprof_client.run import ClientError, Run

__all__ = ["Changes", "ClientError", "Run", "compare", "compare_memory", "connect"]
