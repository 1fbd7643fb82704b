"""Requests counted by several processes of the server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from viewer.security.metrics import RequestCounts


def _text(counts: RequestCounts) -> str:
    registry = CollectorRegistry()
    registry.register(counts)
    return generate_latest(registry).decode()


def test_the_counts_of_all_processes_are_summed(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text(
        '{"request GET 200": 2, "le /static 0.1": 2, "sum /static": 5}'
    )
    # Another process is writing its file.
    (tmp_path / "2.json").write_text('{"request GE')
    counts = RequestCounts(str(tmp_path))
    counts.add("GET", 200, "/static", 0.02)
    counts.add("POST", 404, "/", 99.0)

    text = _text(counts)

    assert 'dlprof_requests_total{method="GET",status="200"} 3.0' in text
    assert 'dlprof_requests_total{method="POST",status="404"} 1.0' in text
    assert 'dlprof_request_seconds_bucket{area="/static",le="0.025"} 1.0' in text
    assert 'dlprof_request_seconds_bucket{area="/static",le="0.1"} 3.0' in text
    assert 'dlprof_request_seconds_count{area="/static"} 3.0' in text
    assert 'dlprof_request_seconds_sum{area="/"} 99.0' in text


def test_a_disk_that_is_full_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    counts = RequestCounts(str(tmp_path))

    counts.add("GET", 200, "/", 0.1)

    assert 'dlprof_requests_total{method="GET",status="200"} 1.0' in _text(counts)
