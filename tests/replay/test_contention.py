"""Kernels that share their GPU with a collective that waits for a late rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aggregator.profile.arrays import Int64
from aggregator.replay.contention import NO_RANK, Pieces, extra_ns, late_ranks
from aggregator.replay.rank_steps import RankEvents, RankSteps, call_times, steps_of_calls
from aggregator.replay.slow_ranks import SlowRanks, find_slow_ranks

WORK, CALLS, STEPS, LATE = 10_000_000, 4, 8, 15_000_000
KERNELS = 10
"""Computing kernels between two collectives."""
TRANSFER = 500_000


def job(late_ns: int, slower: float, speeds: tuple[float, float] = (1.0, 1.0)) -> list[RankEvents]:
    """Two ranks; rank 1 sleeps before each step.

    Kernels of rank 0 beside a waiting collective take ``slower`` times as long. Both ranks wait for
    the end of a step.
    """
    clocks, sides = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    rows: list[list[tuple[int, int, int]]] = [[], []]
    calls: list[list[int]] = [[], []]
    for _ in range(STEPS):
        clocks[1] += late_ns
        arrived = _works(clocks, rows, speeds, slower, waits_for=None)
        for call in range(CALLS):
            begun = np.maximum(arrived, sides)
            sides[:] = begun.max() + TRANSFER
            for rank in range(2):
                calls[rank].append(len(rows[rank]))
                rows[rank].append((int(begun[rank]), int(sides[rank]), int(arrived[rank])))
            if call < CALLS - 1:
                # Rank 0 computes on while its collective waits for rank 1.
                arrived = _works(clocks, rows, speeds, slower, waits_for=int(begun[1]))
        clocks[:] = np.maximum(clocks, sides) + 1_000
    return [_events(rows[rank], calls[rank]) for rank in range(2)]


def _works(
    clocks: Int64,
    rows: list[list[tuple[int, int, int]]],
    speeds: tuple[float, float],
    slower: float,
    waits_for: int | None,
) -> Int64:
    for rank in range(2):
        for _ in range(KERNELS):
            start = int(clocks[rank])
            is_beside = rank == 0 and waits_for is not None and start < waits_for
            length = round(WORK / KERNELS * speeds[rank] * (slower if is_beside else 1.0))
            rows[rank].append((start, start + length, 0))
            clocks[rank] += length
    return clocks.copy()


def _events(rows: list[tuple[int, int, int]], calls: list[int]) -> RankEvents:
    start, end, ready = (
        np.array([row[place] for row in rows], dtype=np.int64) for place in range(3)
    )
    launched = np.where(ready > 0, ready, start)  # A collective may wait for the one before it.
    return RankEvents(
        start_ns=start,
        end_ns=end,
        api_start_ns=launched - 300,
        api_end_ns=launched - 200,
        computes=ready == 0,
        calls=np.array(calls, dtype=np.int64).reshape(STEPS, CALLS),
    )


def steps_of(events: list[RankEvents]) -> RankSteps:
    return steps_of_calls(map(call_times, events), np.zeros((CALLS, 2), dtype=np.int64))


def compared(*arguments: Any) -> SlowRanks:
    return find_slow_ranks(steps_of(job(*arguments)))


@pytest.mark.parametrize("speeds", [(1.0, 1.0), (1.1, 1.0)])
def test_without_the_late_rank_the_kernels_beside_its_collectives_are_as_fast_as_elsewhere(
    speeds: tuple[float, float],
) -> None:
    true = compared(0, 1.15, speeds).step_ns
    found = compared(LATE, 1.15, speeds)
    assert found.named == 1
    assert found.is_exact
    assert found.predicted_ns(1) == pytest.approx(true, rel=0.01)


def test_a_gpu_that_is_slower_without_any_collective_stays_so() -> None:
    events = job(LATE, 1.0, (1.1, 1.0))
    steps = steps_of(events)
    assert steps.extra_ns.max() == 0
    assert (steps.cause == NO_RANK).all()


PIECES = Pieces(
    work_ns=np.array([[100, 100], [115, 100], [115, 100]]),
    count=np.full((3, 2), 5),
    ready_ns=np.array([[0.0, 60], [100, 160], [215, 260], [330, 360]]),
    start_ns=np.array([[0.0, 60], [100, 160], [215, 260], [330, 360]]),
    last_ns=np.array([[60.0, 60], [160, 160], [260, 260], [360, 360]]),
    late_rank=np.ones((4, 2), dtype=np.int64),
    idle_from_ns=np.zeros((4, 2)),
    end_ns=np.zeros((4, 2)),
)


def test_the_extra_time_is_that_over_ranks_without_a_waiting_collective() -> None:
    extra, cause = extra_ns(PIECES)
    assert extra.tolist() == [[0, 0], [15, 0], [15, 0]]
    assert cause.tolist() == [[NO_RANK, NO_RANK], [1, NO_RANK], [1, NO_RANK]]


def test_other_kernels_cannot_be_compared() -> None:
    count = PIECES.count.copy()
    count[1, 0] = 6
    assert extra_ns(replace(PIECES, count=count))[0].tolist() == [[0, 0], [0, 0], [15, 0]]
    never = replace(PIECES, last_ns=PIECES.start_ns)
    assert extra_ns(never)[0].max() == 0


def test_it_is_no_more_than_the_time_that_a_collective_waited() -> None:
    short = replace(PIECES, last_ns=PIECES.start_ns + np.array([7.0, 0.0]))
    assert extra_ns(short)[0].tolist() == [[0, 0], [7, 0], [7, 0]]


def test_the_late_rank_is_the_last_one_of_its_communicator() -> None:
    start = np.array([[1.0, 5, 2, 9], [7, 3, 4, 2]])
    group = np.array([[0, 0, 1, 1], [0, 0, 0, 0]])
    assert late_ranks(start, group).tolist() == [[1, 1, 3, 3], [0, 0, 0, 0]]
