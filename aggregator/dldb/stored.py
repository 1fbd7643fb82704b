"""Reads the columns from which aggregations are computed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import adbc_driver_manager
import numpy as np

from aggregator.costs.units import CostUnit, InstanceCosts
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.guarded import DAMAGE, check_tables
from aggregator.dldb.reader import busy, is_aggregable, open_database
from aggregator.dldb.writer import BUSY_TIMEOUT_S, has_table, own_tables, unwritable
from aggregator.errors import DatabaseBusyError, DldbVersionError, NotADldbError
from aggregator.events.model import Devices, Launches, OpKernels
from aggregator.events.store import EventStore
from aggregator.kernels.traits import half_precision_kernels
from aggregator.metrics.iterations import NamedRanges
from aggregator.metrics.model import LEVELS, RollupInput
from aggregator.metrics.phases import PhaseColumns
from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import Flattened
from aggregator.profile.recorded_part import RecordedPart
from aggregator.system.progress import Progress
from aggregator.system.sqlite_arrow import raise_interrupt
from aggregator.system.sqlite_uri import connect_read_only, is_busy, is_full
from aggregator.texts import say

T = TypeVar("T")


def load_rollup_inputs(
    path: Path, progress: Progress
) -> tuple[tuple[RollupInput, ...], EventStore]:
    """Read the columns of a database: the default domain, then the custom ones.

    Returns:
        They and the events, whose connection is closed: see ``EventStore.on``.

    Raises:
        NotADldbError: The database is damaged.
    """
    return retry_while_locked(lambda: _load_once(path, progress))


def retry_while_locked(read: Callable[[], T]) -> T:
    """Call ``read`` until no other process is committing; returns its result.

    Raises:
        DatabaseBusyError: The database was still locked after ``BUSY_TIMEOUT_S``.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return read()
        except DatabaseBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)


_RETRY_S = 0.1
_DAMAGE = (*DAMAGE, MemoryError)  # A row id may lead to no row, or ask for a table of 64 GiB.


def _load_once(path: Path, progress: Progress) -> tuple[tuple[RollupInput, ...], EventStore]:
    # No transaction over all of it: a reader must not hold up another's commit for long.
    with reading_errors(path), closing(connect_read_only(path)) as connection:
        store = stored_events(connection)
        return _Loader(connection, store, progress).load(), store


