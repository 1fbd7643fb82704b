"""Every table: every order, every filter, every page."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import product
from typing import Any
from urllib.parse import parse_qsl

import pytest

from aggregator.tables.declared.addresses import TABLES
from aggregator.tables.request import PAGE_SIZES
from aggregator.tables.spec import Column, Kind
from tests.contract.client import ApiClient, Served, all_rows

#: These have rows in a distributed job only; tests/contract/test_ranks.py reads one.
OF_SEVERAL_RANKS = {"ranks", "rank-iterations", "collectives", "merged-ops"}
OF_OUR_IMPORTS = {"advice", "key-node-candidates", "owners", "name-evidence"}
"""Empty for a database that DLProf made."""
#: Of programs that train or serve in phases: tests/golden/test_phases.py reads some.
OF_PHASES = {"phases"}
#: A database of NVIDIA's DLProf has no costs; tests/contract/test_efficiency.py reads ours.
COSTS = {address for address in TABLES if "efficiency" in address} | {
    *("ops/{op_id}/units", "peak-rates"),
}
EVERY_TABLE = pytest.mark.parametrize("address", TABLES, ids=lambda address: TABLES[address].name)


@EVERY_TABLE
def test_a_list_has_the_one_envelope_and_refuses_what_it_does_not_know(
    api: ApiClient, served: Served, address: str
) -> None:
    reply = api.get(served.at(f"{address}/"))

    assert reply.status == 200
    body = reply.json
    assert set(body) == {"count", "page", "page_size", "ordering", "results", "unknown"}
    assert (body["page"], body["page_size"]) == (1, 50)
    assert body["ordering"] == ",".join(TABLES[address].default_ordering)
    assert len(body["results"]) == min(50, body["count"])
    assert body["count"] > 0 or address in OF_SEVERAL_RANKS | COSTS | OF_OUR_IMPORTS | OF_PHASES
    for row in body["results"]:
        assert list(row) == list(TABLES[address].by_name)
    small = [
        row
        for page in range(1, 6)
        for row in api.get(served.at(f"{address}/"), page=page, page_size=10).json["results"]
    ]
    assert small == body["results"]
    reply = api.get(served.at(f"{address}/"), ordering="nope")
    assert (reply.status, reply.json["error"]["code"]) == (400, "UNKNOWN_ORDERING")
    for suffix in ("", "export/", "distinct/"):
        reply = api.get(served.at(f"{address}/{suffix}"), nope__gte=1)
        assert (reply.status, reply.json["error"]["code"]) == (400, "UNKNOWN_FILTER")


@EVERY_TABLE
def test_every_column_sorts_both_ways(api: ApiClient, served: Served, address: str) -> None:
    for column, sign in product(TABLES[address].by_name, ("", "-")):
        reply = api.get(served.at(f"{address}/"), ordering=f"{sign}{column}", page_size=200)

        assert reply.status == 200, column
        assert reply.json["ordering"] == f"{sign}{column}"
        values = [row[column] for row in reply.json["results"]]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=sign == "-", key=_sqlite_order), column
        # Unknown values come last in both directions.
        assert values[len(known) :] == [None] * (len(values) - len(known)), column


@EVERY_TABLE
def test_walking_the_pages_gives_every_row_once(
    api: ApiClient, served: Served, address: str
) -> None:
    everything = _export(api, served, address)

    walked: list[Any] = []
    page = 1
    while True:
        rows = api.get(served.at(f"{address}/"), page=page, page_size=200).json["results"]
        if not rows:
            break
        walked += rows
        page += 1

    assert walked == everything


@EVERY_TABLE
def test_every_filter_keeps_the_rows_that_fit_and_no_others(
    api: ApiClient, served: Served, address: str
) -> None:
    everything = _export(api, served, address)
    for column in TABLES[address].by_name:
        _check_filters(api, served, address, column, everything)


def _check_filters(
    api: ApiClient, served: Served, address: str, column: str, everything: list[Any]
) -> None:
    spec = TABLES[address].by_name[column]
    known = [row[column] for row in everything if row[column] is not None]
    value = known[len(known) // 2] if known else None

    for name in spec.filters if known else ():
        operator = name.removeprefix(column).removeprefix("__")
        wanted = _filter_value(spec, operator, value)
        kept = _export(api, served, address, **{name: wanted})
        assert kept == [row for row in everything if _fits(row[column], operator, wanted)], name
        assert kept, name


@EVERY_TABLE
def test_search_looks_into_all_text_columns(api: ApiClient, served: Served, address: str) -> None:
    everything = _export(api, served, address)
    texts = [column.name for column in TABLES[address].columns if column.is_searched]
    known = [str(row[name]) for row in everything for name in texts if row[name]]
    wanted = known[0][:5].upper() if known else "nothing"

    found = _export(api, served, address, search=wanted)

    assert found == [
        row
        for row in everything
        if any(wanted.lower() in str(row[name]).lower() for name in texts if row[name] is not None)
    ]


@pytest.mark.parametrize("wildcard", ["%", "_", "\\"])
def test_a_search_takes_wildcards_literally(api: ApiClient, served: Served, wildcard: str) -> None:
    rows = _export(api, served, "ops", search=wildcard)

    names = [column.name for column in TABLES["ops"].columns if column.is_searched]
    assert all(any(wildcard in str(row[name]) for name in names) for row in rows)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("page", "0"),
        ("page", "-1"),
        ("page", "x"),
        ("page", "1e3"),
        ("page", "9" * 30),
        ("page_size", "7"),
        ("page_size", "1000"),
        ("gpu_time_ns__gte", "much"),
        ("gpu_time_ns__gte", "nan"),
        ("gpu_time_ns__lte", "inf"),
        ("gpu_time_ns__lte", "9" * 40),
        ("using_tc", "maybe"),
    ],
)
def test_a_bad_value_is_refused(api: ApiClient, served: Served, parameter: str, value: str) -> None:
    reply = api.get(served.at("ops/"), **{parameter: value})

    assert (reply.status, reply.json["error"]["code"]) == (400, "INVALID_VALUE")


@pytest.mark.parametrize("size", PAGE_SIZES)
def test_every_page_size_is_taken(api: ApiClient, served: Served, size: int) -> None:
    body = api.get(served.at("iterations/{iteration}/kernels/"), page_size=size).json

    assert body["page_size"] == size
    assert len(body["results"]) == min(size, body["count"])


def test_a_page_beyond_the_last_is_empty_and_says_how_many_there_are(
    api: ApiClient, served: Served
) -> None:
    body = api.get(served.at("ops/"), page=10**9, page_size=200).json

    assert body["results"] == []
    assert body["count"] > 0


def test_text_that_looks_like_sql_is_treated_as_text(api: ApiClient, served: Served) -> None:
    reply = api.get(served.at("ops/"), op_name__icontains="'; DROP TABLE ops; --")

    assert (reply.status, reply.json["count"]) == (200, 0)


def test_several_columns_sort_one_after_the_other(api: ApiClient, served: Served) -> None:
    rows = api.get(served.at("ops/"), ordering="op_type,-cpu_time_ns", page_size=200).json

    keys = [(row["op_type"], -row["cpu_time_ns"]) for row in rows["results"]]
    assert keys == sorted(keys)


def test_an_unknown_domain_is_refused(api: ApiClient, served: Served) -> None:
    reply = api.get(served.at("ops/"), domain="nope")

    assert (reply.status, reply.json["error"]["code"]) == (400, "UNKNOWN_DOMAIN")


@EVERY_TABLE
def test_distinct_values_are_counted(api: ApiClient, served: Served, address: str) -> None:
    count = api.get(served.at(f"{address}/")).json["count"]
    for column in TABLES[address].by_name:
        body = api.get(served.at(f"{address}/distinct/"), column=column).json

        counts = [found["count"] for found in body["results"]]
        assert counts == sorted(counts, reverse=True), column
        assert body["is_truncated"] or sum(counts) == count, column


@EVERY_TABLE
def test_the_csv_export_holds_the_rows_of_the_list(
    api: ApiClient, served: Served, address: str
) -> None:
    everything = _export(api, served, address)

    reply = api.get(served.at(f"{address}/export/"), format="csv")

    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="')
    header, *rows = csv.reader(io.StringIO(reply.body.decode(), newline=""))
    assert header == list(TABLES[address].by_name)
    assert rows == [[_in_csv(value) for value in row.values()] for row in everything]


def test_an_export_of_chosen_columns_has_these_in_that_order(
    api: ApiClient, served: Served
) -> None:
    reply = api.get(served.at("ops/export/"), columns="gpu_time_ns,op_id", op_type__icontains="con")

    header = reply.body.decode().splitlines()[0]
    assert header == "gpu_time_ns,op_id"


@pytest.mark.parametrize("params", [{"format": "exe"}, {"columns": "nope"}])
def test_an_export_refuses_what_it_does_not_know(
    api: ApiClient, served: Served, params: dict[str, str]
) -> None:
    reply = api.get(served.at("ops/export/"), **params)

    assert (reply.status, reply.json["error"]["code"]) == (400, "INVALID_VALUE")


def _export(api: ApiClient, served: Served, address: str, **params: object) -> list[Any]:
    reply = api.get(served.at(f"{address}/export/"), format="json", **params)
    assert reply.status == 200
    rows: list[Any] = reply.json["results"]
    return rows


def _sqlite_order(value: Any) -> Any:
    # SQLite compares text by its bytes.
    return value.encode() if isinstance(value, str) else value


def _filter_value(column: Column, operator: str, value: Any) -> str:
    if operator in {"icontains", "startswith"}:
        return str(value)[:4]
    if column.kind is Kind.BOOLEAN:
        return "1" if value else "0"
    return repr(value) if isinstance(value, float) else str(value)


def _fits(value: Any, operator: str, wanted: str) -> bool:
    match operator:
        case _ if value is None:
            return False
        case "gte":
            return bool(value >= float(wanted))
        case "lte":
            return bool(value <= float(wanted))
        case "icontains":
            return wanted.lower() in str(value).lower()
        case "startswith":
            return str(value).startswith(wanted)
        case _:
            return (
                wanted in {str(value), str(int(value))}
                if isinstance(value, bool)
                else (str(value) == wanted)
            )


def _in_csv(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


@pytest.mark.parametrize("address", ["ops", "kernels"])
def test_the_programs_line_is_one_of_the_stack(
    api: ApiClient, nvidia: Served, address: str
) -> None:
    reply = api.get(nvidia.at(f"{address}/"), page_size=200)
    found = [row for row in reply.json["results"] if row["stack_trace"]]
    assert len(found) > 10
    for row in found:
        frames = [frame.strip() for frame in row["stack_trace"].splitlines()]
        own = [frame for frame in frames if "/torch/" not in frame and "/lib/python3" not in frame]
        assert row["source_line"] == own[-1]


@pytest.mark.parametrize(
    "asked", ["search=conv", "using_tc=1", "op_type__in=conv2d,linear&using_tc=0"]
)
def test_kernels_follow_the_filters_of_the_ops(api: ApiClient, served: Served, asked: str) -> None:
    ids = {row["op_id"] for row in all_rows(api, served.at("ops/"), **dict(parse_qsl(asked)))}
    every = all_rows(api, served.at("kernels/"))

    found = all_rows(api, served.at("kernels/"), of_ops=asked)

    assert found == [row for row in every if row["op_id"] in ids]
    assert len(found) < len(every)
    values = api.get(served.at("kernels/distinct/"), column="direction", of_ops=asked).json
    directions = Counter(row["direction"] for row in found)
    assert {one["value"]: one["count"] for one in values["results"]} == directions


@pytest.mark.parametrize("asked", ["", "search=conv", "op_type__in=conv2d,linear&using_tc=0"])
def test_a_merged_kernel_sums_its_rows_of_all_ops(
    api: ApiClient, served: Served, asked: str
) -> None:
    followed = {"of_ops": asked} if asked else {}
    of_name: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in all_rows(api, served.at("kernels/"), **followed):
        key = (row["kernel_long_name"], row["kernel_name"], row["uses_tc"])
        of_name.setdefault(key, []).append(row)

    found = all_rows(api, served.at("merged-kernels/"), **followed)

    assert [row["gpu_time_ns"] for row in found] == sorted(
        (row["gpu_time_ns"] for row in found), reverse=True
    )
    assert len(found) == len(of_name)
    assert asked or any(row["num_ops"] > 1 for row in found)
    for row in found:
        rows = of_name[row["kernel_long_name"], row["kernel_name"], row["uses_tc"]]
        assert row["num_ops"] == len({one["op_id"] for one in rows})
        assert row["num_calls"] == sum(one["num_calls"] for one in rows)
        assert row["gpu_time_ns"] == sum(one["gpu_time_ns"] for one in rows)
        assert row["gpu_time_min_ns"] == min(one["gpu_time_min_ns"] for one in rows)
        assert row["gpu_time_max_ns"] == max(one["gpu_time_max_ns"] for one in rows)
        mean = row["gpu_time_ns"] / row["num_calls"]
        assert row["gpu_time_avg_ns"] == pytest.approx(mean, abs=1e-6)
        assert row["share_pct"] == pytest.approx(sum(one["share_pct"] for one in rows))


def test_merged_kernels_are_filtered_by_their_sums(api: ApiClient, served: Served) -> None:
    every = all_rows(api, served.at("merged-kernels/"))
    bound = sorted(row["gpu_time_ns"] for row in every)[len(every) // 2]
    found = all_rows(api, served.at("merged-kernels/"), gpu_time_ns__gte=str(bound))
    assert found == [row for row in every if row["gpu_time_ns"] >= bound]
    assert 0 < len(found) < len(every)
    values = api.get(served.at("merged-kernels/distinct/"), column="num_ops").json["results"]
    assert {one["value"]: one["count"] for one in values} == Counter(
        row["num_ops"] for row in every
    )


def test_filters_of_ops_that_do_not_exist_are_refused(api: ApiClient, served: Served) -> None:
    for wrong in ("nonsense=1", "page=2", "of_ops=search%3Dconv"):
        reply = api.get(served.at("kernels/"), of_ops=wrong)
        assert (reply.status, reply.json["error"]["code"]) == (400, "UNKNOWN_FILTER")
    reply = api.get(served.at("ops/"), of_ops="using_tc=1")
    assert (reply.status, reply.json["error"]["code"]) == (400, "UNKNOWN_FILTER")
