"""The step: which intervals are steps, when each of them ends, and how long a typical one takes.

DLProf's *iteration* (``metrics.window``) is what its reports show. The *step* is what every figure
of ours is about: headline, advice, what-if, comparison. A step ends when both its host and the last
GPU work that it launched have ended, so steps add up to the run, whatever limits them. All
functions are pure and take columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from aggregator.profile.arrays import Bool, Int64
from aggregator.texts import Text, say

SAME_STATISTIC: Final = 0.1
"""Median and mean that differ by at most this share of the median agree."""
NEAR: Final = 0.1
"""Steps are whole that launch as much work as the median one, plus or minus this share."""
SIMILAR: Final = 0.2
"""First steps that launch this much more or less than the median one belong to the warm-up."""
PART: Final = 0.5
"""What launches less than this share of the work of the median step is no step."""
PAUSE: Final = 10.0
"""A step that takes longer than this times the median contains a pause, if there are few."""
RARE: Final = 0.05
"""Largest share of the steps that may contain a pause."""
SLOW: Final = 1.3
"""Slow steps take longer than this times the median one."""
MIN_STEPS: Final = 4
"""So many steps show what a typical one is; of fewer, all count."""


class Statistic(StrEnum):
    """Which number stands for the times of the steps."""

    MEDIAN = "median"
    MEAN = "mean"


class Marks(StrEnum):
    """What the instances of a loop's key node are to its steps."""

    BEGIN = "begin"  # A step begins where an instance ends: a data loader hands out a batch.
    END = "end"  # A step ends where an instance ends: the optimizer.
    COVER = "cover"  # A step begins with an instance, and what follows belongs to it.
    WHOLE = "whole"  # An instance is the step: the profiler's, a counted range.


class Between(StrEnum):
    """What lies between steps."""

    EVALUATION = "evaluation"  # Work without a backward pass and an update.
    EPOCH_END = "end of an epoch"  # A fetch after which nothing is launched.
    PAUSE = "pause"  # Nothing is recorded.
    OTHER = "other"


@dataclass(frozen=True)
class Launched:
    """GPU work of one process in order of launch. Units: ns."""

    launch_ns: Int64  # When it was launched.
    end_ns: Int64  # When it ended.
    duration_ns: Int64
    # Code of the kernel with its grid; empty: unknown.
    name: Int64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def gpu_ns(self) -> Int64:
        """GPU time launched before each, and in all. Unit: ns."""
        return np.concatenate([[0], np.cumsum(self.duration_ns)]).astype(np.int64)


@dataclass(frozen=True)
class Instances:
    """The instances of a loop's key node in one process, in order of start. Units: ns."""

    start_ns: Int64
    end_ns: Int64
    marks: Marks
    # Ends of the optimizer's updates in order; empty: unknown, or there is none.
    updates_ns: Int64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class Cycles:
    """One turn of the loop after the other in one process, steps and others. Units: ns."""

    start_ns: Int64  # When its host part begins.
    host_ns: Int64  # When its host part ends.
    mark_ns: Int64  # A time that lies in the iteration of the key node that it is, on all ranks.
    end_ns: Int64  # When host and GPU have both ended.
    work: Int64  # How much work it launched.
    is_step: Bool
    is_next: Bool  # Whether it goes on where the one before ended.
    is_short: Bool  # Whether it ends with its last launch, without the fetch of the next batch.
    kind: npt.NDArray[np.object_]  # ``Between`` of those that are no steps.


