"""The benchmarks' own tools."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from benchmarks.tile import tile, tile_trace

_TEXT = "aten::mm, seq = 7, op_id = 41, sizes = [[2, 3]], input_op_ids = [(40,0)]"


def _export(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE NVTX_EVENTS ("start", "end", eventType, "text", globalTid);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME ("start", "end", correlationId, nameId);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ("start", "end", correlationId, shortName);
            CREATE TABLE StringIds (id, value);
            INSERT INTO StringIds VALUES (3, 'launch'), (4, 'kernel');
            INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 'a domain', 5);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (11, 12, 900, 3);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (13, 20, 900, 4);
            """
        )
        rows = [(10, 19, 59, _TEXT, 5), (10, 18, 59, "a user's own", 5)]
        connection.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", rows)
        connection.commit()


def test_copies_follow_each_other_and_keep_ids_unique(tmp_path: Path) -> None:
    _export(tmp_path / "one.sqlite")
    tile(tmp_path / "one.sqlite", 3, tmp_path / "three.sqlite")
    with closing(sqlite3.connect(tmp_path / "three.sqlite")) as connection:
        texts = connection.execute(
            "SELECT text FROM NVTX_EVENTS WHERE text LIKE 'aten%'"
        ).fetchall()
        names = connection.execute("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 75")
        assert names.fetchone() == (1,)
        own = connection.execute("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'a user''s own'")
        assert own.fetchone() == (3,)
        starts = connection.execute('SELECT "start" FROM NVTX_EVENTS WHERE "end" = "start" + 9')
        launched = connection.execute(
            'SELECT c.correlationId, k."start" - c."start" FROM CUPTI_ACTIVITY_KIND_RUNTIME AS c'
            " JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k USING (correlationId) ORDER BY c.correlationId"
        ).fetchall()
        assert [row[0] for row in starts] == [10, 1_000_030, 2_000_050]
    assert [text for (text,) in texts] == [
        _TEXT,
        _TEXT.replace("seq = 7", "seq = 15").replace("op_id = 41", "op_id = 83"),
        _TEXT.replace("seq = 7", "seq = 23").replace("op_id = 41", "op_id = 125"),
    ]
    assert launched == [(900, 2), (1801, 2), (2702, 2)]


def test_a_tiled_trace_has_each_event_once_per_copy(tmp_path: Path) -> None:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7}
    events = [
        call | {"ts": 1.5, "dur": 2, "args": {"correlation": 3}},
        kernel | {"ts": 2.125, "dur": 4, "args": {"correlation": 3, "device": 0, "stream": 7}},
    ]
    source, target = tmp_path / "one.json", tmp_path / "three.json"
    source.write_text(json.dumps({"traceEvents": events}))
    tile_trace(source, 3, target)
    profile = open_profile(target, NullProgress())
    # Five microseconds of events (4.625 rounded) and a millisecond between the copies.
    assert profile.kernels.start_ns.tolist() == [625, 1_005_625, 2_010_625]
    assert profile.kernels.correlation_id.tolist() == profile.api_calls.correlation_id.tolist()
    assert len(set(profile.kernels.correlation_id.tolist())) == 3
