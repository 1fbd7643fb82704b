"""Candidates for the key node: how well the instances of a range mark the steps of a loop.

A loop's steps come at even times, launch the same kernels, cover the GPU's work and do not nest.
Each candidate is measured by these and gets a score; ``choose`` takes the best one, or none.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from aggregator.metrics.iterations import NamedRanges
from aggregator.metrics.window import boundaries
from aggregator.profile.arrays import Int64, Integers, ordered


class Kind(StrEnum):
    """What a candidate is."""

    STEP = "step"  # A step that a profiler or framework marked.
    LOADER = "data loader"
    GRADIENTS = "gradients"  # Clearing the gradients.
    OPTIMIZER = "optimizer"
    PROGRAM = "program"  # A run of a compiled program.
    FORWARD = "forward"  # The outermost module's forward pass.
    COUNTED = "counted range"  # A range whose name counts, or says that it is a step.
    RANGE = "range"


class Confidence(StrEnum):
    """How certain it is that the key node marks the steps of the program's loop."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = ""  # There is no key node.


_KIND_WEIGHTS = {
    Kind.STEP: 1.0,
    Kind.COUNTED: 0.9,
    Kind.LOADER: 0.8,
    Kind.GRADIENTS: 0.8,
    Kind.OPTIMIZER: 0.8,
    Kind.PROGRAM: 0.8,
    Kind.FORWARD: 0.6,
    Kind.RANGE: 0.2,
}
_MARKED = frozenset({Kind.STEP, Kind.LOADER, Kind.GRADIENTS, Kind.OPTIMIZER, Kind.COUNTED})
"""Kinds that mark steps by what they are; the others need the evidence of several steps."""
_TAKE_TURNS = frozenset({Kind.GRADIENTS, Kind.OPTIMIZER, Kind.FORWARD})
"""Kinds of which a step may have several that do different work."""
_MIN_SCORE = 50
_HIGH_SCORE, _MEDIUM_SCORE = 75, 60
_MAX_NESTED = 0.1
_MIN_COVERAGE = 0.5
_MIN_ALIKE = 0.1
_MIN_RUNNER_UP = 25
_CLOSE, _RIVAL = 15, 5
_NEAR = 0.1
"""Steps are alike whose numbers of kernels differ from the median by at most this share."""
_MOST_ALIKE = 0.7
"""Share of alike steps from which the others are steps with something more."""
_SAME = 0.8
"""Share of steps that must have exactly one instance of another candidate of the same loop."""


@dataclass(frozen=True)
class Launches:
    """GPU work of one process in order of launch."""

    time_ns: Int64  # Launch of each kernel or graph. Unit: ns.
    gpu_ns: Int64  # GPU time launched before each of them, and in all. Unit: ns.
    names: npt.NDArray[
        np.uint64
    ]  # Sum of random numbers of the names launched before each, and all.

    def bounds(self, time_ns: Int64) -> Int64:
        """Return the number of launches before each time."""
        return np.searchsorted(self.time_ns, time_ns).astype(np.int64)


def launches_by_process(
    process: Integers, time_ns: Int64, gpu_ns: Int64, name: Integers
) -> dict[int, Launches]:
    """Sort GPU work by process and launch. ``name`` are codes of kernels. Unit: ns."""
    order = ordered(process, time_ns)
    numbers = np.random.default_rng(0).integers(
        1, 1 << 63, size=int(name.max(initial=0)) + 2, dtype=np.uint64
    )
    owner = process[order]
    edges = np.append(np.flatnonzero(np.diff(owner, prepend=-1)), len(order))
    result = {}
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = order[low:high]
        result[int(owner[low])] = Launches(
            time_ns[rows],
            np.concatenate([[0], np.cumsum(gpu_ns[rows])]).astype(np.int64),
            np.concatenate([[np.uint64(0)], np.cumsum(numbers[name[rows]], dtype=np.uint64)]),
        )
    return result


