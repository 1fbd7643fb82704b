"""Files that keep a request or a job busy beyond its limit hold nothing else up."""

from __future__ import annotations

import http.client
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.running import WAIT_LIMIT_S, RunningViewer, environment, running
from tests.jobs.services import running_service
from tests.jobs.uploading import port_of

pytestmark = pytest.mark.jobs

LIMIT_S = 1.0
#: Rows of functions, each of which takes SQLite minutes without a look at the clock.
_SLOW = """
WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 1000),
s AS MATERIALIZED (SELECT printf('%.1000000c', 'a') AS a, printf('%.500000c', 'a') AS b)
SELECT instr(s.a, s.b || 'b' || i.n) AS x FROM i, s
"""


def _hostile(good: Path, path: Path, view: str = "view_op_nodes") -> Path:
    """A copy in which a view never ends; the list of profiles does not read it."""
    shutil.copyfile(good, path)
    with closing(sqlite3.connect(path)) as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({view})")]
        columns = ", ".join(f'x AS "{name}"' for name in names)
        connection.execute(f"DROP VIEW {view}")
        connection.execute(f"CREATE VIEW {view} AS SELECT {columns} FROM ({_SLOW})")
        connection.commit()
    return path


def _ask(viewer: RunningViewer, path: str) -> tuple[int, Any, str | None]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(viewer), timeout=WAIT_LIMIT_S)
    with closing(connection):
        connection.request("GET", f"/api/v1/{path}")
        reply = connection.getresponse()
        return reply.status, json.load(reply), reply.headers["Retry-After"]


def test_a_job_that_keeps_pythons_lock_ends_at_its_limit(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLPROF_JOB_TIME_LIMIT_S", "4")
    with running_service("embedded", database, tmp_path, held=True) as service:
        service.hold.write_text("with Python's lock")
        stuck = service.viewer.ask_for_aggregation(iter_start=3)
        worker = service.get_worker()
        after = service.viewer.ask_for_aggregation(iter_start=4)

        found = service.viewer.wait_for_end(stuck)
        assert (found["state"], found["error"]["code"]) == ("failed", "JOB_TIME_LIMIT")
        worker.wait(WAIT_LIMIT_S)
        service.start_worker()
        assert service.viewer.wait_for_end(after)["state"] == "done"


def test_a_view_in_place_of_a_table_is_refused(
    golden_dir: Path, demo_database: Path, tmp_path: Path
) -> None:
    hostile = Path(shutil.copy(golden_dir / "dlprof_dldb.sqlite", tmp_path / "nvidia.sqlite"))
    hostile.chmod(0o600)
    with closing(sqlite3.connect(hostile)) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(read_only_cuda_syncs)")]
        listed = ", ".join(f'i AS "{name}"' for name in names)
        endless = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t)"
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.execute("DROP TABLE read_only_cuda_syncs")
        connection.execute(
            f"CREATE VIEW read_only_cuda_syncs AS SELECT 1 AS rowid, {listed}"
            f" FROM ({endless} SELECT max(i) AS i FROM t)"
        )
        connection.commit()
    # The process that refuses it may take long to start.
    env = environment(tmp_path / "state", DLPROF_EXPORT_TIMEOUT_S=str(WAIT_LIMIT_S))
    with running([hostile, demo_database], env) as viewer:
        ids = {row["file_name"]: row["id"] for row in viewer.get("profiles/")["results"]}
        bad = f"profiles/{ids['nvidia.sqlite']}/aggregations/1/timeline/"
        status, body, _ = _ask(viewer, bad)
        assert (status, body["error"]["code"]) == (422, "DATABASE_FOREIGN")
        assert not viewer.children("part_process")
        assert not list((tmp_path / "state/timelines").glob("*.sqlite"))
