"""Compare databases of two captures of one program: steps, and the names of equal kernels."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from aggregator.sources.nsys.schema import STEP_TIMES

_STEP_VIEWS = ("view_step_reference", "view_corrected_step", "view_recorded_part")
FIRST_LIGHT = 6
"""Iterations of a light capture that surely have no markers begin here."""
_KERNELS = (
    "SELECT k.id, k.process, n.long_name, o.op_name, o.direction FROM kernels AS k"
    " JOIN kernel_names AS n ON n.id = k.name JOIN op_kernels AS p ON p.id = k.op_kernel"
    " JOIN ops AS o ON o.id = p.op WHERE k.id > ? AND k.id <= ? ORDER BY k.process, k.id"
)
_ITERATIONS = (
    "SELECT kernel_low, kernel_high FROM iterations WHERE aggr = 1 AND kind = 'iteration'"
    " ORDER BY iter_value"
)
_OP = "o.op_name NOT LIKE '%unassociated_%' AND o.name_grade <> 'module'"
_MODULE = "o.op_name LIKE '/%/%' OR o.name_grade = 'module'"
_KNOWN = (
    f"SELECT 100.0 * sum(iif({_OP}, k.duration, 0)) / sum(k.duration) AS op_known_pct,"  # noqa: S608
    f" 100.0 * sum(iif({_MODULE}, k.duration, 0)) / sum(k.duration) AS module_known_pct"
    " FROM kernels AS k JOIN op_kernels AS p ON p.id = k.op_kernel JOIN ops AS o ON o.id = p.op"
    " WHERE o.domain = 1"
)
"""Shares of the GPU time, from the names alone: a path has the modules around the op."""
_TIMES = (
    'SELECT phase, hostNs, gpuNs, "endUtcNs" FROM {table} WHERE pid ='
    " (SELECT pid FROM {table} ORDER BY rank, pid LIMIT 1) ORDER BY phase, number"
)
"""Steps of the first rank, whose program writes its own clock."""
_NO_MODULE = ("", "/", "/backward")
"""What precedes an op whose module is unknown."""
_RANK = re.compile(r"/rank_(\d+)")
Kernels = list[tuple[str, str, str]]
"""Kernel, op and direction, in order of launch."""


def read_steps(export: Path, database: Path) -> dict[str, Any]:
    """Return the reported, profiled and corrected step of a capture, and how names were found."""
    found: dict[str, Any] = {}
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        for view in _STEP_VIEWS:
            row = connection.execute(f"SELECT * FROM {view} WHERE aggr_id = 1 LIMIT 1").fetchone()  # noqa: S608 - fixed names
            found |= dict(row) if row else {}
        found |= dict(connection.execute(_KNOWN).fetchone())
    with closing(sqlite3.connect(export)) as connection, suppress(sqlite3.Error):
        found["step_times"] = connection.execute(_TIMES.format(table=STEP_TIMES)).fetchall()
    return found


def compare_names(light: Path, marked: Path) -> dict[str, int]:
    """Compare the names of kernels of steps without markers with those of a marked capture.

    Returns:
        Kernels that were compared, wrong names, kernels with the name of a module around their op,
        and kernels without a name.
    """
    by_kernels = {tuple(row[0] for row in step): step for step in list(_steps(marked))[2:]}
    result = {"compared": 0, "wrong": 0, "less precise": 0, "unnamed": 0, "not compared": 0}
    for step in list(_steps(light))[FIRST_LIGHT:-1]:
        # Parts of other steps are not compared: equal layers follow each other.
        truth = by_kernels.get(tuple(row[0] for row in step))
        result["not compared" if truth is None else "compared"] += len(step)
        for found, true in zip(step, truth or (), strict=False):
            _count(result, found, true)
    return result


def _count(
    result: dict[str, int], found: tuple[str, str, str], truth: tuple[str, str, str]
) -> None:
    if found[1:] == truth[1:]:
        return
    name, true_name = found[1], truth[1]
    if name.endswith("iteration #") or name.startswith("unassociated_"):
        result["unnamed"] += 1
    elif true_name.startswith(name.rstrip("/") + "/") or name.rpartition("/")[0] in _NO_MODULE:
        result["less precise"] += 1
    else:
        result["wrong"] += 1
        example = f"{name} ({found[2]}) instead of {true_name} ({truth[2]})"
        result.setdefault(example, 0)
        result[example] += 1


def _steps(database: Path) -> Iterator[Kernels]:
    with closing(sqlite3.connect(database)) as connection:
        for low, high in connection.execute(_ITERATIONS).fetchall():
            rows = connection.execute(_KERNELS, (low - 1, high - 1)).fetchall()
            yield [row[2:] for row in _by_rank(rows)]


def _by_rank(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Kernels of one rank after the other: numbers of processes differ between two captures."""
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(row[1], []).append(row)

    def rank(group: list[tuple[Any, ...]]) -> int:
        return next((int(found[1]) for row in group if (found := _RANK.match(row[3]))), 0)

    return [row for group in sorted(groups.values(), key=rank) for row in group]
