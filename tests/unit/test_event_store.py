"""The events of a profile are read in one place: each column once, from a database or an import."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.dldb import column_blobs, event_reader
from aggregator.dldb.event_reader import KeptTables, stored_events
from aggregator.dldb.writer import Table
from aggregator.events.model import Calls, Work, WorkKind, find_calls, launching_calls
from aggregator.events.store import EventStore
from aggregator.importing.imported import ImportedProfile
from aggregator.metrics.owners import Ownership, Span, read_all_ownership
from aggregator.metrics.ownership_columns import read_host
from aggregator.metrics.ownership_host import FIRST_CALL
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate, import_profile
from aggregator.profile.arrays import NO_ROW, Int64
from aggregator.system.progress import NullProgress
from tests.builders import Trace, analyze


def test_asynchronous_copies_block_if_their_memory_is_pageable() -> None:
    start, length = np.array([10, 20, 30]), np.array([5, 5, 5])
    calls: dict[str, Any] = {
        "name": np.array([1, 1, 2]),
        "op": 1,
        "start": start,
        "duration": length,
        "thread": 1,
    }
    copies: dict[str, Any] = {"op": 1, "is_copy": True, "host_kind": np.array([0, 1]), "device": 1}
    copies |= {"stream_id": 7, "process": 1, "copy_kind": 1, "bytes": 4}
    times = {"start": start[:2] + 3, "duration": length[:2]}
    launched = {"api_start": start[:2], "api_duration": length[:2]}
    names = ["cudaMemcpyAsync_v3020", "cudaStreamSynchronize"]
    kept = KeptTables()
    tables = [
        Table("processes", {"id": [1], "pid": [7]}),
        Table("threads", {"id": [1], "tid": [7], "process": [1]}),
        Table("api_names", {"id": [1, 2], "name": names}),
        Table("memory_ops", {**copies, **times, **launched}),
        Table("api_calls", calls),
    ]
    assert len(list(kept.keep(tables))) == len(tables)

    store = EventStore(kept)
    found = read_host(store, store.work(), store.calls())

    assert found.host.events.start_ns.tolist() == [10, 30]
    assert (found.host.events.reason - FIRST_CALL).tolist() == [0, 1]
    assert found.reasons[FIRST_CALL:] == ("cudaMemcpyAsync", "cudaStreamSynchronize")


def test_column_of_an_import_is_forgotten_once_it_is_read() -> None:
    kept = KeptTables()
    table = Table("named_ranges", {"name": [1], "process": [1], "start": [5], "stop": [9]})
    assert list(kept.keep([table])) == [table]

    assert [int(column[0]) for column in kept.integers("named_ranges", ("start", "stop"))] == [5, 9]
    with pytest.raises(KeyError):
        kept.integers("named_ranges", ("start",))


def test_import_drops_its_events_before_owners_are_found(
    profile: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    drop, read = ImportedProfile.release_events, read_all_ownership

    def drop_events(data: ImportedProfile) -> None:
        drop(data)
        seen.append("events" if hasattr(data, "work") else "no events")

    def read_owners(store: EventStore, spans: Sequence[Span]) -> list[Ownership | None]:
        seen.append("owners")
        return read(store, spans)

    monkeypatch.setattr(ImportedProfile, "release_events", drop_events)
    monkeypatch.setattr("aggregator.dldb.import_writer.read_all_ownership", read_owners)
    source, database = profile("nvtx_domains.sqlite"), tmp_path / "database.sqlite"
    import_profile(ImportOptions(source, database), NullProgress())

    assert seen == ["no events", "owners"]


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


def test_codes_beyond_32_bits_are_kept_whole() -> None:
    largest = (1 << 31) - 1
    for op in (largest, largest + 1, 1 << 40):
        kept = KeptTables()
        columns: dict[str, Any] = {"op": np.array([1, op]), "start": np.array([0, 5])}
        table = Table("op_instances", columns | {"stop": np.array([9, 9]), "thread": np.ones(2)})
        assert list(kept.keep([table])) == [table]
        assert EventStore(kept).op_calls().op.tolist() == [0, op - 1]


def test_results_do_not_depend_on_the_width_of_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow, contents = EventStore._narrow, []

    def wide(store: EventStore, table: str, names: Sequence[str]) -> list[Int64]:
        return [column.astype(np.int64) for column in narrow(store, table, names)]

    for read in (narrow, wide):
        monkeypatch.setattr(EventStore, "_narrow", read)
        database = analyze(_long_steps(), tmp_path)
        database.aggregate(iter_start=2, iter_stop=6)
        contents.append(_rows(database.path))
        database.path.unlink()
    narrow_rows, wide_rows = contents
    assert narrow_rows["op_sensitivity"]
    assert narrow_rows["owners"]
    assert narrow_rows == wide_rows


def _long_steps() -> Trace:
    """Steps of 3 s on two threads: the product of a thread and a time needs more than 32 bits."""
    trace, length = Trace(), 3_000_000_000
    trace.gpu()
    first, second = trace.thread(tid=1), trace.thread(tid=2)
    for step in range(8):
        at = step * length
        first.range(f"iteration {step}", at, at + length - 1_000)
        for thread, begin in ((first, at), (second, at + length // 2)):
            thread.op("conv2d", begin + 1_000, begin + length // 4, sizes="[[8, 3, 4, 4]]")
            launched = begin + length // 5
            thread.launch("sgemm", launched, gpu=(launched + 9_000, launched + length // 9))
    return trace


def _rows(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = {name for (name,) in connection.execute(query)} - {"dldb_meta", "aggregations"}
        return {
            name: connection.execute(f'SELECT * FROM "{name}"').fetchall()
            for name in sorted(tables)
        }


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
