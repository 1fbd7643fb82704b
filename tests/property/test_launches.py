"""The launching call of device work, against looking at every call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.correlate.work import LaunchIndex
from aggregator.profile.profile import ApiCalls, DeviceWork

IDS = st.one_of(st.integers(-1, 6), st.sampled_from((1_000_000, 2**31 - 1)))
CALLS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), IDS), max_size=25)


def _profile(calls: list[tuple[int, int, int]]) -> Any:
    start = np.array([call[0] for call in calls], dtype=np.int64)
    api = ApiCalls(
        start_ns=start,
        end_ns=start + 1,
        thread=np.array([call[1] for call in calls], dtype=np.int32),
        correlation_id=np.array([call[2] for call in calls], dtype=np.int64),
    )
    return SimpleNamespace(api_calls=api, thread_process=np.array([0, 1, 1], dtype=np.int32))


@given(CALLS, st.lists(st.tuples(st.integers(0, 2), IDS), max_size=25))
def test_work_is_launched_by_the_first_started_call(
    calls: list[tuple[int, int, int]], wanted: list[tuple[int, int]]
) -> None:
    work = DeviceWork(
        start_ns=np.zeros(len(wanted), dtype=np.int64),
        process=np.array([process for process, _ in wanted], dtype=np.int32),
        correlation_id=np.array([number for _, number in wanted], dtype=np.int64),
    )
    found = LaunchIndex(_profile(calls)).launching_call(work).tolist()
    for (process, number), row in zip(wanted, found, strict=True):
        fitting = [
            (start, position)
            for position, (start, thread, own) in enumerate(calls)
            if own == number >= 0 and min(thread, 1) == process
        ]
        assert row == (min(fitting)[1] if fitting else -1)
