"""Names for steps that ran without markers: carried over from marked steps of the same loop.

A light capture marks a few steps only; later ones have the ranges of the optimizer, the data
loader and the calls of models, no others (``dlprof_nvtx/marker_sampling.py``). Each such step is
aligned with a marked one, by the calls of its threads and the kernels that they launched, and gets
the ranges of that step at the times of its own calls. Of a step in which markers began late, the
part before gets them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

import numpy as np

from aggregator.correlate.identity import align
from aggregator.profile.arrays import Bool, Float64, Int32, Int64, row_codes
from aggregator.profile.profile import Profile, ProfileWarning, Ranges
from aggregator.texts import say

NOTE, RESUMED = '"marked_steps":', '"markers_resumed":'
"""Parts of the notes that the markers write when they end and begin again."""
STEP_END, MODEL_CALL = "Optimizer.step#", "torch.nn: "
"""Ranges of the optimizer, whose end is that of a step; of models, whose start begins one."""
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
    coarse: Int64  # The same without the grid.
    is_call: Bool
    is_launch: Bool  # Starts of calls that launched a kernel or a graph.


_Key = tuple[tuple[int, bytes], ...]
"""Threads with the codes of their events."""


@dataclass(frozen=True, eq=False)
class _Step:
    """The events of a step, and what it is compared by."""

    start_ns: int
    end_ns: int
    events: _Events
    rows: dict[int, Int64]  # Rows of the events, by thread.
    codes: tuple[dict[int, Int64], ...]  # Their codes: with the grid, and without it.
    keys: tuple[_Key, ...]  # The same, for comparison of whole steps.
    launch_keys: tuple[_Key, ...]  # Those of the launches alone.

    @property
    def size(self) -> int:
        """Number of events."""
        return sum(map(len, self.rows.values()))


def name_unmarked_steps(profile: Profile, calls: list[Int32]) -> int:
    """Add ranges to steps without markers, if the program wrote that its markers ended.

    Args:
        profile: The profile; gets more ranges.
        calls: Row of the call that launched each kernel, copy, set and graph.

    Returns:
        When the last process ended its markers; 0: none did. Unit: ns.
    """
    ended_ns = 0
    for process, times in sorted(_unmarked(profile).items()):
        bounds = _step_bounds(profile, process, int(times[0, 0]))
        if len(bounds) < 3:
            continue
        unmarked = _at_bounds(profile, process, times, bounds)
        share = _shares(bounds, unmarked)
        if (share > 0).any() and (share < 1).any():
            _carry(profile, calls, process, _Loop(bounds, share, unmarked))
            profile.unmarked[process] = unmarked
            ended_ns = max(ended_ns, int(unmarked[0, 0]))
    return ended_ns


@dataclass(frozen=True)
class _Loop:
    """The steps of a process, and when it wrote no markers."""

    bounds: Int64  # Ends of the steps, ascending; the first one begins the first step. Unit: ns.
    share: Float64  # Share of each step without markers.
    unmarked: Int64  # Starts and ends of the times without markers. Unit: ns.


def _unmarked(profile: Profile) -> dict[int, Int64]:
    """Starts and ends of the times without markers of each process that has any. Unit: ns."""
    ranges = profile.ranges
    times = {}
    for text in (NOTE, RESUMED):
        names = np.array([text in name for name in profile.range_names] + [False], dtype=bool)
        rows = np.flatnonzero(names[ranges.name])
        times[text] = ranges.start_ns[rows], profile.thread_process[ranges.thread[rows]]
    found = {}
    for process in np.unique(times[NOTE][1]).tolist():
        off, on = (np.sort(start[of == process]) for start, of in times.values())
        # Notes are repeated: of several ends in a row the first one counts.
        marks = np.concatenate([off, on])
        is_off = np.arange(len(marks)) < len(off)
        order = np.argsort(marks, kind="stable")
        marks, is_off = marks[order], is_off[order]
        changes = np.flatnonzero(np.diff(is_off.astype(np.int8), prepend=0))
        edges = marks[changes]
        if len(edges) % 2:
            edges = np.append(edges, np.iinfo(np.int64).max)
        found[process] = edges.reshape(-1, 2)
    return found


def _step_bounds(profile: Profile, process: int, since_ns: int) -> Int64:
    """Return the ends of the steps of a process, ascending. Unit: ns.

    They are those of the optimizer that steps most often; without one, the starts of the calls of
    the model that is called most often.
    """
    ranges = profile.ranges
    own = profile.thread_process[ranges.thread] == process
    for prefix in (STEP_END, MODEL_CALL):
        names = [name.startswith(prefix) for name in profile.range_names]
        is_named = own & np.array([*names, False], dtype=bool)[ranges.name]
        # Without markers only models have ranges, not the modules in them.
        kinds, count = np.unique(
            ranges.name[is_named & (ranges.start_ns >= since_ns)], return_counts=True
        )
        if len(kinds):
            rows = np.flatnonzero(is_named & (ranges.name == kinds[count.argmax()]))
            time = ranges.end_ns[rows] if prefix == STEP_END else ranges.start_ns[rows]
            result: Int64 = np.sort(time)
            return result
    return ranges.end_ns[:0]


def _at_bounds(profile: Profile, process: int, unmarked: Int64, bounds: Int64) -> Int64:
    """Move times to the nearest bound of a step if no call lies between them. Unit: ns."""
    api = profile.api_calls
    start = np.sort(api.start_ns[profile.thread_process[api.thread] == process])
    time = unmarked.ravel()
    after = np.clip(np.searchsorted(bounds, time), 1, len(bounds) - 1)
    low, high = bounds[after - 1], bounds[after]
    nearest = np.where(time - low < high - time, low, high)
    edges = np.sort(np.stack([time, nearest]), axis=0)
    calls = np.searchsorted(start, edges[1]) - np.searchsorted(start, edges[0])
    is_open = time == np.iinfo(np.int64).max
    moved: Int64 = np.where((calls == 0) & ~is_open, nearest, time).reshape(-1, 2)
    return moved


def _shares(bounds: Int64, unmarked: Int64) -> Float64:
    """Return the share of each step that lies in times without markers."""
    low, high = bounds[:-1, None], bounds[1:, None]
    inside = np.minimum(high, unmarked[:, 1]) - np.maximum(low, unmarked[:, 0])
    share: Float64 = np.maximum(inside, 0).sum(axis=1) / np.maximum(np.diff(bounds), 1)
    return share


def _carry(profile: Profile, calls: list[Int32], process: int, loop: _Loop) -> None:
    ranges = profile.ranges
    own = profile.thread_process[ranges.thread] == process
    # Notes are written at any time.
    own &= ~np.array([*(name.startswith("{") for name in profile.range_names), False])[ranges.name]
    common = _in_all_steps(profile, own & _is_inside(ranges, loop.unmarked))
    steps = _steps(_events(profile, calls, process, common & own), loop.bounds)
    marked = [step for step, share in zip(steps, loop.share, strict=True) if share == 0]
    partly = [step for step, share in zip(steps, loop.share, strict=True) if 0 < share < 1]
    moved = np.flatnonzero(own & ~common)
    moved = moved[np.argsort(ranges.start_ns[moved], kind="stable")]
    parts, carried, without = [], 0, 0
    known: _Known = {}
    span = int(ranges.seq.max(initial=0)) + 1
    for number, step in enumerate(steps):
        if loop.share[number] == 0 or not step.size:
            continue
        is_part = step in partly
        if is_part:
            model, pairs = _beginning(step, marked)
        else:
            model, level = _model(step, (marked, partly))
            pairs = None if model is None else _pairs(model, step, level, known)
        if model is None or pairs is None:
            without += 1
            continue
        found = _moved(profile, moved, (model, step), pairs, is_part=is_part)
        found = found.selected(np.flatnonzero(_is_inside(found, loop.unmarked)))
        found.seq = np.where(found.seq >= 0, found.seq + span * (number + 1), found.seq)
        parts.append(found)
        carried += 1
    columns = {
        name: np.concatenate([column, *(getattr(part, name) for part in parts)])
        for name, column in vars(ranges).items()
    }
    profile.ranges = Ranges(**columns)
    _note(profile, carried, without)


def _is_inside(ranges: Ranges, unmarked: Int64) -> Bool:
    """Return which ranges lie in times without markers."""
    inside = np.zeros(len(ranges), dtype=bool)
    for low, high in unmarked.tolist():
        inside |= (ranges.start_ns >= low) & (ranges.end_ns <= high)
    return inside


def _in_all_steps(profile: Profile, without: Bool) -> Bool:
    """Return the ranges like those that a thread writes without markers, too, but for numbers.

    A checkpoint opens the ranges of models again, on the thread of the backward pass.
    """
    templates: dict[str, int] = {}
    plain = [_NUMBER.sub("#", name) for name in profile.range_names]
    codes = [templates.setdefault(name, len(templates)) for name in plain]
    code = np.array([*codes, -1], dtype=np.int64)[profile.ranges.name]
    thread = profile.ranges.thread.astype(np.int64)
    code = code * (int(thread.max(initial=0)) + 1) + thread
    result: Bool = np.isin(code, np.unique(code[without]))
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
    api, ranges = profile.api_calls, profile.ranges
    exact, coarse = _call_kinds(profile, calls)
    rows = np.flatnonzero(profile.thread_process[api.thread] == process)
    of_range = np.flatnonzero(common)
    parts = ((api, rows), (ranges, of_range))
    edges = [edge[own] for events, own in parts for edge in (events.start_ns, events.end_ns)]
    threads = [np.tile(events.thread[own], 2) for events, own in parts]
    times, thread = np.concatenate(edges), np.concatenate(threads).astype(np.int64)
    order = np.lexsort((times, thread))

    def coded(kind: Int64) -> Int64:
        # One code for all ranges: their names may have numbers.
        name = np.full(len(of_range), int(kind.max(initial=0)) + 1, dtype=np.int64)
        code = [2 * kind[rows], 2 * kind[rows] + 1, 2 * name, 2 * name + 1]
        result: Int64 = np.concatenate(code)[order]
        return result

    is_call = np.arange(len(times)) < 2 * len(rows)
    launches = np.zeros(len(api), dtype=bool)
    for of_work in (calls[0], calls[3]):
        launches[of_work[of_work >= 0]] = True
    is_launch = np.zeros(len(times), dtype=bool)
    is_launch[: len(rows)] = launches[rows]
    codes = coded(exact), coded(coarse)
    return _Events(times[order], thread[order], *codes, is_call[order], is_launch[order])


def _call_kinds(profile: Profile, calls: list[Int32]) -> tuple[Int64, Int64]:
    """Give calls of one name that launched the same kernel on the same stream equal numbers.

    The first numbers differ for other grids, too; the second ones do not.
    """
    api, kernels = profile.api_calls, profile.kernels
    launched = np.full((6, len(api)), -1, dtype=np.int64)
    columns = [kernels.long_name, kernels.stream_id, *kernels.grid.T]
    known = np.flatnonzero(calls[0] >= 0)[::-1]  # of several kernels the first one counts
    for place, column in enumerate(columns):
        launched[place, calls[0][known]] = column[known]
    for place, work in enumerate((profile.copies, profile.sets, profile.graphs)):
        known = np.flatnonzero(calls[place + 1] >= 0)
        launched[1, calls[place + 1][known]] = work.stream_id[known]
        launched[5, calls[place + 1][known]] = place
    name = api.name.astype(np.int64)
    _, exact = row_codes(name, *launched)
    _, coarse = row_codes(name, *launched[[0, 1, 5]])
    return exact.astype(np.int64), coarse.astype(np.int64)


def _steps(events: _Events, bounds: Int64) -> list[_Step]:
    rows_of = {
        key: np.flatnonzero(events.thread == key) for key in np.unique(events.thread).tolist()
    }
    result = []
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows: dict[int, Int64] = {}
        for thread, own in rows_of.items():
            inside = own[slice(*np.searchsorted(events.time_ns[own], (low + 1, high + 1)))]
            if len(inside):
                rows[thread] = inside
        codes = tuple(
            {thread: code[own] for thread, own in rows.items()}
            for code in (events.code, events.coarse)
        )
        of_launches = tuple(
            {thread: code[events.is_launch[rows[thread]]] for thread, code in of_level.items()}
            for of_level in codes
        )
        keys, launch_keys = (tuple(map(_key, of_kind)) for of_kind in (codes, of_launches))
        result.append(_Step(low, high, events, rows, codes, keys, launch_keys))
    return result


def _key(codes: dict[int, Int64]) -> _Key:
    return tuple((thread, code.tobytes()) for thread, code in sorted(codes.items()) if len(code))


def _model(step: _Step, models: tuple[list[_Step], ...]) -> tuple[_Step | None, int]:
    """Return the step to take names from, and the level of the codes that compare them.

    Args:
        step: The step that gets names.
        models: Steps with markers: in all of the step, then in its later part.

    Returns:
        The last equal one, with grids (level 0) or without (1); one that launches the same counts
        as well, whatever else it calls: the first step with tensors of a shape allocates memory and
        loads kernels. Else the one nearest in length, and 1: edit distance takes long, and steps
        with other grids may all be unlike.
    """
    for level in (0, 1):
        for name in ("keys", "launch_keys"):
            own = getattr(step, name)[level]
            for group in models:
                equal = [model for model in group if own and getattr(model, name)[level] == own]
                if equal:
                    return equal[-1], level
    others = [model for model in chain(*models) if step.rows.keys() <= model.rows.keys()]
    return min(reversed(others), key=lambda model: abs(model.size - step.size), default=None), 1


_Pairs = dict[int, Int64]
"""Positions of a step's events in another step, by thread, or ``NO_ROW``."""
_Known = dict[tuple[object, object], _Pairs]
"""The same of pairs of steps that were compared: many steps differ in grids only."""


