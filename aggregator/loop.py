"""Finding the training loop: named ranges, the key node, and the step of each op instance."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from aggregator.correlate.op_table import OpTable
from aggregator.correlate.ops import Instances, Origin, RangeTree
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.iterations import (
    KeyNode,
    LoopHints,
    NamedRanges,
    Stops,
    choose_key_node,
    stops_by_process,
)
from aggregator.profile import Int64, Profile

_NUMBERED = re.compile(r"#")
_OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
_ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")
MAX_NAMED_RANGES = 2_000_000


def named_ranges(profile: Profile, meaning: RangeMeaning, tree: RangeTree) -> NamedRanges:
    """Group ranges outside every op: what a person may name as key node."""
    position = np.arange(len(tree.kind))
    is_group = (tree.group == position) & np.isin(
        tree.kind, (RangeKind.GROUP, RangeKind.DATALOADER)
    )
    rows = np.flatnonzero(is_group)
    used, code = np.unique(tree.label[rows], return_inverse=True)
    return NamedRanges(
        name=code.astype(np.int32),
        names=tuple(meaning.labels[label] for label in used.tolist()),
        start_ns=tree.nesting.start_ns[rows],
        end_ns=tree.nesting.end_ns[rows],
        process=tree.process[rows],
    )


def find_key_node(
    meaning: RangeMeaning, tree: RangeTree, ranges: NamedRanges, instances: Instances
) -> KeyNode:
    """Choose what marks an iteration; see ``choose_key_node``."""
    loader_labels = {
        meaning.labels[label]
        for label in np.unique(tree.label[tree.kind == RangeKind.DATALOADER]).tolist()
    }
    names = ranges.names

    def matching(test: re.Pattern[str]) -> tuple[int, ...]:
        return tuple(code for code, name in enumerate(names) if test.search(name))

    loaders = tuple(code for code, name in enumerate(names) if name in loader_labels)
    framework = {*loaders, *matching(_OPTIMIZER_STEP), *matching(_ZERO_GRAD)}
    numbered = tuple(code for code in matching(_NUMBERED) if code not in framework)
    hints = LoopHints(
        dataloaders=loaders,
        numbered=numbered,
        optimizers=matching(_OPTIMIZER_STEP),
        zero_grads=matching(_ZERO_GRAD),
        first_child={
            code: child
            for code in numbered
            if (child := _first_child(meaning, tree, ranges, code)) is not None
        },
    )
    return choose_key_node(ranges, hints)


def _first_child(
    meaning: RangeMeaning, tree: RangeTree, ranges: NamedRanges, code: int
) -> tuple[str, Stops] | None:
    """Range or op that begins every range of a name; None if they begin with different things."""
    label = meaning.labels.index(ranges.names[code])
    position = np.arange(len(tree.kind))
    owners = np.flatnonzero((tree.group == position) & (tree.label == label))
    nesting = tree.nesting
    # The next range in the sorted order is the first child, if it is a child at all.
    child = owners + 1
    if not len(owners) or int(child[-1]) >= len(tree.kind):
        return None
    usable = np.isin(tree.kind[child], (RangeKind.OP, RangeKind.GROUP, RangeKind.DATALOADER))
    same = (nesting.parent[child] == owners) & usable & (tree.label[child] == tree.label[child[0]])
    if not same.all():
        return None
    first = child.astype(np.int64)
    return meaning.labels[int(tree.label[child[0]])], stops_by_process(
        nesting.end_ns[first], tree.process[first]
    )


def step_of_instances(
    profile: Profile, instances: Instances, key_node: KeyNode
) -> tuple[Int64, int]:
    """Step of each instance by the stops of its own process, and the number of steps."""
    step = np.zeros(len(instances), dtype=np.int64)
    process = profile.thread_process[instances.thread]
    count = 1
    for number, stops in zip(key_node.processes, key_node.stops_ns, strict=True):
        rows = np.flatnonzero(process == number)
        step[rows] = np.searchsorted(stops, instances.start_ns[rows], side="right")
        count = max(count, len(stops) + 1)
    return step, count


def name_by_op(key_node: KeyNode, table: OpTable, instances: Instances) -> KeyNode:
    """Give a key node that is an op the name of its op, so that it can be found again by name.

    An op label names a kind of op; after the ops are known its place has a name of its own.
    """
    stops = np.concatenate([*key_node.stops_ns, np.empty(0, dtype=np.int64)])
    rows = np.flatnonzero(np.isin(instances.end_ns, stops) & (instances.origin == Origin.FORWARD))
    ops = {int(op) for op in np.unique(table.op_of_instance[rows])}
    names = {_without_rank(table.ops[op].op_name) for op in ops}
    matches = [name for name in names if name.rpartition("/")[2].partition("[")[0] == key_node.name]
    return replace(key_node, name=matches[0]) if len(matches) == 1 else key_node


def _without_rank(name: str) -> str:
    match = re.match(r"^/rank_\d+(/.*)$", name)
    return match[1] if match else name
