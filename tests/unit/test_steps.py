"""The definition of the step, on columns."""

from __future__ import annotations

import numpy as np
import pytest

from aggregator.events.steps import (
    Between,
    Instances,
    Launched,
    Marks,
    Statistic,
    cut_cycles,
    find_period,
    find_steps,
    join_ranks,
    period_of,
    typical_step,
    why_uneven,
)
from aggregator.profile.arrays import Int64


def _array(*values: int) -> Int64:
    return np.array(values, dtype=np.int64)


def _work(starts: list[int], kernels: int = 4, gap: int = 10, duration: int = 5) -> Launched:
    """Kernels launched evenly from the start of each step on, each of which runs at once."""
    launch = np.concatenate([np.arange(kernels) * gap + start for start in starts])
    return Launched(
        launch.astype(np.int64), launch + duration, np.full(len(launch), duration, dtype=np.int64)
    )


def test_the_median_is_typical_where_the_mean_is_near() -> None:
    found = typical_step(_array(100, 100, 110, 100))
    assert (found.statistic, found.ns, found.mean_ns) == (Statistic.MEDIAN, 100, 102)


def test_the_mean_is_typical_where_it_is_far_from_the_median() -> None:
    found = typical_step(_array(*[100] * 4, 700))
    assert (found.statistic, found.ns, found.median_ns) == (Statistic.MEAN, 220, 100)


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([1, 1, 1, 1, 11] * 4, "every 5th step takes 10 ms longer"),
        ([40, 230] * 8, "steps alternate between 40 and 230 ms"),
        ([1] * 9 + [11] + [1] * 4 + [11] + [1] * 6, "2 of 21 steps take 10 ms longer"),
    ],
)
def test_the_reason_says_what_differs(lengths: list[int], text: str) -> None:
    times = np.array(lengths, dtype=np.int64) * 1_000_000
    assert str(why_uneven(times, np.arange(len(times)))) == text


def test_a_period_survives_a_single_other_step() -> None:
    assert period_of(_array(4, 9, 10, 14, 19, 24)) == 5
    assert period_of(_array(4, 14, 19, 24, 29)) == 0  # One is missing.
    assert period_of(_array(3, 4, 5)) == 0


def test_a_host_that_runs_ahead_is_measured_by_the_gpu() -> None:
    begin = _array(0, 15, 30, 45, 60)
    launch = np.concatenate([begin + 1, begin + 2])
    launch.sort()
    end = np.arange(1, 11) * 25 + 10  # 50 a step, one after the other
    work = Launched(launch, end, np.full(10, 25))
    whole = Instances(begin, begin + 15, Marks.WHOLE)
    steps = find_steps(cut_cycles(whole, work))
    assert steps.length_ns.tolist() == [60, 50, 50, 50, 50]


def test_a_program_that_synchronizes_is_measured_by_its_host() -> None:
    begin = _array(0, 100, 200, 300)
    steps = find_steps(
        cut_cycles(Instances(begin, begin + 100, Marks.WHOLE), _work([0, 100, 200, 300]))
    )
    assert steps.length_ns.tolist() == [100] * 4


def test_an_optimizer_ends_steps_and_the_first_begins_with_its_own_work() -> None:
    work = _work([-500, 0, 100, 200])  # The first is the start of the program.
    ends = _array(90, 190, 290)
    steps = find_steps(cut_cycles(Instances(ends, ends, Marks.END), work))
    assert steps.start_ns.tolist() == [0, 90, 190]
    assert steps.end_ns.tolist() == [90, 190, 290]


def test_a_range_of_the_optimizer_alone_ends_the_steps() -> None:
    work = _work([0, 100, 200, 300])
    end = _array(90, 190, 290, 390)
    steps = find_steps(cut_cycles(Instances(end - 5, end, Marks.WHOLE), work))
    assert len(steps) == 4
    assert steps.length_ns.tolist()[1:] == [100, 100, 100]


