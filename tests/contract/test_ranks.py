"""Ranks and collectives of a distributed job over the API."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from django.conf import LazySettings

from aggregator.tables.plotly import bars
from tests.conftest import ProfileFactory
from tests.contract.client import ApiClient, Served, all_rows


@pytest.fixture(scope="module")
def two_ranks(imported: ProfileFactory) -> Path:
    return imported("ddp2_resnet50_amp")


@pytest.fixture
def served(two_ranks: Path, settings: LazySettings) -> Served:
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, databases=(two_ranks,), token="", bind="127.0.0.1"
    )
    return Served(two_ranks, aggregation=1, iteration=0, op_id="")


OF_RANK_1 = {"rank__gte": "1", "rank__lte": "1"}


def stored(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def test_api_has_the_ranks_of_the_view(api: ApiClient, served: Served) -> None:
    rows = api.get(served.at("ranks/")).json["results"]
    names = ("rank", "device_id", "gpu_utilization_pct", "waiting_ns", "kept_waiting_ns")
    sql = (
        "SELECT rank, device_id, gpu_utilization, waiting_ns, kept_waiting_ns FROM view_ranks"
        f" WHERE aggr_id = {served.aggregation} ORDER BY rank"
    )
    assert [tuple(row[name] for name in names) for row in rows] == stored(served.path, sql)
    assert [row["waiting_ns"] for row in rows] == [89_010_444, 107_052_975]


def test_collectives_come_by_waiting_and_can_be_filtered(api: ApiClient, served: Served) -> None:
    body = api.get(served.at("collectives/"), collective_name__in="AllReduce", **OF_RANK_1).json
    assert body["count"] == 56
    waited = [row["waiting_ns"] for row in body["results"]]
    assert waited == sorted(waited, reverse=True)
    assert {row["bytes"] for row in body["results"]} <= {
        8192000,
        9724160,
        26255360,
        26550272,
        31506336,
        102228128,
    }
    of_rank = f"aggr_id = {served.aggregation} AND rank = 1"
    total = f"SELECT sum(waiting_ns) FROM view_collectives WHERE {of_rank}"
    of_broadcasts = f"{total} AND collective_name <> 'AllReduce'"
    everything = api.get(served.at("collectives/export/"), format="json", **OF_RANK_1).json
    assert (
        sum(row["waiting_ns"] for row in everything["results"]) == stored(served.path, total)[0][0]
    )
    reduced = api.get(
        served.at("collectives/export/"),
        format="json",
        **OF_RANK_1,
        collective_name__in="AllReduce",
    ).json["results"]
    rest = stored(served.path, of_broadcasts)[0][0]
    assert sum(row["waiting_ns"] for row in reduced) + rest == 107_052_975


def test_the_figure_has_a_bar_for_each_rank_and_part(api: ApiClient, served: Served) -> None:
    figure = api.get(served.at("figures/ranks/")).json
    assert [trace["name"] for trace in figure["data"]] == [
        "Computing",
        "Exposed transfer",
        "Exposed waiting for other ranks",
    ]
    assert [trace["x"] for trace in figure["data"]] == [[0, 1]] * 3
    assert figure["data"][2]["customdata"] == [73_432_124, 93_177_097]


def test_exposed_communication_is_one_bar_where_its_waiting_is_unknown() -> None:
    row: dict[str, list[int | None]] = {"rank": [0], "computing_ns": [7]}
    row |= {"exposed_communication_ns": [5], "exposed_waiting_ns": [None]}
    names = [trace["name"] for trace in bars.ranks(row)["data"]]
    assert names == ["Computing", "Exposed communication"]


def test_a_profile_has_the_number_of_its_ranks(api: ApiClient, served: Served) -> None:
    address = served.at("").split("aggregations/")[0]
    assert api.get(address).json["info"]["rank_count"] == "2"


def test_a_view_of_many_ops_goes_from_each_op_to_its_own_kernels(two_ranks: Path) -> None:
    """64 ranks have 64 times the ops: looking through all kernels for each takes minutes."""
    plan = stored(two_ranks, "EXPLAIN QUERY PLAN SELECT * FROM view_tensor_core_ops")
    steps = [str(row[3]) for row in plan]
    assert any("op_kernels_by_op (op=?)" in step for step in steps)
    assert not [step for step in steps if step.endswith("kernel_metrics_by_aggr (aggr=?)")]


def test_looking_at_many_files_takes_no_longer_than_at_one(profile: Callable[[str], Path]) -> None:
    """All files share one time limit, and its remainder is enough for the last file."""
    from aggregator.sources.formats import Format
    from viewer.profiles.admission import inspect

    export = profile("ddp2_resnet50_amp")
    assert inspect(export, "rank0.sqlite", limit_s=0.0) is Format.EXPORT


def test_the_waiting_by_iteration_adds_up_to_that_of_the_ranks(
    api: ApiClient, served: Served
) -> None:
    body = api.get(served.at("rank-iterations/"), page_size=200).json
    ranks = api.get(served.at("ranks/")).json["results"]
    sql = (
        "SELECT iter_value, rank, count(*), sum(waiting_ns), sum(kept_waiting_ns) FROM"
        f" view_collectives WHERE aggr_id = {served.aggregation} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    names = ("iteration_index", "rank", "collective_count", "waiting_ns", "kept_waiting_ns")
    found = [tuple(row[name] for name in names) for row in body["results"]]
    assert found == stored(served.path, sql)
    for rank in ranks:
        own = [row for row in body["results"] if row["rank"] == rank["rank"]]
        for name in ("waiting_ns", "kept_waiting_ns", "collective_count"):
            assert sum(row[name] for row in own) == rank[name]


def test_the_ops_of_all_ranks_are_merged_by_their_names(api: ApiClient, served: Served) -> None:
    body = api.get(served.at("merged-ops/"), page_size=200, ordering="-gpu_time_ns").json
    by_hand = stored(
        served.path,
        "SELECT CASE WHEN op_node_name LIKE '/rank_%' THEN substr(op_node_name, 8)"
        " ELSE op_node_name END AS name, direction, count(*), sum(gpu_time), max(gpu_time),"
        f" sum(num_calls) FROM view_op_nodes WHERE aggr_id = {served.aggregation}"
        " AND domain_name = 'default-domain'"
        " GROUP BY name, direction, op_node_type ORDER BY sum(gpu_time) DESC",
    )
    ops = stored(
        served.path, f"SELECT count(*) FROM view_op_nodes WHERE aggr_id = {served.aggregation}"
    )
    assert body["count"] == len(by_hand) < int(str(ops[0][0]))
    columns = ("num_ranks", "gpu_time_ns", "slowest_gpu_time_ns", "num_calls")
    found = {
        (row["op_name"], row["direction"]): tuple(row[column] for column in columns)
        for row in body["results"]
    }
    most = {(name, direction): tuple(rest) for name, direction, *rest in by_hand[:150]}
    assert {key: found[key] for key in most} == most
    first = body["results"][0]
    assert first["ranks"] == "0,1"
    slowest, gpu_time = stored(
        served.path,
        f"SELECT op_node_name, gpu_time FROM view_op_nodes WHERE aggr_id = {served.aggregation}"
        f" AND op_node_id = '{first['op_id']}'",
    )[0]
    assert slowest == f"/rank_{first['slowest_rank']}{first['op_name']}"
    assert gpu_time == first["slowest_gpu_time_ns"]
    mean = first["gpu_time_ns"] / first["num_ranks"]
    assert first["imbalance_pct"] == pytest.approx(100 * (gpu_time / mean - 1), abs=1e-5)


def test_kernels_follow_the_filters_of_merged_ops(api: ApiClient, served: Served) -> None:
    ops, every = all_rows(api, served.at("ops/")), all_rows(api, served.at("kernels/"))
    for asked in (
        *("gpu_time_ns__gte=20000000", "imbalance_pct__gte=5&gpu_time_ns__gte=1000"),
        "search=conv2d",
    ):
        merged = all_rows(api, served.at("merged-ops/"), **dict(parse_qsl(asked)))
        keys = {(row["op_name"], row["direction"], row["op_type"]) for row in merged}
        ranks = {
            row["op_id"]: row["rank"]
            for row in ops
            if (_merged_name(row["op_name"]), row["direction"], row["op_type"]) in keys
        }

        found = all_rows(api, served.at("kernels/"), of_merged_ops=asked)

        assert found == [row for row in every if row["op_id"] in ranks], asked
        assert 0 < len(found) < len(every), asked
        # Of all ranks, not only of the one that a merged row names.
        assert {ranks[row["op_id"]] for row in found} >= {0, 1}, asked


def _merged_name(op_name: str) -> str:
    return re.sub(r"^/rank_\d+/", "/", op_name)


def test_an_op_outside_of_every_range_has_the_rank_of_its_process(
    api: ApiClient, served: Served
) -> None:
    rows = api.get(served.at("ops/"), op_name__startswith="unassociated", page_size=200)
    ranks = [row["rank"] for row in rows.json["results"]]
    # A process that is no rank has none.
    assert {0, 1} <= set(ranks) <= {0, 1, None}
    named = api.get(served.at("ops/"), op_name__startswith="/rank_1/", page_size=200).json
    assert {row["rank"] for row in named["results"]} == {1}


def test_kernels_that_move_data_between_gpus_are_a_part_of_the_others(
    api: ApiClient, served: Served
) -> None:
    body = api.get(served.at("kernel-summary/")).json
    expected = stored(
        served.path,
        "SELECT sum(gpu_time), count(DISTINCT kernel_name) FROM view_kernel_summaries"
        " WHERE aggr_id = 1 AND domain_name = 'default-domain' AND kernel_name LIKE 'nccl%'",
    )
    found = body["communication"]
    assert [(found["gpu_time_ns"], found["count"])] == expected
    assert 0 < found["gpu_time_ns"] <= body["other"]["gpu_time_ns"]
