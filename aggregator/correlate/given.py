"""Ops that the source names: no range is interpreted, every event keeps the owner it has there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.op_table import BPROP, FPROP, Op, OpTable
from aggregator.correlate.ops import Instances, Origin
from aggregator.correlate.work import CorrelatedWork, LaunchedWork
from aggregator.frameworks.meaning import OpText, RangeMeaning
from aggregator.frameworks.pytorch import BACKWARD_TYPE
from aggregator.given import GivenOp, GivenOps, GivenProfile, GivenShapes, Owners
from aggregator.intervals import segment_union
from aggregator.profile import Bool, DeviceWork, Int32, Int64, empty_i32

TC_ELIGIBLE, TC_UNASSOCIATED = 0, 2
"""DLProf's ``tc_support_status``."""
DATALOADER_TYPE = "dataloader"


@dataclass(frozen=True)
class GivenCorrelation:
    """Ops, executions and work of a given profile."""

    meaning: RangeMeaning
    work: CorrelatedWork
    table: OpTable


def correlate_given_ops(profile: GivenProfile) -> GivenCorrelation:
    """Join work and calls to executions as the source tells."""
    given = profile.given
    executions = _Executions(profile)
    kinds = (
        (profile.kernels, given.kernels),
        (profile.copies, given.copies),
        (profile.sets, given.sets),
    )
    owners = [executions.owners_of(owners, _times(profile, w, owners)) for w, owners in kinds]
    call_owner = executions.owners_of(given.calls, profile.api_calls.start_ns)
    order, rank = executions.by_start()
    ops, op_rank = _ops(profile, executions)
    table = OpTable(ops, op_rank[executions.op[order]].astype(np.int32))
    instances = executions.instances(order, table, rank[call_owner].astype(np.int32))
    launched = [
        _launched(profile, work, owned.call, rank[owner].astype(np.int32))
        for (work, owned), owner in zip(kinds, owners, strict=True)
    ]
    return GivenCorrelation(_meaning(given.shapes), _work(profile, instances, launched), table)


def _times(profile: GivenProfile, work: DeviceWork, owners: Owners) -> Int64:
    """Launch of each piece of work; its own start where no call was recorded. Unit: ns."""
    if not len(profile.api_calls):
        return work.start_ns
    start = profile.api_calls.start_ns[np.maximum(owners.call, 0)]
    return np.where(owners.call >= 0, start, work.start_ns)


