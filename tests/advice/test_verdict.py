"""The verdict on real captures of small training loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.verdict import read_verdict

TIME_LIMIT_S = 60


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("eager", "launch"),
        ("loader_slow", "loader"),
        ("loader_fast", "launch"),
        ("one_of_two", "launch"),
        ("copy_pageable", "copy"),
        ("conv_fp32", "compute"),  # The CPU is on most of its path, but saves little.
        ("mlp_bf16", "compute"),
        ("ddp_even", "compute"),
        ("graphed", "unknown"),  # Graphs were recorded as a whole: no costs.
        ("slow_step", "unknown"),  # Stalls make the mean step several times the median one.
        ("markers_only", "unknown"),  # A single step.
    ],
)
def test_the_verdict_on_a_capture(database_of: Callable[..., Path], name: str, limit: str) -> None:
    with opened(database_of(name), time_limit_s=TIME_LIMIT_S) as database:
        newest = max(row[0] for row in database.rows("SELECT aggr_id FROM view_aggregations"))
        data = AggregationData(database, {"aggr_id": newest, "domain": "default-domain"})

        verdict = read_verdict(data)

    assert (verdict["limit"], verdict["share_pct"] is None) == (
        limit,
        name in {"slow_step", "markers_only"},
    )
