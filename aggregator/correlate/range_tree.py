"""Nested ranges with their meaning: which are units, which are groups, and what path is inside.

A *unit* is a range that stands for an op: the outermost op range, or the wrapper that the autograd
engine opens around a backward node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aggregator.columns import narrowest
from aggregator.correlate.ranges import Nesting
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile import Bool, Int32, Int64, Integers, Profile

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
    kind: Integers
    label: Integers
    thread: Integers
    process: Integers
    seq: Integers
    unit: Int32
    group: Int32
    path: Integers
    paths: tuple[str, ...]

    def without_depths(self) -> RangeTree:
        """The same without what only finds out what is passed down."""
        return replace(self, nesting=replace(self.nesting, by_depth=()))

    def only_names(self) -> RangeTree:
        """Who encloses whom, in which unit and by what name, without what else takes memory."""
        nothing = np.empty(0, dtype=np.int32)
        no_times = np.empty(0, dtype=np.int64)
        nesting = replace(self.nesting, start_ns=no_times, end_ns=no_times, by_depth=())
        return RangeTree(
            nesting=nesting,
            name=self.name,
            kind=nothing,
            label=nothing,
            thread=nothing,
            process=nothing,
            seq=nothing,
            unit=self.unit,
            group=nothing,
            path=nothing,
            paths=(),
        )

    def is_any(self, *kinds: RangeKind) -> Bool:
        """Whether each range is of one of some kinds."""
        return is_any(self.kind, kinds)

    def is_unit(self) -> Bool:
        """Whether each range is a unit."""
        return _is_own(self.unit)

    def is_group(self) -> Bool:
        """Whether each range is a group."""
        return _is_own(self.group)

    def unit_kind(self) -> Integers:
        """Kind of the unit that each range belongs to; ``IGNORED``: none."""
        kind = self.kind[self.unit]  # without a unit: any
        kind[self.unit < 0] = RangeKind.IGNORED
        return kind


def is_any(kind: Integers, kinds: tuple[RangeKind, ...]) -> Bool:
    """Whether each is one of some kinds: quicker than ``numpy.isin`` for so few."""
    wanted = np.zeros(len(RangeKind), dtype=bool)
    wanted[list(kinds)] = True
    return wanted[kind]


def _is_own(owner: Int32) -> Bool:
    result: Bool = owner == np.arange(len(owner), dtype=np.int32)
    return result


def build_tree(profile: Profile, nesting: Nesting, meaning: RangeMeaning, domain: int) -> RangeTree:
    """Find units, groups and paths.

    Args:
        profile: The profile.
        nesting: Its nested ranges.
        meaning: What the range names mean.
        domain: Domain whose ranges may be ops and groups.
    """
    name = nesting.in_order(profile.ranges.name)
    kind = meaning.kind.astype(np.int8)[name]
    in_domain = nesting.in_order(profile.ranges.domain) == domain
    kind[~in_domain] = RangeKind.IGNORED
    if meaning.is_graph:
        kind[_contains_ops(nesting, kind == RangeKind.OP, name)] = RangeKind.CONTAINER
    label = narrowest(meaning.label)[name]
    thread = nesting.in_order(profile.ranges.thread)
    position = np.arange(len(nesting), dtype=np.int32)
    is_wrapper = kind == RangeKind.WRAPPER
    # A node outside a wrapper is a unit: PyTorch before 1.9 opened no wrapper.
    opens_unit = is_any(kind, (RangeKind.WRAPPER, RangeKind.OP, RangeKind.NODE))
    own_unit = np.where(opens_unit, position, np.int32(-1))
    is_module = kind == RangeKind.MODULE
    # An op directly in a module is an op also inside a backward node: a checkpoint's.
    in_module = (nesting.parent >= 0) & is_module[np.maximum(nesting.parent, 0)]
    unit = nesting.inherit(own_unit, keep_own=is_wrapper | (in_module & (kind == RangeKind.OP)))
    is_group = is_any(kind, GROUP_KINDS) & (unit < 0)
    group = nesting.inherit_innermost(np.where(is_group, position, np.int32(-1)))
    on_path = (is_group & (kind != RangeKind.CONTAINER)) | is_module
    # 1: a module keeps its name even inside one of its own; 2: and is computed again.
    how = is_module.astype(np.int8)
    how[is_module & (unit >= 0) & ~in_module] = 2
    path, paths = _paths(nesting, on_path, label, how, meaning.labels)
    return RangeTree(
        nesting=nesting,
        name=name,
        kind=kind,
        label=label,
        thread=thread,
        process=narrowest(profile.thread_process)[thread],
        seq=nesting.in_order(profile.ranges.seq),
        unit=unit,
        group=group,
        path=narrowest(path),
        paths=paths,
    )


def nested_units(tree: RangeTree) -> tuple[Int64, Integers]:
    """Units inside other units, and the one around each."""
    inner = np.flatnonzero(tree.is_unit())
    parent = tree.nesting.parent[inner]
    around = np.where(parent >= 0, tree.unit[parent], -1)
    return inner[around >= 0], around[around >= 0]


def outermost_wrappers(tree: RangeTree, inner: Int64, around: Integers) -> Integers:
    """The outermost wrapper at or around each unit that lies in another one; -1: none."""
    every = np.union1d(inner, around)
    result = np.where(tree.kind[every] == RangeKind.WRAPPER, every, -1)
    row, row_around = np.searchsorted(every, inner), np.searchsorted(every, around)
    while True:
        above = result[row_around]
        changed = (above >= 0) & (above != result[row])
        if not changed.any():
            return result[row]
        result[row[changed]] = above[changed]


class OwnTimes:
    """Lengths of units without the units in them, so that no time counts twice. Unit: ns.

    A checkpoint computes its ops again inside the backward node that needs them.
    """

    def __init__(self, tree: RangeTree, inner: Int64, around: Integers) -> None:
        nesting = self._nesting = tree.nesting
        self._around, row = np.unique(around, return_inverse=True)
        self._nested_ns = np.zeros(len(self._around), dtype=np.int64)
        np.add.at(self._nested_ns, row, nesting.end_ns[inner] - nesting.start_ns[inner])

    def of(self, units: Integers) -> Int64:
        """Own time of each of some units. Unit: ns."""
        own: Int64 = self._nesting.end_ns[units] - self._nesting.start_ns[units]
        if len(self._around):
            row = np.minimum(np.searchsorted(self._around, units), len(self._around) - 1)
            own -= np.where(self._around[row] == units, self._nested_ns[row], 0)
        return own


def _contains_ops(nesting: Nesting, is_op: Bool, name: Int32) -> Bool:
    """Op ranges of a name that is somewhere around another op: a loop, a recorded graph."""
    position = np.arange(len(is_op), dtype=np.int32)
    innermost_op = nesting.inherit_innermost(np.where(is_op, position, np.int32(-1)))
    parent = nesting.parent
    above = np.where(parent >= 0, innermost_op[np.maximum(parent, 0)], -1)
    names = np.unique(name[above[is_op & (above >= 0)]])
    return is_op & np.isin(name, names)


def _paths(
    nesting: Nesting, is_group: Bool, label: Integers, how: Integers, labels: tuple[str, ...]
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