@dataclass(frozen=True)
class Steps:
    """The steps of a loop. Units: ns."""

    start_ns: Int64
    end_ns: Int64
    mark_ns: Int64  # A time in the iteration that each of them is.
    is_typical: Bool  # Whether it counts for the typical step.
    between: tuple[tuple[Between, int, int], ...] = ()  # Kind, total time and number.

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def length_ns(self) -> Int64:
        """Length of each step. Unit: ns."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class TypicalStep:
    """How long a step takes. Units: ns."""

    statistic: Statistic  # Which of the two is the typical one.
    median_ns: int
    mean_ns: int
    p10_ns: int  # 10th percentile.
    p90_ns: int  # 90th percentile.

    @property
    def ns(self) -> int:
        """The typical step. Unit: ns."""
        return self.median_ns if self.statistic is Statistic.MEDIAN else self.mean_ns


def typical_step(length_ns: Int64) -> TypicalStep:
    """Return the typical step: the median, or the mean where few or many steps differ from it.

    The mean is the throughput; where both are alike, the median is what most steps take.

    Args:
        length_ns: Times of the steady steps, at least one.
    """
    p10, median, p90 = np.rint(np.percentile(length_ns, (10, 50, 90))).astype(np.int64).tolist()
    mean = round(float(length_ns.mean()))
    differs = abs(mean - median) > SAME_STATISTIC * median
    return TypicalStep(Statistic.MEAN if differs else Statistic.MEDIAN, median, mean, p10, p90)


def why_uneven(length_ns: Int64, number: Int64) -> Text:
    """Return what makes mean and median differ, as a part of a sentence.

    Args:
        length_ns: Times of the steps.
        number: Numbers of the steps, ascending.
    """
    middle = (float(np.percentile(length_ns, 10)) + float(np.percentile(length_ns, 90))) / 2
    is_long = length_ns > middle
    turns = float((is_long[1:] != is_long[:-1]).mean()) if len(is_long) > 1 else 0.0
    if turns >= 0.7:
        short, long = (float(np.median(length_ns[rows])) for rows in (~is_long, is_long))
        return say(
            "steps alternate between {short:.3g} and {long:.3g} ms",
            short=short / 1e6,
            long=long / 1e6,
        )
    upper = np.sort(length_ns)[len(length_ns) // 2 :]
    gap = int(np.diff(upper).argmax()) if len(upper) > 1 else 0
    slow = np.flatnonzero(length_ns > upper[gap])
    if not len(slow) or upper[gap + 1] < SLOW * upper[0]:
        return say(
            "they range from {low:.3g} to {high:.3g} ms",
            low=float(length_ns.min()) / 1e6,
            high=float(length_ns.max()) / 1e6,
        )
    extra = float(np.median(length_ns[slow]) - np.median(np.delete(length_ns, slow))) / 1e6
    period = period_of(number[slow])
    if period:
        return say("every {period}th step takes {extra:.3g} ms longer", period=period, extra=extra)
    return say(
        "{count} of {total} steps take {extra:.3g} ms longer",
        count=len(slow),
        total=len(length_ns),
        extra=extra,
    )


def period_of(number: Int64) -> int:
    """Return the distance between some steps if nearly all recur at one, at least 2; else 0."""
    if len(number) < 3:
        return 0
    values, counts = np.unique(np.diff(number), return_counts=True)
    period = int(values[counts.argmax()])
    if period < 2:
        return 0
    phases, members = np.unique(number % period, return_counts=True)
    most = int(members.max())
    own = number[number % period == phases[members.argmax()]]
    expected = (int(own[-1]) - int(own[0])) // period + 1
    return period if most >= MIN_ALIKE * len(number) and most == expected else 0


def cut_cycles(found: Instances, work: Launched) -> Cycles:
    """Cut one process at the instances of its loop's key node.

    The first and the last turn are cut to as much work as a step launches; what the program did
    before its loop and after it belongs to none.
    """
    found = _in_pairs(_as_it_works(found, work), work)
    start, host, low, high = _bounds(found, work)
    count = high - low
    inner = count[_complete(found.marks, len(count))]
    usual = float(np.median(inner[inner > 0])) if (inner > 0).any() else 0.0
    start, host, low, high, kept = _trimmed(found, (start, host, low, high), work, usual)
    (start, host, low, high), turn, is_extra = _split_extra(
        found.marks, (start[kept], host[kept], low[kept], high[kept]), work, round(usual)
    )
    gpu_ns = work.gpu_ns[high] - work.gpu_ns[low]
    is_step = ~is_extra & _are_steps(found, (start, host), high - low, gpu_ns)
    # A batch without an update, or a pass beside a whole step, is an evaluation.
    other = np.where(is_extra | (found.marks is Marks.BEGIN), Between.EVALUATION, Between.OTHER)
    kind = np.where(high > low, other, Between.EPOCH_END).astype(object)
    ends = np.array(
        [work.end_ns[a:b].max(initial=0) for a, b in zip(low.tolist(), high.tolist(), strict=True)],
        dtype=np.int64,
    )
    # What follows is no step: this one ends with its own last launch.
    before_other = np.append(is_step[:-1] & ~is_step[1:], False)
    if found.marks is Marks.BEGIN:
        last = np.append(work.launch_ns, 0)[np.maximum(high - 1, 0)]
        host = np.where(before_other & (high > low), last, host)
    is_short = before_other & (found.marks is Marks.BEGIN)
    if len(is_short) and found.marks in (Marks.BEGIN, Marks.COVER):
        is_short[-1] = True
    own_end = found.end_ns[kept][turn] if found.marks is Marks.COVER else host
    return Cycles(
        start,
        host,
        own_end - 1,
        np.maximum(host, ends),
        high - low,
        is_step,
        _go_on(found, start, host),
        is_short,
        kind,
    )


def _as_it_works(found: Instances, work: Launched) -> Instances:
    """The instances as the ends of steps, if they hold little of the work: an optimizer's range."""
    if found.marks is not Marks.WHOLE or len(found.start_ns) < 2:
        return found
    low, high = (np.searchsorted(work.launch_ns, edge) for edge in (found.start_ns, found.end_ns))
    gpu_ns = work.gpu_ns
    inside = int((gpu_ns[high] - gpu_ns[low])[1:].sum())
    whole = int(gpu_ns[high[-1]] - gpu_ns[high[0]])
    return replace(found, marks=Marks.END) if inside < PART * whole else found


