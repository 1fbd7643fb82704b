"""The replay over REST: critical path, sensitivity of ops, what-if, slow ranks."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.contract.client import ApiClient, Served
from tests.contract.test_errors import assert_error


def test_the_chain_fills_the_step_and_the_shares_the_path(api: ApiClient, ours: Served) -> None:
    path = api.get(ours.at("critical-path/")).json
    assert path["confidence"] in {"high", "medium", "low"}
    assert path["iteration_index"] in path["iterations"]
    end = 0
    for item in path["chain"]:
        assert item["offset_ns"] == end
        end = item["offset_ns"] + item["duration_ns"]
    assert end == path["step_ns"]
    assert path["num_items"] == len(path["chain"])
    assert sum(row["share_pct"] for row in path["critical_path"]) == pytest.approx(100, abs=1)
    assert sum(row["ns"] for row in path["critical_path"]) == pytest.approx(
        path["measured_step_ns"], abs=len(path["critical_path"])
    )
    last = path["iterations"][-1]
    other = api.get(ours.at("critical-path/"), iteration_index=last).json
    assert other["iteration_index"] == last
    assert other["critical_path"] == path["critical_path"]


def test_faster_work_makes_a_step_shorter_by_what_lies_on_the_path(
    api: ApiClient, ours: Served
) -> None:
    ops = api.get(ours.at("op-sensitivity/")).json["ops"]
    assert [op["path_ns"] for op in ops] == sorted((op["path_ns"] for op in ops), reverse=True)
    for op in ops:
        assert 0 <= op["path_ns"] <= op["own_ns"]
    unchanged = api.get(ours.at("what-if/")).json
    assert unchanged["predicted_step_ns"] is None
    fast = api.get(ours.at("what-if/"), speedup="kernels=2x").json
    faster = api.get(ours.at("what-if/"), speedup="kernels=4x", graph_launch=1).json
    assert faster["predicted_step_ns"] <= fast["predicted_step_ns"] <= fast["measured_step_ns"]
    assert (fast["interval_ns"] is None) == (fast["uncertain_ns"] > 0)
    for found in (fast, faster):
        assert found["predicted_step_ns"] == found["measured_step_ns"] - found["saving_ns"]
        assert (found["reason"] is None) == (found["uncertain_ns"] == 0)
        assert found["bound_by"] in {"gpu", "cpu", "loader", "communication"}


def test_the_table_of_ops_shows_their_share_of_the_path_and_their_slack(
    api: ApiClient, ours: Served
) -> None:
    with closing(sqlite3.connect(ours.path)) as connection:
        aggr = (ours.aggregation,)
        whole = connection.execute(
            "SELECT sum(time) FROM critical_path WHERE aggr = ?", aggr
        ).fetchone()
        stored = connection.execute(
            "SELECT op_id, direction, path_time, slack FROM op_sensitivity WHERE aggr = ?", aggr
        ).fetchall()
    found = {row[:2]: row[2:] for row in stored}
    rows = api.get(ours.at("ops/"), page_size=100, ordering="-path_pct").json["results"]
    shown = [row for row in rows if row["path_pct"] is not None]
    assert shown
    assert shown == rows[: len(shown)]  # unknown ones come last
    for row in shown:
        path, slack = found[row["op_id"], row["direction"]]
        assert row["path_pct"] == pytest.approx(100 * path / whole[0])
        assert row["slack_ns"] == slack


@pytest.mark.parametrize(
    "params",
    [
        {"speedup": "kernels"},
        {"speedup": "kernels=0x"},
        {"speedup": "kernels=nan"},
        {"speedup": ";".join(["kernels=2x"] * 51)},
        {"graph_launch": "yes"},
        {"link_speed": "fast"},
        {"bucket_mb": "-1"},
    ],
)
def test_a_change_that_is_none(api: ApiClient, ours: Served, params: dict[str, str]) -> None:
    assert_error(api.get(ours.at("what-if/"), **params), 400, "INVALID_VALUE")


def test_a_change_of_nothing_names_what_there_is(api: ApiClient, ours: Served) -> None:
    error = assert_error(api.get(ours.at("what-if/"), speedup="nope=2x"), 400, "USAGE_ERROR")
    assert "closest" in error["hint"]


def test_an_iteration_that_is_not_replayed(api: ApiClient, ours: Served) -> None:
    for value in ("987654", "x"):
        reply = api.get(ours.at("critical-path/"), iteration_index=value)
        assert_error(reply, 400, "INVALID_VALUE")


def test_one_rank_cannot_be_compared(api: ApiClient, ours: Served) -> None:
    error = assert_error(api.get(ours.at("stragglers/")), 422, "CANNOT_REPLAY")
    assert "one rank" in error["message"]


@pytest.mark.parametrize(
    "address", ["critical-path/", "op-sensitivity/", "what-if/", "stragglers/"]
)
def test_a_database_without_single_events_says_so(
    api: ApiClient, nvidia: Served, address: str
) -> None:
    error = assert_error(api.get(nvidia.at(address)), 422, "CANNOT_REPLAY")
    assert "no single calls" in error["message"]
    reply = api.get(nvidia.at("can-replay/"), ranks=int(address == "stragglers/")).json
    assert reply["can_replay"] is False
    assert "no single calls" in reply["reason"]


def test_what_can_be_replayed_is_said_without_an_error(api: ApiClient, ours: Served) -> None:
    assert api.get(ours.at("can-replay/")).json == {"can_replay": True, "reason": None}
    ranks = api.get(ours.at("can-replay/"), ranks=1).json
    assert ranks["can_replay"] is False
    assert "one rank" in ranks["reason"]
    assert_error(api.get(ours.at("can-replay/"), ranks="x"), 400, "INVALID_VALUE")
