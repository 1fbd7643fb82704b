"""A database that stays open between requests: never stale, in no writer's way, not for long."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from aggregator.errors import DatabaseError
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.idle_pool import IdlePool
from aggregator.system.progress import NullProgress
from aggregator.tables import open_database_cache
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.open_database_cache import Snapshot


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> IdlePool[Snapshot]:
    """None is open yet."""
    fresh = open_database_cache._idle_pool()
    monkeypatch.setattr(open_database_cache, "_IDLE", fresh)
    return fresh


def aggregations(path: Path) -> int:
    with opened(path, time_limit_s=60, keep=True) as database:
        return database.count("SELECT count(*) FROM view_aggregations", {})


def connection_used(path: Path, use: Callable[[ProfileDatabase], object] = id) -> int:
    with opened(path, time_limit_s=60, keep=True) as database:
        use(database)
        return id(database._dldb.connection)


def add_aggregation(path: Path) -> None:
    aggregate(path, AggregationRequest("", 0, 1), NullProgress())


def descriptors(path: Path) -> int:
    found = 0
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += str(number.readlink()).startswith(str(path))
    return found


def test_an_unchanged_file_is_opened_once(sample_database: Path) -> None:
    assert connection_used(sample_database) == connection_used(sample_database)
    assert descriptors(sample_database) == 1
    assert aggregations(sample_database) == 1


def test_a_query_that_was_read_to_its_end_leaves_it_open(sample_database: Path) -> None:
    def use(database: ProfileDatabase) -> None:
        ops = database.iter_rows("SELECT * FROM view_op_nodes")
        kernels = database.iter_rows("SELECT * FROM view_kernel_metrics")
        assert all(zip(ops, kernels, strict=False))
        list(ops)
        list(kernels)

    assert connection_used(sample_database, use) == connection_used(sample_database)
    assert descriptors(sample_database) == 1


def test_two_at_a_time_have_a_connection_each(sample_database: Path) -> None:
    with (
        opened(sample_database, time_limit_s=60, keep=True) as one,
        opened(sample_database, time_limit_s=60, keep=True) as other,
    ):
        assert one._dldb.connection is not other._dldb.connection


def test_a_writer_is_not_held_up_and_its_rows_are_seen(sample_database: Path) -> None:
    assert aggregations(sample_database) == 1
    # WHEN a writer that does not wait takes the file for itself
    with closing(sqlite3.connect(sample_database, timeout=0)) as writer:
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("BEGIN EXCLUSIVE")
        writer.rollback()
    add_aggregation(sample_database)
    assert aggregations(sample_database) == 2


@pytest.mark.parametrize("in_place", [False, True])
def test_another_file_of_that_name_is_seen(
    sample_database: Path, tmp_path: Path, in_place: bool
) -> None:
    other = tmp_path / "other.sqlite"
    shutil.copyfile(sample_database, other)
    add_aggregation(other)
    assert aggregations(sample_database) == 1
    if in_place:
        shutil.copyfile(other, sample_database)
    else:
        other.replace(sample_database)
    assert aggregations(sample_database) == 2


def test_a_file_that_went_is_missed_and_its_new_permissions_hold(
    sample_database: Path, idle: IdlePool[Snapshot]
) -> None:
    assert aggregations(sample_database) == 1
    moved = sample_database.rename(sample_database.with_name("moved"))
    with pytest.raises(DatabaseError):
        aggregations(sample_database)
    moved.rename(sample_database)
    assert aggregations(sample_database) == 1
    sample_database.chmod(0o400)
    assert open_database_cache._take_idle(sample_database) is None


def test_changes_in_a_write_ahead_log_are_seen(sample_database: Path) -> None:
    with closing(sqlite3.connect(sample_database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE more (value)")
        writer.commit()
        assert aggregations(sample_database) == 1
        assert descriptors(sample_database) > 0
        writer.execute("DROP TABLE more")
        writer.execute("DROP VIEW view_warnings")
        writer.commit()
        with opened(sample_database, time_limit_s=60, keep=True) as database:
            assert not database.has("view_warnings")
    # The log is gone with its last user.
    assert descriptors(sample_database) == 0


def _read_one_of_two(database: ProfileDatabase) -> None:
    """Begin two queries, and read the one that began first to its end."""
    first, second = (database.iter_rows("SELECT * FROM view_op_nodes") for _ in range(2))
    assert next(first)
    assert next(second)
    list(first)


USES: dict[str, Callable[[ProfileDatabase], object]] = {
    "iterated": lambda database: next(database.iter_rows("SELECT * FROM view_op_nodes")),
    "one of two": _read_one_of_two,
    "lent": lambda database: database.read_with(lambda connection: None),
    "changed": lambda database: database.add_temporary(
        ["CREATE TEMP VIEW view_warnings AS SELECT 1 AS code"], ["view_warnings"]
    ),
    "let go": lambda database: database.let_go(),
}


@pytest.mark.parametrize("name", USES)
def test_a_connection_that_is_not_as_before_is_closed(sample_database: Path, name: str) -> None:
    connection_used(sample_database, USES[name])
    assert descriptors(sample_database) == 0


def test_a_request_that_failed_closes_it(sample_database: Path) -> None:
    with pytest.raises(DatabaseError), opened(sample_database, time_limit_s=9, keep=True) as one:
        one.rows("SELECT * FROM nothing")
    with opened(sample_database, time_limit_s=60, keep=True) as database, suppress(DatabaseError):
        database.rows("SELECT * FROM nothing")
    assert descriptors(sample_database) == 0


def test_the_next_one_may_do_no_more_than_the_first(sample_database: Path) -> None:
    aggregations(sample_database)
    with (
        pytest.raises(DatabaseError),
        opened(sample_database, time_limit_s=60, keep=True) as database,
    ):
        database.rows("PRAGMA table_info(dldb_meta)")


def test_few_are_kept_and_not_for_long(
    sample_database: Path, tmp_path: Path, idle: IdlePool[Snapshot]
) -> None:
    copies = [tmp_path / f"{number}.sqlite" for number in range(open_database_cache._MOST_IDLE + 2)]
    for copy in copies:
        shutil.copyfile(sample_database, copy)
        aggregations(copy)
    assert [descriptors(copy) for copy in copies] == [0, 0, *[1] * open_database_cache._MOST_IDLE]
    idle.longest_s = 0.0
    idle.end_old()
    assert sum(map(descriptors, copies)) == 0


def test_a_forked_process_opens_its_own(sample_database: Path, idle: IdlePool[Snapshot]) -> None:
    before = connection_used(sample_database)
    idle.forget()
    assert connection_used(sample_database) != before
