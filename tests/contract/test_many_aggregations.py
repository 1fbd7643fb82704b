"""The pages of an aggregation cost the same however many others there are."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.progress import NullProgress
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.declared.addresses import TABLES
from tests.contract.client import ApiClient, Served

PANELS = ("top-ops", "performance-summary", "op-summary", "kernel-summary", "resource-usage",
          "tensor-core-efficiency", "recommendations", "top-kernels", "verdict",
          "figures/iteration-summary")  # fmt: skip
OTHERS = 9
#: A look into an index is a little longer where there is more of it.
MOST_GROWTH = 1.5
SMALL = 20_000
_STEP = 100

Query = tuple[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def crowded(own_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same database with further aggregations."""
    copy = tmp_path_factory.mktemp("crowded") / own_database.name
    shutil.copyfile(own_database, copy)
    for number in range(OTHERS):
        request = AggregationRequest(iter_start=1 + number % 5, iter_stop=6 - number // 5)
        aggregate(copy, request, NullProgress())
    return copy


def _cost(path: Path, queries: list[Query]) -> int:
    """Steps of SQLite's machine, which no other program's work changes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += _STEP
        return 0

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        # The server's own functions: their steps are not SQLite's.
        connection.create_function("program_line", 1, str, deterministic=True)
        connection.create_function("is_communication", 1, bool, deterministic=True)
        connection.set_progress_handler(count, _STEP)
        for sql, params in queries:
            connection.execute(sql, dict(params)).fetchall()
    return steps


# The events are those of the profile: no aggregation has rows of its own.
@pytest.mark.parametrize(
    "address", [*(name for name in TABLES if name != "timeline/events"), *PANELS]
)
def test_a_page_costs_the_same_beside_many_aggregations(
    api: ApiClient, ours: Served, crowded: Path, settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch, address: str,
) -> None:  # fmt: skip
    asked: list[Query] = []

    def listen(name: str) -> None:
        original = getattr(ProfileDatabase, name)

        def listened(self: ProfileDatabase, sql: str, params: Any = None) -> Any:
            asked.append((sql, params or {}))
            return original(self, sql, params)

        monkeypatch.setattr(ProfileDatabase, name, listened)

    listen("rows")
    listen("iter_rows")
    assert api.get(ours.at(f"{address}/")).status == 200
    assert asked

    alone, beside = _cost(ours.path, asked), _cost(crowded, asked)

    assert beside <= max(SMALL, MOST_GROWTH * alone), [sql for sql, _ in asked]


def test_the_crowd_is_there(api: ApiClient, crowded: Path, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(crowded,))
    profile = api.get("/api/v1/profiles/").json["results"][0]
    # And those of the import: of all iterations, and of the steady range.
    assert profile["aggregation_count"] == OTHERS + 2
