"""What ops should cost beside what they took, over the API."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.contract.client import ApiClient, Served


def stored(path: object, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(str(path))) as connection:
        return connection.execute(sql).fetchall()


def test_the_whole_is_that_of_the_view(api: ApiClient, ours: Served) -> None:
    reply = api.get(ours.at("efficiency/")).json
    sql = "SELECT mfu, known_pct, flops, ideal_time FROM view_model_efficiency WHERE aggr_id = 1"
    names = ("mfu_pct", "known_pct", "flops", "ideal_time_ns")
    assert tuple(reply[name] for name in names) == stored(ours.path, sql)[0]
    assert 0 < reply["mfu_pct"] < 100
    assert reply["known_pct"] > 99


def test_ops_come_by_what_is_left_to_win(api: ApiClient, ours: Served) -> None:
    body = api.get(ours.at("op-efficiency/"), page_size="200").json
    left = [row["left_time_ns"] for row in body["results"] if row["left_time_ns"] is not None]
    assert left == sorted(left, reverse=True)
    bound = {row["bound"] for row in body["results"]}
    assert {"compute", "memory"} <= bound
    for row in body["results"]:
        if row["tflops_per_second"] and row["gbytes_per_second"]:
            quotient = row["tflops_per_second"] * 1e3 / row["gbytes_per_second"]
            assert quotient == pytest.approx(row["arithmetic_intensity"], rel=1e-3)


def test_the_units_of_an_op_add_up_to_it(api: ApiClient, ours: Served) -> None:
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


def test_the_roofline_has_points_and_roofs(api: ApiClient, ours: Served) -> None:
    figure = api.get(ours.at("figures/roofline/")).json
    points = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    roofs = [trace for trace in figure["data"] if trace["mode"] != "markers"]
    assert sum(len(trace["x"]) for trace in points) > 50
    assert {roof["name"] for roof in roofs} >= {"float16", "float32"}
    assert figure["layout"]["xaxis"]["type"] == "log"


def test_a_database_of_nvidias_tells_no_costs(api: ApiClient, nvidia: Served) -> None:
    reply = api.get(nvidia.at("efficiency/")).json
    assert reply["mfu_pct"] is None
    assert "mfu_pct" in reply["unknown"]
    assert api.get(nvidia.at("op-efficiency/")).json["count"] == 0
