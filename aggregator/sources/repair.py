"""Repairs of wrong or missing values that several sources have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aggregator.profile.arrays import dense_codes, distinct, rows_of, sorting
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
MAX_BYTES = 1 << 50
"""No copy moves a petabyte."""
MAX_DEVICES = 1 << 16
"""No host has that many GPUs."""
_NEARLY = 0.9
"""Share of the most votes from which a process without a GPU gets one."""


def fill_missing_processes(api: RawTable, work: Sequence[RawTable], pid_shift: int) -> None:
    """Set the process of device work in exports without ``globalPid``: that of its call."""
    if not any((table["pid"] < 0).any() for table in work):
        return
    process = api["tid"] >> pid_shift
    callers = distinct(process)
    calls = (process, api["corr"], api["start"])
    for table, found in zip(work, find_launching_processes(calls, work, "corr"), strict=True):
        if len(callers) == 1:
            found[:] = callers[0]
        known = (table["pid"] >= 0) | (found < 0)
        table["pid"] = np.where(known, table["pid"], found << pid_shift)


def find_launching_processes(
    calls: tuple[Integers, Integers, Int64], work: Sequence[RawTable], number: str
) -> list[Int64]:
    """Return the process whose call launched each piece of work; -1: no call has its number.

    Each process counts its calls from 1, so several may have a call of a number. The calls of the
    process that uses a GPU precede most of its work; where that decides nothing, as for ranks in
    step, each process has a GPU of its own.

    Args:
        calls: Process, number and start of each call.
        work: Tables of work with ``start`` and ``device``.
        number: Their column with the number of the call; negative: not recorded.
    """
    process, call_number, call_ns = calls
    start_ns, place, wanted = (
        np.concatenate([table[name] for table in work]) for name in ("start", "device", number)
    )
    devices, device = dense_codes(place)
    processes = distinct(process)

    def launching(own: int) -> tuple[Bool, Bool]:
        rows = np.flatnonzero(process == own)
        call = rows_of(call_number[rows], wanted)
        has_call = (call >= 0) & (wanted >= 0)
        return has_call, has_call & (call_ns[rows][call] <= start_ns)

    votes = np.zeros((len(processes), len(devices)))
    for row, own in enumerate(processes.tolist()):
        votes[row] = np.bincount(device, weights=launching(own)[1], minlength=len(devices))
    is_free = np.ones(len(processes))
    for column in range(len(devices) if len(processes) else 0):
        first = int((votes[:, column] * is_free).argmax())
        votes[first, column] += len(device)
        is_free[first] = _NEARLY
    result = np.full(len(device), -1, dtype=np.int64)
    most = np.full(len(device), -1.0)
    for row, own in enumerate(processes.tolist()):
        better = launching(own)[0] & (votes[row][device] > most)
        result[better], most[better] = own, votes[row][device][better]
    return np.split(result, np.cumsum([len(table["start"]) for table in work])[:-1])


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


def drop_repeated(
    work: Sequence[RawTable],
    calls: RawTable,
    ranges: Sequence[RawTable],
    warnings: list[ProfileWarning],
) -> None:
    """Keep one of rows that are equal in all columns: a file that was joined to itself.

    Two calls never have the same number, so equal rows of work and calls are one event. Nothing
    numbers ranges and some calls: equal ones are one if the file repeats others, too.
    """
    rows = sum(len(table["start"]) for table in (*work, calls))
    of_work = sum(_drop_repeated(table) for table in work)
    of_calls = _drop_repeated(calls)
    if not of_work + of_calls:
        return
    for table in (calls, *ranges) if of_calls else ():
        removed = _drop_repeated(table, needs_number=False)
        of_calls += removed if table is calls else 0
    text = say("records of work and calls are in the file more than once; they are counted once.")
    count = of_work + of_calls
    warnings.append(ProfileWarning("REPEATED_ROWS", text, count, count / rows))


def _drop_repeated(table: RawTable, *, needs_number: bool = True) -> int:
    """Remove all but one of equal rows; return how many were removed."""
    start = table["start"]
    order = sorting(start)
    in_order = start if order is None else start[order]
    tied = np.flatnonzero(in_order[1:] == in_order[:-1])
    if not len(tied):
        return 0
    places = np.union1d(tied, tied + 1)
    rows = places if order is None else order[places]
    keys = [key for column in table.values() for key in np.atleast_2d(column[rows].T)]
    among = np.lexsort(keys)
    same = np.ones(len(rows) - 1, dtype=bool)
    for key in keys:
        same &= key[among[1:]] == key[among[:-1]]
    for name in ("corr", "correlation"):
        if needs_number and name in table:
            same &= table[name][rows[among[1:]]] >= 0
    gone = rows[among[1:]][same]
    if len(gone):
        table.update({name: np.delete(column, gone, axis=0) for name, column in table.items()})
    return len(gone)


_FAR = 1_000
"""Times further from all others than so many times the length of the capture are none."""
_FAR_NS = 3_600 * 10**9
"""Nor is one nearer than an hour wrong: a program may wait that long."""
_MAX_NS = (1 << 63) - 1
_SAMPLED = 1 << 14
_OUTER = 10
"""A tenth of the times at each end says nothing of the length of a capture."""


def possible_times(tables: Sequence[RawTable]) -> tuple[int, int]:
    """Return the least and the greatest time that the events of a session can have. Unit: ns."""
    starts = [table["start"][:: len(table["start"]) // _SAMPLED + 1] for table in tables]
    sampled = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *starts]))
    if not len(sampled):
        return -_MAX_NS, _MAX_NS
    outer = len(sampled) // _OUTER
    low, high = int(sampled[outer]), int(sampled[-1 - outer])
    beyond = max(_FAR * (high - low), _FAR_NS)
    return max(low - beyond, -_MAX_NS), min(high + beyond, _MAX_NS)


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


def repair_times(
    tables: Sequence[RawTable], warnings: list[ProfileWarning], ranges: Sequence[RawTable] = ()
) -> None:
    """Replace impossible times: the event keeps its other time and gets no duration.

    Args:
        tables: Events that have both times.
        warnings: A warning is added if there are any.
        ranges: Events whose end is negative where there is none.
    """
    count = 0
    lowest, most = possible_times([*tables, *ranges])
    most = min(most, IMPOSSIBLE_NS - 1)
    for table in (*tables, *ranges):
        start, end = table["start"], table["end"]
        # Work and calls are recorded from time 0 on; ranges may have begun before.
        least = max(lowest, 1 - IMPOSSIBLE_NS) if any(table is rows for rows in ranges) else 0
        if not _goes_beyond(start, least, most) and not _goes_beyond(end, least, most):
            continue
        bad_start, bad_end = ((times < least) | (times > most) for times in (start, end))
        if any(table is others for others in ranges):
            bad_end &= (end > 0) | (end <= -IMPOSSIBLE_NS)
        count += int(np.count_nonzero(bad_start | bad_end))
        table["start"] = np.where(bad_start, np.where(bad_end, 0, end), start)
        table["end"] = np.where(bad_end, table["start"], end)
    if count:
        text = say("events have times outside every session; they are counted with no duration.")
        rows = sum(len(table["start"]) for table in (*tables, *ranges))
        warnings.append(ProfileWarning("IMPOSSIBLE_TIMES", text, count, count / rows))


def _goes_beyond(column: Int64, least: int, most: int) -> bool:
    """Whether any value is below ``least`` or above ``most``."""
    return bool(len(column)) and not least <= int(column.min()) <= int(column.max()) <= most


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


def clear_impossible_bytes(tables: Sequence[RawTable], warnings: list[ProfileWarning]) -> None:
    """Set sizes of copies and sets that no memory has to unknown: their sums would overflow."""
    count = 0
    for table in tables:
        impossible = table["bytes"] > MAX_BYTES
        if impossible.any():
            count += int(np.count_nonzero(impossible))
            table["bytes"] = np.where(impossible, -1, table["bytes"])
    if count:
        names = f"{count} bytes"
        text = say(
            "values of the trace are of another type and count as unknown: {names}.", names=names
        )
        warnings.append(ProfileWarning("ODD_VALUES", text, count))


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
            "(--graph_nodes=true, or nsys profile --cuda-graph-trace=node, records them)."
        )
        warnings.append(ProfileWarning("GRAPHS_WITHOUT_KERNELS", text, count))