@dataclass(frozen=True)
class Candidate:
    """A range whose instances may be, begin or end the steps of a loop."""

    name: str  # Its name.
    kind: Kind  # What it is.
    key_node: str  # The key node that cuts at its steps.
    instances: int  # Instances in the process that has most.
    iterations: int  # Iterations that its stops cut the profile into.
    period_ns: int  # Median time between two instances. Unit: ns.
    evenness: float  # How even these times are, 0 to 1.
    alike: float | None  # Share of steps that launch the kernels of most steps; None: no kernels.
    coverage: float  # Share of the GPU time launched between its first instance and its last.
    per_optimizer_step: int | None  # Instances per step of the optimizer; None: uneven or unknown.
    counts: bool  # Whether a number in its name grows by one.
    score: int  # 0 to 100.
    cycle: int = 1  # Instances after which the launched kernels repeat; 1: they do not alternate.
    is_chosen: bool = False  # Whether its loop is the chosen one.


@dataclass(frozen=True)
class _Instances:
    """The instances of one candidate in one process, in order of start. Unit: ns."""

    start_ns: Int64
    end_ns: Int64

    @property
    def stops_ns(self) -> Int64:
        return np.sort(self.end_ns)

    @property
    def is_nested(self) -> bool:
        """Whether instances lie in other ones: a recursion is no loop."""
        inside = self.start_ns[1:] < np.maximum.accumulate(self.end_ns)[:-1]
        return bool(inside.mean() > _MAX_NESTED)


