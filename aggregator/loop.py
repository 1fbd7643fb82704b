"""Finding the training loop: named ranges, the key node, and the step of each op instance."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from aggregator.correlate.custom_domains import DomainWork
from aggregator.correlate.op_table import OpTable
from aggregator.correlate.ops import Instances, Origin
from aggregator.correlate.range_tree import RangeTree
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.frameworks.pytorch import normalise
from aggregator.iterations import (
    KeyNode,
    LoopHints,
    NamedRanges,
    Stops,
    choose_key_node,
    stops_by_process,
)
from aggregator.profile import Int64, Profile
from aggregator.texts import say

_NUMBERED = re.compile(r"#")
_OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
_ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")
_COUNTED_STEP = re.compile(r"(?:^|[^a-z])(?:step|iter|iteration|batch)(?:_num)?[^a-z]*#", re.I)
"""A range that counts steps, as ``step 3`` or ``train#step_num=3#``: no ``layer 3``."""


def named_ranges(meaning: RangeMeaning, tree: RangeTree) -> NamedRanges:
    """Group ranges outside every op: what a person may name as key node."""
    is_group = tree.is_group() & tree.is_any(RangeKind.GROUP, RangeKind.DATALOADER)
    rows = np.flatnonzero(is_group | (tree.kind == RangeKind.STEP))
    used, code = np.unique(tree.label[rows], return_inverse=True)
    return NamedRanges(
        name=code.astype(np.int32),
        names=tuple(meaning.labels[label] for label in used.tolist()),
        start_ns=tree.nesting.start_ns[rows],
        end_ns=tree.nesting.end_ns[rows],
        process=tree.process[rows],
    )


def plain_ranges(profile: Profile) -> NamedRanges:
    """Ranges of the default domain where a framework writes to its own: a user pushed them."""
    rows = np.flatnonzero(profile.ranges.domain == 0)
    used, code = np.unique(profile.ranges.name[rows], return_inverse=True)
    names = [normalise(profile.range_names[name]) for name in used.tolist()]
    distinct = tuple(dict.fromkeys(names))
    row_of = {name: row for row, name in enumerate(distinct)}
    return NamedRanges(
        name=np.array([row_of[name] for name in names], dtype=np.int32)[code],
        names=distinct,
        start_ns=profile.ranges.start_ns[rows],
        end_ns=profile.ranges.end_ns[rows],
        process=profile.thread_process[profile.ranges.thread[rows]],
    )


def custom_ranges(profile: Profile, domains: tuple[DomainWork, ...]) -> NamedRanges:
    """Ranges of custom domains, by their own names."""
    parts = []
    for domain in domains:
        names = [op.op_type for op in domain.ops]
        used = tuple(dict.fromkeys(names))
        code_of_op = np.array([used.index(name) for name in names], dtype=np.int32)
        process = profile.thread_process[domain.thread]
        parts.append(
            NamedRanges(
                code_of_op[domain.op], used, domain.start_ns, domain.end_ns, process, domain.code
            )
        )
    return joined_ranges(*parts)


def joined_ranges(*parts: NamedRanges) -> NamedRanges:
    """Several sets of ranges as one; equal names stay one name."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    row = {name: code for code, name in enumerate(names)}
    filled = [part for part in parts if len(part.name)]
    if not filled:
        return NamedRanges.empty()
    codes = [
        np.array([row[name] for name in part.names], dtype=np.int32)[part.name] for part in filled
    ]
    return NamedRanges(
        name=np.concatenate(codes),
        names=names,
        start_ns=np.concatenate([part.start_ns for part in filled]),
        end_ns=np.concatenate([part.end_ns for part in filled]),
        process=np.concatenate([part.process for part in filled]),
    )


def find_key_node(
    meaning: RangeMeaning,
    tree: RangeTree,
    ranges: NamedRanges,
    plain: NamedRanges,
    *,
    allow_op: bool,
) -> KeyNode:
    """Choose what marks an iteration; see ``choose_key_node``.

    Args:
        meaning: What range names mean.
        tree: The nested ranges.
        ranges: The framework's ranges that may mark an iteration.
        plain: A user's ranges, where the framework has a domain of its own.
        allow_op: Whether an op may be chosen.
    """
    if allow_op and (key_op := _key_op(meaning, tree)) is not None:
        return key_op
    hints = _loop_hints(meaning, tree, ranges, allow_op=allow_op)
    counted = _counted_steps(plain)
    if counted is not None and _runs_several_times(ranges, hints.programs, plain, counted):
        reason = say("numbered ranges mark the iterations")
        return plain.stops_of(counted).key_node(plain.names[counted], reason)
    found = choose_key_node(ranges, hints)
    if found.name or not plain.names:
        return found
    numbered = tuple(code for code, name in enumerate(plain.names) if _NUMBERED.search(name))
    return choose_key_node(plain, LoopHints((), numbered, (), (), (), (), {}))


def _counted_steps(plain: NamedRanges) -> int | None:
    """The user's ranges that count steps, by their most frequent name."""
    codes = [code for code, name in enumerate(plain.names) if _COUNTED_STEP.search(name)]
    counts = {code: int(np.count_nonzero(plain.name == code)) for code in codes}
    most = max(counts, key=lambda code: counts[code], default=None)
    return most if most is not None and counts[most] > 1 else None


