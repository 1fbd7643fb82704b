"""Ops of a user's own NVTX domain: its ranges, with the device work that they cover.

A call belongs to the innermost range of the domain around it on its own thread. In addition, work
launched by other threads of the process without ranges of the domain is covered *by time* by the
range that was open: the backward pass runs on its own thread, inside ``backward()``.

A range of ``nvtxRangeStart/End`` belongs to its process, not to a thread: it covers, as its own,
the launches of all threads while it is open, except those in ranges of these threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.correlate.op_table import Op, unique_op_id
from aggregator.correlate.range_tree import MAX_PATH_LEVELS
from aggregator.correlate.ranges import Nesting, innermost
from aggregator.correlate.work import CorrelatedWork, LaunchedWork
from aggregator.profile.arrays import Bool, Int32, Int64, Integers
from aggregator.profile.counters import template_of
from aggregator.profile.intervals import SegmentUnion, segment_union
from aggregator.profile.profile import Profile

_MAX_NUMBERED = 32
"""More texts that differ only in their numbers have a counter in them."""


@dataclass(frozen=True)
class Covered:
    """Device work of one kind that a domain's ranges cover."""

    row: Int64  # Row of the work.
    instance: Int64  # Instance of the domain that covers it.
    by_time: Bool  # Whether another thread launched it while the range was open.

    def own(self) -> Covered:
        """Select only the work that the range's own thread launched."""
        keep = ~self.by_time
        return Covered(self.row[keep], self.instance[keep], self.by_time[keep])


@dataclass(frozen=True)
class DomainWork:
    """One custom domain; instances are in order of start."""

    code: int  # Code into ``Profile.domain_names``.
    ops: tuple[Op, ...]  # Its ops.
    op: Int32  # Op (local row) of each instance.
    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    cpu_time_ns: Int64  # Length without nested ranges, so that no time counts twice. Unit: ns.
    cpu_overhead_ns: Int64  # CPU time outside CUDA calls. Unit: ns.
    thread: Int32  # Thread of each instance.
    gpu: SegmentUnion  # Union of the device work of each instance.
    kernels: Covered  # Kernels covered.
    copies: Covered  # Copies covered.
    sets: Covered  # Sets covered.
    graphs: Covered  # CUDA graphs, recorded as a whole, covered.


def correlate_domain(
    profile: Profile, nesting: Nesting, work: CorrelatedWork, code: int, process_rows: int
) -> DomainWork:
    """Find the ops of one custom domain.

    Ranges from row ``process_rows`` on belong to a process; see ``nest_process_ranges``.
    """
    in_domain = nesting.in_order(profile.ranges.domain) == code
    positions = np.flatnonzero(in_domain)
    positions = positions[np.argsort(nesting.start_ns[positions], kind="stable")]
    row_of = np.full(len(nesting), -1, dtype=np.int64)
    row_of[positions] = np.arange(len(positions))
    call_instance, call_by_time = _call_instances(profile, nesting, row_of, code, process_rows)
    kinds = [
        _covered(launched, call_instance, call_by_time)
        for launched in (work.kernels, work.copies, work.sets, work.graphs)
    ]
    own_call = (call_instance >= 0) & ~call_by_time
    api = profile.api_calls
    api_time = segment_union(
        call_instance[own_call], api.start_ns[own_call], api.end_ns[own_call], len(positions)
    )
    cpu_time = _self_time(nesting, positions, row_of)
    ops, op = _ops(profile, nesting, positions, row_of, code)
    return DomainWork(
        code=code,
        ops=ops,
        op=op,
        start_ns=nesting.start_ns[positions],
        end_ns=nesting.end_ns[positions],
        cpu_time_ns=cpu_time,
        cpu_overhead_ns=np.maximum(cpu_time - api_time.covered_ns, 0),
        thread=profile.ranges.thread[nesting.rows(positions)],
        gpu=_gpu_union(kinds, (work.kernels, work.copies, work.sets, work.graphs), len(positions)),
        kernels=kinds[0],
        copies=kinds[1],
        sets=kinds[2],
        graphs=kinds[3],
    )


