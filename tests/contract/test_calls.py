"""The calls of an op and the launches of a kernel: sums as in the tables, nothing left out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from aggregator.answers.calls import MAX_BINS, bins
from aggregator.system.replies import to_plain
from tests.contract.client import ApiClient, Served

SOME = 200


def _ops(api: ApiClient, served: Served) -> list[dict[str, Any]]:
    return list(api.get(served.at("ops/"), page_size=SOME).json["results"])


def _kernels(api: ApiClient, served: Served) -> list[dict[str, Any]]:
    return list(api.get(served.at("kernels/"), page_size=SOME).json["results"])


def _sum(rows: list[dict[str, Any]], name: str) -> int:
    return int(sum(row[name] for row in rows))


def test_the_iterations_and_bins_of_an_op_add_up_to_its_row(api: ApiClient, ours: Served) -> None:
    aggregated = api.get(ours.at("iterations/"), is_profiled=1, page_size=SOME).json["count"]
    listed = 0
    for op in _ops(api, ours)[:40]:
        reply = api.get(ours.at(f"ops/{quote(op['op_id'])}/calls/")).json
        assert len(reply["iterations"]) == aggregated
        for name in ("num_calls", "gpu_time_ns", "cpu_time_ns"):
            assert _sum(reply["iterations"], name) == op[name]
        for name in ("gpu_time_bins", "cpu_time_bins"):
            assert _sum(reply[name], "num_calls") == op["num_calls"]
        assert (reply["shapes"] is None) == ("shapes" in reply["unknown"])
        if reply["shapes"] is not None and reply["num_shapes"] == len(reply["shapes"]):
            assert _sum(reply["shapes"], "num_calls") == op["num_calls"]
            listed += 1
    assert listed > 0


def test_the_calls_of_an_op_are_those_of_plain_sql(api: ApiClient, ours: Served) -> None:
    op_id = _ops(api, ours)[0]["op_id"]
    reply = api.get(ours.at(f"ops/{quote(op_id)}/calls/")).json
    sql = """
        SELECT i.iter_value, count(*), sum(j.gpu_time), sum(j.cpu_time)
        FROM iterations AS i JOIN op_instances AS j ON j.start >= i.start AND j.start < i.stop
        JOIN ops AS o ON o.id = j.op
        WHERE i.aggr = ? AND i.aggregated = 1 AND o.op_id = ? GROUP BY i.iter_value
    """
    with closing(sqlite3.connect(ours.path)) as database:
        expected = database.execute(sql, (ours.aggregation, op_id)).fetchall()
    keys = ("iteration_index", "num_calls", "gpu_time_ns", "cpu_time_ns")
    found = [tuple(row[key] for key in keys) for row in reply["iterations"] if row["num_calls"]]
    assert found == expected


def test_the_launches_of_a_kernel_add_up_to_the_rows_of_its_ops(
    api: ApiClient, served: Served
) -> None:
    rows = _kernels(api, served)
    key = "kernel_name" if rows[0]["kernel_long_name"] is None else "kernel_long_name"
    for name in {row[key] for row in rows[:30]}:
        of_kernel = api.get(served.at("kernels/"), page_size=SOME, **{key: name}).json["results"]
        assert {row[key] for row in of_kernel} == {name}
        reply = api.get(served.at(f"kernels/{quote(name, safe='')}/launches/")).json
        assert reply["num_ops"] == len({row["op_id"] for row in of_kernel})
        for column in ("num_calls", "gpu_time_ns"):
            assert reply[column] == _sum(of_kernel, column)
            assert reply[column] == _sum(reply["iterations"], column)
        assert reply["num_calls"] == _sum(reply["gpu_time_bins"], "num_calls")
        assert reply["num_calls"] >= _sum(reply["sizes"], "num_calls")
        assert reply["gpu_time_bins"][0]["start_ns"] == reply["gpu_time_min_ns"]
        assert reply["gpu_time_bins"][-1]["stop_ns"] == reply["gpu_time_max_ns"]


def test_a_short_name_stands_for_all_kernels_that_share_it(api: ApiClient, ours: Served) -> None:
    rows = _kernels(api, ours)
    shared = next(
        row["kernel_name"]
        for row in rows
        if len({r["kernel_long_name"] for r in rows if r["kernel_name"] == row["kernel_name"]}) > 1
    )
    reply = api.get(ours.at(f"kernels/{quote(shared, safe='')}/launches/")).json
    found = api.get(ours.at("kernels/"), kernel_name=shared, page_size=SOME).json["results"]
    assert reply["long_names"] == sorted({row["kernel_long_name"] for row in found})
    assert reply["kernel_long_name"] is None
    assert reply["gpu_time_ns"] == _sum(found, "gpu_time_ns")
    assert _sum(reply["iterations"], "gpu_time_ns") == reply["gpu_time_ns"]


def test_what_nvidias_database_does_not_hold_is_unknown(api: ApiClient, nvidia: Served) -> None:
    reply = api.get(nvidia.at("ops/{op_id}/calls/")).json
    assert reply["gpu_time_bins"] is reply["cpu_time_bins"] is reply["shapes"] is None
    assert {"num_calls", "cpu_time_ns", "gpu_time_bins", "shapes"} <= reply["unknown"].keys()
    assert _sum(reply["iterations"], "gpu_time_ns") > 0
    assert all(row["num_calls"] is None for row in reply["iterations"])


def test_unknown_kernels_and_ops_are_not_found(api: ApiClient, served: Served) -> None:
    reply = api.get(served.at("kernels/no%2Fsuch/launches/"))
    assert (reply.status, reply.json["error"]["code"]) == (404, "KERNEL_NOT_FOUND")
    reply = api.get(served.at("ops/NO_SUCH_OP/calls/"))
    assert (reply.status, reply.json["error"]["code"]) == (404, "OP_NOT_FOUND")


@pytest.mark.parametrize(
    "durations", [[], [0], [5], [5, 5, 5], [1, 2], [0, 0, 7, 8], [1, 10**9], list(range(1, 5000))]
)
def test_every_duration_is_in_one_bin(durations: list[int]) -> None:
    found = [to_plain(bar) for bar in bins(np.array(durations, dtype=np.int64))]
    assert len(found) <= MAX_BINS + 1
    for place, one in enumerate(found):
        is_closed = place == len(found) - 1 or one["stop_ns"] == 0
        stop = one["stop_ns"] + is_closed
        assert one["num_calls"] == sum(one["start_ns"] <= value < stop for value in durations)
    assert sum(one["num_calls"] for one in found) == len(durations)