def _bounds(found: Instances, work: Launched) -> tuple[Int64, Int64, Int64, Int64]:
    last = int(work.launch_ns[-1]) + 1 if len(work.launch_ns) else int(found.end_ns[-1])
    if found.marks is Marks.END:
        start = np.concatenate([[np.iinfo(np.int64).min], found.end_ns[:-1]])
        host = found.end_ns
        low, high = (np.searchsorted(work.launch_ns, edge) for edge in (start, host))
        return start, host, low, high
    start = found.end_ns if found.marks is Marks.BEGIN else found.start_ns
    following = np.append(start[1:], max(last, int(found.end_ns[-1])))
    is_whole = found.marks is Marks.WHOLE
    host = found.end_ns if is_whole else following
    low = np.searchsorted(work.launch_ns, start)
    high = np.searchsorted(work.launch_ns, np.append(following[:-1], host[-1]))
    return start, host, low, high


def _complete(marks: Marks, count: int) -> slice:
    """Return the turns that hold nothing but their own work."""
    if count < 3 or marks is Marks.WHOLE:
        return slice(None)
    return slice(1, None) if marks is Marks.END else slice(None, -1)


def _trimmed(
    found: Instances, bounds: tuple[Int64, Int64, Int64, Int64], work: Launched, usual: float
) -> tuple[Int64, Int64, Int64, Int64, Bool]:
    """Return the bounds with the open end of the first or last turn, and which turns are kept."""
    marks = found.marks
    start, host, low, high = (column.copy() for column in bounds)
    kept = np.ones(len(start), dtype=bool)
    if marks is Marks.WHOLE or not usual:
        start = np.where(start == np.iinfo(np.int64).min, host, start)
        return start, host, low, high, kept
    end = 0 if marks is Marks.END else -1
    count = int(high[end] - low[end])
    # Records of the last kernels may be lost, but an update ends a whole step.
    is_updated = marks is Marks.BEGIN and bool((found.updates_ns > start[-1]).any())
    is_part = count < (1.0 - NEAR) * usual and not is_updated
    if is_part and (marks is not Marks.COVER or not count):
        kept[end] = False  # The profile began or ended within it, or nothing follows.
    if marks is Marks.END:
        low[0] = max(int(high[0]) - round(usual), int(low[0]))
        start[0] = work.launch_ns[low[0]] if low[0] < len(work.launch_ns) else host[0]
    else:
        high[-1] = min(int(low[-1]) + round(usual), int(high[-1]))
        if high[-1] > low[-1]:
            host[-1] = work.launch_ns[high[-1] - 1]
    return start, host, low, high, kept


