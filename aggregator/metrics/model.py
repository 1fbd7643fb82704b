"""Input of an aggregation: the columns of a profile, from an import or from its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aggregator.costs.units import InstanceCosts
from aggregator.events.model import Devices, Launches, OpKernels, Ops, OpTimes
from aggregator.metrics.iterations import NamedRanges, OpInstancesView
from aggregator.metrics.phases import PhaseColumns
from aggregator.profile.arrays import Int64
from aggregator.profile.intervals import Flattened

LEVELS = ("tc", "non_tc", "graph", "memory", "dataloader", "io", "cpu")
"""Parts of wall time in the order of priority; what none covers is ``other``."""


@dataclass(frozen=True)
class RollupInput:
    """Everything that an aggregation of one domain is computed from."""

    domain: int  # Row of the domain; 0 is the default one, which holds all device work.
    mode: str  # Mode in which ranges were read.
    last_ns: int  # End of the last interval. Unit: ns.
    ops: Ops  # The ops of all domains.
    instances: OpTimes  # Their executions.
    kernels: Launches  # Kernels.
    op_kernels: OpKernels  # Distinct (op, kernel) pairs.
    memory: Launches  # Copies and sets.
    devices: Devices  # GPUs.
    # Per device, cumulative unions of busy time per ``LEVELS``: each holds those before.
    busy: tuple[tuple[Flattened, ...], ...]
    # Per device, when kernels computed and when they moved data between GPUs.
    collectives: tuple[tuple[Flattened, Flattened], ...]
    ranges: NamedRanges  # Ranges that may mark an iteration.
    # Name and reason of the key node found at import; stops per process are resolved from its name.
    default_key: tuple[str, str]
    # FLOPs and bytes of each op instance; empty for custom domains.
    costs: InstanceCosts = field(default_factory=InstanceCosts)
    # Start of the first interval: 0 unless the capture is empty for most of its length. Unit: ns.
    first_ns: int = 0
    # When the markers ended, which slow the steps before down; 0: never. Unit: ns.
    marked_until_ns: int = 0
    # Starts and ends of the times in which nothing was recorded, shape (n, 2). Unit: ns.
    gaps_ns: Int64 = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    # When launches were whose kernels are not in the capture, in order. Unit: ns.
    missing_ns: Int64 = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    is_part: bool = False  # Whether the program went on after what was recorded.
    are_ranks: bool = True  # Whether the processes are ranks of one job.
    phases: PhaseColumns = field(default_factory=PhaseColumns)  # Prefill, decode and so on.
    # Settings of the script that were recorded.
    settings: Mapping[str, Any] = field(default_factory=dict)


def without_busy(inputs: tuple[RollupInput, ...]) -> tuple[RollupInput, ...]:
    """Return the inputs without ``busy``: 80 bytes a kernel that only the rollup needs."""
    return tuple(replace(data, busy=()) for data in inputs)


def ops_view(inputs: tuple[RollupInput, ...]) -> OpInstancesView:
    """The ops of all domains, for the search of a key node."""
    return OpInstancesView(
        inputs[0].ops,
        np.concatenate([data.instances.op for data in inputs]),
        np.concatenate([data.instances.end_ns for data in inputs]),
    )
