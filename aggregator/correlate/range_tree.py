"""Nested ranges with their meaning: units, groups, and paths of groups.

A *unit* is a range that represents an op: the outermost op range, the wrapper that the autograd
engine opens around a backward node, or a kernel of compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from aggregator.correlate.ranges import Nesting, innermost
from aggregator.frameworks.meaning import RangeKind, RangeMeaning
from aggregator.profile.arrays import Bool, Int32, Int64, Integers, dense_codes, narrowest
from aggregator.profile.profile import Profile

GROUP_KINDS = (
    RangeKind.GROUP,
    RangeKind.DATALOADER,
    RangeKind.CONTAINER,
    RangeKind.MODULE,
)
RECOMPUTE = "recompute"
"""Group and direction of ops that a checkpoint runs again during the backward pass."""
MAX_PATH_LEVELS = 64
"""Deeper groups add nothing to a path; limits names in endless recursion."""


@dataclass(frozen=True)
class RangeTree:
    """Nested ranges with their meaning; arrays are in the nesting's sorted order."""

    nesting: Nesting  # The nesting of all ranges.
    name: Int32  # Code into ``Profile.range_names`` of each range.
    kind: Integers  # ``RangeKind`` of each range.
    label: Integers  # Label code of each range.
    thread: Integers  # Thread of each range.
    process: Integers  # Process of each range.
    seq: Integers  # Sequence number of each range.
    unit: Int32  # Position of the unit that each range belongs to, or ``NO_ROW``.
    # Position of the innermost group around (or at) each range outside units, or ``NO_ROW``.
    group: Int32
    path: Integers  # Code into ``paths`` of the path inside each range.
    paths: tuple[str, ...]  # Group paths.

    def without_depths(self) -> RangeTree:
        """The tree without ``by_depth``, which saves memory once all values are inherited."""
        return replace(self, nesting=replace(self.nesting, by_depth=()))

    def is_any(self, *kinds: RangeKind) -> Bool:
        """Return whether each range is of one of some kinds."""
        return is_any(self.kind, kinds)

    def is_unit(self) -> Bool:
        """Return whether each range is a unit."""
        return _is_own(self.unit)

    def is_group(self) -> Bool:
        """Return whether each range is a group."""
        return _is_own(self.group)

    def unit_kind(self) -> Integers:
        """Kind of the unit that each range belongs to; ``IGNORED``: none."""
        kind = self.kind[self.unit]  # without a unit: any
        kind[self.unit < 0] = RangeKind.IGNORED
        return kind


def is_any(kind: Integers, kinds: tuple[RangeKind, ...]) -> Bool:
    """Return whether each is one of some kinds; faster than ``numpy.isin`` for a few kinds."""
    wanted = np.zeros(len(RangeKind), dtype=bool)
    wanted[list(kinds)] = True
    return wanted[kind]


def _is_own(owner: Int32) -> Bool:
    result: Bool = owner == np.arange(len(owner), dtype=np.int32)
    return result


def build_tree(profile: Profile, nesting: Nesting, meaning: RangeMeaning, domain: int) -> RangeTree:
    """Find units, groups and paths; only ranges of one domain may be ops and groups."""
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
    is_separate = is_any(kind, (RangeKind.WRAPPER, RangeKind.COMPILED))
    # A node outside a wrapper is a unit: PyTorch before 1.9 opens no wrapper.
    opens_unit = is_separate | is_any(kind, (RangeKind.OP, RangeKind.NODE))
    own_unit = np.where(opens_unit, position, np.int32(-1))
    is_module = kind == RangeKind.MODULE
    seq = nesting.in_order(profile.ranges.seq)
    unit = nesting.inherit(own_unit, keep_own=is_separate)
    is_again, recomputing = _recomputed(nesting, kind, seq, unit)
    if is_again.any():
        unit = nesting.inherit(own_unit, keep_own=is_separate | is_again)
    is_group = is_any(kind, GROUP_KINDS) & (unit < 0)
    group = nesting.inherit_innermost(np.where(is_group, position, np.int32(-1)))
    # Groups inside a backward node are those of the ops that it recomputes.
    on_path = (is_any(kind, GROUP_KINDS) & (kind != RangeKind.CONTAINER)) | recomputing
    path_label = np.where(recomputing, len(meaning.labels), label)
    labels = (*meaning.labels, RECOMPUTE)
    # A module is also listed inside one of the same name.
    form = is_module.astype(np.int8)
    is_closure = np.isin(label, [labels.index(name) for name in meaning.closures]) & is_group
    records = is_module | is_wrapper | ((kind == RangeKind.OP) & (seq >= 0))
    closure_ns = _closure_ends(nesting, is_closure, records)
    path, paths = _paths(nesting, on_path, path_label, form, labels, closure_ns)
    return RangeTree(
        nesting=nesting,
        name=name,
        kind=kind,
        label=label,
        thread=thread,
        process=narrowest(profile.thread_process)[thread],
        seq=seq,
        unit=unit,
        group=group,
        path=narrowest(path),
        paths=paths,
    )


