"""Ranks of one capture, as rows of a table."""

from __future__ import annotations

import numpy as np

from aggregator.correlate.instances import Origin
from aggregator.correlate.ranks import main_devices, rank_processes
from aggregator.dldb.writer import Table
from aggregator.importing.imported import ImportedProfile, inverse_order

SAME_CLOCK, START_TIMES, COLLECTIVES, NOTHING = (
    "same clock",
    "start times",
    "collectives",
    "nothing",
)
"""What brought the times of a rank onto the common clock."""


def rank_table(data: ImportedProfile) -> Table:
    """Ranks in the order in which their ops are named; those without ops come last."""
    profile = data.profile
    devices = main_devices(profile)
    with_ops = {
        op.process
        for op in data.ops.ops
        if op.origin in (Origin.FORWARD, Origin.BACKWARD, Origin.GROUP)
    }
    last = len(profile.devices)
    ranked = sorted(
        rank_processes(profile),
        key=lambda p: (p not in with_ops, devices.get(p, last), profile.process_ids[p]),
    )
    count = len(ranked)
    return Table(
        "ranks",
        {
            "id": list(range(1, count + 1)),
            "rank": list(range(count)),
            "process": [process + 1 for process in ranked],
            "device": [devices[process] + 1 for process in ranked],
            "host": profile.session.host_name,
            "source_file": profile.source_name,
            "clock_offset": 0,
            "clock_correction": 0,
            "clock_residual": None,
            "aligned_by": SAME_CLOCK,
        },
    )


def call_table(data: ImportedProfile) -> Table:
    """Calls of collectives by kernel."""
    calls = data.profile.collective_calls
    kernels = (inverse_order(data.kernel_order) + 1)[calls.kernel]
    order = np.argsort(kernels)
    return Table("collective_calls", {"kernel": kernels[order], "call": calls.call[order]})


def message_table(data: ImportedProfile) -> Table:
    """Sizes of collectives by kernel."""
    row_of = inverse_order(data.kernel_order) + 1
    messages = data.messages
    kernels = row_of[messages.kernel]
    order = np.argsort(kernels)
    columns = {"kernel": kernels[order], "bytes": messages.num_bytes[order]}
    return Table("collective_bytes", columns)
