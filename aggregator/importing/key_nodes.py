"""Finding the training loop: the key node, and the step of each op instance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from aggregator.correlate.instances import Instances, Origin
from aggregator.correlate.op_table import OpTable
from aggregator.correlate.range_tree import RangeTree
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.frameworks.pytorch import MICRO_STEP
from aggregator.frameworks.serving import DECODE, MIXED, PREFILL
from aggregator.importing.named_ranges import INTERNAL, NameableRanges
from aggregator.importing.phases import SERVING_STEP
from aggregator.metrics.iterations import KeyNode, NamedRanges, stops_by_process
from aggregator.metrics.loops import (
    Candidate,
    Confidence,
    Kind,
    Launches,
    Loops,
    choose,
    confidence,
    launches_by_process,
)
from aggregator.profile.arrays import Bool, Int32, Int64
from aggregator.profile.counters import (
    COUNTED_STEP,
    STEP_WORD,
    names_part,
)
from aggregator.profile.profile import Profile
from aggregator.texts import say

_OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
_ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")
_COMPILED_CALL = re.compile(r"^Torch-Compiled Region")
_FORWARD = re.compile(r"^\w+(?:\.\w+)*\.forward$")
_MOST_BATCHES = 1.1
"""Batches per step, up to which a data loader is taken to hand out one for each."""


_CONFIDENCES = {
    Confidence.HIGH: say("high"),
    Confidence.MEDIUM: say("medium"),
    Confidence.LOW: say("low"),
}


@dataclass(frozen=True)
class FoundKeyNode:
    """The key node of a profile, and what it was chosen from."""

    key_node: KeyNode  # It has no name if no range marks a loop.
    candidates: tuple[Candidate, ...] = ()  # All candidates, best first.
    confidence: Confidence = Confidence.NONE  # How certain the choice is.
    # The range that cuts the loop if the key node is an op by its label; None: it is a range.
    instead_of_op: KeyNode | None = None


def overhead_calls(meaning: RangeMeaning, tree: RangeTree, call_range: Int32) -> Bool:
    """Return whether each API call was made outside programs, by a compiler that tunes kernels."""
    is_overhead = np.array(
        [not meaning.overhead.isdisjoint(path.split("/")) for path in tree.paths], dtype=bool
    )
    result: Bool = (call_range < 0) | is_overhead[tree.path[call_range]]
    return result


def launches_of(
    profile: Profile, calls: Sequence[Int32], skipped: Bool | None = None
) -> dict[int, Launches]:
    """Return the kernels and whole CUDA graphs by process, in order of launch.

    ``calls`` are those of ``launching_calls``; what a ``skipped`` API call launched is left out.
    """
    parts = []
    graphs = np.full(len(profile.graphs), len(profile.strings), dtype=np.int64)
    kinds = (
        (profile.kernels, calls[0], profile.kernels.long_name),
        (profile.graphs, calls[3], graphs),
    )
    for work, call, name in kinds:
        start = profile.api_calls.start_ns[call] if len(profile.api_calls) else work.start_ns
        time_ns = np.where(call >= 0, start, work.start_ns)
        rows = slice(None) if skipped is None else (call < 0) | ~skipped[call]
        columns = (work.process, time_ns, work.end_ns - work.start_ns, name)
        parts.append([column[rows] for column in columns])
    return launches_by_process(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def find_key_node(
    ranges: NameableRanges,
    launches: dict[int, Launches],
    meaning: RangeMeaning | None = None,
    tree: RangeTree | None = None,
    *,
    are_ranks: bool = True,
) -> FoundKeyNode:
    """Choose what marks an iteration.

    Args:
        ranges: All ranges that may mark it.
        launches: GPU work by process.
        meaning: What the ranges of the framework mean; None: simple mode.
        tree: The framework's ranges; None: simple mode.
        are_ranks: Whether the processes are ranks of one job.
    """
    if meaning is not None and tree is not None and (key_op := _key_op(meaning, tree)) is not None:
        return FoundKeyNode(key_op, (), Confidence.HIGH, KeyNode("", key_op.reason))
    kinds = _kinds(ranges, meaning, tree)
    if meaning is not None and tree is not None and _is_forward_pass(ranges, meaning, tree):
        kinds = {name: kind for name, kind in kinds.items() if not _is_part(name, kind)}
    loops = Loops(ranges.all, kinds, ranges.counted, launches, are_ranks=are_ranks)
    candidates = loops.candidates()
    best, runner_up = choose(loops, candidates)
    if best is None:
        reason = say("no range marks a loop of at least two steps")
        if runner_up is not None:
            reason = say(
                "no range marks a loop; the closest is '{name}' (score {score} of 100)",
                name=runner_up.name,
                score=runner_up.score,
            )
        return FoundKeyNode(KeyNode("", reason), tuple(candidates))
    return _found(_Choice(ranges.all, loops, candidates, best, runner_up), meaning, tree)


_PART_OF_MODEL = re.compile(
    r"(?:Layer|Block|Attention|MLP|Stage|Expert|Unit|Encoder|Decoder|Head)s?(?![a-z])"
)
"""Class name of a module that is a part of a model."""


def _is_forward_pass(ranges: NameableRanges, meaning: RangeMeaning, tree: RangeTree) -> bool:
    """Whether autograd recorded ops, and neither a backward pass nor an update was profiled."""
    if not (tree.seq >= 0).any() or (tree.kind == RangeKind.NODE).any():
        return False
    return not any(_OPTIMIZER_STEP.search(name) for name in (*ranges.all.names, *meaning.labels))


def _is_part(name: str, kind: Kind) -> bool:
    """Return whether a candidate is a part of a pass, if nothing shows that a step ends."""
    return kind is Kind.RANGE or (kind is Kind.FORWARD and bool(_PART_OF_MODEL.search(name)))


@dataclass(frozen=True)
class _Choice:
    ranges: NamedRanges
    loops: Loops
    candidates: list[Candidate]
    best: Candidate
    runner_up: Candidate | None

    def members(self, *kinds: Kind) -> list[Candidate]:
        """Return the candidates of some kinds that occur once in each step of the chosen loop."""
        return [
            candidate
            for candidate in self.candidates
            if candidate.kind in kinds and self.loops.are_one_loop(self.best.name, candidate.name)
        ]

    def stops_of(self, name: str) -> KeyNode:
        """Return the ranges of a name as key node."""
        return replace(self.ranges.stops_of(self.ranges.names.index(name)), name=name)

    def explained(self, why: str) -> str:
        """Return why a key node was chosen, with the confidence and the runner-up, in one line."""
        certain = confidence(self.best, self.runner_up)
        if self.best.cycle > 1:
            why = say(
                "{why} (the kernels repeat after {cycle} of them, which may be one iteration)",
                why=why,
                cycle=self.best.cycle,
            )
        known = _CONFIDENCES[certain]
        if self.runner_up is None:
            return say("{why}; confidence {confidence} (no runner-up)", why=why, confidence=known)
        return say(
            "{why}; confidence {confidence} (runner-up '{other}', {count} times)",
            why=why,
            confidence=known,
            other=self.runner_up.name,
            count=self.runner_up.instances,
        )


def _found(choice: _Choice, meaning: RangeMeaning | None, tree: RangeTree | None) -> FoundKeyNode:
    """Cut the chosen loop where its steps begin, if anything marks that, else where they end.

    Before the first stop of the data loader nothing of the loop was launched; an optimizer's step
    ends the first iteration, and a gradient scaler skips some.
    """
    cutting = _cutting(choice)
    by_range, why = choice.stops_of(cutting.name), _reason(choice, cutting)
    key_node, instead = by_range, None
    is_exact = cutting.kind is Kind.LOADER or cutting.name == SERVING_STEP
    begun = None if is_exact else _begun(choice, meaning, tree)
    if begun is not None:
        key_node, owner = begun
        instead = by_range if key_node.name not in choice.ranges.names else None
        why = say("it begins every range '{name}'", name=owner)
    loop = {member.name for member in choice.members(*Kind)}
    candidates = [
        replace(
            candidate,
            is_chosen=candidate.name in loop,
            key_node=key_node.name if candidate is choice.best else candidate.key_node,
        )
        for candidate in choice.candidates
    ]
    certain = confidence(choice.best, choice.runner_up)
    named = replace(key_node, reason=choice.explained(why))
    return FoundKeyNode(named, tuple(candidates), certain, instead)


def _begun(
    choice: _Choice, meaning: RangeMeaning | None, tree: RangeTree | None
) -> tuple[KeyNode, str] | None:
    """Range or op that begins every step, and the name of the steps: before it they did nothing."""
    if meaning is None or tree is None:
        return None
    for owner in [*choice.members(Kind.STEP), *choice.members(Kind.PROGRAM, Kind.COUNTED)]:
        if (child := _first_child(meaning, tree, choice.ranges, owner.name)) is not None:
            return child, owner.name
    return None


def _reason(choice: _Choice, candidate: Candidate) -> str:
    begins = candidate.kind is not Kind.GRADIENTS or choice.loops.precedes_optimizer(candidate.name)
    counted = (
        say("numbered ranges mark the iterations")
        if candidate.counts
        else say("its name says that it is a step")
    )
    reasons = {
        Kind.LOADER: say("the data loader hands out a batch once per iteration"),
        Kind.COUNTED: counted,
        Kind.PROGRAM: say("each run of the program is an iteration"),
        Kind.STEP: say("steps '{name}' mark the iterations", name=candidate.name),
        Kind.GRADIENTS: say("clearing the gradients begins every iteration")
        if begins
        else say("clearing the gradients ends every iteration"),
        Kind.OPTIMIZER: say("the optimizer steps once per iteration"),
        Kind.FORWARD: say("the model's forward pass runs once per iteration"),
        Kind.RANGE: say("it recurs evenly and launches the same kernels"),
    }
    return reasons[candidate.kind]


def _cutting(choice: _Choice) -> Candidate:
    steps, marked = choice.members(Kind.STEP), choice.members(Kind.COUNTED, Kind.PROGRAM)
    gradients = choice.members(Kind.GRADIENTS)
    begin = [gradient for gradient in gradients if choice.loops.precedes_optimizer(gradient.name)]
    updates = sorted(choice.members(Kind.OPTIMIZER) + gradients, key=lambda item: -item.instances)
    # A loader that hands out many more batches than there are steps also feeds the evaluation.
    most = _MOST_BATCHES * choice.best.instances + 1
    loaders = [member for member in choice.members(Kind.LOADER) if member.instances <= most]
    first = [*loaders, *(() if steps else marked), *begin, *steps]
    in_order: list[Candidate] = [*first, *updates, choice.best]
    return in_order[0]


def _kinds(
    ranges: NameableRanges, meaning: RangeMeaning | None, tree: RangeTree | None
) -> dict[str, Kind]:
    """Return the kind of each name that may mark a step."""
    known: dict[str, Kind | None] = {}
    if meaning is not None and tree is not None:
        of_kind = (
            (RangeKind.MODULE, Kind.FORWARD),
            (RangeKind.DATALOADER, Kind.LOADER),
            (RangeKind.STEP, Kind.STEP),
        )
        for range_kind, kind in of_kind:
            known |= dict.fromkeys(_labels_of(meaning, tree, range_kind), kind)
        # A range with a sequence number is one op of autograd, such as a function of the user.
        labels = np.unique(tree.label[tree.seq >= 0]).tolist()
        known |= dict.fromkeys(meaning.labels[label] for label in labels)
        known |= dict.fromkeys(meaning.programs, Kind.PROGRAM)
        known |= dict.fromkeys((*meaning.overhead, MICRO_STEP))
    known[SERVING_STEP] = Kind.STEP
    if SERVING_STEP in ranges.all.names:  # All of the phases together.
        known |= dict.fromkeys((PREFILL, DECODE, MIXED))
    kinds = {
        name: known[name] if name in known else _kind_of_name(name, counts=name in ranges.counted)
        for name in ranges.all.names
    }
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _kind_of_name(name: str, *, counts: bool) -> Kind | None:
    """Return the kind of a range outside the framework's ops, or None if it marks no step."""
    if _OPTIMIZER_STEP.search(name):
        return Kind.OPTIMIZER
    if _ZERO_GRAD.search(name):
        return Kind.GRADIENTS
    if INTERNAL.search(name):
        return None
    if _COMPILED_CALL.search(name) or _FORWARD.search(name):
        return Kind.FORWARD
    is_part = names_part(name)
    says_step = COUNTED_STEP.search(name) or STEP_WORD.search(name)
    if not is_part and (says_step or counts):
        return Kind.COUNTED
    return Kind.RANGE