def _in_pairs(found: Instances, work: Launched) -> Instances:
    """Every second instance, if two kinds of them alternate: two optimizers update in one step."""
    count = len(found.end_ns)
    if found.marks is not Marks.END or count < 2 * MIN_STEPS:
        return found
    edges = np.searchsorted(work.launch_ns, found.end_ns)
    gpu_ns = np.diff(work.gpu_ns[edges]).astype(np.float64)
    phases = [gpu_ns[first::2] for first in (0, 1)]
    usual = [float(np.median(phase)) for phase in phases]
    is_even = all(
        bool((np.abs(phase - middle) <= NEAR * middle).all())
        for phase, middle in zip(phases, usual, strict=True)
    )
    if not is_even or max(usual) < SLOW * min(usual):
        return found
    kept = slice((count - 1) % 2, None, 2)
    return replace(found, start_ns=found.start_ns[kept], end_ns=found.end_ns[kept])


def _split_extra(
    marks: Marks, bounds: tuple[Int64, Int64, Int64, Int64], work: Launched, usual: int
) -> tuple[tuple[Int64, Int64, Int64, Int64], Int64, Bool]:
    """Return the bounds, where turns that hold a usual step and much more are split into both.

    A step ends with its update, and an evaluation lies before the next one, or behind it where a
    step begins with its turn. Kernels and grids of the step show that it is whole.

    Returns:
        The bounds, the turn that each is of, and whether it is what is no step.
    """
    _, _, low, high = bounds
    turn, is_extra = np.arange(len(low)), np.zeros(len(low), dtype=bool)
    count = high - low
    long = np.flatnonzero(count >= (1.0 + PART) * usual) if usual else turn[:0]
    whole = np.flatnonzero(count == usual)
    if marks is Marks.WHOLE or not len(work.name) or not 0 < len(long) < PART * len(whole):
        return bounds, turn, is_extra
    step = work.name[low[whole[0]] : high[whole[0]]]
    rows = [list(row) for row in zip(*(column.tolist() for column in bounds), strict=True)]
    added: list[tuple[int, list[int]]] = []
    for row in long.tolist():
        begin, end, first, last = rows[row]
        cut = last - usual if marks is Marks.END else first + usual
        own = slice(cut, last) if marks is Marks.END else slice(first, cut)
        if not np.array_equal(work.name[own], step):
            continue
        if marks is Marks.END:
            edge = int(work.launch_ns[cut])
            rows[row], extra = [edge, end, cut, last], [begin, edge, first, cut]
        else:
            edge = int(work.launch_ns[cut - 1])
            rows[row], extra = [begin, edge, first, cut], [edge, end, cut, last]
        added.append((row, extra))
    if not added:
        return bounds, turn, is_extra
    turn = np.concatenate([turn, np.array([row for row, _ in added], dtype=np.int64)])
    is_extra = turn[:] >= 0
    is_extra[: len(rows)] = False
    table = np.array([*rows, *(extra for _, extra in added)], dtype=np.int64)
    order = np.argsort(table[:, 0], kind="stable")
    start, host, low, high = table[order].T
    return (start, host, low, high), turn[order], is_extra[order]


