"""Time before a call is not the call's: the critical path books it apart from the op."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.conftest import ProfileFactory


@pytest.mark.parametrize("name", ["jax_cnn_bf16", "ddp", "pytorch_bert_bf16", "gpt"])
def test_an_op_on_the_path_has_at_most_its_own_time(imported: ProfileFactory, name: str) -> None:
    with closing(sqlite3.connect(imported(name))) as connection:
        (aggr,) = connection.execute("SELECT max(aggr_id) FROM view_aggregations").fetchone()
        rows = connection.execute(
            "SELECT p.owner, p.time_ns, n.cpu_time, s.iter_aggregated FROM"
            " (SELECT owner, sum(time) AS time_ns FROM critical_path WHERE aggr = :aggr"
            "  AND kind = 'cpu' AND owner <> '' GROUP BY owner) AS p"
            " JOIN (SELECT op_node_id, sum(cpu_time) AS cpu_time FROM view_op_nodes"
            "       WHERE aggr_id = :aggr GROUP BY op_node_id) AS n ON n.op_node_id = p.owner"
            " JOIN view_aggregations AS s ON s.aggr_id = :aggr",
            {"aggr": aggr},
        ).fetchall()
    assert rows
    for owner, path_ns, cpu_ns, steps in rows:
        assert path_ns <= 1.2 * cpu_ns / steps + 20_000, owner


def test_what_runs_before_an_op_is_named_so(imported: ProfileFactory) -> None:
    with closing(sqlite3.connect(imported("jax_cnn_bf16"))) as connection:
        kind, share = connection.execute(
            "SELECT kind, share FROM critical_path"
            " WHERE aggr = (SELECT max(aggr_id) FROM view_aggregations) ORDER BY place LIMIT 1"
        ).fetchone()
    assert kind == "before"
    assert share > 50
