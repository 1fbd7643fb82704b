"""Which op of the new side is which op of the base.

Ops match by path, name and direction. What is left is aligned below parents that match: modules and
ops with the same content, types and shapes in the same order, under other names. What still has no
partner is summed over the lowest module that both sides have; the rest is only in one side.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from aggregator.compare.result import Match

ROOT: Final = "/"
_COUNTER: Final = re.compile(r"(?:\[\d+\]|\d+)")
_LEAST_ALIKE: Final = 0.5
"""Share of the ops that a module and what is inside another one must have in common."""


@dataclass(frozen=True)
class Op:
    """An op of a side."""

    name: str  # Path and name, without the rank.
    direction: str
    op_type: str
    shapes: str = ""  # Input shapes of its first call; empty: not recorded.
    parameters: str = ""  # Likewise.

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it within its side."""
        return self.name, self.direction


@dataclass(frozen=True)
class Target:
    """What a row is about."""

    match: Match
    module: str  # Path with a slash at its end.
    op: str
    op_type: str
    direction: str
    base_name: str = ""

    @staticmethod
    def of(op: Op, match: Match, base_name: str = "") -> Target:
        """The row of one op."""
        module, _, name = op.name.rpartition("/")
        return Target(match, f"{module}/", name, op.op_type, op.direction, base_name)


@dataclass
class Targets:
    """The row of each op of both sides, by its key."""

    base: dict[tuple[str, str], Target] = field(default_factory=dict)
    new: dict[tuple[str, str], Target] = field(default_factory=dict)