def _are_steps(found: Instances, host: tuple[Int64, Int64], count: Int64, gpu_ns: Int64) -> Bool:
    """Which turns are whole steps: they launch work, and no less than a part of the usual."""
    result: Bool = count > 0
    if not result.any() or found.marks is Marks.WHOLE:
        return result if result.any() else np.ones(len(count), dtype=bool)
    usual, usual_ns = (float(np.median(column[count > 0])) for column in (count, gpu_ns))
    result &= ~((count < PART * usual) & (gpu_ns < PART * usual_ns))
    if found.marks is Marks.BEGIN and len(found.updates_ns):
        low, high = (np.searchsorted(found.updates_ns, edge) for edge in host)
        high[-1] = len(found.updates_ns)  # Its last launch may be lost.
        updated = high > low
        if updated[result].mean() >= PART:
            # A gradient scaler skips some updates, but not the passes.
            usual = float(np.median(count[updated]))
            result &= count >= (1.0 - NEAR) * usual
            result |= updated & (count > 0)
    return result


def _go_on(found: Instances, start: Int64, host: Int64) -> Bool:
    """Return which turns go on where the one before ended; the others follow a pause."""
    result = np.ones(len(start), dtype=bool)
    result[:1] = False
    if found.marks is not Marks.WHOLE or len(start) < 3:
        return result
    gap, length = start[1:] - host[:-1], host - start
    most = float(np.median(gap)) + max(float(np.median(length)), 1.0)
    is_pause = gap > most
    # Fewer than one in five: a loader that lets every second step wait makes no pauses.
    if 0 < is_pause.sum() < max(0.2 * len(gap), 1.5):
        result[1:] = ~is_pause
    return result


def join_ranks(ranks: Sequence[Cycles]) -> Cycles | None:
    """Join the turns of ranks: the n-th ends when it has ended on all of them.

    Returns:
        None if the ranks have different numbers of turns.
    """
    if len({len(rank.start_ns) for rank in ranks}) != 1:
        return None
    starts, hosts, marks, ends = (
        np.stack([getattr(rank, name) for rank in ranks])
        for name in ("start_ns", "host_ns", "mark_ns", "end_ns")
    )
    work, is_step, is_next, is_short = (
        np.stack([getattr(rank, name) for rank in ranks])
        for name in ("work", "is_step", "is_next", "is_short")
    )
    return Cycles(
        starts.min(axis=0),
        hosts.max(axis=0),
        marks.max(axis=0),
        ends.max(axis=0),
        work.sum(axis=0),
        np.any(is_step, axis=0),
        np.any(is_next, axis=0),
        np.any(is_short, axis=0),
        ranks[0].kind,
    )


def find_steps(cycles: Cycles) -> Steps:
    """Return the steps among the turns of a loop; ``b(i) - b(i - 1)`` is the length of one.

    The first step after a gap begins where its own host part does.
    """
    end = np.maximum.accumulate(cycles.end_ns) if len(cycles.end_ns) else cycles.end_ns
    before = np.concatenate([[np.iinfo(np.int64).min], end[:-1]])
    follows = cycles.is_next & np.concatenate([[False], cycles.is_step[:-1]])
    start = np.where(follows, before, np.maximum(cycles.start_ns, before))
    rows = cycles.is_step
    spans: dict[Between, list[int]] = {}
    for row in np.flatnonzero(~rows).tolist():
        spans.setdefault(cycles.kind[row], []).append(int(end[row] - start[row]))
    for row in np.flatnonzero(~cycles.is_next[1:] & rows[1:] & rows[:-1]).tolist():
        spans.setdefault(Between.PAUSE, []).append(int(start[row + 1] - end[row]))
    length = (end - start)[rows]
    is_typical = (follows & ~cycles.is_short)[rows]
    is_typical &= ~_warms_up(cycles.work[rows])
    if is_typical.sum() < MIN_STEPS:
        is_typical[:] = True
    if len(length) > 2:
        is_long = length > PAUSE * np.median(length)
        is_long[: int(is_long.argmin())] = False  # The first steps warm up.
        if 0 < is_long.sum() <= max(RARE * len(length), 1):
            is_typical &= ~is_long
            extra = length[is_long] - round(float(np.median(length)))
            spans.setdefault(Between.PAUSE, []).extend(extra.tolist())
    between = tuple(
        (kind, total, len(times))
        for kind, times in spans.items()
        if (total := sum(max(time, 0) for time in times)) > 0
    )
    return Steps(start[rows], end[rows], cycles.mark_ns[rows], is_typical, between)


