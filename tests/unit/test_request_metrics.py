"""Requests counted by several processes of the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from viewer.security.metrics import requests_registry

_NAME = "dlprof_requests"


def _count(file: Path, requests: float) -> None:
    """What a process of the server writes."""
    key = mmap_key(_NAME, f"{_NAME}_total", ["method"], ["GET"], "Requests answered.")
    counts = MmapedDict(str(file))
    counts.write_value(key, requests, 0.0)
    counts.close()


def test_the_counts_of_all_processes_are_summed_while_another_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    _count(tmp_path / "counter_1.db", 2)
    _count(tmp_path / "counter_2.db", 3)
    # It has made its file and not yet given it a length.
    (tmp_path / "counter_3.db").touch()

    assert f'{_NAME}_total{{method="GET"}} 5.0' in generate_latest(requests_registry()).decode()
