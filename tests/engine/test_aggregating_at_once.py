"""Several processes use one large database: no locks are lost, and all numbers are right."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from aggregator.dldb import writer
from aggregator.dldb.aggregations import change_aggregation, delete_aggregation
from aggregator.errors import (
    AggregationCancelledError,
    DatabaseBusyError,
    DatabaseWriteError,
    DlprofError,
)
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.progress import NullProgress
from aggregator.system.temporary_files import announced_commit, await_commit, file_lock
from aggregator.tables.connection import opened
from tests.builders import Trace, alter, analyze, query

STEPS, LAUNCHES = 12, 6_000
SUMMARY = "SELECT wall_time, gpu_utilization, kernels_all_gpu_time FROM view_model_summary"
WHOLE = (
    "SELECT count(DISTINCT s.aggr_id) FROM view_aggregations AS a"
    " LEFT JOIN view_performance_summary AS s ON s.aggr_id = a.aggr_id GROUP BY a.aggr_id"
)
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of more than 65,536 launches."""
    trace = Trace()
    trace.gpu(0)
    thread = trace.thread(100)
    length = 100 * LAUNCHES
    for step in range(STEPS):
        begin = 2 * length * step
        thread.range(f"iteration {step}", begin, begin + 2 * length - 10)
        thread.op("conv2d", begin + 10, begin + length, seq=step, sizes="[[8, 3, 4, 4]]")
        for number in range(LAUNCHES):
            at = begin + 20 + 100 * number
            thread.launch("sgemm", at, gpu=(at + 30, at + 90 + step))
    return analyze(trace, tmp_path_factory.mktemp("large")).path


@pytest.fixture
def database(large: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(large, tmp_path / "dldb.sqlite"))


class Cancelled(NullProgress):
    """A listener that ends what reports to it."""

    def advance(self, rows: int) -> None:
        del rows
        raise AggregationCancelledError("Cancelled.")


def _aggregate_all(database: str, requests: list[tuple[int, int]], results: Any) -> None:
    for first, last in requests:
        try:
            request = AggregationRequest(iter_start=first, iter_stop=last)
            found: int | str = aggregate(Path(database), request, NullProgress()).aggr_id
        except Exception as error:  # noqa: BLE001 - the test shows it
            found = f"{type(error).__name__}: {error}"
        results.put((first, last, found))


def _read_on(database: str, begun: Event, stop: Event, results: Any) -> None:
    """Open, read and close the database as the viewer does, over and over."""
    reads = 0
    while not stop.is_set():
        try:
            with opened(Path(database), time_limit_s=60) as profile:
                profile.rows(SUMMARY)
                # All of an aggregation is there, or none of it.
                assert {count for (count,) in profile.rows(WHOLE)} == {1}
                profile.rows("SELECT count(*), sum(duration) FROM kernels")
            reads += 1
            begun.set()
        except DatabaseBusyError:
            pass
        except Exception as error:  # noqa: BLE001 - the test shows it
            results.put(f"{type(error).__name__}: {error}")
            return
    results.put(reads)


def test_two_processes_aggregate_while_another_reads(database: Path) -> None:
    requests = [(first, first + 3) for first in range(1, 4)]
    results, reads, stop, begun = SPAWN.Queue(), SPAWN.Queue(), SPAWN.Event(), SPAWN.Event()
    reader = SPAWN.Process(target=_read_on, args=(str(database), begun, stop, reads))
    writers = [
        SPAWN.Process(target=_aggregate_all, args=(str(database), order, results))
        for order in (requests, requests[::-1])
    ]
    reader.start()
    assert begun.wait(240)
    for process in writers:
        process.start()
    found = [results.get(timeout=240) for _ in range(2 * len(requests))]
    stop.set()
    count = reads.get(timeout=120)
    for process in (reader, *writers):
        process.join(timeout=60)

    assert [row for row in found if isinstance(row[2], str)] == []
    assert isinstance(count, int), count
    assert count > 0
    assert len(set(found)) == len(requests)
    ids = {aggr: (first, last) for first, last, aggr in found}
    stored = query(database, "SELECT id, iter_start, iter_stop FROM aggregations WHERE id > 2")
    assert {row[0]: row[1:] for row in stored} == ids
    for aggr, (first, last) in ids.items():
        sums = f"SELECT kernels_all_gpu_time FROM view_model_summary WHERE aggr_id = {aggr}"
        expected = LAUNCHES * sum(60 + step for step in range(first, last + 1))
        assert query(database, sums) == [(expected,)]
    assert query(database, "PRAGMA integrity_check") == [("ok",)]


