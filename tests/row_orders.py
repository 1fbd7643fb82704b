"""Captures with their rows in another order."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.builders import Trace

REVERSED = -1


def in_another_order(source: Path, target: Path, order: int | None) -> Path:
    """A copy with the rows of every table reversed, or shuffled with ``order`` as the seed.

    ``None``: in the same order.
    """
    shutil.copyfile(source, target)
    target.chmod(0o600)
    if order is None:
        return target
    chance = random.Random(order)
    with closing(sqlite3.connect(target)) as connection:
        connection.text_factory = bytes
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            table = f'"{name.decode()}"'
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            rows.reverse() if order == REVERSED else chance.shuffle(rows)
            if rows:
                connection.execute(f"DELETE FROM {table}")
                marks = ", ".join("?" * len(rows[0]))
                rows = [
                    tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in row)
                    for row in rows
                ]
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()
    return target


def tied(folder: Path) -> Path:
    """Everything starts at the same time, and some of it is there twice."""
    trace = Trace()
    for number in (0, 1):
        trace.gpu(number)
        trace.cuda_device(100, number, number)
    for tid in (1, 2):
        thread = trace.thread(tid=tid)
        for end in (900, 500, 500):
            thread.range(f"outer {end}", 100, end)
        for name in ("b", "a", "a"):
            thread.op(name, 100, 200, seq=1)
            thread.launch(name, 100, length=5, gpu=(300, 400), device=tid - 1)
        thread.copy(100, gpu=(300, 310))
        thread.set(100, gpu=(300, 310))
    return trace.write(folder / "tied.sqlite")


def trace_in_another_order(source: Path, target: Path, order: int | None) -> Path:
    """A copy of a Kineto trace with its events in another order; None: in the same."""
    trace = json.loads((gzip.open if source.suffix == ".gz" else open)(source, "rt").read())
    events: list[Any] = trace["traceEvents"]
    if order == REVERSED:
        events.reverse()
    elif order is not None:
        random.Random(order).shuffle(events)
    target.write_text(json.dumps(trace))
    return target


def tied_trace(folder: Path) -> Path:
    """All starts at the same time, some of it is there twice, and nothing numbers the events."""
    events: list[Any] = []

    def add(category: str, name: str, length: float, tid: int | str, **args: Any) -> None:
        times = {"ts": 1000.0, "dur": length}
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": tid, "args": args} | times
        )

    for tid in ("b", "a"):
        add("user_annotation", "step", 90, tid)
        for name in ("aten::to", "aten::_to_copy", "aten::to"):
            add("cpu_op", name, 80, tid, **{"Input Dims": [[4], [len(name)]]})
        add("python_function", "nn.Module: B_0", 85, tid)
        add("python_function", "nn.Module: A_0", 85, tid)
        for number, name in enumerate(("cudaMemcpyAsync", "cudaLaunchKernel")):
            add("cuda_runtime", name, 5, tid, correlation=number)
            where = {"device": number, "stream": 7, "correlation": number}
            add("kernel", f"kernel {tid}", 20, 7, grid=[1, 1, 1], block=[2, 1, 1], **where)
            add("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 4, 7, bytes=number, **where)
    for name in ("y", "x"):
        meta = {"ph": "M", "name": "thread_name", "pid": 9, "tid": "a", "ts": 0}
        events.append(meta | {"args": {"name": name}})
    path = folder / "tied.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path