def _key_op(meaning: RangeMeaning, tree: RangeTree) -> KeyNode | None:
    """The op that training loops of the framework run once per iteration, if it ran repeatedly."""
    for name in sorted(meaning.key_ops & set(meaning.labels)):
        label = meaning.labels.index(name)
        rows = np.flatnonzero(tree.is_unit() & (tree.label == label))
        if len(rows) > 1:
            stops = stops_by_process(tree.nesting.end_ns[rows], tree.process[rows])
            why = say("'{name}' is read once per iteration; confidence high", name=name)
            return replace(stops, name=name, reason=why)
    return None


def _labels_of(meaning: RangeMeaning, tree: RangeTree, kind: RangeKind) -> set[str]:
    return {meaning.labels[label] for label in np.unique(tree.label[tree.kind == kind]).tolist()}


def _first_child(
    meaning: RangeMeaning, tree: RangeTree, ranges: NamedRanges, name: str
) -> KeyNode | None:
    """Range or op that begins every range of a name; None if they begin with different ones."""
    if name not in meaning.labels:
        return None
    label = meaning.labels.index(name)
    can_own = tree.is_group() | (tree.kind == RangeKind.STEP)
    owners = np.flatnonzero(can_own & (tree.label == label))
    nesting = tree.nesting
    # The next op or group in the sorted order is the first inside, if it is inside at all.
    usable = np.flatnonzero(tree.is_any(RangeKind.OP, RangeKind.GROUP))
    found = np.searchsorted(usable, owners, side="right")
    if not len(owners) or int(found[-1]) >= len(usable):
        return None
    child = usable[found]
    kind, child_label = tree.kind[child], tree.label[child]
    # Both are of the framework's domain: on one thread they are in one lane.
    inside = tree.thread[child] == tree.thread[owners]
    inside &= nesting.end_ns[child] <= nesting.end_ns[owners]
    if not (inside & (kind == kind[0]) & (child_label == child_label[0])).all():
        return None
    begins = meaning.labels[int(child_label[0])]
    # A group is found again by its name, so no other range may have it.
    named = ranges.name == ranges.names.index(begins) if begins in ranges.names else None
    if named is not None and np.count_nonzero(named) != len(owners):
        return None
    return replace(stops_by_process(nesting.end_ns[child], tree.process[child]), name=begins)


