"""Every table of a profile of the size that users bring: all pages, all orders, all filters."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.tables.declared.addresses import TABLES
from tests.conftest import ProfileFactory
from tests.contract.client import ApiClient, Served
from tests.contract.test_tables import _filter_value, _fits, _sqlite_order

PAGE_SIZE = 200
EVERY_TABLE = pytest.mark.parametrize("address", TABLES, ids=lambda address: TABLES[address].name)


@pytest.fixture(scope="module")
def large_database(imported: ProfileFactory) -> Path:
    return imported("pytorch_gpt2_large")


@pytest.fixture
def large(large_database: Path, settings: LazySettings) -> Served:
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, databases=(large_database,))
    served = Served(large_database, aggregation=1, iteration=200, op_id="")
    ops = ApiClient().get(served.at("iterations/{iteration}/ops/"), page_size=10).json["results"]
    return replace(served, op_id=ops[0]["op_id"])


@pytest.fixture(scope="module")
def everything() -> dict[str, list[dict[str, Any]]]:
    """Whole tables, each read once."""
    return {}


def _all_rows(
    everything: dict[str, list[dict[str, Any]]], large: Served, address: str
) -> list[dict[str, Any]]:
    if address not in everything:
        reply = ApiClient().get(large.at(f"{address}/export/"), format="json")
        everything[address] = reply.json["results"]
    return everything[address]


def _identity(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


@EVERY_TABLE
def test_all_pages_of_every_order_give_every_row_once(
    large: Served, everything: dict[str, list[dict[str, Any]]], address: str
) -> None:
    rows = Counter(map(_identity, _all_rows(everything, large, address)))
    for column in TABLES[address].by_name:
        for sign in ("", "-"):
            walked = _walked(large, address, f"{sign}{column}")
            assert Counter(map(_identity, walked)) == rows, (column, sign)
            values = [row[column] for row in walked]
            known = [value for value in values if value is not None]
            assert known == sorted(known, reverse=sign == "-", key=_sqlite_order), column
            assert values[len(known) :] == [None] * (len(values) - len(known)), column


def _walked(large: Served, address: str, ordering: str) -> list[dict[str, Any]]:
    """Rows of all pages in an order."""
    rows: list[dict[str, Any]] = []
    for page in range(1, 1_000):
        params = {"ordering": ordering, "page": page, "page_size": PAGE_SIZE}
        body = ApiClient().get(large.at(f"{address}/"), **params).json
        rows += body["results"]
        if page * PAGE_SIZE >= body["count"]:
            break
    return rows


@EVERY_TABLE
def test_every_filter_keeps_what_fits(
    large: Served, everything: dict[str, list[dict[str, Any]]], address: str
) -> None:
    rows = _all_rows(everything, large, address)
    for column, spec in TABLES[address].by_name.items():
        known = [row[column] for row in rows if row[column] is not None]
        for name in spec.filters if known else ():
            operator = name.removeprefix(column).removeprefix("__")
            wanted = _filter_value(spec, operator, known[len(known) // 2])
            kept = ApiClient().get(large.at(f"{address}/export/"), format="json", **{name: wanted})
            expected = [row for row in rows if _fits(row[column], operator, wanted)]
            assert kept.json["results"] == expected, name
            count = ApiClient().get(large.at(f"{address}/"), page_size=10, **{name: wanted})
            assert count.json["count"] == len(expected) > 0, name
