"""Every table of a profile of the size that users bring: all pages, all orders, all filters."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from aggregator.options import ImportOptions
from aggregator.progress import NullProgress
from aggregator.query.spec import Kind
from aggregator.resources.addresses import TABLES
from tests.conftest import ProfileFactory
from tests.contract.client import ApiClient, Served
from tests.contract.test_tables import _filter_value, _fits, _sqlite_order

pytestmark = pytest.mark.slow
PAGE_SIZE = 200
COLUMNS = [(address, column.name) for address, spec in TABLES.items() for column in spec.columns]
EVERY_COLUMN = pytest.mark.parametrize(
    ("address", "column"),
    COLUMNS,
    ids=lambda value: TABLES[value].name if value in TABLES else value,
)


@pytest.fixture(scope="module")
def large_database(profile: ProfileFactory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from aggregator.pipeline import import_profile

    source = profile("pytorch_gpt2_large")
    database = tmp_path_factory.mktemp("large") / "dlprof_dldb.sqlite"
    import_profile(ImportOptions(source, database), NullProgress())
    return database


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


@EVERY_COLUMN
@pytest.mark.parametrize("sign", ["", "-"], ids=["ascending", "descending"])
def test_all_pages_of_every_order_give_every_row_once(
    large: Served,
    everything: dict[str, list[dict[str, Any]]],
    address: str,
    column: str,
    sign: str,
) -> None:
    api = ApiClient()
    walked: list[dict[str, Any]] = []
    for page in range(1, 1_000):
        body = api.get(
            large.at(f"{address}/"), ordering=f"{sign}{column}", page=page, page_size=PAGE_SIZE
        ).json
        walked += body["results"]
        if page * PAGE_SIZE >= body["count"]:
            break

    assert Counter(map(_identity, walked)) == Counter(
        map(_identity, _all_rows(everything, large, address))
    )
    values = [row[column] for row in walked]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=sign == "-", key=_sqlite_order)
    assert values[len(known) :] == [None] * (len(values) - len(known))


@EVERY_COLUMN
def test_every_filter_keeps_what_fits(
    large: Served, everything: dict[str, list[dict[str, Any]]], address: str, column: str
) -> None:
    rows = _all_rows(everything, large, address)
    spec = TABLES[address].by_name[column]
    known = [row[column] for row in rows if row[column] is not None]
    if not known:
        pytest.skip("this profile does not hold the column")
    value = known[len(known) // 2]
    for name in spec.filters:
        operator = name.removeprefix(column).removeprefix("__")
        wanted = _filter_value(spec, operator, value)
        kept = ApiClient().get(large.at(f"{address}/export/"), format="json", **{name: wanted})
        expected = [row for row in rows if _fits(row[column], operator, wanted)]
        assert kept.json["results"] == expected, name
        count = ApiClient().get(large.at(f"{address}/"), page_size=10, **{name: wanted})
        assert count.json["count"] == len(expected) > 0, name
    assert spec.kind in Kind
