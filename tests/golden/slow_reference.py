"""A second, slow way from an export to the owner of every kernel: one pass with a stack per thread.

Written from the description of PyTorch's ranges, not from the engine: plain Python over plain SQL,
one object per range. It is checked against NVIDIA's ``nsys stats`` before the engine is checked
against it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders import query

WRAPPER = "autograd::engine::evaluate_function: "
SCHEMA_OP = re.compile(r"[A-Za-z_]\w*(::\w+)+(\.\w+)?")
PUSH_POP = 59


@dataclass(eq=False)
class Range:
    """One push/pop range of the default domain."""

    start: int
    end: int
    tid: int
    text: str
    parent: Range | None
    name: str = ""
    seq: int | None = None
    in_backward: bool = False

    def __post_init__(self) -> None:
        self.name = re.split(r", (?:seq|op_id) = \d", self.text, maxsplit=1)[0]
        number = re.match(r", seq = (\d+)", self.text[len(self.name) :])
        self.seq = int(number[1]) if number else None
        self.in_backward = self.is_wrapper or (self.parent is not None and self.parent.in_backward)

    @property
    def is_wrapper(self) -> bool:
        return self.name.startswith(WRAPPER)

    @property
    def is_operator(self) -> bool:
        return SCHEMA_OP.fullmatch(self.name) is not None

    @property
    def path(self) -> list[Range]:
        """From the outermost range to this one."""
        return [*(self.parent.path if self.parent else []), self]


@dataclass(frozen=True)
class Kernel:
    """One kernel with the ranges around the call that launched it, outermost first."""

    start: int
    name: str
    global_tid: int
    call_start: int
    call_end: int
    around: tuple[Range, ...]

    @property
    def pid(self) -> int:
        return (self.global_tid >> 24) & 0xFFFFFF

    @property
    def tid(self) -> int:
        return self.global_tid & 0xFFFFFF


@dataclass(frozen=True)
class Owner:
    """The op instance that a kernel belongs to.

    Attributes:
        kind: forward, backward (of a forward op), engine (without one), group or stray.
        label: Its name without path.
        start: Start of the range; of the forward range for a backward one; 0 for stray work.
    """

    kind: str
    label: str
    start: int


class Reference:
    """Owners of all kernels of an export."""

    def __init__(self, export: Path) -> None:
        self._export = export
        self.ranges = self._nested_ranges()
        self.kernels = self._kernels()
        self._forward: dict[tuple[int, int], list[Range]] = defaultdict(list)
        threads: dict[int, set[bool]] = defaultdict(set)
        for item in self.ranges:
            threads[item.tid].add(item.is_wrapper)
            if item.seq is not None and not item.in_backward:
                self._forward[item.tid >> 24, item.seq].append(item)
        # What a thread of the engine opens outside its wrappers is at most an operator.
        groups = {r.tid for r in self.ranges if not (r.in_backward or r.is_operator)}
        self._engine_threads = {
            tid for tid, found in threads.items() if True in found and tid not in groups
        }

    def _nested_ranges(self) -> list[Range]:
        rows = query(
            self._export,
            'SELECT start, "end", globalTid, coalesce(text, value) FROM NVTX_EVENTS'
            " LEFT JOIN StringIds ON id = textId"
            f" WHERE eventType = {PUSH_POP} AND coalesce(domainId, 0) = 0"
            ' ORDER BY globalTid, start, "end" DESC',
        )
        result: list[Range] = []
        stack: list[Range] = []
        for start, end, tid, text in rows:
            while stack and (stack[-1].tid != tid or stack[-1].end <= start):
                stack.pop()
            item = Range(start, end, tid, text, stack[-1] if stack else None)
            stack.append(item)
            result.append(item)
        return result

    def _kernels(self) -> list[Kernel]:
        rows = query(
            self._export,
            "SELECT r.globalTid, r.start, r.end, k.start, s.value"
            " FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
            " JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId"
            " AND r.globalTid >> 24 = k.globalPid >> 24"
            " JOIN StringIds AS s ON s.id = k.demangledName ORDER BY r.globalTid, r.start",
        )
        by_thread: dict[int, list[Range]] = defaultdict(list)
        for item in self.ranges:
            by_thread[item.tid].append(item)
        result = []
        tid = None
        waiting: Iterator[Range] = iter([])
        stack: list[Range] = []
        following: Range | None = None
        for thread, call, stop, start, name in rows:
            if thread != tid:
                tid, stack = thread, []
                waiting = iter(by_thread[thread])
                following = next(waiting, None)
            while following is not None and following.start <= call:
                stack.append(following)
                following = next(waiting, None)
            stack = [item for item in stack if item.end > call]
            around = tuple(item for item in stack if item.end >= stop)
            result.append(Kernel(start, name, thread, call, stop, around))
        return result

    def around_one_by_one(self, kernel: Kernel) -> list[Range]:
        """Ranges around a kernel's call, found by looking at every range of its thread."""
        found = [
            item
            for item in self.ranges
            if item.tid == kernel.global_tid
            and item.start <= kernel.call_start
            and item.end >= kernel.call_end
        ]
        return sorted(found, key=lambda item: (item.start, -item.end))

    def owners(self) -> Iterator[tuple[Kernel, Owner]]:
        """Every kernel that has a launching call, with its owner."""
        for kernel in self.kernels:
            yield kernel, self._owner(kernel.around)

    def _owner(self, around: tuple[Range, ...]) -> Owner:
        wrappers = [item for item in around if item.is_wrapper]
        if wrappers:
            return self._backward_owner(wrappers[-1])
        operators = [item for item in around if item.is_operator]
        if operators and operators[0].tid in self._engine_threads:
            return Owner("engine", operators[0].name.split("::")[-1], operators[0].start)
        if operators:
            return Owner("forward", operators[0].name.split("::")[-1], operators[0].start)
        if around:
            return Owner("group", around[-1].name, around[-1].start)
        return Owner("stray", "", 0)

    def _backward_owner(self, wrapper: Range) -> Owner:
        node = self._node_of(wrapper)
        if node is not None and node.seq is not None:
            candidates = self._forward[node.tid >> 24, node.seq]
            earlier = [item for item in candidates if item.start < node.start]
            if earlier:
                forward = max(earlier, key=lambda item: item.start)
                op = next(item for item in forward.path if item.is_operator)
                return Owner("backward", op.name.split("::")[-1], op.start)
        label = wrapper.name.removeprefix(WRAPPER).split("::")[-1]
        return Owner("engine", label, wrapper.start)

    def _node_of(self, wrapper: Range) -> Range | None:
        """First range directly inside a wrapper that bears the wrapper's own name."""
        if not hasattr(self, "_nodes"):
            self._nodes: dict[int, Range] = {}
            for item in self.ranges:
                if item.parent is not None and item.parent.name == WRAPPER + item.name:
                    self._nodes.setdefault(id(item.parent), item)
        return self._nodes.get(id(wrapper))


