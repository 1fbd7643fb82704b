"""The API serves the ideal costs of ops beside their times."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from statistics import median
from typing import Any

import pytest

from tests.contract.client import ApiClient, Served


def stored(path: object, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(str(path))) as connection:
        return connection.execute(sql).fetchall()


def test_the_totals_equal_those_of_the_view(api: ApiClient, ours: Served) -> None:
    reply = api.get(ours.at("efficiency/")).json
    sql = "SELECT mfu, known_pct, flops, ideal_time FROM view_model_efficiency WHERE aggr_id = 1"
    names = ("mfu_pct", "known_pct", "flops", "ideal_time_ns")
    assert tuple(reply[name] for name in names) == stored(ours.path, sql)[0]
    assert 0 < reply["mfu_pct"] < 100
    assert reply["known_pct"] > 99


def test_ops_are_sorted_by_time_above_ideal(api: ApiClient, ours: Served) -> None:
    body = api.get(ours.at("op-efficiency/"), page_size="200").json
    left = [row["left_time_ns"] for row in body["results"] if row["left_time_ns"] is not None]
    assert left == sorted(left, reverse=True)
    bound = {row["bound"] for row in body["results"]}
    assert {"compute", "memory"} <= bound
    for row in body["results"]:
        if row["tflops_per_second"] and row["gbytes_per_second"]:
            quotient = row["tflops_per_second"] * 1e3 / row["gbytes_per_second"]
            assert quotient == pytest.approx(row["arithmetic_intensity"], rel=1e-3)


def test_the_units_of_an_op_add_up_to_its_costs(api: ApiClient, ours: Served) -> None:
    row = api.get(ours.at("op-efficiency/"), op_id="CONV2D_1").json["results"][0]
    units = api.get(ours.at("ops/CONV2D_1/units/")).json["results"]
    assert sum(unit["num_calls"] * unit["flops_per_call"] for unit in units) == row["flops"]
    assert sum(unit["num_calls"] * unit["bytes_per_call"] for unit in units) == row["bytes"]


def test_the_ops_table_has_the_same_numbers(api: ApiClient, ours: Served) -> None:
    row = api.get(ours.at("op-efficiency/"), op_id="CONV2D_1").json["results"][0]
    op = api.get(ours.at("ops/"), op_id="CONV2D_1").json["results"][0]
    for name in ("tflops_per_second", "gbytes_per_second", "left_time_ns", "peak_pct", "bound"):
        assert op[name] == row[name] is not None


@pytest.mark.parametrize("address", ["op-type-efficiency/", "iteration-efficiency/"])
def test_other_tables_add_up(api: ApiClient, ours: Served, address: str) -> None:
    whole = api.get(ours.at("efficiency/")).json
    rows = api.get(ours.at(address), page_size="200").json["results"]
    for name in ("flops", "bytes", "ideal_time_ns", "gpu_time_ns"):
        assert sum(row[name] or 0 for row in rows) == whole[name]


def test_a_share_above_100_percent_has_its_reason(api: ApiClient, ours: Served) -> None:
    rows = api.get(ours.at("op-efficiency/"), page_size="200", ordering="-peak_pct").json["results"]
    above = [row for row in rows if (row["peak_pct"] or 0) > 100]
    assert above
    assert all("cache" in row["peak_reason"] for row in above if row["bound"] == "memory")
    assert all(bool(row["peak_reason"]) == (row["peak_pct"] > 100) for row in rows[:150])


def test_groups_have_what_lies_below_them(api: ApiClient, ours: Served) -> None:
    whole = api.get(ours.at("efficiency/")).json
    rows = api.get(ours.at("group-efficiency/"), page_size="200").json["results"]
    groups = {row["group_name"]: row for row in rows}
    assert groups["_CompleteModel_"]["flops"] == whole["flops"]
    sql = (
        "SELECT sum(flops), sum(ideal_time) FROM view_op_efficiency"
        " WHERE aggr_id = 1 AND substr(op_node_name, 1, length(?1)) = ?1"
    )
    for name in ("/", "/iteration #/"):
        with closing(sqlite3.connect(str(ours.path))) as connection:
            expected = connection.execute(sql, (name,)).fetchone()
        assert (groups[name]["flops"], groups[name]["ideal_time_ns"]) == expected


def test_the_utilization_of_a_step_leaves_the_start_out(api: ApiClient, ours: Served) -> None:
    kinds = {
        row["iteration_index"]: row["kind"]
        for row in api.get(ours.at("iterations/"), page_size="200").json["results"]
    }
    rows = api.get(ours.at("iteration-efficiency/"), page_size="200").json["results"]
    steps = [row["mfu_pct"] for row in rows if kinds[row["iteration_index"]] == "iteration"]
    assert len(steps) < len(rows)
    reply = api.get(ours.at("efficiency/")).json
    assert reply["median_step_mfu_pct"] == pytest.approx(median(steps), abs=1e-5)
    assert reply["median_step_mfu_pct"] > reply["mfu_pct"]


def test_the_roofline_has_points_and_roofs(api: ApiClient, ours: Served) -> None:
    figure = api.get(ours.at("figures/roofline/")).json
    points = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    roofs = [trace for trace in figure["data"] if trace["mode"] != "markers"]
    assert sum(len(trace["x"]) for trace in points) > 50
    assert {roof["name"] for roof in roofs} >= {"float16", "float32"}
    assert figure["layout"]["xaxis"]["type"] == "log"
    # A point's area shows its GPU time, whatever bounds it, and the slope what it is
    times = [row[1] for trace in points for row in trace["customdata"]]
    sizes = [size for trace in points for size in trace["marker"]["size"]]
    assert len(points) > 1
    assert [size for _, size in sorted(zip(times, sizes, strict=True))] == sorted(sizes)
    assert max(sizes) > 2 * min(sizes)
    rates = api.get(ours.at("peak-rates/")).json["results"]
    bandwidth = next(row["rate"] for row in rates if row["rate_name"] == "bandwidth")
    notes = [note["text"] for note in figure["layout"]["annotations"]]
    assert f"{bandwidth:g} GB/s" in notes


def test_a_database_of_nvidias_dlprof_has_no_costs(api: ApiClient, nvidia: Served) -> None:
    reply = api.get(nvidia.at("efficiency/")).json
    assert reply["mfu_pct"] is None
    assert "mfu_pct" in reply["unknown"]
    assert api.get(nvidia.at("op-efficiency/")).json["count"] == 0
