"""Ownership against a slow oracle that asks for each nanosecond by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.metrics import ownership as rules
from aggregator.metrics.ownership import OwnedWork, partition_iterations
from aggregator.metrics.ownership_host import (
    FIRST_CALL,
    IN_LOADER,
    IN_OP,
    OTHER_THREAD,
    OUTSIDE,
    Groups,
    Host,
    HostEvents,
)

END = 60
THREAD_PROCESS = (0, 0, 1)
MAIN_THREAD = (0, 2)
TIMES = st.integers(-10, END + 10)
WORK = st.tuples(
    TIMES, st.integers(0, 12), st.integers(0, 4), TIMES, st.integers(0, 6), st.integers(-1, 2)
)
EVENT = st.tuples(
    TIMES, st.integers(1, 30), st.integers(0, 2), st.sampled_from([IN_OP, IN_LOADER, FIRST_CALL])
)
GROUP = st.tuples(TIMES, st.integers(1, 50), st.integers(0, 1))
Owner = tuple[int, int, int, int]


def _columns(rows: list[tuple[Any, ...]], width: int) -> list[Any]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


@given(
    st.lists(WORK, max_size=12),
    st.lists(EVENT, max_size=10),
    st.lists(GROUP, max_size=4),
    st.lists(st.integers(1, END - 1), max_size=3, unique=True),
)
def test_each_nanosecond_has_the_owner_that_the_rules_give_it(
    work: list[tuple[int, ...]],
    events: list[tuple[int, ...]],
    groups: list[tuple[int, ...]],
    cuts: list[int],
) -> None:
    events = list({(row[0], row[1]): row for row in events}.values())
    groups = list({(row[0], row[1]): row for row in groups}.values())
    edges = np.array([0, *sorted(cuts), END])
    found = partition_iterations(_device(work), _host(events, groups), edges)
    owners: dict[int, list[Owner]] = {}
    for start, end, iteration, *owner in zip(
        *(getattr(found, name).tolist() for name in type(found).__dataclass_fields__), strict=True
    ):
        assert edges[iteration] <= start < end <= edges[iteration + 1]
        for time in range(start, end):
            owners.setdefault(time, []).append(tuple(owner))
    assert owners == {
        time: [_expected(time, work, events, groups, edges.tolist())] for time in range(END)
    }


def _device(rows: list[tuple[int, ...]]) -> OwnedWork:
    start, length, kind, launch, launching, thread = _columns(rows, 6)
    return OwnedWork(
        start_ns=start,
        end_ns=start + length,
        kind=kind,
        op=np.arange(len(start)),
        api_start_ns=launch,
        api_end_ns=launch + launching,
        thread=thread,
        after_event=length % 2 == 1,
    )


def _host(events: list[tuple[int, ...]], groups: list[tuple[int, ...]]) -> Host:
    start, length, thread, reason = _columns(events, 4)
    begin, size, process = _columns(groups, 3)
    return Host(
        HostEvents(start, start + length, thread, np.arange(len(start)), reason),
        Groups(begin, begin + size, process, np.arange(len(begin))),
        np.array(THREAD_PROCESS),
        np.array(MAIN_THREAD),
        low_ns=0,
        high_ns=END,
    )


def _expected(
    time: int,
    work: list[tuple[int, ...]],
    events: list[tuple[int, ...]],
    groups: list[tuple[int, ...]],
    edges: list[int],
) -> Owner:
    running = [(row[2], row[0], op) for op, row in enumerate(work) if row[0] <= time < sum(row[:2])]
    if running:
        kind, _, op = min(running)
        return kind, rules.NO_REASON, op, -1
    following = min(((row[0], op) for op, row in enumerate(work) if row[0] > time), default=None)
    begin = max(edge for edge in edges if edge <= time)
    end = min(edge for edge in edges if edge > time)
    ran = any(row[1] and row[0] < time and sum(row[:2]) > begin for row in work)
    is_tail = ran and (following is None or following[0] >= end)

    def kind_of(kind: int) -> int:
        return rules.TAIL if is_tail else kind

    if following is None:
        thread = _usual_thread(work)
        reason, op, group = _activity(time, thread, events, groups)
        explained = reason not in (OUTSIDE, OTHER_THREAD)
        return kind_of(rules.HOST), reason if explained else rules.NO_WORK, op, group
    op = following[1]
    _, length, kind, launch, launching, thread = work[op]
    if thread < 0:
        return kind_of(rules.UNKNOWN), rules.NO_REASON, op, -1
    if time < launch:
        return kind_of(rules.HOST), *_activity(time, thread, events, groups)
    if time < launch + launching:
        return kind_of(rules.LAUNCHING), rules.NO_REASON, op, -1
    late = rules.OTHER_GPU if kind == rules.COMMUNICATION else rules.LATENCY
    return kind_of(rules.LAUNCHED), rules.EVENT_WAIT if length % 2 else late, op, -1


def _usual_thread(work: list[tuple[int, ...]]) -> int:
    processes = [THREAD_PROCESS[row[5]] for row in work if row[5] >= 0]
    if not processes:
        return 0
    return MAIN_THREAD[max((0, 1), key=lambda one: (processes.count(one), -one))]


def _activity(
    time: int, thread: int, events: list[tuple[int, ...]], groups: list[tuple[int, ...]]
) -> tuple[int, int, int]:
    process = THREAD_PROCESS[thread]
    open_ones = [
        # Of ranges that began before the iterations the shortest counts.
        (max(row[0], 0), -min(sum(row[:2]), END), number)
        for number, row in enumerate(events)
        if row[0] <= time < sum(row[:2])
    ]
    for lane in ({thread}, {MAIN_THREAD[process]}, _threads_of(process)):
        inside = [one for one in open_ones if events[one[2]][2] in lane]
        if inside:
            number = max(inside)[2]
            return events[number][3], number, -1
    around = [
        (max(row[0], 0), -min(row[0] + row[1], END), number)
        for number, row in enumerate(groups)
        if row[2] == process and row[0] <= time < row[0] + row[1]
    ]
    if around:
        return OUTSIDE, -1, max(around)[2]
    return OUTSIDE if thread == MAIN_THREAD[process] else OTHER_THREAD, -1, -1


def _threads_of(process: int) -> set[int]:
    return {thread for thread, one in enumerate(THREAD_PROCESS) if one == process}
