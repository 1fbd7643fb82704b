"""Ranks of one capture: its processes that ran work on a GPU, as rows of a table."""

from __future__ import annotations

import numpy as np

from aggregator.correlate.ops import Origin
from aggregator.dldb.writer import Table
from aggregator.imported import ImportedProfile, inverse_order
from aggregator.profile import Profile

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
        devices.keys() & set(range(len(profile.process_ids))),
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
            "host": [profile.session.host_name] * count,
            "source_file": [profile.source_name] * count,
            "clock_offset": [0] * count,
            "clock_correction": [0] * count,
            "clock_residual": [None] * count,
            "aligned_by": [SAME_CLOCK] * count,
        },
    )


def message_table(data: ImportedProfile) -> Table:
    """Sizes of collectives by kernel."""
    row_of = inverse_order(data.kernel_order) + 1
    messages = data.messages
    kernels = row_of[messages.kernel]
    order = np.argsort(kernels)
    columns = {"kernel": kernels[order], "bytes": messages.num_bytes[order]}
    return Table("collective_bytes", columns)


def main_devices(profile: Profile) -> dict[int, int]:
    """The GPU that each process used most, by number of kernels, else of other work."""
    result: dict[int, int] = {}
    for work in (profile.kernels, profile.graphs, profile.copies, profile.sets):
        for process in np.flatnonzero(np.bincount(work.process)).tolist():
            rows = work.device[work.process == process]
            result.setdefault(int(process), int(np.bincount(rows).argmax()))
    return result