def disagreements(
    database: Path, reference: Reference
) -> list[tuple[Kernel, Owner, dict[str, Any]]]:
    """Kernels whose owner in a database is not the reference's."""
    engine = engine_owners(database)
    forward_op = _forward_ops(database)
    owners = list(reference.owners())
    assert len(owners) == len(engine)
    return [
        (kernel, owner, engine[_key(kernel)])
        for kernel, owner in owners
        if not _agrees(engine[_key(kernel)], kernel.pid, owner, forward_op)
    ]


def _key(kernel: Kernel) -> tuple[int, int, str]:
    return kernel.pid, kernel.start, kernel.name


def engine_owners(database: Path) -> dict[tuple[int, int, str], dict[str, Any]]:
    """Columns of the owner of each kernel, by process, start on the GPU and long name."""
    columns = ("direction", "op_type", "op_name", "forward", "start")
    rows = query(
        database,
        "SELECT p.pid, k.start, n.long_name, o.direction, o.op_type, o.op_name, o.forward, i.start"
        " FROM kernels AS k JOIN op_instances AS i ON i.id = k.instance"
        " JOIN ops AS o ON o.id = i.op JOIN processes AS p ON p.id = k.process"
        " JOIN kernel_names AS n ON n.id = k.name",
    )
    found = {row[:3]: dict(zip(columns, row[3:], strict=True)) for row in rows}
    assert len(found) == len(rows), "two kernels have the same start"
    return found


def _forward_ops(database: Path) -> set[tuple[int, int, int]]:
    """(process, start of an instance, row of its op) of all forward instances."""
    sql = (
        "SELECT p.pid, i.start, o.id FROM op_instances AS i JOIN ops AS o ON o.id = i.op"
        " JOIN processes AS p ON p.id = o.process WHERE o.direction = 'fprop'"
    )
    return {(pid, start, op) for pid, start, op in query(database, sql)}


def _agrees(
    found: dict[str, Any], pid: int, owner: Owner, forward_op: set[tuple[int, int, int]]
) -> bool:
    name = re.sub(r"\[\d+\]$", "", found["op_name"].rpartition("/")[2])
    if owner.kind == "stray":
        return bool(found["direction"] == "" and "unassociated_" in found["op_name"])
    if owner.kind == "backward":
        is_of_forward = (pid, owner.start, found["forward"]) in forward_op
        return bool(found["direction"] == "bprop" and is_of_forward and name == owner.label)
    label = re.sub(r"\d+", "#", owner.label) if owner.kind == "group" else owner.label
    same_instance = found["start"] == owner.start and found["forward"] is None
    direction = "bprop" if owner.kind == "engine" else "fprop"
    return bool(same_instance and name == label and found["direction"] == direction)