def _call_instances(
    profile: Profile, nesting: Nesting, row_of: Int64, code: int, process_rows: int
) -> tuple[Int64, Bool]:
    """Return the instance that covers each API call, and whether only by time."""
    api = profile.api_calls
    found = innermost(nesting, api.thread, api.start_ns, api.end_ns, code)
    result = np.where(found >= 0, row_of[np.maximum(found, 0)], -1)
    lanes = nesting.lanes[nesting.lanes[:, 1] == code, 0]
    by_time = np.zeros(len(api), dtype=bool)
    process = profile.thread_process[api.thread]
    is_free = ~np.isin(api.thread, lanes)
    of_process = nesting.rows(np.arange(len(nesting))) >= process_rows
    shared = np.unique(profile.ranges.thread[process_rows:])
    for lane_thread in lanes.tolist():
        calls = np.full(len(api), fill_value=True) if lane_thread in shared else is_free
        rows = np.flatnonzero(calls & (process == profile.thread_process[lane_thread]))
        rows = rows[result[rows] < 0]
        # The call must start while the range is open; on another thread it may end later.
        thread = np.full(len(rows), lane_thread, dtype=np.int32)
        around = innermost(nesting, thread, api.start_ns[rows], api.start_ns[rows] + 1, code)
        hit = (around >= 0) & (is_free[rows] | of_process[np.maximum(around, 0)])
        result[rows[hit]] = row_of[around[hit]]
        by_time[rows[hit]] = ~of_process[around[hit]]
    return result.astype(np.int64), by_time


def _covered(launched: LaunchedWork, call_instance: Int64, call_by_time: Bool) -> Covered:
    has_call = np.flatnonzero(launched.call >= 0)
    call = launched.call[has_call]
    instance = call_instance[call]
    inside = instance >= 0
    return Covered(has_call[inside], instance[inside], call_by_time[call[inside]])


def _gpu_union(
    kinds: list[Covered], works: tuple[LaunchedWork, ...], num_instances: int
) -> SegmentUnion:
    own = [covered.own() for covered in kinds]
    pairs = list(zip(own, works, strict=True))
    return segment_union(
        np.concatenate([covered.instance for covered in own]),
        np.concatenate([launched.work.start_ns[covered.row] for covered, launched in pairs]),
        np.concatenate([launched.work.end_ns[covered.row] for covered, launched in pairs]),
        num_instances,
    )


def _self_time(nesting: Nesting, positions: Int64, row_of: Int64) -> Int64:
    length = nesting.end_ns[positions] - nesting.start_ns[positions]
    result = length.copy()
    parent = nesting.parent[positions]
    nested = parent >= 0
    np.subtract.at(result, row_of[parent[nested]], length[nested])
    self_time: Int64 = np.maximum(result, 0)
    return self_time


def _shown_names(profile: Profile, codes: Integers, process: Int32) -> dict[int, str]:
    """Return the name of each range code, with counters replaced and numbers of names kept.

    ``step 17`` occurs once: a counter. A few numbers that occur repeatedly, like ``Dense 1`` and
    ``Dense 2`` in every step, are names of different parts of a model.
    """
    pairs, counts = np.unique(np.stack([process, codes]), axis=1, return_counts=True)
    least: dict[int, int] = {}
    for code, count in zip(pairs[1].tolist(), counts.tolist(), strict=True):
        least[code] = min(count, least.get(code, count))
    alike: dict[str, list[int]] = {}
    for code in least:
        alike.setdefault(template_of(profile.range_names[code]), []).append(code)
    shown: dict[int, str] = {}
    for pattern, members in alike.items():
        is_name = len(members) <= _MAX_NUMBERED and min(map(least.__getitem__, members)) > 2
        for code in members:
            shown[code] = profile.range_names[code] if is_name else pattern
    return shown


def _ops(
    profile: Profile, nesting: Nesting, positions: Int64, row_of: Int64, code: int
) -> tuple[tuple[Op, ...], Int32]:
    ranges = profile.ranges
    codes = ranges.name[nesting.rows(positions)]
    process = profile.thread_process[ranges.thread[nesting.rows(positions)]]
    shown = _shown_names(profile, codes, process)
    names = [shown[code] for code in codes.tolist()]
    paths: list[str] = [""] * len(positions)
    keys: dict[tuple[int, str], int] = {}
    op = np.zeros(len(positions), dtype=np.int32)
    # Outer ranges start first, so the path of a parent is known before that of its children.
    for row, (position, name) in enumerate(zip(positions.tolist(), names, strict=True)):
        parent = int(nesting.parent[position])
        above = paths[row_of[parent]] if parent >= 0 else ""
        step = f"/{name.replace('/', '|')}"
        # Limits names in endless recursion.
        too_deep = above.endswith(step) or above.count("/") >= MAX_PATH_LEVELS
        paths[row] = above if too_deep and above else above + step
        op[row] = keys.setdefault((int(process[row]), paths[row]), len(keys))
    seen: dict[str, int] = {}
    used: set[str] = set()
    ops = []
    for number, path in keys:
        op_type = path.rpartition("/")[2]
        seen[op_type.upper()] = seen.get(op_type.upper(), 0) + 1
        ops.append(
            Op(
                op_id=unique_op_id(f"{op_type.upper()}_{seen[op_type.upper()]}", used),
                op_name=path,
                op_type=op_type,
                process=number,
                domain=code,
            )
        )
    return tuple(ops), op