def merge_processes(processes: Sequence[Steps]) -> Steps:
    """Merge the steps of processes with loops of their own, in order of their start."""
    columns = {
        name: np.concatenate([getattr(steps, name) for steps in processes])
        for name in ("start_ns", "end_ns", "mark_ns", "is_typical")
    }
    order = np.argsort(columns["start_ns"], kind="stable")
    between = tuple(part for steps in processes for part in steps.between)
    return Steps(**{name: column[order] for name, column in columns.items()}, between=between)


def _warms_up(work: Int64) -> Bool:
    """The first steps, which launch much more or less work than the usual one: they compile."""
    if len(work) < 3:
        return np.zeros(len(work), dtype=bool)
    usual = float(np.median(work))
    is_usual = np.abs(work - usual) <= SIMILAR * usual
    result: Bool = np.arange(len(work)) < int(is_usual.argmax())
    return result


# --- loops of programs without ranges ----------------------------------------------------------

MIN_PERIODS: Final = 5
"""A sequence of kernels that is repeated less often makes no loop."""
MIN_ALIKE: Final = 0.8
"""Share of the turns that launch the same kernels in the same order."""
MIN_COVERED: Final = 0.5
"""Share of the GPU time in such turns."""


def find_period(name: Int64, duration_ns: Int64) -> Int64:
    """Rows of launched work at which the turns of a loop begin; empty: they do not repeat.

    Every name of a kernel may begin them. Of those whose turns are alike and cover most of the GPU
    time, the one with the longest turns is the loop; the others are parts of it. Parts betray
    themselves: the turns that differ recur at an even distance.

    Args:
        name: Code of each kernel, with its grid, in order of launch.
        duration_ns: Time of each.
    """
    none = np.empty(0, dtype=np.int64)
    if len(name) < MIN_PERIODS:
        return none
    codes, count = np.unique(name, return_counts=True)
    random = np.random.default_rng(0).integers(1, 1 << 63, size=len(codes), dtype=np.uint64)
    place = np.arange(len(name), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    code = np.searchsorted(codes, name)
    total_ns = max(int(duration_ns.sum()), 1)
    sums = np.concatenate([[np.uint64(0)], np.cumsum(random[code], dtype=np.uint64)])
    del place
    gpu_ns = np.concatenate([[0], np.cumsum(duration_ns)])
    order = np.argsort(code, kind="stable")
    first = np.concatenate([[0], np.cumsum(count)])
    for row in np.argsort(count, kind="stable").tolist():
        if count[row] < MIN_PERIODS:
            continue
        rows = order[first[row] : first[row + 1]]
        turns = np.diff(sums[rows])
        values, numbers = np.unique(turns, return_counts=True)
        usual = turns == values[numbers.argmax()]
        covered = int((gpu_ns[rows[1:]] - gpu_ns[rows[:-1]])[usual].sum())
        odd = np.diff(np.flatnonzero(~usual))
        is_part = len(odd) >= 2 and int(odd.min()) == int(odd.max()) > 1
        if usual.mean() >= MIN_ALIKE and covered >= MIN_COVERED * total_ns and not is_part:
            return rows.astype(np.int64)
    return none