# --- a database that another program holds in WAL mode -------------------------------------------

_HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("PRAGMA journal_mode = WAL")
held.execute("PRAGMA wal_autocheckpoint = 0")
held.execute(sys.argv[2])
print("changed", flush=True)
sys.stdin.read()
"""
CHANGE = "UPDATE kernels SET duration = duration + 1000 WHERE id % 2 = 0"


@contextmanager
def _held_with_changes(database: Path) -> Iterator[None]:
    command = [sys.executable, "-c", _HOLDER, str(database), CHANGE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"changed\n"
        yield
        assert holder.stdin is not None
        holder.stdin.close()


def test_changes_in_a_write_ahead_log_are_aggregated(large: Path, tmp_path: Path) -> None:
    held, plain = (Path(shutil.copy(large, tmp_path / name)) for name in ("held", "plain"))
    alter(plain, CHANGE)
    request = AggregationRequest(iter_start=2, iter_stop=5)
    with _held_with_changes(held):
        assert held.with_name("held-wal").stat().st_size
        aggregate(held, request, NullProgress())
    aggregate(plain, request, NullProgress())

    sums = f"{SUMMARY} WHERE aggr_id = 2"
    assert query(held, sums) == query(plain, sums) != []
    unchanged = LAUNCHES * sum(60 + step for step in range(2, 6))
    assert query(held, sums)[0][2] > unchanged


# --- a database that another process keeps locked ------------------------------------------------


def test_a_locked_database_is_waited_for_briefly(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with pytest.raises(DatabaseBusyError), opened(database, time_limit_s=60):
            pass
        # Seconds; a busy machine may add some of its own.
        assert time.monotonic() - began < 60
        writer.execute("ROLLBACK")
    try:
        with opened(database, time_limit_s=60) as profile:
            assert profile.rows("SELECT count(*) FROM aggregations") == [(2,)]
    except DlprofError as error:
        pytest.fail(str(error))


# --- turns ---------------------------------------------------------------------------------------


def _hold(path: str, held: Event, stop: Event) -> None:
    with file_lock(Path(path), 1, lambda: None):
        held.set()
        stop.wait(240)


def test_an_aggregation_waits_for_its_turn_and_can_be_cancelled(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, stop = SPAWN.Event(), SPAWN.Event()
    holder = SPAWN.Process(target=_hold, args=(str(database), held, stop))
    holder.start()
    assert held.wait(60)
    request = AggregationRequest(iter_start=2, iter_stop=5)
    with pytest.raises(AggregationCancelledError):
        aggregate(database, request, Cancelled())
    monkeypatch.setattr("aggregator.dldb.writer.TURN_WAIT_S", 0.3)
    with pytest.raises(DatabaseBusyError):
        aggregate(database, request, NullProgress())
    stop.set()
    holder.join(timeout=60)
    assert aggregate(database, request, NullProgress()).aggr_id == 3
    assert [path.name for path in database.parent.iterdir()] == [database.name]


def test_a_lock_file_of_a_killed_process_holds_nothing_up(database: Path) -> None:
    database.with_name(f".{database.name}.lock").touch()
    aggregate(database, AggregationRequest(iter_start=2, iter_stop=5), NullProgress())
    assert [path.name for path in database.parent.iterdir()] == [database.name]


# --- readers that are threads of one process -----------------------------------------------------

_THREADS = """
import sys, threading, time
from pathlib import Path
from aggregator.errors import DatabaseBusyError
from aggregator.tables.connection import opened

