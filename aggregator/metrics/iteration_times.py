"""Where the time of each iteration went, and how busy each GPU was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.intervals import union_of
from aggregator.metrics.model import LEVELS, RollupInput
from aggregator.metrics.statistics import percent
from aggregator.metrics.window import Window
from aggregator.profile import Int64


@dataclass(frozen=True)
class IterationTimes:
    """Breakdown of every iteration of the profile.

    Attributes:
        parts: Name of the part -> time per iteration, mean over the visible GPUs. The parts of an
            iteration, ``other`` among them, add up to its length. Unit: ns.
        kernels: Kernels launched per iteration.
        tc_kernels: Of them those that use Tensor Cores.
        kernel_bounds: First kernel row of each iteration, plus the total.
        communication_ns: Time in which a kernel moved data between GPUs, mean over visible GPUs.
            Unit: ns.
        exposed_communication_ns: Of it the time in which no kernel computed. Unit: ns.
        kernel_busy_ns: Shape (devices, iterations): time in which a kernel ran. Unit: ns.
    """

    parts: dict[str, Int64]
    kernels: Int64
    tc_kernels: Int64
    kernel_bounds: Int64
    kernel_busy_ns: Int64
    communication_ns: Int64
    exposed_communication_ns: Int64


def compute_iteration_times(data: RollupInput, window: Window) -> IterationTimes:
    """Clip the busy time to the iterations, by priority.

    Per device each level covers what it adds to the union of the levels before it; a GPU that ran
    nothing counts as ``other``, as DLProf counts it.
    """
    iterations = window.iterations
    length = iterations.stop_ns - iterations.start_ns
    # A part of the profile behind the last stop does not exist, but GPU work may end there.
    edges = np.concatenate([iterations.start_ns, iterations.stop_ns[-1:]])
    num_devices = max(len(data.devices), 1)
    cumulative = np.zeros((num_devices, len(LEVELS) + 1, len(iterations)), dtype=np.int64)
    for device, levels in enumerate(data.busy):
        for level, busy in enumerate(levels, start=1):
            cumulative[device, level] = np.diff(busy.covered_before(edges))
    added = np.diff(cumulative, axis=1).sum(axis=0) // num_devices
    parts = {name: added[level] for level, name in enumerate(LEVELS)}
    parts["other"] = length - added.sum(axis=0)
    communication, exposed = _communication(data, edges, num_devices)
    bounds = window.row_bounds(data.kernels.api_start_ns)
    uses_tc = np.concatenate([[0], np.cumsum(data.op_kernels.uses_tc[data.kernels.op_kernel])])
    return IterationTimes(
        parts=parts,
        kernels=np.diff(bounds),
        tc_kernels=np.diff(uses_tc[bounds]),
        kernel_bounds=bounds,
        kernel_busy_ns=cumulative[:, LEVELS.index("non_tc") + 1],
        communication_ns=communication,
        exposed_communication_ns=exposed,
    )


def _communication(data: RollupInput, edges: Int64, num_devices: int) -> tuple[Int64, Int64]:
    """Time of communication per iteration, and the part that no computation covered."""
    total = np.zeros(len(edges) - 1, dtype=np.int64)
    exposed = total.copy()
    for computing, moving in data.collectives:
        total += np.diff(moving.covered_before(edges))
        both = union_of(computing, moving)
        exposed += np.diff(both.covered_before(edges) - computing.covered_before(edges))
    return total // num_devices, exposed // num_devices


def device_utilization_pct(data: RollupInput, window: Window, times: IterationTimes) -> list[float]:
    """Share of the window in which a kernel ran, per visible GPU. Copies and sets do not count."""
    wall = window.stop_ns - window.start_ns
    busy = times.kernel_busy_ns[:, window.first : window.last + 1].sum(axis=1)
    return [percent(int(value), wall) for value in busy[: len(data.devices)]]
