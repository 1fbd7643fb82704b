"""Reads from a database of ours what aggregations are computed from."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import adbc_driver_manager
import numpy as np

from aggregator.columns import distinct
from aggregator.dldb.guarded import DAMAGE
from aggregator.dldb.page_columns import PageColumns, page_columns
from aggregator.dldb.writer import BUSY_TIMEOUT_S, unwritable
from aggregator.errors import DatabaseBusyError, NotADldbError
from aggregator.intervals import Flattened
from aggregator.iterations import NamedRanges
from aggregator.metrics.model import (
    LEVELS,
    DeviceColumns,
    InstanceColumns,
    KernelColumns,
    MemoryColumns,
    OpColumns,
    OpKernelColumns,
    RollupInput,
)
from aggregator.precision import is_half_precision
from aggregator.sources.sqlite_files import raise_interrupt
from aggregator.sqlite_arrow import ArrowConnection
from aggregator.sqlite_uri import is_busy, is_full, lenient_text, read_only_uri
from aggregator.texts import say
from aggregator.told import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from aggregator.profile import Int32, Int64
    from aggregator.progress import Progress

T = TypeVar("T")


def load_rollup_inputs(path: Path, progress: Progress) -> tuple[RollupInput, ...]:
    """Read the columns of a database of ours: the default domain, then the custom ones.

    Raises:
        NotADldbError: The database is damaged.
    """
    return patiently(lambda: _load_once(path, progress))


def patiently(read: Callable[[], T]) -> T:
    """What ``read`` gives, once no other process is just committing.

    Raises:
        DatabaseBusyError: It was still told to be busy after ``BUSY_TIMEOUT_S``.
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
_DAMAGE = (*DAMAGE, MemoryError)
"""A row id may lead to no row, or ask for a table of 64 GiB."""


def _load_once(path: Path, progress: Progress) -> tuple[RollupInput, ...]:
    with (
        reading_errors(path),
        closing(sqlite3.connect(read_only_uri(path), uri=True)) as connection,
        # Without a transaction of its own a reader does not hold up another's commit.
        ArrowConnection(read_only_uri(path)) as columns,
        page_columns(path) as pages,
    ):
        connection.text_factory = lenient_text
        return _Loader(connection, _ColumnReader(columns, pages, progress), progress).load()


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
            raise DatabaseBusyError(
                say("The database '{path}' is being written by another process.", path=str(path)),
                hint=say("Try again when that one has finished."),
            ) from error
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


class _Loader:
    """Reads the stored profile of one database."""

    def __init__(
        self, connection: sqlite3.Connection, reader: _ColumnReader, progress: Progress
    ) -> None:
        self._connection = connection
        rows = connection.execute("SELECT key, value FROM dldb_meta")
        self._meta = {str(key): str(value) for key, value in rows}
        progress.phase("read", self._count_rows())
        self._instances = reader.read("op_instances", _INSTANCE_COLUMNS)
        *self._kernels, kernel_device = reader.read("kernels", (*_KERNEL_COLUMNS, "device"))
        *self._memory, memory_device = reader.read("memory_ops", (*_MEMORY_COLUMNS, "device"))
        self._ops, self._op_domain = _ops(connection)
        self._op_kernels = _op_kernels(connection)
        self._devices = _devices(connection, kernel_device, memory_device)
        self._settings = _settings(connection)
        self._ranges = _ranges(connection, reader)

    def _count_rows(self) -> int:
        tables = ("op_instances", "kernels", "memory_ops", "named_ranges")
        queries = (f"SELECT coalesce(max(rowid), 0) FROM {table}" for table in tables)
        return sum(int(self._connection.execute(query).fetchone()[0]) for query in queries)

    def load(self) -> tuple[RollupInput, ...]:
        """One input per domain."""
        count = int(self._connection.execute("SELECT count(*) FROM domains").fetchone()[0])
        return tuple(self._domain(domain) for domain in range(count))

    def _domain(self, domain: int) -> RollupInput:
        op = (self._instances[0] - 1).astype(np.int32)
        rows: Int64 | slice = slice(None)  # of one domain: nothing to choose, nothing to copy
        if self._op_domain.any():
            rows = np.flatnonzero(self._op_domain[op] == domain)
        instances = InstanceColumns(op[rows], *(column[rows] for column in self._instances[1:]))
        kernel_rows, pairs = self._kernel_rows(domain)
        memory_rows = self._memory_rows(domain)
        busy = _busy(self._connection, domain + 1)
        return RollupInput(
            domain=domain,
            mode=self._meta["mode"],
            last_ns=int(self._meta["last_ns"]),
            ops=self._ops,
            instances=instances,
            kernels=KernelColumns(pairs, *(column[kernel_rows] for column in self._kernels[1:])),
            op_kernels=self._op_kernels,
            memory=MemoryColumns(
                self._memory[0][memory_rows].astype(np.int32),
                *(column[memory_rows] for column in self._memory[1:]),
            ),
            devices=self._devices,
            busy=tuple(levels[: len(LEVELS)] for levels in busy),
            collectives=tuple((levels[-2], levels[-1]) for levels in busy),
            ranges=self._ranges,
            default_key=(self._meta["key_node"], self._meta["key_node_reason"]),
            settings=self._settings,
        )

    def _kernel_rows(self, domain: int) -> tuple[Int64 | slice, Int32]:
        """Rows of kernels of a domain in order of launch, and their (op, kernel) pairs."""
        if domain == 0:
            return slice(None), (self._kernels[0] - 1).astype(np.int32)
        query = (
            "SELECT kernel - 1, op_kernel - 1 FROM domain_kernels"
            " WHERE domain = ? AND by_time = 0 ORDER BY kernel"
        )
        found = self._connection.execute(query, (domain + 1,)).fetchall()
        pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1].astype(np.int32)

    def _memory_rows(self, domain: int) -> Int64 | slice:
        if domain == 0:
            return slice(None)
        query = (
            "SELECT memory_op - 1 FROM domain_memory_ops"
            " WHERE domain = ? AND by_time = 0 ORDER BY memory_op"
        )
        found = self._connection.execute(query, (domain + 1,)).fetchall()
        return np.array([row[0] for row in found], dtype=np.int64)


