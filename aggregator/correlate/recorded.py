"""Correlation of a profile with recorded ops: every event keeps the op that owns it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator.correlate.instances import Instances, Origin, blank_columns
from aggregator.correlate.op_table import BPROP, FPROP, Op, OpTable
from aggregator.correlate.work import CorrelatedWork, LaunchedWork, gpu_union, launched_work
from aggregator.frameworks.meaning import OpText, RangeMeaning
from aggregator.frameworks.pytorch import BACKWARD_TYPE
from aggregator.profile.arrays import Bool, Int32, Int64, empty_i32
from aggregator.profile.intervals import segment_union
from aggregator.profile.profile import DeviceWork
from aggregator.profile.recorded import (
    Owners,
    RecordedOp,
    RecordedOps,
    RecordedProfile,
    RecordedShapes,
)

TC_ELIGIBLE, TC_UNASSOCIATED = 0, 2
"""DLProf's ``tc_support_status``."""
DATALOADER_TYPE = "dataloader"


@dataclass(frozen=True)
class RecordedCorrelation:
    """Ops, executions and work of a recorded profile."""

    meaning: RangeMeaning
    work: CorrelatedWork
    table: OpTable


def correlate_recorded_ops(profile: RecordedProfile) -> RecordedCorrelation:
    """Join work and calls to the executions that the source recorded for them."""
    recorded = profile.recorded
    executions = _Executions(profile)
    kinds = (
        (profile.kernels, recorded.kernels),
        (profile.copies, recorded.copies),
        (profile.sets, recorded.sets),
    )
    owners = [executions.owners_of(owners, _times(profile, w, owners)) for w, owners in kinds]
    ops, op_rank = _ops(profile, executions)
    op_of_execution = op_rank[executions.op].astype(np.int32)
    call_owner = executions.owners_of(recorded.calls, profile.api_calls.start_ns)
    origins = np.array([op.origin for op in ops], dtype=np.int32)
    instances = executions.instances(origins[op_of_execution], call_owner)
    rank = instances.sort_by_start()
    op_of_instance = np.empty_like(op_of_execution)
    op_of_instance[rank] = op_of_execution
    launched = [
        launched_work(profile, work, owned.call, rank[owner])
        for (work, owned), owner in zip(kinds, owners, strict=True)
    ]
    return RecordedCorrelation(
        _meaning(recorded.shapes),
        _work(profile, instances, launched),
        OpTable(ops, op_of_instance),
    )


def _times(profile: RecordedProfile, work: DeviceWork, owners: Owners) -> Int64:
    """Launch of each piece of work, or its own start without a recorded call. Unit: ns."""
    if not len(profile.api_calls):
        return work.start_ns
    start = profile.api_calls.start_ns[np.maximum(owners.call, 0)]
    return np.where(owners.call >= 0, start, work.start_ns)