def require_aggregable(database: Path) -> None:
    """Check that an aggregation can be added to a database.

    Raises:
        DldbVersionError: Its tables are those of an older version.
        NotADldbError: Writing to it would run SQL of its own.
    """
    with open_database(database) as dldb, reading_errors(database):
        if not is_aggregable(dldb.version):
            raise DldbVersionError(
                say(
                    "'{database}' was written by version {version}, whose tables differ from "
                    "today's.",
                    database=database,
                    version=dldb.version,
                ),
                hint=say(
                    "Aggregate the Nsight Systems export again: dlprof --database=profile.sqlite"
                ),
                version=dldb.version,
            )
        check_tables(dldb.connection, database, own_tables())


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Turn what reading a damaged or busy database raises into one sentence.

    Raises:
        DatabaseBusyError: Another process writes it.
        DatabaseWriteError: The disk is full: what was read is being put somewhere.
        NotADldbError: It is damaged.
    """
    try:
        with damage_errors(path):
            yield
    except (sqlite3.DatabaseError, adbc_driver_manager.Error) as error:
        if isinstance(error, adbc_driver_manager.Error):
            raise_interrupt(error)
        if is_busy(_first_line(error)):
            raise busy(path) from error
        if is_full(_first_line(error)):
            raise unwritable(path, _first_line(error)) from error
        raise _damaged(path, error) from error


@contextmanager
def damage_errors(path: Path) -> Iterator[None]:
    """Turn what values of a damaged database raise while it is written to into one sentence.

    Raises:
        NotADldbError: It is damaged.
    """
    try:
        yield
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> NotADldbError:
    return NotADldbError(
        say("The database '{path}' is damaged: {text}.", path=str(path), text=_first_line(error))
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _recorded(connection: sqlite3.Connection) -> RecordedPart:
    """Return the recorded windows; none in a database of a version that stored none."""
    if not has_table(connection, "windows"):
        return RecordedPart()
    query = "SELECT process - 1, start, stop, ended_by FROM windows ORDER BY start, stop"
    rows = connection.execute(query).fetchall()
    numbers = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
    process, start_ns, end_ns = numbers
    ended_by = tuple(str(row[3]) for row in rows)
    return RecordedPart(process, start_ns, end_ns, ended_by)


class _Loader:
    def __init__(
        self, connection: sqlite3.Connection, store: EventStore, progress: Progress
    ) -> None:
        self._connection, self._store = connection, store
        rows = connection.execute("SELECT key, value FROM dldb_meta")
        self._meta = {str(key): str(value) for key, value in rows}
        progress.phase("read", self._count_rows())
        self._instances = store.op_times()
        self._costs = self._read_costs()
        self._kernels = store.launches("kernels", "op_kernel")
        self._memory = store.launches("memory_ops", "name")
        self._op_kernels = _op_kernels(connection)
        self._devices = _devices(connection, store)
        self._ranges = self._named_ranges()
        for columns in (self._instances, self._kernels, self._memory, self._ranges.name):
            progress.advance(len(columns))
        self._phases = _phases(connection)
        self._recorded = _recorded(connection)

    def _count_rows(self) -> int:
        tables = ("op_instances", "kernels", "memory_ops", "named_ranges")
        queries = (f"SELECT coalesce(max(rowid), 0) FROM {table}" for table in tables)
        return sum(int(self._connection.execute(query).fetchone()[0]) for query in queries)

    def _read_costs(self) -> InstanceCosts:
        """Return the costs of all instances; none in a database of a version that computed none."""
        if not has_table(self._connection, "op_efficiency"):
            return InstanceCosts()
        (cost,) = self._store.integers("op_instances", ("cost",))
        query = "SELECT cost, unit, calls FROM op_cost_parts ORDER BY cost, unit"
        parts = self._connection.execute(query).fetchall()
        part_cost, unit, calls = np.array(parts, dtype=np.int64).reshape(-1, 3).T
        return InstanceCosts(
            units=_cost_units(self._connection),
            part_cost=part_cost - 1,
            part_unit=unit - 1,
            part_calls=calls,
            of_instance=(cost - 1).astype(np.int32),
            count=int(part_cost.max(initial=0)),
        )

    def _named_ranges(self) -> NamedRanges:
        names = self._connection.execute("SELECT name FROM range_names ORDER BY id").fetchall()
        name, process, start, stop = self._store.integers("named_ranges", _RANGE_COLUMNS)
        return NamedRanges(
            name=(name - 1).astype(np.int32),
            names=tuple(str(row[0]) for row in names),
            start_ns=start,
            end_ns=stop,
            process=(process - 1).astype(np.int32),
        )

    def load(self) -> tuple[RollupInput, ...]:
        """Return one input per domain."""
        count = int(self._connection.execute("SELECT count(*) FROM domains").fetchone()[0])
        return tuple(self._domain(domain) for domain in range(count))

    def _domain(self, domain: int) -> RollupInput:
        rows: Int64 | slice = slice(None)  # of one domain: nothing to choose, nothing to copy
        ops = self._store.ops
        if ops.domain.any():
            rows = np.flatnonzero(ops.domain[self._instances.op] == domain)
        busy = _busy(self._connection, domain + 1)
        return RollupInput(
            domain=domain,
            mode=self._meta["mode"],
            last_ns=int(self._meta["last_ns"]),
            ops=ops,
            instances=self._instances.rows(rows),
            kernels=self._kernels_of(domain),
            op_kernels=self._op_kernels,
            memory=self._memory.rows(self._memory_rows(domain)),
            devices=self._devices,
            busy=tuple(levels[: len(LEVELS)] for levels in busy),
            collectives=tuple((levels[-2], levels[-1]) for levels in busy),
            ranges=self._ranges,
            default_key=(self._meta["key_node"], self._meta["key_node_reason"]),
            first_ns=int(self._meta.get("first_ns", 0)),
            marked_until_ns=int(self._meta.get("marked_until_ns", 0)),
            gaps_ns=self._recorded.gaps_ns,
            is_part=self._recorded.is_part,
            are_ranks=self._meta.get("are_ranks", "1") == "1",
            costs=InstanceCosts() if domain else self._costs_of(rows),
            settings=self._store.settings,
            phases=self._phases,
        )

    def _costs_of(self, rows: Int64 | slice) -> InstanceCosts:
        costs = self._costs
        return replace(costs, of_instance=costs.of_instance[rows]) if costs.count else costs

    def _kernels_of(self, domain: int) -> Launches:
        if domain == 0:
            return self._kernels
        query = (
            "SELECT kernel - 1, op_kernel - 1 FROM domain_kernels"
            " WHERE domain = ? AND by_time = 0 ORDER BY kernel"
        )
        found = self._connection.execute(query, (domain + 1,)).fetchall()
        pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
        return replace(self._kernels.rows(pairs[:, 0]), code=pairs[:, 1].astype(np.int32))

    def _memory_rows(self, domain: int) -> Int64 | slice:
        if domain == 0:
            return slice(None)
        query = (
            "SELECT memory_op - 1 FROM domain_memory_ops"
            " WHERE domain = ? AND by_time = 0 ORDER BY memory_op"
        )
        found = self._connection.execute(query, (domain + 1,)).fetchall()
        return np.array([row[0] for row in found], dtype=np.int64)


_RANGE_COLUMNS = ("name", "process", "start", "stop")


def _cost_units(connection: sqlite3.Connection) -> tuple[CostUnit, ...]:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(cost_units)")}
    # Before 2.1.3 it was not recorded which kernels may compute matrix products.
    hidden = "hides_matrix" if "hides_matrix" in columns else "flops IS NULL"
    query = (
        "SELECT name, input_shapes, output_shape, flops, bytes, is_matrix, precision, reason,"
        f" {hidden} FROM cost_units ORDER BY id"
    )
    return tuple(
        CostUnit(name, inputs, output, flops, moved, bool(matrix), precision, reason, bool(hides))
        for name, inputs, output, flops, moved, matrix, precision, reason, hides in (
            connection.execute(query)
        )
    )


def _phases(connection: sqlite3.Connection) -> PhaseColumns:
    """Return the phases of the program; none in a database of a version that read none."""
    if not has_table(connection, "phase_ranges"):
        return PhaseColumns()
    query = (
        "SELECT start, stop, process - 1, coalesce(tokens, -1), coalesce(sequences, -1), phase"
        " FROM phase_ranges ORDER BY id"
    )
    rows = connection.execute(query).fetchall()
    names = tuple(dict.fromkeys(str(row[5]) for row in rows))
    numbers = np.array([row[:5] for row in rows], dtype=np.int64).reshape(-1, 5).T
    return PhaseColumns(
        np.array([names.index(str(row[5])) for row in rows], dtype=np.int32),
        names,
        numbers[0],
        numbers[1],
        numbers[2].astype(np.int32),
        numbers[3],
        numbers[4],
    )


def _op_kernels(connection: sqlite3.Connection) -> OpKernels:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(op_kernels)")}
    # Databases before 2.1.3 have a row per short name, with the last of its full names.
    full_name = (
        "(SELECT long_name FROM kernel_names AS n WHERE n.id = p.kernel)"
        if "kernel" in columns
        else "last_long_name"
    )
    sql = f"SELECT op, name, uses_tc, {full_name} FROM op_kernels AS p ORDER BY id"
    rows = connection.execute(sql).fetchall()
    codes: dict[str, int] = {}
    names = [codes.setdefault(str(row[1]), len(codes)) for row in rows]
    return OpKernels(
        op=np.array([row[0] - 1 for row in rows], dtype=np.int32),
        name=np.array(names, dtype=np.int32),
        uses_tc=np.array([bool(row[2]) for row in rows], dtype=bool),
        half_precision=half_precision_kernels([str(row[3]) for row in rows]),
    )


def _devices(connection: sqlite3.Connection, store: EventStore) -> Devices:
    rows = connection.execute(
        "SELECT id, device_id, name, memory_bytes, memory_used_bytes FROM devices ORDER BY id"
    ).fetchall()
    used = store.used_devices
    return Devices(
        device_ids=tuple(int(row[1]) for row in rows),
        names=tuple(str(row[2]) for row in rows),
        used=np.array([int(row[0]) - 1 in used for row in rows], dtype=bool),
        memory_bytes=tuple(row[3] for row in rows),
        memory_used_bytes=tuple(row[4] for row in rows),
        lost_records=store.lost_records,
    )


def _busy(connection: sqlite3.Connection, domain: int) -> tuple[tuple[Flattened, ...], ...]:
    result: dict[int, list[Flattened]] = {}
    query = "SELECT device, starts, stops FROM busy_time WHERE domain = ? ORDER BY device, level"
    for device, *blobs in connection.execute(query, (domain,)):
        times = (np.frombuffer(blob, dtype="<i8").astype(np.int64, copy=False) for blob in blobs)
        busy = Flattened(*times)
        result.setdefault(int(device), []).append(busy)
    for levels in result.values():
        if len(levels) == len(LEVELS) + 1:  # Before 2.1.3 graphs were not a level of their own.
            levels.insert(LEVELS.index("graph"), levels[LEVELS.index("non_tc")])
    if any(len(levels) != len(LEVELS) + 2 for levels in result.values()):
        raise sqlite3.DatabaseError("the busy time is incomplete")
    return tuple(tuple(result[device]) for device in sorted(result))