_INSTANCE_COLUMNS = ("op", "start", "stop", "cpu_time", "cpu_overhead", "gpu_time", "gpu_idle")
_KERNEL_COLUMNS = ("op_kernel", "api_start", "api_duration", "duration")
_MEMORY_COLUMNS = ("name", "api_start", "api_duration", "duration")


class _ColumnReader:
    """Integer columns of whole tables, in order of row id."""

    def __init__(self, connection: ArrowConnection, pages: PageColumns, progress: Progress) -> None:
        self._connection = connection
        self._pages = pages
        self._progress = progress

    def read(self, table: str, names: tuple[str, ...]) -> list[Int64]:
        """One array per column."""
        whole = self._pages.read(table, names)
        if whole is not None:
            self._progress.advance(len(whole[0]))
            return whole
        select = ", ".join(f'"{name}"' for name in names)
        query = f"SELECT {select} FROM {table} ORDER BY rowid"
        return self._connection.integer_columns(query, len(names), self._progress.advance)


def _ops(connection: sqlite3.Connection) -> tuple[OpColumns, Int64]:
    """The ops, and the domain of each."""
    rows = connection.execute(
        "SELECT op_id, op_name, op_type, direction, data_type, process, tc_support_status, domain"
        " FROM ops ORDER BY id"
    ).fetchall()
    texts = [tuple(str(row[column]) for row in rows) for column in range(5)]
    columns = OpColumns(
        op_ids=texts[0],
        names=texts[1],
        types=texts[2],
        directions=texts[3],
        data_types=texts[4],
        processes=tuple(int(row[5]) - 1 for row in rows),
        tc_eligible=np.array([row[6] == 0 for row in rows], dtype=bool),
    )
    return columns, np.array([row[7] - 1 for row in rows], dtype=np.int64)


def _op_kernels(connection: sqlite3.Connection) -> OpKernelColumns:
    rows = connection.execute("SELECT op, name, uses_tc FROM op_kernels ORDER BY id").fetchall()
    codes: dict[str, int] = {}
    names = [codes.setdefault(str(row[1]), len(codes)) for row in rows]
    long_names = connection.execute("SELECT name, long_name, uses_tc FROM kernel_names").fetchall()
    half = {(str(row[0]), int(row[2])) for row in long_names if is_half_precision(str(row[1]))}
    return OpKernelColumns(
        op=np.array([row[0] - 1 for row in rows], dtype=np.int32),
        name=np.array(names, dtype=np.int32),
        uses_tc=np.array([bool(row[2]) for row in rows], dtype=bool),
        half_precision=np.array([(str(row[1]), int(row[2])) in half for row in rows], dtype=bool),
    )


def _devices(connection: sqlite3.Connection, *of_work: Int64) -> DeviceColumns:
    rows = connection.execute(
        "SELECT id, device_id, name, memory_bytes, memory_used_bytes FROM devices ORDER BY id"
    ).fetchall()
    graphs = connection.execute("SELECT DISTINCT device FROM graph_launches").fetchall()
    used = {int(row[0]) for row in graphs}
    used.update(device for column in of_work for device in distinct(column).tolist())
    return DeviceColumns(
        device_ids=tuple(int(row[1]) for row in rows),
        names=tuple(str(row[2]) for row in rows),
        used=np.array([int(row[0]) in used for row in rows], dtype=bool),
        memory_bytes=tuple(row[3] for row in rows),
        memory_used_bytes=tuple(row[4] for row in rows),
    )


def _settings(connection: sqlite3.Connection) -> dict[str, Any]:
    rows = connection.execute("SELECT key, value FROM model_config WHERE value IS NOT NULL")
    return {str(key): read_json(str(value)) for key, value in rows}


def _busy(connection: sqlite3.Connection, domain: int) -> tuple[tuple[Flattened, ...], ...]:
    result: dict[int, list[Flattened]] = {}
    query = "SELECT device, starts, stops FROM busy_time WHERE domain = ? ORDER BY device, level"
    for device, starts, stops in connection.execute(query, (domain,)):
        busy = Flattened(_int64(starts), _int64(stops))
        result.setdefault(int(device), []).append(busy)
    if any(len(levels) != len(LEVELS) + 2 for levels in result.values()):
        raise sqlite3.DatabaseError("the busy time is incomplete")
    return tuple(tuple(result[device]) for device in sorted(result))


def _int64(blob: bytes) -> Int64:
    return np.frombuffer(blob, dtype="<i8").astype(np.int64, copy=False)


def _ranges(connection: sqlite3.Connection, reader: _ColumnReader) -> NamedRanges:
    names = connection.execute("SELECT name FROM range_names ORDER BY id").fetchall()
    name, process, start, stop = reader.read("named_ranges", ("name", "process", "start", "stop"))
    return NamedRanges(
        name=(name - 1).astype(np.int32),
        names=tuple(str(row[0]) for row in names),
        start_ns=start,
        end_ns=stop,
        process=(process - 1).astype(np.int32),
    )