class _Executions:
    """Executions of ops, plus one for each op that owns events but has no execution."""

    def __init__(self, profile: RecordedProfile) -> None:
        self._profile = profile
        recorded = profile.recorded
        lost = _ops_without_instances(recorded)
        first, last, thread = _span_of_events(profile, lost)
        rows = recorded.instances
        self.op = np.concatenate([rows.op, lost]).astype(np.int64)
        self.start_ns = np.concatenate([rows.start_ns, first])
        self.end_ns = np.concatenate([rows.end_ns, last])
        self.thread = np.concatenate([rows.thread, thread]).astype(np.int32)
        self.shapes = np.concatenate([rows.shapes, np.full(len(lost), -1)]).astype(np.int32)
        self._of_op = np.argsort(self.op, kind="stable")
        self._bounds = np.searchsorted(self.op[self._of_op], np.arange(len(recorded.ops) + 1))
        self._starts_ns = np.unique(self.start_ns)
        self._in_time = np.lexsort((self.start_ns, self.op))
        self._keys = self._key(self.op, self.start_ns)[self._in_time]

    def _key(self, op: Int64, time_ns: Int64) -> Int64:
        """Key (op, start) as one number; a time becomes the number of starts until then."""
        started = np.searchsorted(self._starts_ns, time_ns, side="right")
        return op * (len(self._starts_ns) + 1) + started

    def owners_of(self, owners: Owners, time_ns: Int64) -> Int64:
        """Execution of each event: the one with the number from DLProf, if it covers the event.

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

    def instances(self, origin: Int32, call_owner: Int64) -> Instances:
        """Return the executions as op instances, in the same order."""
        columns: dict[str, Any] = blank_columns(len(self.op), Origin.FORWARD)
        return Instances(
            **columns | {"origin": origin, "range_name": self.shapes},
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            cpu_time_ns=self.end_ns - self.start_ns,
            thread=self.thread,
            call_instance=call_owner.astype(np.int32),
            busy_start_ns=self.start_ns,
            busy_end_ns=self.end_ns,
            busy_process=self._profile.thread_process[self.thread],
            paths=("/",),
        )


def _ops_without_instances(recorded: RecordedOps) -> Int64:
    """Return the ops that own events but have no execution."""
    owned = [
        owners.op for owners in (recorded.kernels, recorded.copies, recorded.sets, recorded.calls)
    ]
    result: Int64 = np.setdiff1d(np.concatenate(owned), recorded.instances.op).astype(np.int64)
    return result


def _span_of_events(profile: RecordedProfile, ops: Int64) -> tuple[Int64, Int64, Int32]:
    """Return the first start and last end of the calls of some ops, and a thread. Unit: ns."""
    api, owner = profile.api_calls, profile.recorded.calls.op
    first = np.zeros(len(ops), dtype=np.int64)
    last = np.zeros(len(ops), dtype=np.int64)
    thread = np.zeros(len(ops), dtype=np.int32)
    for row, op in enumerate(ops.tolist()):
        calls = np.flatnonzero(owner == op)
        if len(calls):
            first[row], last[row] = api.start_ns[calls].min(), api.end_ns[calls].max()
            thread[row] = api.thread[calls[0]]
    return first, last, thread


def _ops(profile: RecordedProfile, executions: _Executions) -> tuple[tuple[Op, ...], Int64]:
    """The ops in order of first start, and the new row of each recorded op; -1: it never ran."""
    recorded = profile.recorded.ops
    first = np.full(len(recorded), np.iinfo(np.int64).max)
    np.minimum.at(first, executions.op, executions.start_ns)
    order = np.argsort(first, kind="stable")
    order = order[first[order] < np.iinfo(np.int64).max]
    rank = np.full(len(recorded), -1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    process = np.zeros(len(recorded), dtype=np.int64)
    by_time = np.argsort(executions.start_ns, kind="stable")[::-1]
    threads = executions.thread[by_time]
    process[executions.op[by_time]] = profile.thread_process[threads]
    forward = _forward_ops(recorded)
    ops = tuple(
        _op(recorded[row], int(process[row]), int(rank[forward[row]]) if row in forward else -1)
        for row in order.tolist()
    )
    return ops, rank


def _forward_ops(ops: tuple[RecordedOp, ...]) -> dict[int, int]:
    """Return the forward op of each backward one, if it is the only forward op of that name."""
    by_name: dict[tuple[str, str], list[int]] = {}
    for row, op in enumerate(ops):
        by_name.setdefault((op.op_name, op.direction), []).append(row)
    result = {}
    for row, op in enumerate(ops):
        forward = by_name.get((op.op_name, FPROP), [])
        if op.direction == BPROP and len(forward) == 1:
            result[row] = forward[0]
    return result


def _op(recorded: RecordedOp, process: int, forward: int) -> Op:
    return Op(
        op_id=recorded.op_id,
        op_name=recorded.op_name,
        op_type=recorded.op_type,
        direction=recorded.direction,
        process=process,
        data_type=recorded.data_type,
        stack_trace=recorded.stack_trace,
        forward=forward,
        origin=_origin(recorded),
        tc_eligible=recorded.tc_support_status == TC_ELIGIBLE,
    )


def _origin(op: RecordedOp) -> Origin:
    if op.tc_support_status == TC_UNASSOCIATED:
        return Origin.STRAY
    if op.op_type.lower() == DATALOADER_TYPE:
        return Origin.DATALOADER
    if op.op_type == BACKWARD_TYPE:
        return Origin.BACKWARD_ALONE
    return Origin.BACKWARD if op.direction == BPROP else Origin.FORWARD


def _work(
    profile: RecordedProfile, instances: Instances, launched: list[LaunchedWork]
) -> CorrelatedWork:
    api, owner = profile.api_calls, instances.call_instance.astype(np.int64)
    # The part of a call inside the range of its op counts in the op's CPU time.
    start = np.maximum(api.start_ns, instances.start_ns[owner])
    end = np.maximum(np.minimum(api.end_ns, instances.end_ns[owner]), start)
    in_calls = segment_union(owner, start, end, len(instances)).covered_ns
    kernels, copies, sets = launched
    return CorrelatedWork(
        instances=instances,
        kernels=kernels,
        copies=copies,
        sets=sets,
        graphs=launched_work(profile, profile.graphs, empty_i32(), empty_i32()),
        cpu_time_ns=instances.cpu_time_ns,
        cpu_overhead_ns=np.maximum(instances.cpu_time_ns - in_calls, 0),
        gpu=gpu_union(launched, len(instances)),
    )


def _meaning(shapes: tuple[RecordedShapes, ...]) -> RangeMeaning:
    """Return a meaning with the texts of shapes, indexed by the execution's ``range_name``."""
    texts = {
        row: OpText(input_shapes=s.inputs, parameters=s.parameters, output_shapes=s.outputs)
        for row, s in enumerate(shapes)
    }
    return RangeMeaning(empty_i32(), empty_i32(), (), texts, {}, {})
