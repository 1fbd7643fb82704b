"""Nested ranges with their meaning: which are units, which are groups, and what path is inside.

A *unit* is a range that stands for an op: the outermost op range, or the wrapper that the autograd
engine opens around a backward node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.ranges import Nesting
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile import Bool, Int32, Int64, Profile

GROUP_KINDS = (
    RangeKind.GROUP,
    RangeKind.DATALOADER,
    RangeKind.CONTAINER,
    RangeKind.MODULE,
)
AGAIN = "recompute"
"""Group of what a checkpoint computes again during the backward pass."""
MAX_PATH_LEVELS = 64
"""Deeper groups add nothing to a path: endless recursion must not make endless names."""


@dataclass(frozen=True)
class RangeTree:
    """Nested ranges with their meaning; arrays are in the nesting's sorted order.

    Attributes:
        nesting: The nesting of all ranges.
        name: Code into ``Profile.range_names`` of each range.
        kind: ``RangeKind`` of each range.
        label: Label code of each range.
        thread: Thread of each range.
        process: Process of each range.
        seq: Sequence number of each range.
        unit: Position of the unit that each range belongs to; -1: none.
        group: Position of the innermost group around (or at) each range outside units; -1: none.
        path: Code into ``paths`` for what lies in each range.
        paths: Group paths.
    """

    nesting: Nesting
    name: Int32
    kind: Int32
    label: Int32
    thread: Int32
    process: Int32
    seq: Int64
    unit: Int32
    group: Int32
    path: Int32
    paths: tuple[str, ...]


def build_tree(profile: Profile, nesting: Nesting, meaning: RangeMeaning, domain: int) -> RangeTree:
    """Find units, groups and paths.

    Args:
        profile: The profile.
        nesting: Its nested ranges.
        meaning: What the range names mean.
        domain: Domain whose ranges may be ops and groups.
    """
    order = nesting.order
    name = profile.ranges.name[order]
    in_domain = profile.ranges.domain[order] == domain
    kind = np.where(in_domain, meaning.kind[name], RangeKind.IGNORED).astype(np.int32)
    if meaning.is_graph:
        kind[_contains_ops(nesting, kind == RangeKind.OP, name)] = RangeKind.CONTAINER
    label = meaning.label[name]
    thread = profile.ranges.thread[order]
    position = np.arange(len(order), dtype=np.int32)
    is_wrapper = kind == RangeKind.WRAPPER
    # A node outside a wrapper is a unit: PyTorch before 1.9 opened no wrapper.
    opens_unit = is_wrapper | (kind == RangeKind.OP) | (kind == RangeKind.NODE)
    own_unit = np.where(opens_unit, position, -1).astype(np.int32)
    is_module = kind == RangeKind.MODULE
    # An op directly in a module is an op also inside a backward node: a checkpoint's.
    in_module = (nesting.parent >= 0) & is_module[np.maximum(nesting.parent, 0)]
    unit = nesting.inherit(own_unit, keep_own=is_wrapper | (in_module & (kind == RangeKind.OP)))
    is_group = np.isin(kind, GROUP_KINDS) & (unit < 0)
    group = nesting.inherit_innermost(np.where(is_group, position, -1).astype(np.int32))
    on_path = (is_group & (kind != RangeKind.CONTAINER)) | is_module
    # 1: a module keeps its name even inside one of its own; 2: and is computed again.
    how = np.where(is_module, np.where((unit >= 0) & ~in_module, 2, 1), 0)
    path, paths = _paths(nesting, on_path, label, how, meaning.labels)
    return RangeTree(
        nesting=nesting,
        name=name,
        kind=kind,
        label=label,
        thread=thread,
        process=profile.thread_process[thread],
        seq=profile.ranges.seq[order],
        unit=unit,
        group=group,
        path=path,
        paths=paths,
    )


def own_time_ns(tree: RangeTree) -> Int64:
    """Length of each unit without the units in it, so that no time counts twice. Unit: ns.

    A checkpoint computes its ops again inside the backward node that needs them.
    """
    nesting = tree.nesting
    length = nesting.end_ns - nesting.start_ns
    own: Int64 = length.copy()
    parent = nesting.parent
    inner = np.flatnonzero((tree.unit == np.arange(len(tree.unit))) & (parent >= 0))
    around = tree.unit[parent[inner]]
    nested = around >= 0
    np.subtract.at(own, around[nested], length[inner[nested]])
    return own


def _contains_ops(nesting: Nesting, is_op: Bool, name: Int32) -> Bool:
    """Op ranges of a name that is somewhere around another op: a loop, a recorded graph."""
    position = np.arange(len(is_op), dtype=np.int32)
    innermost_op = nesting.inherit_innermost(np.where(is_op, position, -1).astype(np.int32))
    parent = nesting.parent
    above = np.where(parent >= 0, innermost_op[np.maximum(parent, 0)], -1)
    names = np.unique(name[above[is_op & (above >= 0)]])
    return is_op & np.isin(name, names)


def _paths(
    nesting: Nesting, is_group: Bool, label: Int32, how: Int64, labels: tuple[str, ...]
) -> tuple[Int32, tuple[str, ...]]:
    """Path in force *inside* each range: the groups from outside in."""
    path = np.zeros(len(label), dtype=np.int32)
    codes: dict[tuple[int, int, int], int] = {}
    texts = ["/"]
    for depth, positions in enumerate(nesting.by_depth):
        if not len(positions):
            continue
        parent = nesting.parent[positions]
        above = (
            np.where(parent >= 0, path[np.maximum(parent, 0)], 0)
            if depth
            else np.zeros_like(parent)
        )
        path[positions] = above
        groups = is_group[positions]
        rows = positions[groups]
        triples = np.stack([above[groups], label[rows], how[rows]], axis=1)
        if not len(triples):
            continue
        unique, inverse = np.unique(triples, axis=0, return_inverse=True)
        new = []
        for parent_path, label_code, way in unique.tolist():
            key = (parent_path, label_code, way)
            if key not in codes:
                codes[key] = len(texts)
                texts.append(_joined_path(texts[parent_path], labels[label_code], way))
            new.append(codes[key])
        path[positions[groups]] = np.array(new, dtype=np.int32)[inverse.ravel()]
    return path, tuple(texts)


def _joined_path(path: str, label: str, how: int) -> str:
    """A group's path; a group directly in one of its own name adds nothing (recursion)."""
    name = f"{label.replace('/', '|')}/"
    if how == 2:
        name = f"{AGAIN}/{name}"
    if (not how and path.endswith(f"/{name}")) or path.count("/") > MAX_PATH_LEVELS:
        return path
    return path + name
