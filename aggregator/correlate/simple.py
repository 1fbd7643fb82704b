"""Simple mode: no framework ranges, so all work belongs to one placeholder op, as in DLProf."""

from __future__ import annotations

import numpy as np

from aggregator.correlate.op_table import Op, OpTable
from aggregator.correlate.ops import Instances, Origin
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.intervals import flatten
from aggregator.profile import Profile, empty_i32

OP_ID = "SIMPLE_MODE_GLOBAL_NODE_OP_TYPE_1"
OP_NAME = "simple_mode_global_node_name"
OP_TYPE = "simple_mode_global_node_op_type"


def simple_meaning() -> RangeMeaning:
    """No range means anything."""
    return RangeMeaning(empty_i32(), empty_i32(), (), {}, {}, {})


def simple_instances(profile: Profile) -> Instances:
    """One instance over the whole profile, holding every call.

    Its CPU time is the time in which any CUDA call ran: nothing else on the CPU is known.
    """
    api = profile.api_calls
    calls = flatten(api.start_ns, api.end_ns)
    kinds = (profile.kernels, profile.copies, profile.sets)
    end = max(int(column.max(initial=0)) for column in (api.end_ns, *(k.end_ns for k in kinds)))

    def one32(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array([value], dtype=np.int32)

    def one64(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.array([value], dtype=np.int64)

    return Instances(
        origin=one32(Origin.FORWARD),
        label=one32(0),
        path=one32(0),
        range_name=one32(-1),
        marker=one32(-1),
        forward=one32(-1),
        start_ns=one64(0),
        end_ns=one64(end),
        cpu_time_ns=one64(calls.covered_ns()),
        thread=one32(0),
        shapes=one32(-1),
        call_instance=np.zeros(len(api), dtype=np.int32),
        busy_start_ns=api.start_ns,
        busy_end_ns=api.end_ns,
        busy_process=profile.thread_process[api.thread],
        paths=("/",),
    )


def simple_table(instances: Instances) -> OpTable:
    """The one placeholder op; work that no call launched belongs to it as well."""
    op = Op(
        op_id=OP_ID,
        op_name=OP_NAME,
        op_type=OP_TYPE,
        direction="",
        process=0,
        data_type="",
        stack_trace="",
        forward=-1,
        origin=Origin.FORWARD,
    )
    return OpTable((op,), np.zeros(len(instances), dtype=np.int32))
