"""Profiles in a notebook: ``from dlprof_client import connect``."""

from __future__ import annotations

from dlprof_client.client import ClientError, Run, connect

__all__ = ["ClientError", "Run", "connect"]