class Loops:
    """Measures the candidates among a profile's ranges."""

    def __init__(
        self,
        ranges: NamedRanges,
        kinds: Mapping[str, Kind],
        counted: Container[str],
        launches: Mapping[int, Launches],
        *,
        are_ranks: bool,
    ) -> None:
        """Prepare the ranges by name and process.

        Args:
            ranges: All ranges.
            kinds: Kind of each name; ranges of other names are no candidates.
            counted: Names in which a number grows by one.
            launches: GPU work by process.
            are_ranks: Whether the processes are ranks of one job.
        """
        self._kinds, self._counted = kinds, counted
        self._launches, self._are_ranks = launches, are_ranks
        order = ordered(ranges.name, ranges.process, ranges.start_ns)
        key = ranges.name[order].astype(np.int64) * (int(ranges.process.max(initial=0)) + 1)
        key += ranges.process[order]
        edges = np.append(np.flatnonzero(np.diff(key, prepend=-1)), len(order))
        self._of: dict[str, dict[int, _Instances]] = {}
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            name = ranges.names[ranges.name[order[low]]]
            if high - low >= 2 and name in kinds:
                rows = order[low:high]
                found = _Instances(ranges.start_ns[rows], ranges.end_ns[rows])
                self._of.setdefault(name, {})[int(ranges.process[rows[0]])] = found
        self._optimizer = self._main_optimizer()

    def candidates(self) -> list[Candidate]:
        """Return all candidates, best first; those that nest in themselves are none."""
        found = [self._measured(name) for name, of in self._of.items() if not self._nests(of)]
        return sorted(found, key=lambda item: (-item.score, -item.instances, item.name))

    def are_one_loop(self, first: str, second: str) -> bool:
        """Return whether two candidates occur once in each step of the same loop."""
        for process, own in self._of[first].items():
            other = self._of[second].get(process)
            if other is None:
                return False
            fewer, more = sorted((own.stops_ns, other.stops_ns), key=len)
            inside = np.diff(np.searchsorted(more, fewer, side="right"))
            if not len(inside) or (inside == 1).mean() < _SAME:
                return False
        return True

    def contains(self, outer: str, inner: str) -> bool:
        """Whether each step of one candidate holds the same number, at least 2, of another's."""
        process, own = self._main(self._of[outer])
        other = self._of[inner].get(process)
        if other is None:
            return False
        inside = np.diff(np.searchsorted(other.stops_ns, own.stops_ns, side="right"))
        values, counts = np.unique(inside, return_counts=True)
        if len(values) == 0 or len(own.start_ns) < 3:
            return False
        return bool(values[counts.argmax()] >= 2 and counts.max() >= _SAME * len(inside))

    def precedes_optimizer(self, name: str) -> bool:
        """Return whether a candidate begins before the first step of the optimizer."""
        if not self._optimizer:
            return True
        process, own = self._main(self._of[name])
        steps = self._of[self._optimizer].get(process)
        return steps is None or bool(own.start_ns[0] < steps.start_ns[0])

    def _nests(self, of: dict[int, _Instances]) -> bool:
        return self._main(of)[1].is_nested

    def _main_optimizer(self) -> str:
        """Return the optimizer with most instances, or an empty text if there is none."""
        counts = {
            name: len(self._main(of)[1].start_ns)
            for name, of in self._of.items()
            if self._kinds[name] is Kind.OPTIMIZER
        }
        return max(counts, key=lambda name: counts[name], default="")

    def _main(self, of: dict[int, _Instances]) -> tuple[int, _Instances]:
        def weight(process: int) -> tuple[int, int]:
            launches = self._launches.get(process)
            return (int(launches.gpu_ns[-1]) if launches else -1, len(of[process].start_ns))

        process = max(of, key=weight)
        return process, of[process]

    def _measured(self, name: str) -> Candidate:
        kind, of = self._kinds[name], self._of[name]
        process, own = self._main(of)
        periods = np.diff(own.stops_ns)
        launches = self._launches.get(process)
        per_step = self._per_optimizer_step(name, process, own)
        stops = tuple(spans.stops_ns for spans in of.values())
        candidate = Candidate(
            name=name,
            kind=kind,
            key_node=name,
            instances=max(len(spans.start_ns) for spans in of.values()),
            iterations=len(np.unique(boundaries(stops, are_ranks=self._are_ranks))) + 1,
            period_ns=int(np.median(periods)),
            evenness=evenness(periods),
            alike=None if launches is None else _alike(own, launches, kind),
            coverage=_coverage(own, launches, float(np.median(periods))) if launches else 1.0,
            per_optimizer_step=per_step,
            counts=name in self._counted,
            score=0,
            cycle=_cycle(own, launches, kind) if launches else 1,
        )
        return replace(candidate, score=self._score(candidate))

    def _per_optimizer_step(self, name: str, process: int, own: _Instances) -> int | None:
        steps = self._of.get(self._optimizer, {}).get(process)
        if steps is None:
            return None
        if name == self._optimizer:
            return 1
        inside = np.diff(np.searchsorted(own.stops_ns, steps.stops_ns, side="right"))
        values, counts = np.unique(inside, return_counts=True)
        most = int(values[counts.argmax()]) if len(values) else 0
        return most if most and counts.max() >= _SAME * len(inside) else None

    def _score(self, loop: Candidate) -> int:
        if loop.per_optimizer_step is not None:
            by_optimizer = float(loop.per_optimizer_step == 1)
        else:
            by_optimizer = 0.2 if self._optimizer else 0.6
        score = (
            30 * (0.5 if loop.alike is None else loop.alike)
            + 25 * loop.evenness
            + 20 * loop.coverage
            + 15 * by_optimizer
            + 10 * _KIND_WEIGHTS[loop.kind]
        )
        if loop.kind not in _MARKED:
            score *= {2: 0.5, 3: 0.7}.get(loop.instances, 1.0)
        if loop.alike is not None and loop.alike < _MIN_ALIKE:
            score *= 0.6
        is_part = loop.kind not in _MARKED and loop.coverage < _MIN_COVERAGE
        if is_part or (loop.kind is Kind.RANGE and not loop.alike):
            score *= 0.5
        return round(score)


