"""Processes and threads of a Kineto trace as the profile numbers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from aggregator.profile import ApiCalls, Int32, Int64
    from aggregator.sources.kineto_events import TraceEvents

PID_SHIFT: Final = 24
TID_LIMIT: Final = 1 << PID_SHIFT
"""Global thread ids hold the thread below it."""


class Lanes:
    """Rows of the profile's threads by lane, a pair of process and thread as written.

    Attributes:
        threads: Global thread ids: process and thread in one number.
        thread: Row of ``threads`` by lane.
        thread_process: Row of ``process_ids`` by row of ``threads``.
        process_ids: Process ids.
        names: Thread names by global thread id.
    """

    def __init__(self, events: TraceEvents) -> None:
        written = events.lanes.values()
        pids = [_number(pid) for pid, _ in written]
        tids = _thread_numbers(written)
        keys = np.array(
            [(pid << PID_SHIFT) | tid for pid, tid in zip(pids, tids, strict=True)], dtype=np.int64
        )
        # Work that no call launched needs a thread to belong to.
        self.threads: Int64 = np.unique(keys) if len(keys) else np.zeros(1, dtype=np.int64)
        self.thread: Int32 = np.searchsorted(self.threads, keys).astype(np.int32)
        processes = np.unique(self.threads >> PID_SHIFT)
        self.thread_process: Int32 = np.searchsorted(processes, self.threads >> PID_SHIFT).astype(
            np.int32
        )
        self.process_ids = tuple(int(pid) for pid in processes)
        named = zip(written, keys.tolist(), strict=True)
        self.names = {
            key: events.thread_names[lane] for lane, key in named if lane in events.thread_names
        }


def _number(value: Any) -> int:
    """A process id; 0 for what is none."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() else 0
    return int(value) if 0 <= value < 1 << 32 else 0


def _thread_numbers(lanes: list[tuple[Any, Any]]) -> list[int]:
    """Thread ids as written where they fit the profile's numbers, else numbers not in use."""
    known = [int(tid) if str(tid).isdigit() else -1 for _, tid in lanes]
    if all(0 <= tid < TID_LIMIT for tid in known):
        return known
    row_of: dict[str, int] = {}
    return [row_of.setdefault(str(tid), len(row_of) + 1) for _, tid in lanes]


class ProcessOfWork:
    """Finds the process whose call launched a piece of work: the trace tells its GPU only."""

    def __init__(self, api: ApiCalls, lanes: Lanes) -> None:
        process = lanes.thread_process[api.thread]
        counts = np.bincount(process, minlength=1)
        self._usual = int(counts.argmax())
        self._is_one = np.count_nonzero(counts) <= 1
        order = np.argsort(api.correlation_id, kind="stable")
        self._ids, self._process = api.correlation_id[order], process[order]

    def of(self, correlation_id: Int64) -> Int32:
        """Row of the process of each piece of work."""
        usual = np.full(len(correlation_id), self._usual, dtype=np.int32)
        if self._is_one:
            return usual
        found = np.minimum(np.searchsorted(self._ids, correlation_id), len(self._ids) - 1)
        known = self._ids[found] == correlation_id
        result: Int32 = np.where(known, self._process[found], usual)
        return result
