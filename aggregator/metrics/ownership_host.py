"""What the threads of the program did while a GPU waited for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from aggregator.events.model import NO_ROW, Columns, stacked
from aggregator.metrics.ownership_timeline import (
    Fragments,
    Timeline,
    cut_at,
    last_started,
)
from aggregator.profile.arrays import Bool, Int64

# Codes of reasons on the host; ``FIRST_CALL`` + the name's code are those of blocking calls.
IN_OP, IN_LOADER, OUTSIDE, OTHER_THREAD, FIRST_CALL = 5, 6, 7, 8, 9
REASONS: Final = (
    *("", "launch latency", "event wait", "another GPU", "no further work"),
    *("op on the CPU", "data loader", "Python between ops", "other thread"),
)
"""Names of the reasons by code; those of blocking calls follow."""

_BLOCKING = re.compile(
    r"(?:Stream|Event|Device|Ctx)Synchronize|^(?:cuda|cu|hip)Memcpy(?!.*Async)"
    r"|^(?:cuda|hip)(?:Malloc|Free|Host(?:Alloc|Free|Register|Unregister))(?!.*Async)"
    r"|^cuMem(?:Alloc|Free|Host(?:Alloc|Register|Unregister))(?!.*Async)"
    r"|^cuMem(?:Create|Release|Map|Unmap)"
)


def is_blocking(call: str) -> bool:
    """Whether a call waits for the GPU or for the allocator of its memory.

    Asynchronous copies of pageable memory block as well; their rows say so, not their names.
    """
    return _BLOCKING.search(call) is not None


@dataclass(frozen=True)
class HostEvents(Columns):
    """What threads did, in any order: ops, waits for a data loader, and blocking calls."""

    start_ns: Int64
    end_ns: Int64
    thread: Int64
    op: Int64
    reason: Int64  # Code of the reason.


@dataclass(frozen=True)
class Groups(Columns):
    """Ranges around ops. Times in ns."""

    start_ns: Int64
    end_ns: Int64
    process: Int64
    name: Int64


@dataclass(frozen=True)
class Activity(Columns):
    """Pieces of waiting time with what explains them."""

    piece: Int64  # Row of the piece that was asked for.
    start_ns: Int64
    end_ns: Int64
    reason: Int64
    op: Int64
    group: Int64

    @property
    def is_explained(self) -> Bool:
        """Whether an op, a loader or a call was running."""
        result: Bool = (self.reason != OUTSIDE) & (self.reason != OTHER_THREAD)
        return result


@dataclass(frozen=True)
class Host:
    """The threads of all processes, and what they did.

    Lanes (threads or processes) lie behind each other on one virtual line of time, so that one
    search serves all of them.
    """

    events: HostEvents
    groups: Groups
    thread_process: Int64  # Process of each thread.
    main_thread: Int64  # Thread of each process that runs its loop.
    low_ns: int  # All that is asked for lies between these.
    high_ns: int

    def usual_thread(self, thread: Int64) -> int:
        """The thread that runs the loop of the process that launched most; 0: unknown."""
        known = thread[thread != NO_ROW]
        if not len(known):
            return 0
        return int(self.main_thread[np.bincount(self.thread_process[known]).argmax()])

    def activity(self, start_ns: Int64, end_ns: Int64, thread: Int64) -> Activity:
        """What explains pieces of time in which a launch by a thread was awaited.

        The pieces are in order and do not overlap. Where the thread did nothing, it waited itself:
        then the thread of the loop, after it any thread of the process explains the time, and after
        them the enclosing group.
        """
        process = self.thread_process[thread]
        rest = Fragments(np.arange(len(start_ns)), np.zeros_like(start_ns), start_ns, end_ns)
        found = []
        for lane in (thread, self.main_thread[process]):
            part, holder = self._cut(rest, lane[rest.piece], self._by_thread)
            found.append(_explained(part, holder, self.events))
            rest = part.rows(holder == NO_ROW)
        others = self.events.rows(_overlaps(self.events, rest))
        timeline = self._line(others, self.thread_process[others.thread])
        part, holder = self._cut(rest, process[rest.piece], timeline)
        found.append(_explained(part, holder, others))
        rest = part.rows(holder == NO_ROW)
        part, group = self._cut(rest, process[rest.piece], self._of_groups)
        found.append(self._outside(part, group, thread[part.piece], process[part.piece]))
        return stacked(found)

    def _cut(self, pieces: Fragments, lane: Int64, timeline: Timeline) -> tuple[Fragments, Int64]:
        shift = lane * self._span - self.low_ns
        cut = cut_at(pieces.start_ns + shift, pieces.end_ns + shift, timeline.edges_ns)
        back = shift[cut.piece]
        part = Fragments(pieces.piece[cut.piece], cut.place, cut.start_ns - back, cut.end_ns - back)
        return part, timeline.holder[cut.place]

    def _outside(self, part: Fragments, group: Int64, thread: Int64, process: Int64) -> Activity:
        is_python = (group != NO_ROW) | (self.main_thread[process] == thread)
        name = np.append(self.groups.name, NO_ROW)[group]
        reason = np.where(is_python, OUTSIDE, OTHER_THREAD)
        none = np.full(len(name), NO_ROW)
        return Activity(part.piece, part.start_ns, part.end_ns, reason, none, name)

    def between(self, low_ns: int, high_ns: int) -> Host:
        """The same threads, with what they did in a part of the time."""
        events, groups = self.events, self.groups
        inside = (events.end_ns > low_ns) & (events.start_ns < high_ns)
        around = (groups.end_ns > low_ns) & (groups.start_ns < high_ns)
        return replace(
            self,
            events=events.rows(inside),
            groups=groups.rows(around),
            low_ns=low_ns,
            high_ns=high_ns,
        )

    @property
    def _span(self) -> int:
        return self.high_ns - self.low_ns + 1

    @cached_property
    def _by_thread(self) -> Timeline:
        return self._line(self.events, self.events.thread)

    @cached_property
    def _of_groups(self) -> Timeline:
        return self._line(self.groups, self.groups.process)

    def _line(self, spans: HostEvents | Groups, lane: Int64) -> Timeline:
        start = np.clip(spans.start_ns, self.low_ns, self.high_ns) - self.low_ns
        end = np.clip(spans.end_ns, self.low_ns, self.high_ns) - self.low_ns
        return last_started(start + lane * self._span, end + lane * self._span)


def _explained(part: Fragments, holder: Int64, events: HostEvents) -> Activity:
    kept = holder != NO_ROW
    part, row = part.rows(kept), holder[kept]
    none = np.full(len(row), NO_ROW)
    return Activity(
        part.piece, part.start_ns, part.end_ns, events.reason[row], events.op[row], none
    )


def _overlaps(events: HostEvents, pieces: Fragments) -> Bool:
    """Whether each event overlaps any of some pieces, which are in order and do not overlap."""
    begun = np.searchsorted(pieces.start_ns, events.end_ns, side="left")
    ended = np.searchsorted(pieces.end_ns, events.start_ns, side="right")
    result: Bool = begun > ended
    return result
