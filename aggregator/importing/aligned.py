"""Names for steps that ran without markers: carried over from marked steps of the same loop.

A light capture marks a few steps only; later ones have the ranges of the optimizer and the data
loader, no others. Each such step is aligned with a marked one, by the calls of its threads and the
kernels that they launched, and gets the ranges of that step at the times of its own calls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from aggregator.correlate.identity import align
from aggregator.profile.arrays import Bool, Int32, Int64, row_codes
from aggregator.profile.profile import Profile, ProfileWarning, Ranges
from aggregator.texts import say

NOTE = '"marked_steps":'
"""Part of the note that the markers write when they end."""
STEP_END = "Optimizer.step#"
LEAST_MATCHED = 0.5
"""A step with less in common with a marked one gets no names."""
EDGE_NS = 500
"""Ranges begin so shortly before their first call, where other calls lie between two matches."""


@dataclass(frozen=True)
class _Events:
    """Starts and ends of calls and of ranges that all steps have, ordered by thread and time."""

    time_ns: Int64
    thread: Int64
    code: Int64  # Equal for the same kind of event: call, kernel, grid and stream; start or end.


@dataclass(frozen=True)
class _Step:
    """The events of a step, and what it is compared by."""

    start_ns: int
    end_ns: int
    rows: dict[int, Int64]  # Rows of the events, by thread.
    codes: dict[int, Int64]  # Their codes.
    key: tuple[tuple[int, bytes], ...]


def carry_names(profile: Profile, calls: list[Int32]) -> None:
    """Add ranges to steps without markers, if the program wrote that its markers ended.

    Args:
        profile: The profile; gets more ranges.
        calls: Row of the call that launched each kernel, copy, set and graph.
    """
    off = _ended(profile)
    for process in sorted(off):
        bounds = _step_ends(profile, process)
        light = bounds[:-1] >= off[process]
        if len(bounds) < 3 or not light.any() or light.all():
            continue
        _carry(profile, calls, process, bounds, light)


def _ended(profile: Profile) -> dict[int, int]:
    """When the markers of each process ended. Unit: ns."""
    names = np.array([NOTE in name for name in profile.range_names] + [False], dtype=bool)
    rows = np.flatnonzero(names[profile.ranges.name])
    process = profile.thread_process[profile.ranges.thread[rows]]
    found: dict[int, int] = {}
    for one, time in zip(process.tolist(), profile.ranges.start_ns[rows].tolist(), strict=True):
        found[one] = min(time, found.get(one, time))
    return found


def _step_ends(profile: Profile, process: int) -> Int64:
    """Ends of the steps of the optimizer that steps most often, ascending. Unit: ns."""
    names = [name.startswith(STEP_END) for name in profile.range_names]
    ranges = profile.ranges
    rows = np.flatnonzero(np.array([*names, False], dtype=bool)[ranges.name])
    rows = rows[profile.thread_process[ranges.thread[rows]] == process]
    if not len(rows):
        return ranges.end_ns[:0]
    kinds, count = np.unique(ranges.name[rows], return_counts=True)
    rows = rows[ranges.name[rows] == kinds[count.argmax()]]
    return np.sort(ranges.end_ns[rows])


def _carry(profile: Profile, calls: list[Int32], process: int, bounds: Int64, light: Bool) -> None:
    ranges = profile.ranges
    own = profile.thread_process[ranges.thread] == process
    first_light = int(bounds[:-1][light][0])
    common = _in_all_steps(profile, own & (ranges.start_ns >= first_light))
    events = _events(profile, calls, process, common & own)
    steps = _steps(events, bounds)
    marked = [step for step, is_light in zip(steps, light.tolist(), strict=True) if not is_light]
    moved = np.flatnonzero(own & ~common)
    moved = moved[np.argsort(ranges.start_ns[moved], kind="stable")]
    parts, carried, without = [], 0, 0
    span = int(ranges.seq.max(initial=0)) + 1
    for number, step in enumerate(steps):
        if not light[number]:
            continue
        model = _model(step, marked)
        found = None if model is None else _moved(profile, moved, events, model, step)
        if found is None:
            without += 1
            continue
        found.seq = np.where(found.seq >= 0, found.seq + span * (number + 1), found.seq)
        parts.append(found)
        carried += 1
    columns = {
        name: np.concatenate([column, *(getattr(part, name) for part in parts)])
        for name, column in vars(ranges).items()
    }
    profile.ranges = Ranges(**columns)
    _note(profile, carried, without)


def _in_all_steps(profile: Profile, after: Bool) -> Bool:
    """Ranges like those that the program writes without markers, too, but for numbers."""
    templates: dict[str, int] = {}
    plain = [_NUMBER.sub("#", name) for name in profile.range_names]
    codes = [templates.setdefault(name, len(templates)) for name in plain]
    code = np.array([*codes, -1], dtype=np.int64)[profile.ranges.name]
    result: Bool = np.isin(code, np.unique(code[after]))
    return result


_NUMBER = re.compile(r"\d+")


def _note(profile: Profile, carried: int, without: int) -> None:
    text = say(
        "The names of {count} steps are aligned: they ran without markers, and got the names of "
        "marked steps that make the same calls.",
        count=carried,
    )
    if carried:
        profile.warnings.append(ProfileWarning("ALIGNED_NAMES", text, carried))
    if without:
        lost = say(
            "{count} steps without markers resemble no marked step: their kernels have no names.",
            count=without,
        )
        profile.warnings.append(ProfileWarning("STEPS_WITHOUT_NAMES", lost, without))


def _events(profile: Profile, calls: list[Int32], process: int, common: Bool) -> _Events:
    """Starts and ends of the calls of a process, and of the ranges that all steps have."""
    api, ranges = profile.api_calls, profile.ranges
    kind = _call_kinds(profile, calls)
    rows = np.flatnonzero(profile.thread_process[api.thread] == process)
    of_range = np.flatnonzero(common)
    # One code for all of them: their names may have numbers.
    name = np.full(len(of_range), int(kind.max(initial=0)) + 1, dtype=np.int64)
    time = [api.start_ns[rows], api.end_ns[rows], ranges.start_ns[of_range]]
    time.append(ranges.end_ns[of_range])
    threads = (api.thread[rows], ranges.thread[of_range])
    thread = np.concatenate([threads[0], threads[0], threads[1], threads[1]]).astype(np.int64)
    code = [2 * kind[rows], 2 * kind[rows] + 1, 2 * name, 2 * name + 1]
    times = np.concatenate(time)
    order = np.lexsort((times, thread))
    return _Events(times[order], thread[order], np.concatenate(code)[order])


def _call_kinds(profile: Profile, calls: list[Int32]) -> Int64:
    """Equal numbers for calls of the same name that launched the same: kernel, grid, stream."""
    api, kernels = profile.api_calls, profile.kernels
    launched = np.full((6, len(api)), -1, dtype=np.int64)
    columns = [kernels.long_name, *kernels.grid.T, kernels.stream_id]
    known = np.flatnonzero(calls[0] >= 0)[::-1]  # of several kernels the first one counts
    for place, column in enumerate(columns):
        launched[place, calls[0][known]] = column[known]
    for place, work in enumerate((profile.copies, profile.sets, profile.graphs)):
        known = np.flatnonzero(calls[place + 1] >= 0)
        launched[4, calls[place + 1][known]] = work.stream_id[known]
        launched[5, calls[place + 1][known]] = place
    _, kind = row_codes(api.name.astype(np.int64), *launched)
    return kind.astype(np.int64)


def _steps(events: _Events, bounds: Int64) -> list[_Step]:
    rows_of = {
        one: np.flatnonzero(events.thread == one) for one in np.unique(events.thread).tolist()
    }
    result = []
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows: dict[int, Int64] = {}
        for thread, own in rows_of.items():
            inside = own[slice(*np.searchsorted(events.time_ns[own], (low + 1, high + 1)))]
            if len(inside):
                rows[thread] = inside
        codes = {thread: events.code[own] for thread, own in rows.items()}
        key = tuple((thread, code.tobytes()) for thread, code in sorted(codes.items()))
        result.append(_Step(low, high, rows, codes, key))
    return result


def _model(step: _Step, marked: list[_Step]) -> _Step | None:
    """The marked step to take names from: the last equal one, else the one nearest in length."""
    equal = [one for one in marked if one.key == step.key]
    if equal:
        return equal[-1]
    size = sum(map(len, step.codes.values()))
    others = [one for one in marked if step.codes.keys() <= one.codes.keys()]
    return min(
        reversed(others),
        key=lambda one: abs(sum(map(len, one.codes.values())) - size),
        default=None,
    )


def _moved(
    profile: Profile, rows: Int64, events: _Events, model: _Step, step: _Step
) -> Ranges | None:
    """The ranges of a marked step at the times of another one; None: they differ too much."""
    ranges = profile.ranges
    low, high = np.searchsorted(ranges.start_ns[rows], (model.start_ns, model.end_ns))
    own = rows[low:high]
    own = own[ranges.end_ns[own] <= model.end_ns]
    start, end = np.zeros(len(own), dtype=np.int64), np.zeros(len(own), dtype=np.int64)
    keep = np.zeros(len(own), dtype=bool)
    matched = total = 0
    for thread, codes in step.codes.items():
        pair = align(model.codes[thread], codes)
        matched, total = matched + int(np.count_nonzero(pair >= 0)), total + len(pair)
        inside = ranges.thread[own] == thread
        if not (pair >= 0).any():
            continue
        moments = _Moments(
            events.time_ns[model.rows[thread]], events.time_ns[step.rows[thread]], pair
        )
        start[inside] = moments.moved(ranges.start_ns[own[inside]], is_start=True)
        end[inside] = moments.moved(ranges.end_ns[own[inside]], is_start=False)
        keep |= inside
    if matched < LEAST_MATCHED * total:
        return None
    keep &= (start >= step.start_ns) & (end <= step.end_ns) & (end > start)
    found = ranges.selected(own[keep])
    found.start_ns, found.end_ns = start[keep], end[keep]
    return found


class _Moments:
    """Points in time of one step as those of another, between events that match."""

    def __init__(self, there_ns: Int64, here_ns: Int64, pair: Int64) -> None:
        here = np.flatnonzero(pair >= 0)
        there = pair[here]
        self._there_ns, self._here_ns = there_ns[there], here_ns[here]
        # Whether other events lie between a match and the one before it, in either step.
        self._is_apart = np.ones(len(here) + 1, dtype=bool)
        self._is_apart[1:-1] = (np.diff(here) > 1) | (np.diff(there) > 1)

    def moved(self, time_ns: Int64, *, is_start: bool) -> Int64:
        """Where points in time lie here; order is kept."""
        last = len(self._there_ns) - 1
        after = np.searchsorted(self._there_ns, time_ns, side="right")
        before = np.clip(after - 1, 0, last)
        following = np.clip(after, 0, last)
        low, high = self._here_ns[before], self._here_ns[following]
        there_low, there_high = self._there_ns[before], self._there_ns[following]
        span = np.maximum(there_high - there_low, 1)
        share = np.clip((time_ns - there_low) / span, 0.0, 1.0)
        inside = low + np.floor(share * (high - low)).astype(np.int64)
        edge = np.minimum(EDGE_NS, (high - low) // 2)
        # What begins before a call holds no call that the other step does not have.
        if is_start:
            apart = high - edge + np.floor(share * edge).astype(np.int64)
        else:
            apart = low + np.floor(share * edge).astype(np.int64)
        result: Int64 = np.where(self._is_apart[after], apart, inside)
        return result
