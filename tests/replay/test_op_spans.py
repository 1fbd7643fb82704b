"""An op that does not run saves its own time on the CPU and the time that leads to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aggregator.dldb.event_reader import stored_events
from aggregator.events.model import OpCalls
from aggregator.replay.changes import remove
from aggregator.replay.op_spans import removed_spans
from aggregator.replay.reader import read_replayed
from tests.builders import analyze, one_gpu, query
from tests.conftest import ProfileFactory

US = 1_000
OPS, CALL_US, OP_US, GLUE_US, TAIL_US = 6, 5, 30, 4, 20


def _spans(*rows: tuple[int, int, int, int]) -> OpCalls:
    op, start, stop, thread = np.array(sorted(rows, key=lambda row: row[1]), dtype=np.int64).T
    return OpCalls(start, stop, thread, op, np.arange(len(op)) + 1)


def _removed(spans: OpCalls, *ops: int) -> dict[int, list[tuple[int, int]]]:
    found = removed_spans(spans, np.isin(np.arange(10), ops))
    return {
        thread: list(zip(one.start_ns.tolist(), one.end_ns.tolist(), strict=True))
        for thread, one in found.items()
    }


def test_an_op_goes_with_the_time_since_the_op_before_it() -> None:
    spans = _spans((0, 0, 10, 1), (1, 12, 20, 1), (2, 23, 40, 1), (0, 42, 50, 1))
    assert _removed(spans, 1) == {1: [(10, 20)]}
    assert _removed(spans, 0) == {1: [(0, 10), (40, 50)]}


def test_ops_that_follow_each_other_go_with_what_lies_between() -> None:
    spans = _spans((0, 0, 10, 1), (1, 12, 20, 1), (2, 23, 40, 1), (3, 42, 50, 1))
    assert _removed(spans, 1, 2) == {1: [(10, 40)]}


def test_a_long_pause_before_an_op_is_not_its_own() -> None:
    usual = [(number, 12 * number, 12 * number + 10, 1) for number in range(5)]
    assert _removed(_spans(*usual, (5, 1058, 1070, 1)), 5) == {1: [(1052, 1070)]}


def test_an_op_that_stays_ends_what_goes_and_threads_are_apart() -> None:
    spans = _spans((0, 0, 100, 1), (1, 20, 40, 1), (0, 150, 160, 2), (1, 5, 10, 2))
    assert _removed(spans, 0)[1] == [(0, 20)]
    assert _removed(spans, 0)[2][0][1] == 160


def test_threads_of_32_bits_are_apart_in_a_long_capture() -> None:
    second = 1_000_000_000
    rows = ((0, 0, 100, 1), (1, 20, 40, 1), (0, 150, 160, 2), (1, 5, 10, 2))
    spans = _spans(*((op, start * second, stop * second, at) for op, start, stop, at in rows))
    spans = replace(spans, thread=spans.thread.astype(np.int32))
    assert _removed(spans, 0)[1] == [(0, 20 * second)]
    assert _removed(spans, 0)[2][0][1] == 160 * second


@pytest.mark.parametrize("name", ["relu", "conv2d"])
def test_the_tail_of_an_op_after_its_call_goes_and_that_of_others_stays(
    name: str, tmp_path: Path
) -> None:
    """The CPU limits a step of ops that each launch at once and go on for some time."""
    trace, thread = one_gpu()
    now = 0
    for step in range(8):
        begin = now
        for number in range(OPS):
            op = "conv2d" if number % 2 else "relu"
            tail = TAIL_US if op == "conv2d" else 0
            length = OP_US + tail
            thread.op(op, now, now + length * US, seq=OPS * step + number)
            call = now + OP_US * US - CALL_US * US
            thread.launch(op, call, gpu=(call + 6 * US, call + 8 * US), length=CALL_US * US)
            now += (length + GLUE_US) * US
        thread.range(f"step {step}", begin - US, now - 2 * US)
    with closing(sqlite3.connect(analyze(trace, tmp_path).path)) as connection:
        profile = read_replayed(stored_events(connection), 1)
    whole = OPS * (OP_US + GLUE_US) + OPS // 2 * TAIL_US
    gone = OPS // 2 * (OP_US + GLUE_US + (TAIL_US if name == "conv2d" else 0))
    assert np.median(profile.measured_ns) / US == pytest.approx(whole)
    found = profile.predict([remove(name)]).predicted_step_ns / US
    assert found == pytest.approx(whole - gone, abs=1)


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
    ((kind, share),) = query(
        imported("jax_cnn_bf16"),
        "SELECT kind, share FROM critical_path"
        " WHERE aggr = (SELECT max(aggr_id) FROM view_aggregations) ORDER BY place LIMIT 1",
    )
    assert kind == "before"
    assert share > 50