_NODES = (RangeKind.WRAPPER, RangeKind.NODE)


def _recomputed(nesting: Nesting, kind: Integers, seq: Integers, unit: Int32) -> tuple[Bool, Bool]:
    """Return the ops that backward nodes run again for a checkpoint, and the nodes that do so.

    A node's own ops run without recording a graph. What it recomputes is a forward pass again: its
    ops are called by modules, or have sequence numbers. In a backward pass that itself records a
    graph all ops have numbers; then the last op directly in a node, which is the node's own, has
    one, too. What runs between the first and the last of these ops belongs to the recomputation.
    """
    none = np.zeros(len(kind), dtype=bool)
    is_node, is_op = is_any(kind, _NODES), kind == RangeKind.OP
    records = (is_op & (seq >= 0)) | (kind == RangeKind.MODULE)
    if not (records & (unit >= 0) & is_node[unit]).any():
        return none, none
    owner = _owner(nesting, is_node | is_op)
    is_child = (owner >= 0) & is_node[owner]
    nested = is_child & (kind == RangeKind.WRAPPER)
    is_child &= is_op
    called = _owner(nesting, is_node | (kind == RangeKind.MODULE))
    in_module = is_child & (called >= 0) & ~is_node[called]
    records = is_child & (in_module | (seq >= 0))
    # Ranges are sorted by start; of several rows of an owner the last assignment remains.
    last, until, first = np.full((3, len(kind)), -1, dtype=np.int64)
    rows = np.flatnonzero(is_child)
    last[owner[rows]] = rows
    rows = np.flatnonzero(records)
    until[owner[rows]] = rows
    first[owner[rows[::-1]]] = rows[::-1]
    recomputing = (until >= 0) & ~records[last]
    recomputing[owner[in_module]] = True
    recomputing[owner[nested]] |= until[owner[nested]] >= 0
    position = np.arange(len(kind))
    is_child &= recomputing[owner] & (position >= first[owner]) & (position <= until[owner])
    return is_child, recomputing


def _owner(nesting: Nesting, owns: Bool) -> Int32:
    """Position of the innermost of some ranges around each one, or ``NO_ROW``."""
    position = np.arange(len(owns), dtype=np.int32)
    own = nesting.inherit_innermost(np.where(owns, position, np.int32(-1)))
    return np.where(nesting.parent >= 0, own[nesting.parent], np.int32(-1))


def nested_units(tree: RangeTree) -> tuple[Int64, Integers]:
    """Return the units inside other units, and the unit around each."""
    inner = np.flatnonzero(tree.is_unit())
    parent = tree.nesting.parent[inner]
    around = np.where(parent >= 0, tree.unit[parent], -1)
    return inner[around >= 0], around[around >= 0]


def outermost_wrappers(tree: RangeTree, inner: Int64, around: Integers) -> Integers:
    """The outermost wrapper at or around each unit that is inside another one, or ``NO_ROW``."""
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
    """Lengths of units without nested units, so that no time counts twice. Unit: ns.

    A checkpoint recomputes its ops inside the backward node that needs them.
    """

    def __init__(self, tree: RangeTree, inner: Int64, around: Integers) -> None:
        nesting = self._nesting = tree.nesting
        self._around, row = np.unique(around, return_inverse=True)
        self._nested_ns = np.zeros(len(self._around), dtype=np.int64)
        np.add.at(self._nested_ns, row, nesting.end_ns[inner] - nesting.start_ns[inner])

    def of(self, units: Integers) -> Int64:
        """Return the own time of each of some units. Unit: ns."""
        own: Int64 = self._nesting.end_ns[units] - self._nesting.start_ns[units]
        if len(self._around):
            row = np.minimum(np.searchsorted(self._around, units), len(self._around) - 1)
            own -= np.where(self._around[row] == units, self._nested_ns[row], 0)
        return own


def _contains_ops(nesting: Nesting, is_op: Bool, name: Int32) -> Bool:
    """Op ranges whose name also occurs around another op, like a loop or a recorded graph."""
    above = _owner(nesting, is_op)
    names = np.unique(name[above[is_op & (above >= 0)]])
    return is_op & np.isin(name, names)


