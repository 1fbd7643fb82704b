"""What the step, its classes and its ops did over many captures, and where they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from aggregator.compare.captures import CaptureData
from aggregator.compare.change_points import (
    ChangePoint,
    change_points_by_permutation,
    change_points_by_t_test,
)
from aggregator.compare.sides import Source, read_source
from aggregator.compare.summary import SUFFIX, is_summary
from aggregator.dldb.stored import require_aggregable
from aggregator.errors import DlprofError, ProfileError, UsageError
from aggregator.metrics.ownership import CLASSES
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


@dataclass(frozen=True)
class HistoryCapture:
    """One database of the history."""

    name: str
    started_at: str | None  # UTC; None: the profile holds no date, and the file's date orders it.
    aggregation: int
    iterations: int
    gpu: str
    step_ns: float  # Mean. Unit: ns.


@dataclass(frozen=True)
class Trend:
    """Mean time per step in every capture, in their order."""

    kind: str  # step, class or op.
    name: str
    direction: str  # Of an op; else empty.
    values_ns: tuple[float, ...]  # Unit: ns.
    change_points: tuple[ChangePoint, ...]


@dataclass(frozen=True)
class Skipped:
    """A file that cannot be part of the history."""

    name: str
    reason: str


@dataclass(frozen=True)
class History:
    """Captures by date, and the trends: the step, the classes, then the ops by their time."""

    captures: tuple[HistoryCapture, ...]
    trends: tuple[Trend, ...]
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class _Dated:
    order: tuple[int, str]
    started_at: str | None
    data: CaptureData


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
        one for one in folder.rglob("*") if one.name.endswith(_SUFFIXES) and one.is_file()
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


def read_history(files: Sequence[tuple[str, Path]]) -> History:
    """The history of databases and summaries, each with the name that it is shown by.

    Raises:
        ProfileError: No file is a database with GPU work.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(_read, files))
    dated = sorted((one for one in found if isinstance(one, _Dated)), key=lambda one: one.order)
    skipped = tuple(one for one in found if isinstance(one, Skipped))
    if not dated:
        raise ProfileError(
            say(
                "None of {count} files is a database or summary that can be compared.",
                count=len(files),
            ),
            hint=skipped[0].reason if skipped else say("Import profiles with dlprof first."),
        )
    return History(
        tuple(_capture(one) for one in dated),
        tuple(_trends([one.data for one in dated])),
        skipped,
    )


def to_document(history: History) -> dict[str, Any]:
    """The history as plain data, as the command and the REST API give it."""
    return {
        "captures": [vars(one) for one in history.captures],
        "trends": [
            {
                "kind": one.kind,
                "name": one.name,
                "direction": one.direction,
                "values_ns": [round(value) for value in one.values_ns],
                "change_points": [
                    {
                        "index": point.index,
                        "capture": history.captures[point.index].name,
                        "before_ns": round(point.before),
                        "after_ns": round(point.after),
                        "p_value": point.p_value,
                    }
                    for point in one.change_points
                ],
            }
            for one in history.trends
        ],
        "skipped": [vars(one) for one in history.skipped],
    }


def _read(file: tuple[str, Path]) -> _Dated | Skipped:
    name, path = file
    try:
        if not is_summary(path):
            require_aggregable(path)
        data = read_source(Source(name, path), path)
    except DlprofError as error:
        return Skipped(name, error.message)
    started_ns, started_at = data.started_ns, None
    if started_ns is not None:
        started_at = datetime.fromtimestamp(started_ns / 1e9, tz=UTC).isoformat(timespec="seconds")
    order_ns = path.stat().st_mtime_ns if started_ns is None else started_ns
    return _Dated((order_ns, name), started_at, data)


def _capture(dated: _Dated) -> HistoryCapture:
    capture = dated.data.capture
    return HistoryCapture(
        name=capture.name,
        started_at=dated.started_at,
        aggregation=capture.aggregation,
        iterations=len(capture.lengths_ns),
        gpu=dated.data.facts.get("GPU", ""),
        step_ns=float(capture.lengths_ns.mean()),
    )


def _trends(captures: Sequence[CaptureData]) -> Iterator[Trend]:
    steps = [float(one.capture.lengths_ns.mean()) for one in captures]
    yield _trend("step", "step", "", steps, _changes)
    for kind, name in enumerate(CLASSES):
        values = [_owned(one, one.ownership.kind == kind) for one in captures]
        if any(values):
            yield _trend("class", name, "", values, _changes)
    for (name, direction), values in _ops(captures, steps):
        yield _trend("op", name, direction, values, _changes_of_op)


def _trend(
    kind: str,
    name: str,
    direction: str,
    values: list[float],
    find: Callable[[list[float]], list[ChangePoint]],
) -> Trend:
    return Trend(kind, name, direction, tuple(values), tuple(find(values)))


def _changes(values: list[float]) -> list[ChangePoint]:
    if len(values) > _MOST_PERMUTED:
        return change_points_by_t_test(values)
    return change_points_by_permutation(values, max_p_value=_MAX_P_VALUE)


def _changes_of_op(values: list[float]) -> list[ChangePoint]:
    if len(values) < _LEAST_CAPTURES:
        return []
    return change_points_by_t_test(values, min_magnitude=_LEAST_MAGNITUDE)


def _owned(data: CaptureData, owners: Any) -> float:
    """Mean time per step and GPU of some owners."""
    steps = len(data.capture.lengths_ns) * data.capture.devices
    return float(data.ownership.owned_ns[:, owners].sum() / steps)


def _ops(
    captures: Sequence[CaptureData], steps: list[float]
) -> list[tuple[tuple[str, str], list[float]]]:
    """Times of each op, largest first; an op that a capture lacks owns nothing there."""
    times: dict[tuple[str, str], list[float]] = {}
    for number, data in enumerate(captures):
        sums = data.ownership.owned_ns.sum(axis=0).astype(np.float64)
        has_op = data.ownership.op >= 0
        steps_of_all = len(data.capture.lengths_ns) * data.capture.devices
        total = np.bincount(data.ownership.op[has_op], weights=sums[has_op]) / steps_of_all
        for op in np.flatnonzero(total).tolist():
            values = times.setdefault(data.ops[op].key, [0.0] * len(captures))
            values[number] += float(total[op])
    share = {
        key: max(value / step for value, step in zip(values, steps, strict=True) if step)
        for key, values in times.items()
    }
    listed = [(key, values) for key, values in times.items() if share[key] >= _LEAST_SHARE]
    return sorted(listed, key=lambda one: (-sum(one[1]), one[0]))