READ_S, THREADS = 0.3, 4
began = [threading.Event() for _ in range(THREADS)]

def read(number):
    time.sleep(number * READ_S / THREADS)
    while True:
        try:
            with opened(Path(sys.argv[1]), time_limit_s=60, keep=True) as database:
                database.rows("SELECT * FROM view_model_summary")
                began[number].set()
                time.sleep(READ_S)
        except DatabaseBusyError:
            pass

for number in range(THREADS):
    threading.Thread(target=read, args=(number,), daemon=True).start()
for event in began:
    event.wait()
print("reading", flush=True)
sys.stdin.read()
"""


@contextmanager
def _read_by_threads(database: Path) -> Iterator[None]:
    """Threads of another process read the database, so that one of them always does."""
    command = [sys.executable, "-c", _THREADS, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        yield
        assert reader.poll() is None
        reader.kill()


def test_readers_of_one_process_let_every_kind_of_writer_in(sample_database: Path) -> None:
    with _read_by_threads(sample_database):
        second = aggregate(sample_database, AggregationRequest("", 0, 1), NullProgress()).aggr_id
        change_aggregation(sample_database, second, name="named", is_default=True)
        delete_aggregation(sample_database, 1)
    assert query(sample_database, "SELECT id FROM aggregations") == [(second,)]
    assert query(sample_database, "PRAGMA integrity_check") == [("ok",)]
    assert [path.name for path in sample_database.parent.glob(".*")] == []


def test_a_writer_that_readers_outlast_lets_others_read_and_tries_again(
    sample_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CLOSED_S", 0.2)
    monkeypatch.setattr(writer, "_OPEN_S", 0.2)
    monkeypatch.setattr(writer, "_COMMIT_TRY_S", 0.05)
    pauses = []
    with closing(sqlite3.connect(sample_database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM aggregations").fetchall()

        def pause(seconds: float) -> None:
            pauses.append(await_commit(sample_database, 0.0))
            reader.rollback()

        monkeypatch.setattr("aggregator.dldb.writer.time.sleep", pause)
        change_aggregation(sample_database, 1, name="named")
    assert pauses == [True]


def test_a_cancel_ends_the_wait_for_readers(sample_database: Path) -> None:
    with closing(sqlite3.connect(sample_database)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM aggregations").fetchall()
        with (
            pytest.raises(AggregationCancelledError),
            writer.aggregation_transaction(sample_database, 60.0, None, Cancelled()) as connection,
        ):
            connection.execute("DELETE FROM aggregations")
    assert query(sample_database, "SELECT count(*) FROM aggregations") == [(1,)]


def test_an_announcement_of_a_killed_writer_holds_nothing_up(sample_database: Path) -> None:
    announcement = sample_database.with_name(f".{sample_database.name}.commit")
    announcement.touch()
    with opened(sample_database, time_limit_s=60, wait_s=0.0):
        assert not announcement.exists()


def test_a_thread_that_reads_already_does_not_wait_for_itself(sample_database: Path) -> None:
    with (
        opened(sample_database, time_limit_s=60) as one,
        announced_commit(sample_database),
        opened(sample_database, time_limit_s=60, wait_s=0.0) as other,
    ):
        assert one.info == other.info
    with (
        announced_commit(sample_database),
        pytest.raises(DatabaseBusyError),
        opened(sample_database, time_limit_s=60, wait_s=0.0),
    ):
        pass


def test_a_lock_file_is_not_made_through_a_link(sample_database: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    for kind in ("lock", "commit"):
        sample_database.with_name(f".{sample_database.name}.{kind}").symlink_to(target)
    aggregate(sample_database, AggregationRequest("", 0, 1), NullProgress())
    assert not target.exists()


def test_the_reason_of_a_write_that_sqlite_has_rolled_back_is_kept(sample_database: Path) -> None:
    def fail_as_on_a_full_disk() -> None:
        with writer.aggregation_transaction(sample_database) as connection:
            connection.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(DatabaseWriteError, match="full"):
        fail_as_on_a_full_disk()