def _closure_ends(nesting: Nesting, is_closure: Bool, records: Bool) -> Int64 | None:
    """End of the forward pass inside each closure, 0: it runs none; None: no closure runs one.

    Lightning passes a closure to ``Optimizer.step`` that runs the forward and backward pass; the
    optimizer's own work, which records no graph, follows.
    """
    result = np.zeros(len(is_closure), dtype=np.int64)
    rows, recorded = np.flatnonzero(is_closure), np.flatnonzero(records)
    # What a closure contains are the positions behind it, until a range starts after its end.
    for low, high in pairwise(nesting.lane_start.tolist()):
        own = rows[(rows >= low) & (rows < high)]
        stop = low + np.searchsorted(nesting.start_ns[low:high], nesting.end_ns[own])
        bounds = np.searchsorted(recorded, np.stack([own, stop], axis=1))
        for row, (first, last) in zip(own.tolist(), bounds.tolist(), strict=True):
            if last > first:
                result[row] = nesting.end_ns[recorded[first:last]].max()
    return result if result.any() else None


def _paths(
    nesting: Nesting,
    is_group: Bool,
    label: Integers,
    form: Integers,
    labels: tuple[str, ...],
    closure_ns: Int64 | None = None,
) -> tuple[Int32, tuple[str, ...]]:
    """Return the path *inside* each range: its groups from the outermost to the innermost.

    A range with ``closure_ns`` is on the path only of ranges in it that start after this time; see
    ``_closure_ends``.
    """
    path = np.zeros(len(label), dtype=np.int32)
    own = path.copy()
    codes: dict[int, int] = {}
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
        if closure_ns is not None and depth:
            end = closure_ns[parent]
            late = (end > 0) & (nesting.start_ns[positions] >= end)
            above = np.where(late, own[parent], above)
        path[positions] = above
        groups = is_group[positions]
        rows = positions[groups]
        if not len(rows):
            continue
        keys = (above[groups].astype(np.int64) * len(labels) + label[rows]) * 2 + form[rows]
        unique, code = dense_codes(keys)
        new = []
        for key in unique.tolist():
            if key not in codes:
                codes[key] = len(texts)
                above_and_label, is_module = divmod(key, 2)
                parent_path, label_code = divmod(above_and_label, len(labels))
                text = _joined_path(texts[parent_path], labels[label_code], is_module)
                texts.append(text)
            new.append(codes[key])
        path[rows] = np.array(new, dtype=np.int32)[code]
        if closure_ns is not None:
            split = closure_ns[rows] > 0
            own[rows[split]] = path[rows[split]]
            path[rows[split]] = above[groups][split]
    return path, tuple(texts)


def _joined_path(path: str, label: str, form: int) -> str:
    """Return a group's path; a group directly in one of the same name adds nothing (recursion)."""
    name = f"{label.replace('/', '|')}/"
    if (not form and path.endswith(f"/{name}")) or path.count("/") > MAX_PATH_LEVELS:
        return path
    return path + name


def adopt_calls(
    profile: Profile, tree: RangeTree, meaning: RangeMeaning, domain: int, call_range: Int32
) -> Int32:
    """Return each call's range (or ``NO_ROW``), completed for calls of helper threads.

    This is for XLA's autotuner: the thread that compiles a program waits inside ``XlaCompile``
    while a pool of threads compiles candidates, fills buffers, runs the candidates and compares the
    results. Only the runs are inside ranges. A call of such a thread belongs to the compilation if

    * it is outside all ranges of the framework's domain,
    * its thread compiles or autotunes, and never runs a program of the user,
    * and a compilation of its process is open when it starts.

    Threads without any range of the domain are skipped: the runtime's own transfers run there.
    """
    if not meaning.helped:
        return call_range
    api = profile.api_calls
    calls = np.flatnonzero((call_range < 0) & _is_helper(profile, tree, meaning)[api.thread])
    position = np.arange(len(tree.name))
    is_owner = tree.is_group() & np.isin(tree.name, list(meaning.helped))
    owner = tree.nesting.inherit(np.where(is_owner, position, -1).astype(np.int32))
    result = call_range.copy()
    for thread in np.unique(tree.thread[is_owner]).tolist():
        same = profile.thread_process[api.thread[calls]] == profile.thread_process[thread]
        rows = calls[same & (result[calls] < 0)]
        start = api.start_ns[rows]
        lane = np.full(len(rows), thread, dtype=np.int32)
        around = innermost(tree.nesting, lane, start, start + 1, domain)
        result[rows] = np.where(around >= 0, owner[np.maximum(around, 0)], -1)
    return result


def _is_helper(profile: Profile, tree: RangeTree, meaning: RangeMeaning) -> Bool:
    """Return for each thread whether it has ranges of overhead and never runs a program."""
    groups = np.flatnonzero(tree.kind == RangeKind.GROUP)

    def threads_with(labels: frozenset[str]) -> Int64:
        wanted = np.array([label in labels for label in meaning.labels], dtype=bool)
        return np.unique(tree.thread[groups[wanted[tree.label[groups]]]]).astype(np.int64)

    helper = np.zeros(len(profile.threads), dtype=bool)
    helper[np.setdiff1d(threads_with(meaning.overhead), threads_with(meaning.programs))] = True
    return helper