def _runs_several_times(
    ranges: NamedRanges, programs: tuple[int, ...], plain: NamedRanges, counted: int
) -> bool:
    """Whether every step of the user's runs the program that ran most often, and some repeat it.

    A program that runs once in each is as good: the op that begins it leaves nothing of the loop in
    interval 0. Where a step shows no run, what the steps are to the program is not known.
    """
    several = False
    for program in programs:
        for process in np.unique(plain.process[plain.name == counted]).tolist():
            steps = (plain.name == counted) & (plain.process == process)
            runs = (ranges.name == program) & (ranges.process == process)
            start = np.sort(ranges.start_ns[runs])
            inside = np.searchsorted(start, plain.end_ns[steps])
            inside -= np.searchsorted(start, plain.start_ns[steps])
            if not inside.all():
                return False
            several |= bool((inside > 1).any())
    return several


def _key_op(meaning: RangeMeaning, tree: RangeTree) -> KeyNode | None:
    """The op that a framework's loops run once per iteration, if it ran more than once."""
    for name in sorted(meaning.key_ops & set(meaning.labels)):
        label = meaning.labels.index(name)
        rows = np.flatnonzero(tree.is_unit() & (tree.label == label))
        if len(rows) > 1:
            stops = stops_by_process(tree.nesting.end_ns[rows], tree.process[rows])
            return stops.key_node(name, say("'{name}' is read once per iteration", name=name))
    return None


def _loop_hints(
    meaning: RangeMeaning, tree: RangeTree, ranges: NamedRanges, *, allow_op: bool
) -> LoopHints:
    loader_labels = _labels_of(meaning, tree, RangeKind.DATALOADER)
    step_labels = _labels_of(meaning, tree, RangeKind.STEP)
    names = ranges.names

    def matching(test: re.Pattern[str]) -> tuple[int, ...]:
        return tuple(code for code, name in enumerate(names) if test.search(name))

    loaders = tuple(code for code, name in enumerate(names) if name in loader_labels)
    steps = tuple(code for code, name in enumerate(names) if name in step_labels)
    framework = {*loaders, *steps, *matching(_OPTIMIZER_STEP), *matching(_ZERO_GRAD)}
    programs = _busiest_program(meaning, tree, ranges)
    numbered = tuple(code for code in matching(_NUMBERED) if code not in framework)
    return LoopHints(
        dataloaders=loaders,
        numbered=programs or numbered,
        programs=programs,
        optimizers=matching(_OPTIMIZER_STEP),
        zero_grads=matching(_ZERO_GRAD),
        steps=steps,
        first_child={
            code: child
            for code in (*(programs or numbered), *steps)
            if allow_op and (child := _first_child(meaning, tree, ranges, code)) is not None
        },
    )


def _labels_of(meaning: RangeMeaning, tree: RangeTree, kind: RangeKind) -> set[str]:
    return {meaning.labels[label] for label in np.unique(tree.label[tree.kind == kind]).tolist()}


def _busiest_program(
    meaning: RangeMeaning, tree: RangeTree, ranges: NamedRanges
) -> tuple[int, ...]:
    """The compiled program that ran most often: programs that share a name count apart."""
    rows = np.flatnonzero(tree.kind == RangeKind.GROUP)
    is_program = np.array([label in meaning.programs for label in meaning.labels], dtype=bool)
    rows = rows[is_program[tree.label[rows]]]
    if not len(rows):
        return ()
    names, counts = np.unique(tree.name[rows], return_counts=True)
    label = meaning.labels[int(meaning.label[names[int(counts.argmax())]])]
    return (ranges.names.index(label),) if label in ranges.names else ()


def _first_child(
    meaning: RangeMeaning, tree: RangeTree, ranges: NamedRanges, code: int
) -> tuple[str, Stops] | None:
    """Range or op that begins every range of a name; None if they begin with different things."""
    label = meaning.labels.index(ranges.names[code])
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
    name = meaning.labels[int(child_label[0])]
    # A group is found again by its name, so no other range may have it.
    if name in ranges.names and np.count_nonzero(ranges.name == ranges.names.index(name)) != len(
        owners
    ):
        return None
    return name, stops_by_process(nesting.end_ns[child], tree.process[child])


def step_of_instances(
    profile: Profile, instances: Instances, key_node: KeyNode
) -> tuple[Int64, int]:
    """Step of each instance by the stops of its own process, and the number of steps."""
    step = np.zeros(len(instances), dtype=np.int64)
    process = profile.thread_process[instances.thread]
    count = 1
    for number, stops in zip(key_node.processes, key_node.stops_ns, strict=True):
        rows = np.flatnonzero(process == number)
        # By their ends: an op that is the key node itself begins the step that follows its stop.
        step[rows] = np.searchsorted(stops, instances.end_ns[rows], side="right")
        count = max(count, len(stops) + 1)
    return step, count


def name_by_op(key_node: KeyNode, table: OpTable, instances: Instances) -> KeyNode | None:
    """Give a key node that is an op the name of its op, so that it can be found again by name.

    An op label names a kind of op; after the ops are known its place has a name of its own.

    Returns:
        None if its instances are not those of one op per process: it cannot be found again.
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
    """``/a/zeros[2]`` -> ``/a/zeros``."""
    return re.sub(r"\[\d+\]$", "", op_name)


def _without_rank(name: str) -> str:
    match = re.match(r"^/rank_\d+(/.*)$", name)
    return match[1] if match else name