class _Executions:
    """Executions of ops, grown by those of ops that own events but ran nowhere."""

    def __init__(self, profile: GivenProfile) -> None:
        self._profile = profile
        given = profile.given
        lost = _ops_without_instances(given)
        first, last, thread = _span_of_events(profile, lost)
        rows = given.instances
        self.op = np.concatenate([rows.op, lost]).astype(np.int64)
        self.start_ns = np.concatenate([rows.start_ns, first])
        self.end_ns = np.concatenate([rows.end_ns, last])
        self.thread = np.concatenate([rows.thread, thread]).astype(np.int32)
        self.shapes = np.concatenate([rows.shapes, np.full(len(lost), -1)]).astype(np.int32)
        self._of_op = np.argsort(self.op, kind="stable")
        self._bounds = np.searchsorted(self.op[self._of_op], np.arange(len(given.ops) + 1))
        self._starts_ns = np.unique(self.start_ns)
        self._in_time = np.lexsort((self.start_ns, self.op))
        self._keys = self._key(self.op, self.start_ns)[self._in_time]

    def _key(self, op: Int64, time_ns: Int64) -> Int64:
        """One sorted key (op, start); a time is the number of starts until then: no overflow."""
        started = np.searchsorted(self._starts_ns, time_ns, side="right")
        return op * (len(self._starts_ns) + 1) + started

    def owners_of(self, owners: Owners, time_ns: Int64) -> Int64:
        """Execution of each event: the one of the number that DLProf gave, if it covers the event.

        Otherwise the last one of the op that started before it, if that one covers the event.
        """
        op = owners.op.astype(np.int64)
        low, high = self._bounds[op], self._bounds[op + 1]
        position = np.clip(low + owners.number, low, high - 1)
        numbered = self._of_op[position] if len(op) else position
        found = np.searchsorted(self._keys, self._key(op, time_ns), side="right") - 1
        timely = self._in_time[np.clip(found, low, high - 1)] if len(op) else found
        use_time = ~self._covers(numbered, time_ns) & self._covers(timely, time_ns)
        result: Int64 = np.where(use_time, timely, numbered)
        return result

    def _covers(self, instance: Int64, time_ns: Int64) -> Bool:
        result: Bool = (self.start_ns[instance] <= time_ns) & (time_ns <= self.end_ns[instance])
        return result

    def by_start(self) -> tuple[Int64, Int64]:
        """Executions in order of start, and the rank of each."""
        order = np.argsort(self.start_ns, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return order, rank

    def instances(self, order: Int64, table: OpTable, call_instance: Int32) -> Instances:
        """All executions as the rest of the engine knows them."""
        origins = np.array([op.origin for op in table.ops], dtype=np.int32)
        none = np.full(len(order), -1, dtype=np.int32)
        thread = self.thread[order]
        start, end = self.start_ns[order], self.end_ns[order]
        return Instances(
            origin=origins[table.op_of_instance] if len(order) else empty_i32(),
            label=none,
            path=np.zeros(len(order), dtype=np.int32),
            range_name=self.shapes[order],
            marker=none,
            forward=none.astype(np.int64),
            start_ns=start,
            end_ns=end,
            cpu_time_ns=end - start,
            thread=thread,
            shapes=none,
            call_instance=call_instance,
            busy_start_ns=start,
            busy_end_ns=end,
            busy_process=self._profile.thread_process[thread],
            paths=("/",),
        )


def _ops_without_instances(given: GivenOps) -> Int64:
    """Ops that own events and have no execution."""
    owned = [owners.op for owners in (given.kernels, given.copies, given.sets, given.calls)]
    result: Int64 = np.setdiff1d(np.concatenate(owned), given.instances.op).astype(np.int64)
    return result


def _span_of_events(profile: GivenProfile, ops: Int64) -> tuple[Int64, Int64, Int32]:
    """First start and last end of the calls of some ops, and a thread. Unit: ns."""
    api, owner = profile.api_calls, profile.given.calls.op
    first = np.zeros(len(ops), dtype=np.int64)
    last = np.zeros(len(ops), dtype=np.int64)
    thread = np.zeros(len(ops), dtype=np.int32)
    for row, op in enumerate(ops.tolist()):
        calls = np.flatnonzero(owner == op)
        if len(calls):
            first[row], last[row] = api.start_ns[calls].min(), api.end_ns[calls].max()
            thread[row] = api.thread[calls[0]]
    return first, last, thread


def _ops(profile: GivenProfile, executions: _Executions) -> tuple[tuple[Op, ...], Int64]:
    """The ops in order of first start, and the new row of each given op; -1: it never ran."""
    given = profile.given.ops
    first = np.full(len(given), np.iinfo(np.int64).max)
    np.minimum.at(first, executions.op, executions.start_ns)
    order = np.argsort(first, kind="stable")
    order = order[first[order] < np.iinfo(np.int64).max]
    rank = np.full(len(given), -1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    process = np.zeros(len(given), dtype=np.int64)
    by_time = np.argsort(executions.start_ns, kind="stable")[::-1]
    threads = executions.thread[by_time]
    process[executions.op[by_time]] = profile.thread_process[threads]
    forward = _forward_ops(given)
    ops = tuple(
        _op(given[row], int(process[row]), int(rank[forward[row]]) if row in forward else -1)
        for row in order.tolist()
    )
    return ops, rank


def _forward_ops(ops: tuple[GivenOp, ...]) -> dict[int, int]:
    """Forward op of each backward one: the only op of its name in the other direction."""
    by_name: dict[tuple[str, str], list[int]] = {}
    for row, op in enumerate(ops):
        by_name.setdefault((op.op_name, op.direction), []).append(row)
    result = {}
    for row, op in enumerate(ops):
        forward = by_name.get((op.op_name, FPROP), [])
        if op.direction == BPROP and len(forward) == 1:
            result[row] = forward[0]
    return result


def _op(given: GivenOp, process: int, forward: int) -> Op:
    return Op(
        op_id=given.op_id,
        op_name=given.op_name,
        op_type=given.op_type,
        direction=given.direction,
        process=process,
        data_type=given.data_type,
        stack_trace=given.stack_trace,
        forward=forward,
        origin=_origin(given),
        tc_eligible=given.tc_support_status == TC_ELIGIBLE,
    )


def _origin(op: GivenOp) -> Origin:
    if op.tc_support_status == TC_UNASSOCIATED:
        return Origin.STRAY
    if op.op_type.lower() == DATALOADER_TYPE:
        return Origin.DATALOADER
    if op.op_type == BACKWARD_TYPE:
        return Origin.BACKWARD_ALONE
    return Origin.BACKWARD if op.direction == BPROP else Origin.FORWARD


def _launched(
    profile: GivenProfile, work: DeviceWork, call: Int32, instance: Int32
) -> LaunchedWork:
    api = profile.api_calls
    if not len(api):
        zero = np.zeros(len(work), dtype=np.int64)
        return LaunchedWork(work, call, instance, work.start_ns, zero)
    known, row = call >= 0, np.maximum(call, 0)
    start = np.where(known, api.start_ns[row], work.start_ns)
    duration = np.where(known, api.end_ns[row] - api.start_ns[row], 0)
    return LaunchedWork(work, call, instance, start, duration)


def _work(
    profile: GivenProfile, instances: Instances, launched: list[LaunchedWork]
) -> CorrelatedWork:
    api, owner = profile.api_calls, instances.call_instance.astype(np.int64)
    # Calls of an op count in its CPU time as far as they lie in its range.
    start = np.maximum(api.start_ns, instances.start_ns[owner])
    end = np.maximum(np.minimum(api.end_ns, instances.end_ns[owner]), start)
    in_calls = segment_union(owner, start, end, len(instances)).covered_ns
    gpu = segment_union(
        np.concatenate([part.instance for part in launched]).astype(np.int64),
        np.concatenate([part.work.start_ns for part in launched]),
        np.concatenate([part.work.end_ns for part in launched]),
        len(instances),
    )
    kernels, copies, sets = launched
    return CorrelatedWork(
        instances=instances,
        kernels=kernels,
        copies=copies,
        sets=sets,
        graphs=_launched(profile, profile.graphs, empty_i32(), empty_i32()),
        cpu_time_ns=instances.cpu_time_ns,
        cpu_overhead_ns=np.maximum(instances.cpu_time_ns - in_calls, 0),
        gpu=gpu,
    )


def _meaning(shapes: tuple[GivenShapes, ...]) -> RangeMeaning:
    """No range means anything; the texts of shapes go by the execution's ``range_name``."""
    texts = {
        row: OpText(input_shapes=s.inputs, parameters=s.parameters, output_shapes=s.outputs)
        for row, s in enumerate(shapes)
    }
    return RangeMeaning(empty_i32(), empty_i32(), (), texts, {}, {})
