"""The events of a profile are read in one place, and each column of them once."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.dldb import column_blobs, event_reader
from aggregator.dldb.event_reader import stored_events
from aggregator.events.model import NO_ROW, Calls, Work, WorkKind, find_calls, launching_calls
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.profile.arrays import Int64
from aggregator.system.progress import NullProgress
from tests.builders import Trace, analyze

REPOSITORY = Path(__file__).resolve().parents[2]
EVENT_TABLES = "kernels|memory_ops|api_calls|graph_launches|op_instances"
NAMED = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+\"?({EVENT_TABLES})\b", re.IGNORECASE)
READERS = (
    "aggregator/dldb/event_reader.py",
    "aggregator/dldb/rows/",
    "aggregator/tables/events_view.py",
)


def test_no_other_module_has_sql_on_tables_of_events() -> None:
    found = {
        f"{file.relative_to(REPOSITORY)}:{node.lineno}"
        for root in ("aggregator", "viewer", "profiler_cli", "dlprof_client")
        for file in (REPOSITORY / root).rglob("*.py")
        if not str(file.relative_to(REPOSITORY)).startswith(READERS)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and NAMED.search(node.value)
    }
    assert not found


@pytest.fixture
def database(tmp_path: Path) -> Path:
    trace = Trace()
    for thread, _, at in trace.steps(12):
        thread.launch("copy", at + 1_000, gpu=(at + 1_100, at + 1_400))
    return analyze(trace, tmp_path).path


def test_an_aggregation_reads_each_column_once(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[tuple[str, str]] = Counter()
    read_columns = column_blobs.read_columns

    def counted(
        connection: sqlite3.Connection, table: str, names: Sequence[str], *bounds: Any
    ) -> list[Int64]:
        read.update((table, name) for name in names)
        return read_columns(connection, table, names, *bounds)

    monkeypatch.setattr(event_reader, "read_columns", counted)
    aggregate(database, AggregationRequest(iter_start=2, iter_stop=8), NullProgress())
    assert (
        read["kernels", "start"] == read["op_instances", "start"] == read["api_calls", "name"] == 1
    )
    assert [column for column, times in read.items() if times > 1] == []


def test_events_that_were_read_are_selected_no_more(database: Path) -> None:
    statements: list[str] = []
    with closing(sqlite3.connect(database)) as connection:
        store = stored_events(connection)
        connection.set_trace_callback(statements.append)
        counts = []
        for _ in range(2):
            store.work()
            store.calls()
            store.op_calls((0, 50_000))
            selected = [text for text in statements if "column_blobs" in text or NAMED.search(text)]
            counts.append(len(selected))
    assert counts[0] == counts[1] > 0


def test_a_part_of_the_time_has_the_same_rows_as_the_whole(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        store = stored_events(connection)
        whole, calls = store.work(), store.calls()
        low, high = 20_000, 60_000
        inside = (whole.api_start_ns >= low) & (whole.api_start_ns < high)
        part, some = store.work((low, high)), store.calls((low, high))
        rows = np.flatnonzero((calls.start_ns >= low) & (calls.start_ns < high))
    assert 0 < len(part) < len(whole)
    for name, column in vars(part).items():
        assert column.tolist() == getattr(whole, name)[inside].tolist()
    for name, column in vars(some).items():
        assert column.tolist() == getattr(calls, name)[rows].tolist()


def test_kernels_have_names_and_other_work_has_none(tmp_path: Path) -> None:
    trace = Trace()
    for thread, _, at in trace.steps(2):
        thread.copy(at + 1_000, gpu=(at + 1_100, at + 1_400))
    with closing(sqlite3.connect(analyze(trace, tmp_path).path)) as connection:
        store = stored_events(connection)
        work, names = store.work(), store.names
    assert set(work.kind.tolist()) == {WorkKind.KERNEL, WorkKind.COPY}
    assert ((work.name == NO_ROW) == (work.kind != WorkKind.KERNEL)).all()
    assert {names.short[row] for row in work.name.tolist() if row >= 0} == {"sgemm"}


def test_a_launch_is_found_by_process_start_and_end_whatever_its_op() -> None:
    calls = Calls(
        *np.array([[0, 5, 5, 5], [9, 7, 8, 8], [0, 1, 2, 3], [0, 1, 0, 1]]), *_zeros(3, 4)
    )
    replayed = np.full(3, 7)  # The op that was captured, not the one that launches the graph.
    work = Work(
        **dict(zip(WORK, _zeros(len(WORK), 3), strict=True))
        | {
            "start_ns": np.array([10, 10, 5]),
            "api_start_ns": np.array([5, 5, 5]),
            "api_end_ns": np.array([8, 8, 5]),
            "process": np.array([0, 1, 0]),
            "op": replayed,
        }
    )
    assert launching_calls(calls, work).tolist() == [2, 3, NO_ROW]
    assert find_calls(calls, np.array([1, 0]), np.array([5, 4])).tolist() == [1, NO_ROW]


WORK = tuple(Work.__dataclass_fields__)


def _zeros(columns: int, rows: int) -> Any:
    return np.zeros((columns, rows), dtype=np.int64)