def evenness(periods_ns: Int64) -> float:
    """Return how even times are: 1 if all are alike, 0 if bursts and pauses alternate. Unit: ns.

    The first quarter (warm-up) and the longest twentieth (pauses) do not count. It is the geometric
    mean of two shares: of the times, and of their sum, that lie within half and twice the median.
    """
    if len(periods_ns) < 2:
        return 0.5
    kept = np.sort(periods_ns[len(periods_ns) // 4 :])
    kept = kept[: len(kept) - max(len(kept) // 20, int(len(kept) >= 8))]
    middle = np.median(kept)
    typical = (kept >= middle / 2) & (kept <= middle * 2)
    total = int(kept.sum())
    return float(np.sqrt(typical.mean() * kept[typical].sum() / total)) if total else 0.0


def _coverage(own: _Instances, launches: Launches, period_ns: float) -> float:
    """Share of the GPU time launched between the first and the last instance, give or take one."""
    edges = np.array([own.start_ns[0] - period_ns, own.end_ns[-1] + period_ns]).astype(np.int64)
    low, high = launches.gpu_ns[launches.bounds(edges)].tolist()
    return float((high - low) / max(int(launches.gpu_ns[-1]), 1))


def _alike(own: _Instances, launches: Launches, kind: Kind) -> float:
    """Return the share of steps that launch the kernels of most steps, or nearly as many."""
    bounds = launches.bounds(own.stops_ns)
    counts = np.diff(bounds)
    middle = float(np.median(counts))
    if not middle:
        return 0.0
    sums = np.diff(launches.names[bounds])
    _, numbers = np.unique(sums[counts > 0], return_counts=True)
    odd = np.abs(counts - middle) > _NEAR * middle
    if kind is Kind.RANGE and _repeats_in_steps(counts):
        return 0.0
    return max(float(numbers.max(initial=0)) / len(counts), 0.9 * float((~odd).mean()))


def _cycle(own: _Instances, launches: Launches, kind: Kind) -> int:
    """Number of instances, 2 to 8, after which the launched kernels repeat; 1: they are all alike.

    Two optimizers that take turns, as in a GAN, or micro-batches and an update make such a cycle.
    What only adds kernels to every n-th step, such as logging or a validation, makes none, and
    ranges that say that they are steps are. The first quarter (warm-up) does not count.
    """
    bounds = launches.bounds(own.stops_ns)[(len(own.stops_ns) - 1) // 4 :]
    counts, sums = np.diff(bounds), np.diff(launches.names[bounds])
    middle = float(np.median(counts))
    if kind not in _TAKE_TURNS or (np.abs(counts - middle) <= _NEAR * middle).mean() >= _MOST_ALIKE:
        return 1
    for length in range(1, min(8, len(sums) // 3) + 1):
        if (sums[length:] == sums[:-length]).mean() >= _SAME:
            return length
    return 1


def _repeats_in_steps(counts: Int64) -> bool:
    """Whether the instances that launch more recur at an even distance: a layer in each step."""
    odd = np.flatnonzero(counts != np.bincount(counts).argmax())
    distance = np.diff(odd)
    if len(distance) < 2:
        return False
    values, numbers = np.unique(distance, return_counts=True)
    return bool(values[numbers.argmax()] > 1 and numbers.max() >= 0.6 * len(distance))


def choose(loops: Loops, candidates: list[Candidate]) -> tuple[Candidate | None, Candidate | None]:
    """Return the best candidate and the best one of another loop, or None if no range marks a loop.

    Steps of a profiler or framework come first. Of two loops of which one contains the other, such
    as epochs or validations and steps, the inner one is chosen, unless its instances are parts of
    a step: of the optimizer's, or of a kind that marks steps better.
    """
    usable = [row for row in candidates if row.score >= _MIN_SCORE]
    if not usable:
        return None, candidates[0] if candidates else None
    steps = [row for row in usable if row.kind is Kind.STEP and row.score >= _MEDIUM_SCORE]
    best = (steps or usable)[0]
    for row in usable:
        if best.score - row.score > _CLOSE or row.per_optimizer_step not in (None, 1):
            continue
        own, other = _KIND_WEIGHTS[best.kind], _KIND_WEIGHTS[row.kind]
        is_inner = other >= own and loops.contains(best.name, row.name)
        is_outer = other > own and loops.contains(row.name, best.name)
        if is_inner or is_outer:
            best = row
    others = (row for row in candidates if not loops.are_one_loop(best.name, row.name))
    return best, next((row for row in others if row.score >= _MIN_RUNNER_UP), None)


def confidence(best: Candidate | None, runner_up: Candidate | None) -> Confidence:
    """Return how certain the choice is.

    A runner-up that is nearly as good makes it less so, and so do steps of which several in turn
    may be one of the program's.
    """
    if best is None:
        return Confidence.NONE
    is_rivaled = runner_up is not None and best.score - runner_up.score < _RIVAL
    score = best.score - (10 if is_rivaled and best.kind is not Kind.STEP else 0)
    if score >= _HIGH_SCORE and best.instances >= 3 and best.cycle == 1:
        return Confidence.HIGH
    return Confidence.MEDIUM if score >= _MEDIUM_SCORE else Confidence.LOW