def _pairs(model: _Step, step: _Step, level: int, known: _Known) -> _Pairs | None:
    """Return the positions of a step's events in another step, or None if they differ too much."""
    key = model.keys[level], step.keys[level]
    if key not in known:
        known[key] = _compared(model, step, level)
    pairs = known[key]
    is_call = {thread: step.events.is_call[rows] for thread, rows in step.rows.items()}
    matched = sum(int((is_call[thread] & (pair >= 0)).sum()) for thread, pair in pairs.items())
    enough = LEAST_MATCHED * sum(int(mask.sum()) for mask in is_call.values())
    return pairs if matched >= enough else None


def _beginning(step: _Step, models: list[_Step]) -> tuple[_Step | None, _Pairs | None]:
    """The marked step that begins most like a step in which markers began late, and its positions.

    The rest of such a step has names of its own, and may be unlike that of all others.
    """
    best, most = None, 0
    for model in models:
        heads = {
            thread: _head(model.codes[1][thread], code)
            for thread, code in step.codes[1].items()
            if thread in model.codes[1]
        }
        if sum(heads.values()) > most:
            best, most = (model, heads), sum(heads.values())
    if best is None:
        return None, None
    places = {thread: np.arange(len(rows)) for thread, rows in step.rows.items()}
    return best[0], {
        thread: np.where(place < best[1].get(thread, 0), place, -1)
        for thread, place in places.items()
    }


