"""An export of two ranks in which the host launches of rank 1 take longer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from aggregator.profile.arrays import Int64
from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory

FACTOR = 1.7
PROCESS = 0x1000000
"""What a global thread id holds beside the process."""

Shift = Callable[[Int64], Int64]


def _steps(at_ns: Int64, added_ns: Int64, side: str) -> Shift:
    """A function from times to the time that was added up to then."""

    def shift(time_ns: Int64) -> Int64:
        place = np.searchsorted(at_ns, time_ns, side=side)  # type: ignore[call-overload]
        result: Int64 = np.append(0, added_ns)[place]
        return result

    return shift


def _columns(connection: sqlite3.Connection, query: str) -> list[Int64]:
    return list(np.array(connection.execute(query).fetchall(), dtype=np.int64).T)


def _move(
    connection: sqlite3.Connection, table: str, process: str, shifts: dict[int, Shift]
) -> None:
    """Move the events of a table by what was added in their process."""
    query = f"SELECT rowid, start, coalesce(end, start), {process} / {PROCESS} FROM {table}"
    row, start, end, owner = _columns(connection, query)
    for number, shift in shifts.items():
        own = owner == number
        rows = zip(
            (start + shift(start))[own].tolist(),
            (end + shift(end))[own].tolist(),
            row[own].tolist(),
            strict=True,
        )
        connection.executemany(
            f"UPDATE {table} SET start = ?, end = iif(end IS NULL, NULL, ?) WHERE rowid = ?", rows
        )


def stretch(connection: sqlite3.Connection) -> None:
    """Let each launch of rank 1 take longer, and all that follows come later.

    Rank 0 waits in its collectives until rank 1 has come to them.
    """
    fast, slow = _columns(
        connection,
        f"SELECT DISTINCT globalPid / {PROCESS} AS p FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY p",
    )[0].tolist()
    launches = (
        "SELECT c.rowid, start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME AS c JOIN StringIds AS s"
        f" ON s.id = c.nameId WHERE s.value LIKE '%Launch%' AND globalTid / {PROCESS} = {slow}"
        " ORDER BY start"
    )
    call, begin, end = _columns(connection, launches)
    longer = np.rint((FACTOR - 1) * (end - begin)).astype(np.int64)
    slow_shift = _steps(end, np.cumsum(longer), "left")
    collectives = (
        "SELECT k.end, coalesce(c.end, k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds"
        " AS s ON s.id = k.shortName LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS c ON c.correlationId"
        f" = k.correlationId AND c.globalTid / {PROCESS} = k.globalPid / {PROCESS}"
        f" WHERE s.value LIKE '%%nccl%%' AND k.globalPid / {PROCESS} = %d ORDER BY k.start"
    )
    ends, _ = _columns(connection, collectives % fast)
    _, launched = _columns(connection, collectives % slow)
    fast_shift = _steps(ends, np.maximum.accumulate(slow_shift(launched + 1)), "right")
    kernels = (
        "SELECT k.rowid, c.end FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
        " JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS c ON c.correlationId = k.correlationId"
        f" AND c.globalTid / {PROCESS} = k.globalPid / {PROCESS}"
        f" WHERE k.globalPid / {PROCESS} = {slow}"
    )
    row, after = _columns(connection, kernels)
    moved = slow_shift(after + 1).tolist()
    connection.executemany(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + ?, end = end + ? WHERE rowid = ?",
        zip(moved, moved, row.tolist(), strict=True),
    )
    _move(connection, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid", {fast: fast_shift})
    both = {fast: fast_shift, slow: slow_shift}
    for table in ("MEMCPY", "MEMSET", "SYNCHRONIZATION"):
        _move(connection, f"CUPTI_ACTIVITY_KIND_{table}", "globalPid", both)
    for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        _move(connection, table, "globalTid", both)
    connection.executemany(
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = start + ? WHERE rowid = ?",
        zip((end - begin + longer).tolist(), call.tolist(), strict=True),
    )


def test_the_rank_whose_launches_take_longer_is_named_and_not_the_collective(
    profile: ProfileFactory, imported: ProfileFactory, tmp_path: Path
) -> None:
    source = tmp_path / "stretched.sqlite"
    source.write_bytes(profile("ddp2_resnet50_amp").read_bytes())
    with closing(sqlite3.connect(source)) as connection:
        stretch(connection)
        connection.commit()
    report = tmp_path / "report.md"

    main(["compare", str(imported("ddp2_resnet50_amp")), str(source), f"--report={report}"])

    headline = report.read_text("utf-8").splitlines()[0]
    assert "Host launches on rank 1 take 1.7x as long (6.9 " in headline
    assert "launching +" in headline.split("Largest changes")[1]
    assert "communication" not in headline
