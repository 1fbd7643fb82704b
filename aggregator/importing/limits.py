"""Finds what a capture lacks or contradicts; ``aggregator.profile.limits`` says what it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from aggregator.correlate.work import call_key
from aggregator.profile.arrays import Bool, Int32, Int64, dense_codes, ordered
from aggregator.profile.profile import (
    ABSENT_RECORD,
    ONE_OF_RANKS,
    Profile,
    ProfileWarning,
    SourceFormat,
)
from aggregator.texts import say

_GRAPH_LAUNCH: Final = "graphlaunch"
_USUAL_SHARE: Final = 0.8
"""If so many replays have the same number of kernels, those with fewer lack some."""
_CLOCK_NS: Final = 100_000
"""Ends of work and of waits are read from clocks that differ by some microseconds."""


def find_limits(profile: Profile, calls: Sequence[Int32]) -> None:
    """Add a warning for each limit of a profile whose times are repaired.

    Args:
        profile: The profile.
        calls: Row of the API call that launched each kernel, copy, set and graph.
    """
    _find_missing_ranks(profile)
    _find_missing_work(profile, calls)
    _find_partial_replays(profile, calls)
    if len(profile.waits) and len(profile.api_calls):
        _find_wrong_waits(profile)
        _find_early_waits(profile, calls[0])


def _find_missing_ranks(profile: Profile) -> None:
    if profile.job_ranks is not None and profile.job_ranks > 1:
        text = say("The job has {count} ranks: this is one of them.", count=profile.job_ranks)
        missing = profile.job_ranks - 1
        warning = ProfileWarning(ONE_OF_RANKS, text, missing, missing / profile.job_ranks)
        profile.warnings.append(warning)


def _named(profile: Profile, *parts: str) -> Bool:
    """Mask of the calls whose name has some texts in it, in any case."""
    names = (text.lower() for text in profile.strings)
    has = [all(part in name for part in parts) for name in names]
    result: Bool = np.array([*has, False], dtype=bool)[profile.api_calls.name]
    return result


def _is_captured(profile: Profile, rows: Int64) -> Bool:
    """Mask of the calls that go into a graph that some thread of their process captures."""
    api = profile.api_calls
    begins = np.flatnonzero(_named(profile, "begincapture"))
    if not len(begins):
        return np.zeros(len(rows), dtype=bool)
    ends = np.flatnonzero(_named(profile, "endcapture"))
    process = profile.thread_process[api.thread]
    result = np.zeros(len(rows), dtype=bool)
    for own in np.unique(process[begins]).tolist():
        times = [
            api.start_ns[begins[process[begins] == own]],
            api.end_ns[ends[process[ends] == own]],
        ]
        change = np.repeat([1, -1], [len(part) for part in times])
        at = np.concatenate(times)
        order = ordered(at)
        depth = np.cumsum(change[order])
        # An end without its begin, which was before the recording, ends nothing.
        depth -= np.minimum(np.minimum.accumulate(depth), 0)
        place = np.searchsorted(at[order], api.start_ns[rows], side="right") - 1
        result |= (process[rows] == own) & (place >= 0) & (depth[np.maximum(place, 0)] > 0)
    return result


def _launches(profile: Profile, calls: Sequence[Int32]) -> Bool:
    """Mask of the calls that launched any of the recorded work."""
    result = np.zeros(len(profile.api_calls), dtype=bool)
    for call in calls:
        result[call[call >= 0]] = True
    return result


def _find_missing_work(profile: Profile, calls: Sequence[Int32]) -> None:
    """Find calls that launch kernels of which none is there.

    Copies and sets are not judged: one of no bytes, or between two places of the host, has no work.
    """
    api = profile.api_calls
    if not any(len(call) for call in calls):
        return  # The lack of all work is a limit of its own.
    is_launch = _named(profile, "launch", "kernel")
    has_work = _launches(profile, calls)
    without = np.flatnonzero(is_launch & ~has_work)
    without = without[~_is_captured(profile, without)]
    without = without[~_is_part(profile, without, np.flatnonzero(is_launch & has_work))]
    # What was left out for its times is counted as such.
    without = without[~np.isin(api.correlation_id[without], profile.broken_kernels)]
    # Without numbers nothing says which kernel is whose: ``WORK_WITHOUT_CALL`` counts them.
    without = without[api.correlation_id[without] >= 0]
    if len(without) <= np.count_nonzero(profile.kernels.correlation_id < 0):
        return
    profile.missing_ns = np.sort(api.start_ns[without])
    launches = np.flatnonzero(is_launch)
    total = len(launches) - int(np.count_nonzero(_is_captured(profile, launches)))
    first_ns, last_ns = int(api.start_ns[launches].min()), int(api.start_ns[launches].max())
    thirds = first_ns + np.array([1, 2]) * (last_ns - first_ns) // 3
    early, before_last = np.searchsorted(profile.missing_ns, thirds, side="right").tolist()
    text = say(
        "launches of kernels have no kernel in the capture: {first} in the first third of its "
        "launches' time, {last} in the last.",
        first=early,
        last=len(without) - before_last,
    )
    share = len(without) / max(total, 1)
    example = _call(profile, int(without[api.start_ns[without].argmin()]))
    profile.warnings.append(ProfileWarning("MISSING_WORK", text, len(without), share, example))


def _is_part(profile: Profile, rows: Int64, launching: Int64) -> Bool:
    """Mask of the calls that have their work by another call: with their id, or around them."""
    api = profile.api_calls
    result = np.zeros(len(rows), dtype=bool)
    if not len(rows) or not len(launching):
        return result
    own, others = (
        call_key(profile.thread_process[api.thread[calls]], api.correlation_id[calls])
        for calls in (rows, launching)
    )
    result |= (api.correlation_id[rows] >= 0) & np.isin(own, others)
    for thread in np.unique(api.thread[rows]).tolist():
        outer = launching[api.thread[launching] == thread]
        if not len(outer):
            continue
        outer = outer[ordered(api.start_ns[outer])]
        here = api.thread[rows] == thread
        place = np.searchsorted(api.start_ns[outer], api.start_ns[rows[here]], side="right") - 1
        around = outer[np.maximum(place, 0)]
        result[here] |= (place >= 0) & (api.end_ns[around] >= api.end_ns[rows[here]])
    return result


def _call(profile: Profile, row: int) -> str:
    """A call as an example: its name, when it starts, and its process if there are several."""
    api = profile.api_calls
    text = f"{profile.strings[api.name[row]]} at {api.start_ns[row] / 1e9:.6f} s"
    if len(profile.process_ids) == 1:
        return text
    return f"{text} in process {profile.process_ids[profile.thread_process[api.thread[row]]]}"


# --- replays of graphs ----------------------------------------------------------------------------


def _find_partial_replays(profile: Profile, calls: Sequence[Int32]) -> None:
    """Find replays of graphs with fewer kernels than other replays of the same graph, or none."""
    rows = np.flatnonzero(_named(profile, _GRAPH_LAUNCH))
    if not len(rows) or not any(len(call) for call in calls):
        return
    rows = rows[~_is_captured(profile, rows)]
    is_whole = np.zeros(len(profile.api_calls), dtype=bool)
    is_whole[calls[3][calls[3] >= 0]] = True
    rows = rows[~is_whole[rows]]
    pieces = np.zeros(len(profile.api_calls), dtype=np.int64)
    for call in calls[:3]:
        pieces += np.bincount(call[call >= 0], minlength=len(pieces))
    usual = _usual_pieces(profile, calls, rows, pieces)
    partial = rows[(pieces[rows] < usual[rows]) | (pieces[rows] == 0)]
    if not len(partial):
        return
    none = int(np.count_nonzero(pieces[partial] == 0))
    text = say(
        "replays of CUDA graphs have fewer kernels than others of their graph: {none} of them have "
        "none.",
        none=none,
    )
    share = len(partial) / max(len(rows), 1)
    example = _call(profile, int(partial[profile.api_calls.start_ns[partial].argmin()]))
    profile.warnings.append(ProfileWarning("PARTIAL_REPLAYS", text, len(partial), share, example))


def _usual_pieces(profile: Profile, calls: Sequence[Int32], rows: Int64, pieces: Int64) -> Int64:
    """How many pieces of work the graph of each call has in its fullest replay; 0: unknown."""
    usual = np.zeros(len(pieces), dtype=np.int64)
    nodes = profile.graph_nodes.of_work
    if not nodes:
        # Without nodes graphs cannot be distinguished: only numbers that hardly differ count.
        values, counts = np.unique(pieces[rows][pieces[rows] > 0], return_counts=True)
        if len(values) and counts.max() >= _USUAL_SHARE * counts.sum():
            usual[rows] = values[counts.argmax()]
        return usual
    call, node = np.concatenate(calls[:3]), np.concatenate(nodes)
    replayed = (node >= 0) & (call >= 0)
    call, node = call[replayed], node[replayed].astype(np.int64)
    process = profile.thread_process[profile.api_calls.thread[call]].astype(np.int64)
    code = dense_codes(process * (int(node.max(initial=0)) + 1) + node)[1]
    fullest = np.zeros(int(code.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(fullest, code, pieces[call])
    np.maximum.at(usual, call, fullest[code])
    return usual


# --- waits ----------------------------------------------------------------------------------------


def _find_wrong_waits(profile: Profile) -> None:
    """Find waits for events whose record is not there, has no number, or comes after them."""
    waits, api = profile.waits, profile.api_calls
    wait_call, record = waits.call, waits.record_call
    is_event = _calls_are(_named(profile, "event"), wait_call)
    has_id = waits.record_id >= 0
    absent = (waits.record_id == ABSENT_RECORD) | (has_id & (record < 0))
    later = has_id & (record >= 0) & (api.start_ns[record] > api.start_ns[wait_call])
    # An export of Nsight Systems has no number where the event was never recorded.
    unnumbered = (waits.record_id == -1) & (profile.source_format == SourceFormat.KINETO)
    for code, text, found in (
        ("WAIT_IDS", _NO_ID, unnumbered),
        ("WAITS_WITHOUT_EVENTS", _NO_EVENT, absent),
        ("FUTURE_RECORDS", _FUTURE, later),
    ):
        _warn_of_waits(profile, code, text, (found[is_event], wait_call[is_event]))


_NO_ID: Final = say("waits for events do not say which record they wait for.")
_NO_EVENT: Final = say("waits for events wait for one whose record is not in the capture.")
_FUTURE: Final = say("waits for events name a record that comes after them.")
_STILL_BUSY: Final = say(
    "waits for a stream ended while work that had been launched into it before still ran."
)


def _warn_of_waits(profile: Profile, code: str, text: str, waits: tuple[Bool, Int32]) -> None:
    found, call = waits
    count = int(np.count_nonzero(found))
    if count:
        known = call[found & (call >= 0)]
        example = _call(profile, int(known[0])) if len(known) else ""
        profile.warnings.append(ProfileWarning(code, text, count, count / len(found), example))


def _find_early_waits(profile: Profile, calls: Int32) -> None:
    waits, api, kernels = profile.waits, profile.api_calls, profile.kernels
    wait_call = waits.call
    is_stream = _calls_are(_named(profile, "streamsynchronize"), wait_call) & (waits.stream_id >= 0)
    rows = np.flatnonzero(is_stream)
    over_ns = np.zeros(len(rows), dtype=np.int64)
    lanes = np.stack([waits.process[rows], waits.device[rows], waits.stream_id[rows]], axis=1)
    for process, device, stream in np.unique(lanes, axis=0).tolist():
        here = np.flatnonzero((lanes == (process, device, stream)).all(axis=1))
        own = np.flatnonzero(
            (kernels.stream_id == stream)
            & (kernels.process == process)
            & (kernels.device == device)
            & (calls >= 0)
        )
        if not len(own):
            continue
        launched = api.start_ns[calls[own]]
        order = ordered(launched)
        latest_ns = np.maximum.accumulate(kernels.end_ns[own[order]])
        waiting = wait_call[rows[here]]
        before = np.searchsorted(launched[order], api.start_ns[waiting]) - 1
        end_ns = np.where(before >= 0, latest_ns[np.maximum(before, 0)], 0)
        over_ns[here] = end_ns - np.maximum(api.end_ns[waiting], profile.syncs.end_ns[rows[here]])
    _warn_of_waits(
        profile, "SYNC_OVER_RUNNING", _STILL_BUSY, (over_ns > _CLOCK_NS, wait_call[rows])
    )


def _calls_are(named: Bool, call: Int32) -> Bool:
    """Mask of rows whose call is one of some; no call is none."""
    result: Bool = (call >= 0) & np.append(named, False)[call]
    return result