def _head(master: Int64, sequence: Int64) -> int:
    """Return the number of items that two sequences begin with."""
    shorter = min(len(master), len(sequence))
    differs = np.flatnonzero(master[:shorter] != sequence[:shorter])
    return int(differs[0]) if len(differs) else shorter


def _compared(model: _Step, step: _Step, level: int) -> _Pairs:
    of_step, of_model = step.codes[level], model.codes[level]
    if model.keys[level] == step.keys[level] or model.launch_keys[level] != step.launch_keys[level]:
        return {thread: _align_surely(of_model[thread], code) for thread, code in of_step.items()}
    none = np.zeros(0, dtype=np.int64)
    return {
        thread: _align_launches(
            (of_model.get(thread, none), model.events.is_launch[model.rows.get(thread, none)]),
            (code, step.events.is_launch[step.rows[thread]]),
        )
        for thread, code in of_step.items()
    }


def _align_surely(master: Int64, sequence: Int64) -> Int64:
    """Position in ``master`` of each item; -1 where it depends on the end that one begins with.

    Layers repeat: a sequence that lacks a part of its first one could as well be one layer further.
    """
    found = align(master, sequence)
    if len(master) == len(sequence) and (found >= 0).all():
        return found
    reverse = align(master[::-1], sequence[::-1])[::-1]
    result: Int64 = np.where((found >= 0) & (found == len(master) - 1 - reverse), found, -1)
    return result


