"""What the step, its classes and its ops did over many captures, and where they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import numpy as np
from msgspec import Struct

from aggregator.compare.captures import CaptureData
from aggregator.compare.change_points import (
    ChangePoint,
    change_points_by_permutation,
    change_points_by_t_test,
)
from aggregator.compare.result import Side
from aggregator.compare.sides import Source, read_source
from aggregator.compare.summary import SUFFIX, is_summary
from aggregator.dldb.stored import require_aggregable
from aggregator.errors import DlprofError, ProfileError, UsageError
from aggregator.metrics.ownership import CLASSES
from aggregator.system.replies import doc
from aggregator.texts import say

MOST_DATABASES: Final = 2000
_SUFFIXES: Final = (".sqlite", ".db", SUFFIX)
_LEAST_SHARE: Final = 0.001
"""Ops that never own this share of a step are left out."""
_MAX_P_VALUE: Final = 0.01
"""For the step and its classes, which are few."""
_MOST_PERMUTED: Final = 200
"""A permutation test of more takes minutes, as its time grows with the square of their number."""
_LEAST_CAPTURES: Final = 6
"""A t-test of fewer has too few degrees of freedom to know the spread of the captures."""
_LEAST_MAGNITUDE: Final = 0.01
"""Smaller changes of an op are not reported: there are hundreds of them."""


class HistoryCapture(Struct, kw_only=True, frozen=True):
    """One profile of a history."""

    name: Annotated[str, doc("Id of the profile.")]
    started_at: Annotated[str | None, doc("UTC; null: the profile holds no date.")]
    aggregation: int
    iterations: int
    gpu: str
    step_ns: Annotated[float, doc("Mean step as profiled.")]
    unprofiled_ns: Annotated[int | None, doc("Median step without profiling; null: unknown.")]
    basis: Annotated[str, doc("bare or given: the step without profiling is known; or profiled.")]
    has_steps: Annotated[bool, doc("False: iterations instead of steps.")]


class HistoryChange(Struct, kw_only=True):
    """Where a trend changed."""

    index: Annotated[int, doc("First capture after the change.")]
    capture: str
    before_ns: int
    after_ns: int
    p_value: float


class HistoryTrend(Struct, kw_only=True):
    """Mean time per step in every capture."""

    kind: Annotated[str, doc("step, unprofiled, class or op.")]
    name: str
    direction: str
    values_ns: list[int]
    change_points: list[HistoryChange]


class HistorySkipped(Struct, frozen=True):
    """A profile that cannot be part of the history."""

    name: str
    reason: str


class History(Struct):
    """Profiles by date, and their trends: the step, the classes, then the ops by their time."""

    captures: list[HistoryCapture]
    trends: list[HistoryTrend]
    skipped: list[HistorySkipped]


@dataclass(frozen=True)
class HistoryEntry:
    """What a history needs of one capture; times are means per step and GPU. Unit: ns."""

    order_ns: int  # Its date, else that of the file. Unit: ns.
    capture: HistoryCapture
    classes_ns: tuple[float, ...]  # In the order of ``CLASSES``.
    ops_ns: Mapping[tuple[str, str], float]  # By name and direction.


ReadEntry: TypeAlias = Callable[[str, Path], "HistoryEntry | HistorySkipped"]


def databases_of(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders that may be databases or summaries, by name.

    Raises:
        UsageError: There is no such folder, or it holds too many files.
    """
    if not folder.is_dir():
        raise UsageError(
            say("'{folder}' is no folder.", folder=folder),
            hint=say("Name a folder that holds databases or summaries of one program over time."),
        )
    found = sorted(
        path for path in folder.rglob("*") if path.name.endswith(_SUFFIXES) and path.is_file()
    )
    if len(found) > MOST_DATABASES:
        raise UsageError(
            say(
                "'{folder}' holds {count} files, which is more than {most}.",
                folder=folder,
                count=len(found),
                most=MOST_DATABASES,
            )
        )
    return found


def read_entry(name: str, path: Path) -> HistoryEntry | HistorySkipped:
    """Read a database or a summary, which is shown by a name."""
    try:
        if not is_summary(path):
            require_aggregable(path)
        data = read_source(Source(name, path), path)
    except DlprofError as error:
        return HistorySkipped(name, error.message)
    if not data.capture.key_node and not data.capture.has_steps:
        return HistorySkipped(name, say("No step was found in it: it has no time per step."))
    started_ns, started_at = data.started_ns, None
    if started_ns is not None:
        started_at = datetime.fromtimestamp(started_ns / 1e9, tz=UTC).isoformat(timespec="seconds")
    lengths_ns, side = data.capture.lengths_ns, Side((data.capture,))
    capture = HistoryCapture(
        name=name,
        started_at=started_at,
        aggregation=data.capture.aggregation,
        iterations=len(lengths_ns),
        gpu=data.facts.get("GPU", ""),
        step_ns=float(lengths_ns.mean()),
        unprofiled_ns=side.unprofiled_ns,
        basis=side.basis,
        has_steps=data.capture.has_steps,
    )
    order_ns = path.stat().st_mtime_ns if started_ns is None else started_ns
    return HistoryEntry(order_ns, capture, _classes(data), _ops(data))


