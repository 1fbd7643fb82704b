"""Repairs of the times of GPU work that contradict its launches or the order of its stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from aggregator.profile.arrays import Int32, Int64, ordered
from aggregator.profile.profile import MOVED_CLOCK, DeviceWork, Profile, ProfileWarning
from aggregator.texts import say

_EMPTY_SHARE, _EMPTY_NS = 0.9, 10_000_000_000
"""A program may take some seconds before its first event."""
_ROUNDING_NS: Final = 1_000
"""Times of early traces are in whole microseconds."""
_EARLY_NS: Final = 1_000_000
"""Work that begins longer than this before the call that launched it has a wrong start."""
_FEW: Final = 0.01
"""Share of the work that may have a wrong time by itself."""
_MOST_EARLY: Final = 0.2
"""If a larger share of the work begins before its launch, the clock of the GPU is behind."""
_FEW_ENDLESS: Final = 3
"""Single pieces with a wrong end; more of them in a small capture, and its streams overlap."""
_OVERLAP_NS: Final = 100_000
"""Work that goes on longer than this after the next one of its stream began has a wrong end."""


def repair_order(profile: Profile, calls: Sequence[Int32]) -> bool:
    """Move and end work whose times cannot be right; return whether single pieces were moved.

    Args:
        profile: The profile; its work is changed and warnings are added.
        calls: Row of the API call that launched each kernel, copy, set and graph.
    """
    for device in range(len(profile.devices)):
        _repair_clock(profile, calls, device)
    is_moved = _repair_early_work(profile, calls)
    _repair_endless_work(profile, calls)
    return is_moved


def _kinds(profile: Profile) -> tuple[DeviceWork, ...]:
    return (profile.kernels, profile.copies, profile.sets, profile.graphs)


def _early_ns(profile: Profile, work: DeviceWork, call: Int32) -> Int64:
    """How long before its launch each piece of work begins; at most 0: behind it, or unknown."""
    starts = profile.api_calls.start_ns
    if not len(starts):
        return np.zeros(len(work), dtype=np.int64)
    return np.where(call >= 0, starts[call] - work.start_ns, 0)


def _repair_clock(profile: Profile, calls: Sequence[Int32], device: int) -> None:
    """Move all work of a GPU by the least time after which it begins behind its launch.

    Only if much of it does not: the clock of the GPU is behind.
    """
    linked = [
        _early_ns(profile, work, call)[(call >= 0) & (work.device == device)]
        for work, call in zip(_kinds(profile), calls, strict=True)
    ]
    early_ns = np.concatenate(linked)
    behind = early_ns[early_ns > 0]
    if not len(behind) or len(behind) <= _MOST_EARLY * len(early_ns):
        return
    # Single pieces that begin much too early are moved by themselves.
    shift_ns = int(np.percentile(behind, 100.0 * (1.0 - _FEW), method="higher"))
    for work in _kinds(profile):
        rows = work.device == device
        work.start_ns = np.where(rows, work.start_ns + shift_ns, work.start_ns)
        work.end_ns = np.where(rows, work.end_ns + shift_ns, work.end_ns)
    text = say(
        "pieces of work of GPU {gpu} begin before the calls that launched them: its clock is about "
        "{time:.4g} us behind, and its times are moved by that.",
        gpu=profile.devices[device].device_id,
        time=shift_ns / 1e3,
    )
    share = len(behind) / len(early_ns)
    profile.warnings.append(ProfileWarning(MOVED_CLOCK, text, len(behind), share))


def _repair_early_work(profile: Profile, calls: Sequence[Int32]) -> bool:
    """Count single pieces of work before their launch, and move those that begin long before it.

    CUPTI delivers such records at the start of a session.
    """
    count = moved = linked = worst_ns = 0
    example = ""
    for work, call in zip(_kinds(profile), calls, strict=True):
        early_ns = _early_ns(profile, work, call)
        linked += int(np.count_nonzero(call >= 0))
        found = int(np.count_nonzero(early_ns > _ROUNDING_NS))
        if not found:
            continue
        if int(early_ns.max()) > worst_ns:
            worst_ns = int(early_ns.max())
            example = _named(profile, work, int(early_ns.argmax()))
        count += found
        early = early_ns > _EARLY_NS
        if np.count_nonzero(early) > max(_FEW * len(work), 1):
            continue
        moved += int(np.count_nonzero(early))
        starts = work.start_ns + early_ns
        length = work.end_ns - work.start_ns
        work.start_ns = np.where(early, starts, work.start_ns)
        end_ns = np.maximum(work.end_ns, work.start_ns + np.minimum(length, _EARLY_NS))
        work.end_ns = np.where(early, end_ns, work.end_ns)
    if count:
        text = say(
            "pieces of GPU work begin before the calls that launched them, by up to {time:.4g} ms; "
            "{moved} that begin over 1 ms before are moved to their launch.",
            time=worst_ns / 1e6,
            moved=moved,
        )
        warning = ProfileWarning("EARLY_WORK", text, count, count / linked, example)
        profile.warnings.append(warning)
    return moved > 0


def _named(profile: Profile, work: DeviceWork, row: int) -> str:
    """A piece of work as an example: its name and when it starts."""
    name = profile.strings[work.name[row]] if hasattr(work, "name") else type(work).__name__
    return f"{name} at {work.start_ns[row] / 1e9:.6f} s"


def _repair_endless_work(profile: Profile, calls: Sequence[Int32]) -> None:
    """End single pieces of work that cover whole others of their stream where the next one begins.

    A stream runs its work in order. Neighbors may overlap a little (programmatic dependent launch),
    and so may the work of one replay of a graph; in 187 captures no piece covers two others.
    """
    kinds = _kinds(profile)
    start_ns, end_ns, *stream = (
        np.concatenate([getattr(work, column).astype(np.int64) for work in kinds])
        for column in ("start_ns", "end_ns", "process", "device", "stream_id")
    )
    rows = ordered(*stream, start_ns, end_ns)
    rows = rows[stream[-1][rows] >= 0]
    in_stream = [key[rows] for key in stream]
    call = np.concatenate(calls)[rows]
    endless, next_ns = _covering(start_ns[rows], end_ns[rows], in_stream, call)
    is_long = end_ns[rows[endless]] - next_ns > _OVERLAP_NS
    endless, next_ns = endless[is_long], next_ns[is_long]
    if not 0 < len(endless) <= max(_FEW * len(rows), _FEW_ENDLESS):
        return
    last_ns, over_ns = int(end_ns.max()), end_ns[rows[endless]] - next_ns
    end_ns[rows[endless]] = next_ns
    ends = np.cumsum([*map(len, kinds)])
    for work, parts in zip(kinds, np.split(end_ns, ends), strict=False):
        work.end_ns = parts
    if profile.end_ns == last_ns:
        profile.end_ns = _last_event_ns(profile)
    text = say(
        "pieces of GPU work cover whole others of their stream, by up to {time:.4g} ms; they end "
        "where the next one begins.",
        time=int(over_ns.max()) / 1e6,
    )
    worst = int(rows[endless[over_ns.argmax()]])
    kind = int(np.searchsorted(ends, worst, side="right"))
    example = _named(profile, kinds[kind], worst - int(ends[kind]) + len(kinds[kind]))
    warning = ProfileWarning("ENDLESS_WORK", text, len(endless), len(endless) / len(rows), example)
    profile.warnings.append(warning)


def _covering(
    start_ns: Int64, end_ns: Int64, stream: Sequence[Int64], call: Int32
) -> tuple[Int64, Int64]:
    """Rows, in order of streams and starts, that cover two others, and when their next begins."""
    count = len(start_ns)
    begins_stream, begins_launch = np.ones(count, dtype=bool), np.ones(count, dtype=bool)
    for key in stream:
        begins_stream[1:] &= key[1:] == key[:-1]
    begins_stream[1:] ^= True
    begins_launch[1:] = begins_stream[1:] | (call[1:] != call[:-1]) | (call[1:] < 0)
    lane = np.cumsum(begins_stream)
    # The first piece that another call launched.
    following = np.append(np.flatnonzero(begins_launch), count)[np.cumsum(begins_launch)]

    def later(column: Int64, places: int) -> Int64:
        """The value of the piece that comes so many places after the following one."""
        row = np.minimum(following + places, count - 1)
        is_there = (following + places < count) & (lane[row] == lane)
        return np.where(is_there, column[row], np.iinfo(np.int64).max)

    covers = (later(end_ns, 0) < end_ns) & (later(end_ns, 1) < end_ns)
    # The next ones may have wrong ends, too.
    covers |= later(start_ns, 3) < end_ns
    next_ns = later(start_ns, 0)
    endless = np.flatnonzero(covers & (next_ns > start_ns))
    return endless, next_ns[endless]


def _last_event_ns(profile: Profile) -> int:
    """When the last event of a profile ends. Unit: ns."""
    kinds = (profile.ranges, profile.start_end_ranges, profile.api_calls, profile.kernels)
    others = (profile.copies, profile.sets, profile.graphs, profile.syncs)
    columns = [*(kind.end_ns for kind in (*kinds, *others)), profile.marks.time_ns]
    return max(int(column.max(initial=0)) for column in columns)


def first_event_ns(profile: Profile, *, is_moved: bool) -> int:
    """Where events begin, if nearly all of the capture lies before them; otherwise 0. Unit: ns.

    Such a capture is a part of a longer one that kept its clock, or its clock began with a piece of
    work that was moved (``is_moved``).
    """
    kinds = (profile.ranges, profile.start_end_ranges, profile.api_calls, profile.kernels)
    others = (profile.copies, profile.sets, profile.graphs, profile.syncs)
    columns = [*(kind.start_ns for kind in (*kinds, *others)), profile.marks.time_ns]
    first = min((int(column.min()) for column in columns if len(column)), default=0)
    if first < max(_EMPTY_SHARE * profile.end_ns, 0 if is_moved else _EMPTY_NS):
        return 0
    if is_moved and first < _EMPTY_NS:
        return first
    text = say(
        "The first {seconds:.1f} s of the capture hold no event: iterations begin after them.",
        seconds=first / 1e9,
    )
    profile.warnings.append(ProfileWarning("EVENTS_BEGIN_LATE", text, 1))
    return first