def _align_launches(master: tuple[Int64, Bool], sequence: tuple[Int64, Bool]) -> Int64:
    """Position of each item of a sequence in another one with the same launches; -1: none.

    Args:
        master: The codes of the other one, and which of them are launches.
        sequence: The same of the sequence.
    """
    (there, is_there), (here, is_here) = master, sequence
    # A gap begins at its launch, the first one at the begin.
    starts_there, starts_here = (
        np.concatenate([[0], np.flatnonzero(is_launch)]) for is_launch in (is_there, is_here)
    )
    sizes_there, sizes_here = (
        np.diff(starts, append=len(code))
        for starts, code in ((starts_there, there), (starts_here, here))
    )
    gap = np.repeat(np.arange(len(starts_here)), sizes_here)
    at = np.arange(len(here))
    # Of a gap with other calls, what stands before the first and after the last of these is equal.
    place = starts_there[gap] + at - starts_here[gap]
    ends_there, ends_here = starts_there + sizes_there, starts_here + sizes_here
    from_end = ends_there[gap] - ends_here[gap] + at
    is_inside = (place < ends_there[gap]), (from_end >= starts_there[gap])
    differs, differs_later = (
        np.concatenate([[0], np.cumsum(~_equal(there, here, places, inside))])
        for places, inside in zip((place, from_end), is_inside, strict=True)
    )
    is_head = differs[1:] == differs[starts_here[gap]]
    is_tail = differs_later[:-1] == differs_later[ends_here[gap]]
    heads = np.bincount(gap, weights=is_head, minlength=len(starts_here)).astype(np.int64)
    is_tail &= from_end >= starts_there[gap] + heads[gap]
    result: Int64 = np.where(is_head, place, np.where(is_tail, from_end, -1))
    return result


