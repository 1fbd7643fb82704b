"""Repairs of wrong or missing values that several sources have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aggregator.profile.profile import ProfileWarning
from aggregator.texts import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.profile.arrays import Bool, Int64, Integers

RawTable: TypeAlias = "dict[str, Integers]"

IMPOSSIBLE_NS = 10**17
"""No session lasts three years: a later time counts from 1970, not from the session's start."""
ON_HOST = 2**31 - 1
"""CUPTI's device number of a graph whose first node ran on the CPU."""
MAX_DEVICES = 1 << 16
"""No host has that many GPUs."""


def fill_missing_processes(api: RawTable, work: Sequence[RawTable], pid_shift: int) -> None:
    """Set the process of device work in exports without ``globalPid``, if the run had only one."""
    if not any((table["pid"] < 0).any() for table in work):
        return
    callers = np.unique(api["tid"] >> pid_shift)
    if len(callers) != 1:
        return
    for table in work:
        table["pid"] = np.where(table["pid"] < 0, callers[0] << pid_shift, table["pid"])


def repair_reversed(tables: Sequence[RawTable], warnings: list[ProfileWarning]) -> None:
    """Set the duration of events that end before they start to 0; they are still counted."""
    count = 0
    for table in tables:
        reversed_rows = np.count_nonzero(table["end"] < table["start"])
        if reversed_rows:
            count += int(reversed_rows)
            table["end"] = np.maximum(table["start"], table["end"])
    if count:
        text = say("events end before they start; they are counted with no duration.")
        warnings.append(ProfileWarning("REVERSED_EVENTS", text, count))


def time_offset_ns(starts: Sequence[Int64], session_start_ns: int) -> int:
    """Offset to subtract so that times count from the start of the session; 0: they already do.

    Args:
        starts: Starts of events. Unit: ns.
        session_start_ns: Start of the session since 1970; 0: unknown. Unit: ns.
    """
    if all(int(column.max(initial=0)) < IMPOSSIBLE_NS for column in starts):
        return 0
    known = np.concatenate([column[column > 0] for column in starts])
    if np.median(known) < IMPOSSIBLE_NS:
        return 0
    first = int(known[known >= IMPOSSIBLE_NS].min())
    return session_start_ns if 0 < session_start_ns <= first else first


def shift_times(tables: Sequence[RawTable], offset_ns: int) -> None:
    """Subtract an offset from all times; 0 and a negative end are no times and stay."""
    for table in tables if offset_ns else ():
        start, end = table["start"], table["end"]
        table["start"] = np.maximum(start - offset_ns, 0)
        table["end"] = np.where(end < 0, end, np.maximum(end - offset_ns, 0))


def repair_times(tables: Sequence[RawTable], warnings: list[ProfileWarning]) -> None:
    """Replace impossible times: the event keeps its other time and gets no duration."""
    count = 0
    for table in tables:
        start, end = table["start"], table["end"]
        if not _goes_beyond(start, IMPOSSIBLE_NS) and not _goes_beyond(end, IMPOSSIBLE_NS):
            continue
        bad_start, bad_end = _is_impossible(start), _is_impossible(end)
        count += int(np.count_nonzero(bad_start | bad_end))
        table["start"] = np.where(bad_start, np.where(bad_end, 0, end), start)
        table["end"] = np.where(bad_end, table["start"], end)
    if count:
        text = say("events have times outside every session; they are counted with no duration.")
        warnings.append(ProfileWarning("IMPOSSIBLE_TIMES", text, count))


def _is_impossible(times: Int64) -> Bool:
    # The smallest integer has no absolute value.
    return (times >= IMPOSSIBLE_NS) | (times <= -IMPOSSIBLE_NS)


def _goes_beyond(column: Int64, limit: int) -> bool:
    """Whether any absolute value is ``limit`` or more."""
    return bool(len(column)) and not -limit < int(column.min()) <= int(column.max()) < limit


def repair_devices(
    work: Sequence[RawTable], warnings: list[ProfileWarning], column: str = "device"
) -> None:
    """Assign work with an impossible device number to the first device."""
    count = 0
    for table in work:
        impossible = (table[column] < 0) | (table[column] >= MAX_DEVICES)
        if not impossible.any():
            continue
        count += int(np.count_nonzero(impossible))
        table[column] = np.where(impossible, 0, table[column])
    if count:
        text = say(
            "kernels, copies or sets have no valid GPU number; they count for the first GPU."
        )
        warnings.append(ProfileWarning("UNKNOWN_DEVICES", text, count))


def assign_host_graphs(graphs: RawTable, work: Sequence[RawTable]) -> None:
    """Assign a graph that started on the CPU to the first device that its process used."""
    for row in np.flatnonzero(graphs["device"] == ON_HOST).tolist():
        used = [table["device"][table["pid"] == graphs["pid"][row]] for table in work]
        devices = np.concatenate(used) if used else graphs["device"][:0]
        devices = devices[devices != ON_HOST]
        graphs["device"][row] = int(devices.min(initial=ON_HOST)) if len(devices) else 0


def warn_of_graphs(graphs: RawTable, warnings: list[ProfileWarning]) -> None:
    """Warn that kernels are missing if graphs were recorded as a whole."""
    if count := len(graphs["start"]):
        text = say(
            "CUDA graphs were recorded as a whole; their kernels are not in the profile "
            "(nsys profile --cuda-graph-trace=node records them)."
        )
        warnings.append(ProfileWarning("GRAPHS_WITHOUT_KERNELS", text, count))
