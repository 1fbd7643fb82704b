"""Profiles in a notebook: ``from dlprof_client import compare, compare_memory, connect``."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from dlprof_client.changes import Changes, compare, compare_memory
from dlprof_client.client import connect
from dlprof_client.run import ClientError, Run

try:
    __version__ = version("open-dlprof")
except PackageNotFoundError:  # A checkout that is not installed.
    __version__ = "unknown"
__all__ = ["Changes", "ClientError", "Run", "compare", "compare_memory", "connect"]