def _equal(there: Int64, here: Int64, places: Int64, is_inside: Bool) -> Bool:
    """Return which items are equal to those at some places of another sequence."""
    if not len(there):
        return np.zeros(len(here), dtype=bool)
    result: Bool = is_inside & (there[np.where(is_inside, places, 0)] == here)
    return result


def _moved(
    profile: Profile, rows: Int64, steps: tuple[_Step, _Step], pairs: _Pairs, *, is_part: bool
) -> Ranges:
    """Return the ranges of a marked step at the times of another one, or of its beginning."""
    ranges = profile.ranges
    model, step = steps
    low, high = np.searchsorted(ranges.start_ns[rows], (model.start_ns, model.end_ns))
    own = rows[low:high]
    own = own[ranges.end_ns[own] <= model.end_ns]
    start, end = np.zeros(len(own), dtype=np.int64), np.zeros(len(own), dtype=np.int64)
    keep = np.zeros(len(own), dtype=bool)
    time_ns = step.events.time_ns
    for thread, pair in pairs.items():
        inside = ranges.thread[own] == thread
        if not (pair >= 0).any():
            continue
        moments = _Moments(time_ns[model.rows[thread]], time_ns[step.rows[thread]], pair)
        start[inside] = moments.moved(ranges.start_ns[own[inside]], is_start=True)
        end[inside] = moments.moved(ranges.end_ns[own[inside]], is_start=False)
        if is_part:
            inside &= ranges.end_ns[own] <= moments.last_ns
        keep |= inside
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

    @property
    def last_ns(self) -> int:
        """When the last event there matches."""
        return int(self._there_ns[-1])

    def moved(self, time_ns: Int64, *, is_start: bool) -> Int64:
        """Return where points in time lie here; order is kept."""
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
