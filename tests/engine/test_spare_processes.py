"""Processes that run SQL for others are ended, and leave nothing in the table of processes."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.system import sql_process
from aggregator.system.idle_pool import IdlePool
from aggregator.system.sql_process import SqlProcess


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "some.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    return path


def test_a_spare_process_is_ended_and_waited_for(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spares = IdlePool(1, 0.1, sql_process._Child.end)
    monkeypatch.setattr(sql_process, "_SPARES", spares)
    with closing(SqlProcess(database, 1.0)) as connection:
        process = Path(f"/proc/{connection.pid}")

    deadline = time.monotonic() + 60
    while process.exists():  # also as a zombie
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_killed_by_others_is_an_error_of_the_database(database: Path) -> None:
    """The viewer catches those: the machine may be short of memory."""
    connection = SqlProcess(database, 1.0)
    os.kill(connection.pid, signal.SIGKILL)
    os.waitid(os.P_PID, connection.pid, os.WEXITED | os.WNOWAIT)

    with pytest.raises(sqlite3.DatabaseError, match="the process that read it ended"):
        connection.execute("SELECT 1")
    connection.close()
