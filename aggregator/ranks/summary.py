"""Summaries of ranks: one row for each rank and step of a capture, in a Parquet file.

A summary is written where the capture is, and holds what finding a slow rank needs: the times of
each step by class, its costliest ops and kernels, and each collective with the work around it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
import numpy as np
import pyarrow as pa

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.ownership import read_span
from aggregator.dldb.rows.collectives import read_collectives
from aggregator.dldb.writer import has_table
from aggregator.errors import NotOneJobError
from aggregator.events.store import EventStore
from aggregator.events.window import NoStepsError, read_steps
from aggregator.metrics.collectives import UNALIGNED, CollectiveKernels
from aggregator.metrics.owners import OwnershipReader, Span
from aggregator.metrics.ownership import CLASSES
from aggregator.profile.arrays import Bool, Int64
from aggregator.ranks.summary_schema import (
    CALL,
    CLASS_COLUMNS,
    KERNEL,
    KEY,
    MOST_KERNELS,
    MOST_OPS,
    OP,
    SCHEMA,
    SummaryHead,
    SummaryRank,
    write_table,
)
from aggregator.replay.rank_report import read_kernel_iterations, read_syncs
from aggregator.replay.rank_steps import (
    NO_FUTURE,
    NO_PAST,
    NO_TIMES,
    TIMES,
    CallTimes,
    RankEvents,
    call_times,
)
from aggregator.texts import say

_META: Final = ("mode", "key_node", "job_rank", "host_name", "session_start_utc_ns", "last_ns")


@dataclass(frozen=True)
class _Steps:
    """Iterations of an aggregation. Unit: ns."""

    number: Int64
    kind: list[str]
    start_ns: Int64
    duration_ns: Int64
    is_steady: Bool

    def row(self, number: Int64, is_inside: Bool) -> Int64:
        """Return the row of each iteration; the one behind the last: outside of all."""
        place = np.searchsorted(self.number, number)
        return np.where(is_inside, np.minimum(place, len(self.number)), len(self.number))


@dataclass(frozen=True)
class _Rank:
    row: int
    number: int
    process: int
    device: int | None
    host: str
    is_aligned: bool
    residual_ns: int


def write_rank_summary(
    connection: sqlite3.Connection,
    database: Path,
    aggr: int,
    stream: BinaryIO,
    *,
    source: str = "",
    first_rank: int | None = None,
) -> pa.Table:
    """Write the summary of a database, and return it.

    Args:
        connection: A connection to the database.
        database: A database of this program, which holds the iterations of ``aggr``.
        aggr: Number of the aggregation that says what a step is.
        stream: Where to write.
        source: Where the full database is, for people; empty: not stored.
        first_rank: Number of its first rank in the job; None: as recorded, else by the file names.

    Raises:
        NotOneJobError: No process ran work on a GPU.
        sqlite3.Error, ValueError, TypeError, KeyError, OverflowError, IndexError: It is damaged.
    """
    table = _Summary(connection, database, aggr, first_rank).table(source)
    write_table(table, stream)
    return table


class _Summary:
    def __init__(
        self, connection: sqlite3.Connection, database: Path, aggr: int, first_rank: int | None
    ) -> None:
        self._first_rank = first_rank
        self._meta = {str(k): str(v) for k, v in _rows(connection, "key, value", "dldb_meta")}
        self._ranks = _ranks(connection)
        if not self._ranks:
            raise NotOneJobError(
                say(
                    "No process in '{file}' ran any work on a GPU: it is no rank.",
                    file=str(database),
                ),
                hint=say("Leave the file out."),
            )
        store = stored_events(connection)
        self._steps = _steps(store, aggr)
        self._span = _span(connection, aggr, self._steps)
        self._read_kernels(store, aggr)
        self._syncs = read_syncs(store)
        self._ownership = OwnershipReader(store)
        self._ops = [
            (str(name), str(direction))
            for name, direction in _rows(connection, "op_name, direction", "ops ORDER BY id")
        ]
        self._gpus = sorted({str(row[0]) for row in _rows(connection, "uuid", "devices") if row[0]})
        has_bytes = has_table(connection, "collective_bytes")  # Older databases have none.
        sizes = _rows(connection, "kernel, bytes", "collective_bytes") if has_bytes else []
        self._bytes = dict(sizes)
        self._found = read_collectives(store)

    def _read_kernels(self, store: EventStore, aggr: int) -> None:
        kernels, names = store.kernels(), store.names
        self._kernel_names = names.short
        self._process, self._name = kernels.process, kernels.name
        self._start, self._end = kernels.start_ns, kernels.end_ns
        self._api_start, self._api_end = kernels.api_start_ns, kernels.api_end_ns
        self._moves: Bool = names.communicates[kernels.name]
        iteration, inside = read_kernel_iterations(store, aggr, np.arange(len(kernels)))
        self._row = self._steps.row(iteration, inside)

    def table(self, source: str) -> pa.Table:
        """Return all rows with the metadata of the file."""
        recorded = self._recorded()
        numbers = recorded or [rank.number for rank in self._ranks]
        self._ranks = [
            replace(rank, number=number) for rank, number in zip(self._ranks, numbers, strict=True)
        ]
        parts = [self._rank_table(rank) for rank in self._ranks]
        head = SummaryHead(
            meta={name: self._meta.get(name, "") for name in _META},
            ranks=[
                SummaryRank(rank.number, rank.host, rank.is_aligned, rank.residual_ns)
                for rank in self._ranks
            ],
            recorded_ranks=recorded,
            gpus=self._gpus,
            kernels=[len(self._start), int(self._start.min(initial=NO_FUTURE))],
            source=source,
        )
        return pa.concat_tables(parts).replace_schema_metadata({KEY: msgspec.json.encode(head)})

    def _recorded(self) -> list[int]:
        """Numbers in the job that are certain; empty: the names or the order of files decide."""
        if self._first_rank is not None:
            return list(range(self._first_rank, self._first_rank + len(self._ranks)))
        job_rank = self._meta.get("job_rank", "")
        if job_rank.isdigit():
            return [int(job_rank)]
        return [rank.number for rank in self._ranks] if "rank_files" in self._meta else []

    def _rank_table(self, rank: _Rank) -> pa.Table:
        rows = np.flatnonzero(self._process == rank.process - 1)
        steps = self._steps
        calls, call_counts = self._calls(rank, rows)
        outside = int(call_counts[-1] > 0)
        count = len(steps.number) + outside
        number = pa.array([*steps.number.tolist(), None][:count], pa.int64())
        columns: dict[str, Any] = {
            "rank": np.full(count, rank.number, dtype=np.int32),
            "step": number,
            "kind": [*steps.kind, ""][:count],
            "is_steady": [*steps.is_steady.tolist(), False][:count],
            "start_ns": pa.array([*steps.start_ns.tolist(), None][:count], pa.int64()),
            "duration_ns": pa.array([*steps.duration_ns.tolist(), None][:count], pa.int64()),
            **self._owned(rank, count),
            "kernels": self._costly_kernels(rows, count),
            "collectives": _lists(calls, call_counts[:count]),
        }
        return pa.table(columns, schema=SCHEMA)

    def _owned(self, rank: _Rank, count: int) -> dict[str, Any]:
        none = pa.nulls(count, pa.int64())
        if rank.device is None or rank.device - 1 not in self._ownership.devices:
            return dict.fromkeys(CLASS_COLUMNS, none) | {"ops": pa.nulls(count, pa.list_(OP))}
        found = self._ownership.read(self._span, [rank.device - 1])
        times = np.zeros((len(CLASSES), count), dtype=np.int64)
        steps = len(found.owned_ns)
        np.add.at(times[:, :steps], found.kind, found.owned_ns.T)
        is_unknown = np.arange(count) >= steps
        classes = {
            column: pa.array(times[code], mask=is_unknown)
            for code, column in enumerate(CLASS_COLUMNS)
        }
        owners = found.op >= 0
        by_op = np.zeros((len(self._ops), count), dtype=np.int64)
        np.add.at(by_op[:, :steps], found.op[owners], found.owned_ns[:, owners].T)
        chosen = _largest(by_op.sum(axis=1), MOST_OPS)
        names, directions = (
            zip(*(self._ops[op] for op in chosen), strict=True) if len(chosen) else ((), ())
        )
        parts = [_repeated(names, count), _repeated(directions, count), by_op[chosen].T.ravel()]
        values = pa.StructArray.from_arrays([pa.array(part) for part in parts], fields=list(OP))
        return classes | {"ops": _lists(values, np.full(count, len(chosen)))}

    def _costly_kernels(self, rows: Int64, count: int) -> pa.Array:
        name, row = self._name[rows], self._row[rows]
        time = (self._end - self._start)[rows]
        total = np.bincount(name, time, minlength=len(self._kernel_names))
        chosen = _largest(total, MOST_KERNELS)
        place = np.full(len(self._kernel_names), -1)
        place[chosen] = np.arange(len(chosen))
        kept = (place[name] >= 0) & (row < count)
        cell = row[kept] * len(chosen) + place[name[kept]]
        cells = count * len(chosen)
        parts = [
            _repeated([self._kernel_names[code] for code in chosen], count),
            np.bincount(cell, minlength=cells),
            np.bincount(cell, time[kept], cells).astype(np.int64),
        ]
        values = pa.StructArray.from_arrays([pa.array(part) for part in parts], fields=list(KERNEL))
        return _lists(values, np.full(count, len(chosen)))

    def _calls(self, rank: _Rank, rows: Int64) -> tuple[pa.Array, Int64]:
        own = np.flatnonzero(self._found.rank == rank.row)
        kernel = self._found.kernel[own] - 1
        order = np.lexsort((self._found.start_ns[own], self._row[kernel]))
        own, kernel = own[order], kernel[order]
        times = call_times(
            RankEvents(
                start_ns=self._start[rows],
                end_ns=self._end[rows],
                api_start_ns=self._api_start[rows],
                api_end_ns=self._api_end[rows],
                computes=~self._moves[rows],
                calls=np.searchsorted(rows, kernel),
                syncs_ns=self._syncs.get(rank.process, (NO_TIMES, NO_TIMES)),
            )
        )
        counts = np.bincount(self._row[kernel], minlength=len(self._steps.number) + 1)
        return self._call_structs(self._found, own, times), counts

    def _call_structs(self, found: CollectiveKernels, own: Int64, times: CallTimes) -> pa.Array:
        codes = pa.array(found.kind[own].astype(np.int32))
        kinds = pa.DictionaryArray.from_arrays(codes, pa.array(found.kinds, pa.string()))
        sizes = [self._bytes.get(kernel) for kernel in found.kernel[own].tolist()]
        columns = {
            "kind": kinds.cast(pa.string()),
            "device": pa.array(found.device[own], pa.int64()),
            "stream": pa.array(found.stream[own], pa.int64()),
            "call": pa.array(found.call[own], pa.int64(), mask=found.call[own] < 0),
            "bytes": pa.array(sizes, pa.int64()),
        }
        for name in TIMES:
            column = getattr(times, name)
            columns[name] = pa.array(column, mask=(column == NO_PAST) | (column == NO_FUTURE))
        columns["work_ns"] = pa.array(times.work.total_ns)
        columns["work_count"] = pa.array(times.work.count)
        arrays = [columns[field.name] for field in CALL]
        return pa.StructArray.from_arrays(arrays, fields=list(CALL))


def _rows(connection: sqlite3.Connection, columns: str, table: str) -> list[Any]:
    return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def _ranks(connection: sqlite3.Connection) -> list[_Rank]:
    columns = "id, rank, process, device, host, aligned_by, coalesce(clock_residual, 0)"
    return [
        _Rank(int(row), int(number), process, device, str(host), by != UNALIGNED, int(residual))
        for row, number, process, device, host, by, residual in _rows(
            connection, columns, "ranks ORDER BY rank"
        )
    ]


def _steps(store: EventStore, aggr: int) -> _Steps:
    rows = store.of_aggregation("iterations", aggr, "iter_value", "start", "stop", "kind")
    number, start, end = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
    try:
        steady = read_steps(store, aggr).number
    except NoStepsError:
        steady = number[:0]
    kinds = [str(row[3]) for row in rows]
    return _Steps(number, kinds, start, end - start, np.isin(number, steady))


def _span(connection: sqlite3.Connection, aggr: int, steps: _Steps) -> Span:
    return read_span(connection, aggr, int(steps.number[0]), int(steps.number[-1]))


def _largest(totals: np.ndarray[Any, Any], most: int) -> list[int]:
    """Return the places of the largest totals above 0, in descending order."""
    order = np.argsort(-totals, kind="stable")[:most]
    return [int(place) for place in order if totals[place] > 0]


def _repeated(values: Any, count: int) -> pa.Array:
    return pa.array(list(values) * count, pa.string())


def _lists(values: pa.Array, counts: Int64) -> pa.Array:
    """Return the lists of consecutive values; those behind the last list are left out."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values[: int(offsets[-1])])
