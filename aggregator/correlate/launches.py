"""From device work back to the API call that launched it: by correlation id and process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.columns import SPAN_PER_ROW, ordered

if TYPE_CHECKING:
    from aggregator.profile import DeviceWork, Int32, Int64, Integers, Profile


class LaunchIndex:
    """Finds API calls by (process, correlation id).

    Correlation ids are unique within a process only: two ranks of one run repeat them. They are
    counters, so a table with an entry per possible id answers at once; where they lie too far
    apart for that, a sorted list does.
    """

    def __init__(self, profile: Profile) -> None:
        calls = profile.api_calls
        # Of several calls with one id the first started is the outermost: the one a person made.
        rows = ordered(calls.start_ns)
        rows = rows[calls.correlation_id[rows] >= 0]
        process = profile.thread_process[calls.thread[rows]]
        ids = calls.correlation_id[rows].astype(np.int64)
        self._low = int(ids.min(initial=np.iinfo(np.int64).max)) if len(ids) else 0
        self._span = int(ids.max(initial=-1)) - self._low + 1
        size = self._span * (int(process.max(initial=-1)) + 1)
        self._is_table = size <= SPAN_PER_ROW * len(rows)
        if self._is_table:
            self._rows = np.full(size, -1, dtype=np.int32)
            # Of values for one entry the last one stays.
            self._rows[self._table_key(process, ids)[::-1]] = rows[::-1]
        else:
            self._keys, first = np.unique(_key(process, ids), return_index=True)
            self._rows = rows[first].astype(np.int32)

    def launching_call(self, work: DeviceWork) -> Int32:
        """Row of the API call that launched each piece of work; -1: none recorded."""
        result = np.full(len(work), -1, dtype=np.int32)
        if not len(self._rows) or not len(work):
            return result
        ids = work.correlation_id
        if self._is_table:
            known = (ids >= max(self._low, 0)) & (ids < self._low + self._span)
            key = self._table_key(work.process, ids.astype(np.int64))
            known &= key < len(self._rows)
            result[known] = self._rows[key[known]]
            return result
        key = _key(work.process, ids)
        found = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        hit = (self._keys[found] == key) & (ids >= 0)
        result[hit] = self._rows[found[hit]]
        return result

    def _table_key(self, process: Int32, ids: Int64) -> Int64:
        key: Int64 = process.astype(np.int64) * self._span + (ids - self._low)
        return key


def _key(process: Int32, correlation_id: Integers) -> Int64:
    # Correlation ids are 32-bit counters, so 40 bits hold them with room.
    ids = correlation_id.astype(np.int64)
    key: Int64 = (process.astype(np.int64) << 40) | (ids & ((1 << 40) - 1))
    return key
