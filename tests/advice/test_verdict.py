"""The verdict on real captures of small training loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from aggregator.tables.verdict import read_verdict
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory

TIME_LIMIT_S = 60


@pytest.mark.parametrize(
    ("name", "limit", "advice"),
    [
        ("eager", "unknown", "launch_bound"),  # Idle time may be the profiler's.
        ("loader_slow", "loader", "input_bound"),
        ("loader_fast", "unknown", "launch_bound"),
        ("one_of_two", "unknown", "launch_bound"),
        ("copy_pageable", "copy", "pageable_copies"),
        (
            "conv_fp32",
            "compute",
            "half_precision",
        ),  # Its CPU saves little.
        ("mlp_bf16", "compute", None),
        ("ddp_even", "compute", None),
        ("graphed", "unknown", None),  # Graphs were recorded as a whole: no costs.
        ("slow_step", "stalls", "slow_iterations"),
        ("markers_only", "unknown", None),  # A single step.
    ],
)
def test_the_verdict_is_the_first_finding(
    database_of: Callable[..., Path], name: str, limit: str, advice: str | None
) -> None:
    with opened(database_of(name), time_limit_s=TIME_LIMIT_S) as database:
        newest = max(row[0] for row in database.rows("SELECT aggr_id FROM view_aggregations"))
        data = AggregationData(database, {"aggr_id": newest, "domain": "default-domain"})

        verdict = read_verdict(data)

    assert (verdict.limit, verdict.advice) == (limit, advice)


def test_a_capture_whose_step_is_unknown_is_to_be_made_again_first(
    imported: ProfileFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(imported("jax_cnn_bf16"))
    for command in (["show", path], ["advise", path, "--fail_on=never"]):
        main(command)
        printed = " ".join(capsys.readouterr().out.split())
        assert "The step is unknown. Record a shorter part of the run again" in printed
        assert printed.index("Record a shorter part") < printed.index("1. ")