def _classes(data: CaptureData) -> tuple[float, ...]:
    owned = data.ownership
    steps = len(owned.lengths_ns) * owned.devices
    sums = np.bincount(owned.kind, owned.owned_ns.sum(axis=0), len(CLASSES)) / steps
    return tuple(sums.tolist())


def _ops(data: CaptureData) -> dict[tuple[str, str], float]:
    owned = data.ownership
    has_op = owned.op >= 0
    sums = owned.owned_ns.sum(axis=0)[has_op]
    total = np.bincount(owned.op[has_op], sums) / (len(owned.lengths_ns) * owned.devices)
    found: dict[tuple[str, str], float] = {}
    for op in np.flatnonzero(total).tolist():  # two ranks may have an op of the same name
        key = data.ops[op].key
        found[key] = found.get(key, 0.0) + float(total[op])
    return found


def read_history(files: Sequence[tuple[str, Path]], read: ReadEntry = read_entry) -> History:
    """The history of databases and summaries.

    Args:
        files: The name that each is shown by, and the file.
        read: Reads one, or knows what it read before.

    Raises:
        ProfileError: No file is a database with GPU work.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(read, *zip(*files, strict=True))) if files else []
    entries = [entry for entry in found if isinstance(entry, HistoryEntry)]
    entries.sort(key=lambda item: (item.order_ns, item.capture.name))
    skipped = [entry for entry in found if isinstance(entry, HistorySkipped)]
    if not entries:
        raise ProfileError(
            say(
                "None of {count} files is a database or summary that can be compared.",
                count=len(files),
            ),
            hint=skipped[0].reason if skipped else say("Import profiles with dlprof first."),
        )
    return History([entry.capture for entry in entries], list(_trends(entries)), skipped)


def _trends(entries: Sequence[HistoryEntry]) -> Iterator[HistoryTrend]:
    names = [entry.capture.name for entry in entries]

    def trend(
        kind: str, name: str, direction: str, values: list[float], changes: list[ChangePoint]
    ) -> HistoryTrend:
        return HistoryTrend(
            kind=kind,
            name=name,
            direction=direction,
            values_ns=[round(value) for value in values],
            change_points=[
                HistoryChange(
                    index=point.index,
                    capture=names[point.index],
                    before_ns=round(point.before),
                    after_ns=round(point.after),
                    p_value=point.p_value,
                )
                for point in changes
            ],
        )

    steps = [entry.capture.step_ns for entry in entries]
    yield trend("step", "step", "", steps, _changes(steps))
    unprofiled = [row.capture.unprofiled_ns for row in entries]
    known = [float(value) for value in unprofiled if value is not None]
    if len(known) == len(entries):
        yield trend("unprofiled", "step without profiling", "", known, _changes(known))
    for kind, name in enumerate(CLASSES):
        values = [entry.classes_ns[kind] for entry in entries]
        if any(values):
            yield trend("class", name, "", values, _changes(values))
    for (name, direction), values in _times_of_ops(entries, steps):
        yield trend("op", name, direction, values, _changes_of_op(values))


def _changes(values: list[float]) -> list[ChangePoint]:
    if len(values) > _MOST_PERMUTED:
        return change_points_by_t_test(values)
    return change_points_by_permutation(values, max_p_value=_MAX_P_VALUE)


def _changes_of_op(values: list[float]) -> list[ChangePoint]:
    if len(values) < _LEAST_CAPTURES:
        return []
    return change_points_by_t_test(values, min_magnitude=_LEAST_MAGNITUDE)


def _times_of_ops(
    entries: Sequence[HistoryEntry], steps: list[float]
) -> list[tuple[tuple[str, str], list[float]]]:
    """Times of each op, largest first; an op that a capture lacks owns nothing there."""
    listed = []
    for key in {key for entry in entries for key in entry.ops_ns}:
        values = [entry.ops_ns.get(key, 0.0) for entry in entries]
        shares = (value / step for value, step in zip(values, steps, strict=True) if step)
        if max(shares, default=0.0) >= _LEAST_SHARE:
            listed.append((key, values))
    return sorted(listed, key=lambda item: (-sum(item[1]), item[0]))
