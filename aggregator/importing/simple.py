"""Simple mode: one placeholder op for all work of a profile."""

from __future__ import annotations

from typing import Any

import numpy as np

from aggregator.correlate.instances import Instances, Origin, blank_columns
from aggregator.correlate.op_table import Op, OpTable
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.profile.arrays import empty_i32
from aggregator.profile.intervals import flatten
from aggregator.profile.profile import Profile


def simple_meaning() -> RangeMeaning:
    """Return a meaning in which all ranges are ignored."""
    return RangeMeaning(empty_i32(), empty_i32(), (), {}, {}, {})


def simple_instances(profile: Profile) -> Instances:
    """Return one instance over the whole profile, with every call.

    Its CPU time is the time in which any CUDA call ran, because no other CPU time is known.
    """
    api = profile.api_calls
    calls = flatten(api.start_ns, api.end_ns)
    kinds = (profile.kernels, profile.copies, profile.sets)
    end = max(int(column.max(initial=0)) for column in (api.end_ns, *(k.end_ns for k in kinds)))

    columns: dict[str, Any] = blank_columns(1, Origin.FORWARD)
    zero = np.zeros(1, dtype=np.int32)
    return Instances(
        **columns | {"label": zero},
        start_ns=np.zeros(1, dtype=np.int64),
        end_ns=np.array([end], dtype=np.int64),
        cpu_time_ns=np.array([calls.covered_ns()], dtype=np.int64),
        thread=zero,
        call_instance=np.zeros(len(api), dtype=np.int32),
        busy_start_ns=api.start_ns,
        busy_end_ns=api.end_ns,
        busy_process=profile.thread_process[api.thread],
        paths=("/",),
    )


def simple_table(instances: Instances) -> OpTable:
    """Return the placeholder op; work without a launching call belongs to it as well."""
    op = Op(
        op_id="SIMPLE_MODE_GLOBAL_NODE_OP_TYPE_1",
        op_name="simple_mode_global_node_name",
        op_type="simple_mode_global_node_op_type",
        process=0,
    )
    return OpTable((op,), np.zeros(len(instances), dtype=np.int32))