def test_a_fetch_without_work_is_no_step() -> None:
    fetched = _array(0, 100, 200, 300, 320, 420, 520, 620)
    work = _work([5, 105, 205, 325, 425, 525])
    steps = find_steps(cut_cycles(Instances(fetched, fetched, Marks.BEGIN), work))
    assert len(steps) == 6
    assert [kind for kind, _, _ in steps.between] == [Between.EPOCH_END]


def test_an_evaluation_is_no_step_and_a_skipped_update_is_one() -> None:
    fetched = _array(*range(0, 1000, 100))
    work = _work([n * 100 + 5 for n in range(6)])
    forward = _work([n * 100 + 5 for n in range(6, 9)], kernels=3)
    both = Launched(
        *(
            np.concatenate([getattr(work, name), getattr(forward, name)])
            for name in ("launch_ns", "end_ns", "duration_ns")
        )
    )
    updates = _array(*(n * 100 + 60 for n in range(6) if n != 3))
    steps = find_steps(cut_cycles(Instances(fetched, fetched, Marks.BEGIN, updates), both))
    assert len(steps) == 6
    assert steps.between[0][0] == Between.EVALUATION


def test_a_pause_between_ranges_is_no_part_of_a_step() -> None:
    begin = _array(0, 100, 200, 5_000, 5_100, 5_200, 5_300)
    steps = find_steps(
        cut_cycles(Instances(begin, begin + 100, Marks.WHOLE), _work(begin.tolist()))
    )
    assert steps.length_ns.tolist() == [100] * 7
    assert steps.between == ((Between.PAUSE, 4_700, 1),)


def test_regular_waits_between_ranges_are_part_of_the_steps() -> None:
    begin = np.cumsum(_array(0, *[100, 500] * 4))
    steps = find_steps(cut_cycles(Instances(begin, begin + 90, Marks.WHOLE), _work(begin.tolist())))
    assert sorted(set(steps.length_ns.tolist()[1:])) == [100, 500]


def test_a_rare_stall_inside_steps_is_left_out_of_the_typical_step() -> None:
    lengths = [100] * 30
    lengths[12] = 5_000
    begin = np.cumsum(_array(0, *lengths))
    work = _work(begin.tolist())
    steps = find_steps(cut_cycles(Instances(begin, begin, Marks.BEGIN), work))
    assert len(steps) == 31
    assert typical_step(steps.length_ns[steps.is_typical]).mean_ns == 100
    assert steps.between == ((Between.PAUSE, 4_900, 1),)


def test_the_nth_step_of_ranks_ends_on_the_last_of_them() -> None:
    ranks = []
    for late in (0, 30):
        begin = _array(0, 100, 200) + late
        ranks.append(cut_cycles(Instances(begin, begin + 100, Marks.WHOLE), _work(begin.tolist())))
    joined = join_ranks(ranks)
    assert joined is not None
    assert find_steps(joined).end_ns.tolist() == [130, 230, 330]


def test_ranks_with_other_numbers_of_steps_are_not_joined() -> None:
    begin = _array(0, 100, 200)
    whole = cut_cycles(Instances(begin, begin + 100, Marks.WHOLE), _work(begin.tolist()))
    fewer = cut_cycles(Instances(begin[:2], begin[:2] + 100, Marks.WHOLE), _work([0, 100]))
    assert join_ranks([whole, fewer]) is None


def test_kernels_that_repeat_make_a_loop() -> None:
    name = np.array([9, 9, *[1, 2, 2, 2, 3] * 6, 8], dtype=np.int64)
    begins = find_period(name, np.full(len(name), 10))
    assert np.diff(begins).tolist() == [5] * 5


def test_layers_of_few_steps_are_no_loop() -> None:
    step = [*[1, 2] * 12, *[3, 4] * 12, 5]
    name = np.array(step * 3, dtype=np.int64)
    assert not len(find_period(name, np.full(len(name), 10)))


def test_kernels_that_repeat_four_times_make_no_loop() -> None:
    name = np.array([1, 2, 3] * 4, dtype=np.int64)
    assert not len(find_period(name, np.full(len(name), 10)))