class _Node:
    """A module: its parts and its own ops, in order."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: dict[str, _Node] = {}
        self.ops: dict[tuple[str, str], Op] = {}

    def add(self, op: Op) -> None:
        node = self
        *parents, name = op.name.removeprefix(ROOT).split("/")
        for part in parents:
            if part not in node.parts:
                node.parts[part] = _Node(f"{node.path}{part}/")
            node = node.parts[part]
        node.ops[name, op.direction] = op

    def all_ops(self) -> list[Op]:
        found = list(self.ops.values())
        for part in self.parts.values():
            found += part.all_ops()
        return found

    def content(self) -> Hashable:
        """Types, directions and shapes of all its ops in order, without names."""
        own = tuple(_kind(op) for op in self.ops.values())
        return own, tuple(part.content() for part in self.parts.values())

    def names(self) -> frozenset[tuple[str, str]]:
        """Names of its ops relative to itself."""
        start = len(self.path)
        return frozenset((op.name[start:], op.direction) for op in self.all_ops())


def _kind(op: Op) -> tuple[str, str, str]:
    return op.op_type, op.direction, op.shapes


def match_ops(base: Iterable[Op], new: Iterable[Op]) -> Targets:
    """Find the row of each op; both sides in order of first execution."""
    trees = _tree(base), _tree(new)
    matcher = _Matcher()
    left = matcher.match(*trees)
    matcher.finish(left)
    return matcher.found


def _tree(ops: Iterable[Op]) -> _Node:
    root = _Node(ROOT)
    for op in ops:
        root.add(op)
    return root


_Left = tuple[list[Op], list[Op]]


class _Matcher:
    def __init__(self) -> None:
        self.found = Targets()

    def match(self, base: _Node, new: _Node) -> _Left:
        """Match what is inside two modules; returns the ops of both that have no partner yet."""
        left: _Left = ([], [])
        for name in [name for name in base.ops if name in new.ops]:
            self._pair(base.ops[name], new.ops[name])
        base_ops = [op for name, op in base.ops.items() if name not in new.ops]
        new_ops = [op for name, op in new.ops.items() if name not in base.ops]
        parts = [(base.parts[name], new.parts[name]) for name in base.parts if name in new.parts]
        base_parts = [part for name, part in base.parts.items() if name not in new.parts]
        new_parts = [part for name, part in new.parts.items() if name not in base.parts]
        for key in (_Node.content, _template):
            pairs = _aligned([key(node) for node in base_parts], [key(node) for node in new_parts])
            parts += [(base_parts[a], new_parts[b]) for a, b in pairs]
            base_parts = _without(base_parts, [a for a, _ in pairs])
            new_parts = _without(new_parts, [b for _, b in pairs])
        for pair in parts:
            _extend(left, self.match(*pair))
        pairs = _aligned([_kind(op) for op in base_ops], [_kind(op) for op in new_ops])
        for a, b in pairs:
            self._pair(base_ops[a], new_ops[b])
        base_ops = _without(base_ops, [a for a, _ in pairs])
        new_ops = _without(new_ops, [b for _, b in pairs])
        rest = (_rest(base.path, base_ops, base_parts), _rest(new.path, new_ops, new_parts))
        _extend(left, self._unwrap(*rest))
        return self._at_module(new.path, left)

    def _unwrap(self, base: _Node, new: _Node) -> _Left:
        """Match a module's ops with those of a module that wraps them on the other side only."""
        for part in list(new.parts.values()):
            if _alike(base, part):
                del new.parts[part.path[len(new.path) : -1]]
                return _joined(self.match(base, part), ([], new.all_ops()))
        for part in list(base.parts.values()):
            if _alike(part, new):
                del base.parts[part.path[len(base.path) : -1]]
                return _joined(self.match(part, new), (base.all_ops(), []))
        return base.all_ops(), new.all_ops()

    def _at_module(self, path: str, left: _Left) -> _Left:
        """Sum what is left over a module if both sides have something left in it."""
        if path == ROOT or not (left[0] and left[1]):
            return left
        self._sum(path, left)
        return [], []

    def _sum(self, path: str, left: _Left) -> None:
        target = Target(Match.MODULE, path, "", "", "")
        self.found.base.update((op.key, target) for op in left[0])
        self.found.new.update((op.key, target) for op in left[1])

    def finish(self, left: _Left) -> None:
        """Place the ops that found no module in common but the whole program."""
        matched = sum(pair.match is not Match.MODULE for pair in self.found.base.values())
        if left[0] and left[1] and min(map(len, left)) > matched:
            self._sum(ROOT, left)
            return
        for op in left[0]:
            self.found.base[op.key] = Target.of(op, Match.ONLY_BASE)
        for op in left[1]:
            self.found.new[op.key] = Target.of(op, Match.ONLY_NEW)

    def _pair(self, base: Op, new: Op) -> None:
        is_same = base.name == new.name
        match = Match.SAME if is_same else Match.ALIGNED
        target = Target.of(new, match, "" if is_same else base.name)
        self.found.base[base.key] = target
        self.found.new[new.key] = target


def _template(node: _Node) -> str:
    """The name of a module without its counters."""
    return _COUNTER.sub("#", node.path.rstrip("/").rpartition("/")[2])


def _aligned(base: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of equal items in the same order."""
    if not base or not new:
        return []
    blocks = SequenceMatcher(None, base, new, autojunk=False).get_matching_blocks()
    return [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]


def _alike(base: _Node, new: _Node) -> bool:
    first, second = base.names(), new.names()
    least = min(len(first), len(second))
    return least > 1 and len(first & second) >= _LEAST_ALIKE * least


def _rest(path: str, ops: list[Op], parts: list[_Node]) -> _Node:
    node = _Node(path)
    for op in ops:
        node.ops[op.name[len(path) :], op.direction] = op
    for part in parts:
        node.parts[part.path[len(path) : -1]] = part
    return node


def _without(items: list, positions: list[int]) -> list:  # type: ignore[type-arg]
    gone = set(positions)
    return [item for position, item in enumerate(items) if position not in gone]


def _extend(left: _Left, more: _Left) -> None:
    left[0].extend(more[0])
    left[1].extend(more[1])


def _joined(first: _Left, second: _Left) -> _Left:
    return first[0] + second[0], first[1] + second[1]
