"""From device work back to the API call that launched it: by correlation id and process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aggregator.profile import DeviceWork, Int32, Int64, Profile


class LaunchIndex:
    """Finds API calls by (process, correlation id).

    Correlation ids are unique within a process only: two ranks of one run repeat them.
    """

    def __init__(self, profile: Profile) -> None:
        calls = profile.api_calls
        process = profile.thread_process[calls.thread]
        # Of several calls with one id the first started is the outermost: the one a person made.
        order = np.lexsort((calls.start_ns, calls.correlation_id, process))
        usable = order[calls.correlation_id[order] >= 0]
        key = _key(process[usable], calls.correlation_id[usable])
        first = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.empty(0, bool)
        self._keys = key[first]
        self._rows = usable[first]

    def launching_call(self, work: DeviceWork) -> Int32:
        """Row of the API call that launched each piece of work; -1: none recorded."""
        result = np.full(len(work), -1, dtype=np.int32)
        if not len(self._keys) or not len(work):
            return result
        key = _key(work.process, work.correlation_id)
        found = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        hit = (self._keys[found] == key) & (work.correlation_id >= 0)
        result[hit] = self._rows[found[hit]]
        return result


def _key(process: Int32, correlation_id: Int64) -> Int64:
    # Correlation ids are 32-bit counters, so 40 bits hold them with room.
    return (process.astype(np.int64) << 40) | (correlation_id & ((1 << 40) - 1))
