"""Steps while the hardware slowed the GPU down are no reference, and the result says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import Trace, analyze_file, query

MS = 1_000_000
BEGIN_NS = 1_700_000_000 * 1_000 * MS
FULL_MS, SLOWED_MS = 50, 110
STEPS = 20


def export(
    folder: Path, bare_ms: Sequence[int], profiled_ms: Sequence[int], *, has_speed: bool = True
) -> Path:
    """A capture; the GPU is slowed while steps take longer, another GPU is so all the time."""
    trace = Trace()
    list(trace.steps(3))
    path = trace.write(folder / "profile.sqlite")
    ends, steps, samples = BEGIN_NS, [], []
    for phase, times in (("bare", bare_ms), ("profiled", profiled_ms)):
        for number, length_ms in enumerate(times):
            ends += length_ms * MS
            is_slowed = int(length_ms > FULL_MS)
            steps.append((7, None, "optimizer", phase, number, length_ms * MS, None, "", ends))
            samples.append((ends - 10 * MS, 0, "", 1 << 36, 1 << 30, 90, 0, is_slowed))
            samples.append((ends - 10 * MS, 1, "", 1 << 36, 1 << 30, 90, 0, 1))
        ends += 2_000 * MS
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = "pid, rank, stepEnd, phase, number, hostNs, gpuNs INTEGER, work, endUtcNs"
        connection.execute(f"CREATE TABLE DLPROF_STEP_TIMES ({columns})")
        connection.executemany(f"INSERT INTO DLPROF_STEP_TIMES VALUES ({'?, ' * 8}?)", steps)
        columns = "utcNs, gpu, uuid, memoryTotal, memoryUsed, gpuUtilization, isBefore, isSlowed"
        connection.execute(f"CREATE TABLE DLPROF_GPU_SAMPLES ({columns})")
        connection.executemany(f"INSERT INTO DLPROF_GPU_SAMPLES VALUES ({'?, ' * 7}?)", samples)
        if not has_speed:
            connection.execute("ALTER TABLE DLPROF_GPU_SAMPLES DROP COLUMN isSlowed")
    return path


def reference(folder: Path, path: Path) -> tuple[object, ...]:
    """Bare and profiled step, number of bare steps, reason, and share of a warning."""
    database = folder / "dlprof_dldb.sqlite"
    analyze_file(path, database)
    columns = "bare_step, profiled_step, bare_steps, reason"
    row = query(database, f"SELECT {columns} FROM view_step_reference WHERE aggr_id = 1")[0]
    texts = query(database, "SELECT message FROM view_warnings WHERE code = 'GPU_SLOWED'")
    return (*row, *(text for (text,) in texts))


def test_slowed_steps_are_left_out(tmp_path: Path) -> None:
    mixed = [FULL_MS] * STEPS + [SLOWED_MS] * (STEPS + 5)
    bare, profiled, steps, reason, text = reference(
        tmp_path, export(tmp_path, mixed, [SLOWED_MS] * STEPS)
    )
    assert (bare, reason) == (FULL_MS * MS, None)
    # Every step near a slowed sample is left out: here those of the last quarter of a second.
    assert STEPS - 6 <= int(str(steps)) < STEPS
    assert profiled is None
    assert str(text).startswith("The hardware slowed the GPU down in 69% of the run")


@pytest.mark.parametrize("has_speed", [False, True])
def test_a_gpu_that_was_slowed_all_the_time_has_no_reference(
    tmp_path: Path, *, has_speed: bool
) -> None:
    path = export(tmp_path, [SLOWED_MS] * STEPS, [FULL_MS] * STEPS, has_speed=has_speed)
    bare, profiled, _, reason, *_ = reference(tmp_path, path)
    assert (bare, profiled) == (None, FULL_MS * MS)
    wanted = "The hardware slowed the GPU down" if has_speed else "The steps before profiling took"
    assert str(reason).startswith(wanted)


def test_at_full_speed_nothing_is_said(tmp_path: Path) -> None:
    path = export(tmp_path, [FULL_MS - 5] * STEPS, [FULL_MS] * STEPS)
    wanted = ((FULL_MS - 5) * MS, FULL_MS * MS, STEPS, None)
    assert reference(tmp_path, path) == wanted
