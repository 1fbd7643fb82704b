"""Times of steps that the processes of an application measured, from their files to the export."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from aggregator.sources.nsys.reference import COLUMNS, END, NOTE, PHASES, UNPROFILED, WORK
from aggregator.sources.nsys.schema import CAPTURE_NOTES, LOOPS, STEP_TIMES
from aggregator.sources.nsys.windows import LOOP_COLUMNS
from aggregator.system.untrusted_json import read_object

Steps = list[dict[str, Any]]
"""What each process wrote; see ``dlprof_nvtx/baseline_timing.py``."""
FILES: Final = "steps.*.json"
MAX_LOOPS: Final = 1_000
MAX_STEPS: Final = 100_000
MAX_NS: Final = 1 << 53
"""Times of a step above it are no times."""
MAX_UTC_NS: Final = 1 << 63


def read_steps(folder: Path) -> Steps:
    """Read the files of all processes in a folder, which need not exist."""
    found = []
    with suppress(OSError):
        for path in sorted(folder.glob(FILES)):
            with suppress(OSError):
                found.append(read_object(path.read_text(encoding="utf-8", errors="replace")))
    return found


def unprofiled_median_ns(steps: Steps) -> tuple[int, int] | None:
    """Return median and number of the bare steps of the first process that has any."""
    for content in steps:
        times = sorted(times_of(content, "bare", "gpu_ns") or times_of(content, "bare", "host_ns"))
        if times:
            return times[len(times) // 2], len(times)
    return None


def write_steps(
    export: Path, steps: Steps, problem: str, cause: str, notes: Mapping[str, str] | None = None
) -> str:
    """Write the times into an export.

    Args:
        export: The file, which exists.
        steps: What the processes measured.
        problem: Why the collection could not begin; empty if it did.
        cause: What let it begin.
        notes: More values for the table of notes.

    Returns:
        The error; empty on success.
    """
    rows = [row for content in steps for row in _rows(content)]
    reasons = {str(content.get("reason") or "") for content in steps} - {""}
    reason = problem or ",".join(sorted(reasons)) or ("" if rows else "no_torch")
    loops = [row for content in steps for row in _loops(content)]
    try:
        with closing(sqlite3.connect(export)) as connection, connection:
            replace_table(connection, STEP_TIMES, (*COLUMNS, WORK, END), rows)
            replace_table(connection, LOOPS, LOOP_COLUMNS, loops)
    except sqlite3.Error as error:
        return str(error)
    return write_notes(export, {NOTE: reason, "collectionBegan": cause, **(notes or {})})


def write_notes(export: Path, notes: Mapping[str, str]) -> str:
    """Add values to the table of notes of an export; returns the error, empty on success."""
    try:
        with closing(sqlite3.connect(export)) as connection, connection:
            connection.execute(f'CREATE TABLE IF NOT EXISTS "{CAPTURE_NOTES}" (name, value)')
            rows = list(notes.items())
            connection.executemany(f'INSERT INTO "{CAPTURE_NOTES}" VALUES (?, ?)', rows)
    except sqlite3.Error as error:
        return str(error)
    return ""


def _loops(content: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the loops of one process: its steps, and how many of them were recorded."""
    pid = content.get("pid")
    if not isinstance(pid, int):
        return []
    found: dict[str, list[int]] = {}
    for window in _objects(content, "windows"):
        begin, end, steps = (
            _number(window, key) for key in ("begin_utc_ns", "end_utc_ns", "steps")
        )
        loop = found.setdefault(str(window.get("loop") or ""), [0, 0, 0, 0])
        for place, value in enumerate((steps, steps, max(end - begin, 0), max(end - begin, 0))):
            loop[place] += value
    for outside in _objects(content, "outside"):
        loop = found.setdefault(str(outside.get("loop") or ""), [0, 0, 0, 0])
        loop[0] += _number(outside, "steps")
        loop[2] += _number(outside, "ns")
    return [(pid, name, *numbers) for name, numbers in found.items() if max(numbers) < MAX_NS]


def _objects(content: dict[str, Any], name: str) -> list[dict[str, Any]]:
    values = content.get(name)
    listed = values[:MAX_LOOPS] if isinstance(values, list) else []
    return [item for item in listed if isinstance(item, dict)]


def _number(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if type(value) is int and 0 <= value < MAX_UTC_NS else 0


def times_of(content: dict[str, Any], phase: str, clock: str, most_ns: int = MAX_NS) -> list[int]:
    """Return the times of a phase; empty if the file holds something else."""
    times = content.get(phase)
    values = times.get(clock) if isinstance(times, dict) else None
    if not isinstance(values, list):
        return []
    valid = all(type(value) is int and 0 <= value < most_ns for value in values)
    return values[:MAX_STEPS] if valid else []


def _rows(content: dict[str, Any]) -> list[tuple[Any, ...]]:
    pid, rank = content.get("pid"), str(content.get("rank") or "")
    if not isinstance(pid, int):
        return []
    known = int(rank) if rank.isdecimal() else None
    rows: list[tuple[Any, ...]] = []
    for phase in PHASES:
        host, gpu = times_of(content, phase, "host_ns"), times_of(content, phase, "gpu_ns")
        both = gpu if len(gpu) == len(host) else [None] * len(host)
        clock = str(content.get("clock") or "")
        work = _phases(content, len(host)) if phase == UNPROFILED else [""] * len(host)
        ends = times_of(content, phase, "end_utc_ns", MAX_UTC_NS)
        ends_or_none = ends if len(ends) == len(host) else [None] * len(host)
        rows += [
            (pid, known, clock, phase, number, *times)
            for number, times in enumerate(zip(host, both, work, ends_or_none, strict=True))
        ]
    return rows


def _phases(content: dict[str, Any], count: int) -> list[str]:
    """The phase of each bare step, prefill or decode; empty: it has none."""
    names = content.get("bare_phases")
    if not isinstance(names, list) or len(names) != count:
        return [""] * count
    return [name if isinstance(name, str) else "" for name in names]


def replace_table(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[object]
) -> None:
    """Make a table of these rows, instead of one that is there."""
    connection.execute(f'DROP TABLE IF EXISTS "{table}"')
    connection.execute(f'CREATE TABLE "{table}" ({", ".join(columns)})')
    marks = ", ".join("?" * len(columns))
    connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)  # type: ignore[arg-type]