def step_of_instances(
    profile: Profile, instances: Instances, key_node: KeyNode
) -> tuple[Int64, int]:
    """Return the step of each instance by the stops of its own process, and the number of steps."""
    step = np.zeros(len(instances), dtype=np.int64)
    process = profile.thread_process[instances.thread]
    count = 1
    for number, stops in zip(key_node.processes, key_node.stops_ns, strict=True):
        rows = np.flatnonzero(process == number)
        # By end time: an instance of the key node belongs to the step that follows its stop.
        step[rows] = np.searchsorted(stops, instances.end_ns[rows], side="right")
        count = max(count, len(stops) + 1)
    return step, count


def name_by_op(key_node: KeyNode, table: OpTable, instances: Instances) -> KeyNode | None:
    """Replace the label of a key node that is an op by the name of the op.

    A label names a kind of op; the name of the op identifies it, so that it can be found again.

    Returns:
        None if its instances are not those of one op per process.
    """
    stops = np.concatenate([*key_node.stops_ns, np.empty(0, dtype=np.int64)])
    rows = np.flatnonzero(np.isin(instances.end_ns, stops) & (instances.origin == Origin.FORWARD))
    endings = (f"/{key_node.name}", f"/{key_node.name.replace('/', '|')}")
    ops = {int(op) for op in np.unique(table.op_of_instance[rows])}
    ops = {op for op in ops if _without_number(table.ops[op].op_name).endswith(endings)}
    names = {_without_rank(table.ops[op].op_name) for op in ops}
    num_instances = int(np.isin(table.op_of_instance, list(ops)).sum())
    if len(names) != 1 or num_instances != key_node.num_instances:
        return None
    return replace(key_node, name=names.pop())


def _without_number(op_name: str) -> str:
    """Return ``/a/zeros`` for ``/a/zeros[2]``."""
    return re.sub(r"\[\d+\]$", "", op_name)


def _without_rank(name: str) -> str:
    match = re.match(r"^/rank_\d+(/.*)$", name)
    return match[1] if match else name
