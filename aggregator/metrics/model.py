"""What a rollup reads: the columns of an imported profile, from memory or from its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aggregator.intervals import Flattened
from aggregator.iterations import NamedRanges, OpInstancesView
from aggregator.profile import Bool, Int32, Int64

LEVELS = ("tc", "non_tc", "memory", "dataloader", "io", "cpu")
"""Parts of wall time in the order of priority; what none covers is ``other``."""


@dataclass(frozen=True)
class OpColumns:
    """The ops; one row each.

    Attributes:
        op_ids: Unique names.
        names: Paths and names.
        types: Kinds of op.
        directions: fprop, bprop or empty.
        data_types: Element types; empty: not recorded.
        processes: Process rows.
        tc_eligible: Whether the op can use Tensor Cores.
    """

    op_ids: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    directions: tuple[str, ...]
    data_types: tuple[str, ...]
    processes: tuple[int, ...]
    tc_eligible: Bool

    def __len__(self) -> int:
        return len(self.op_ids)


@dataclass(frozen=True)
class InstanceColumns:
    """Op instances in order of start. Units: ns."""

    op: Int32
    start_ns: Int64
    stop_ns: Int64
    cpu_time_ns: Int64
    cpu_overhead_ns: Int64
    gpu_time_ns: Int64
    gpu_idle_ns: Int64


@dataclass(frozen=True)
class KernelColumns:
    """Kernels in order of launch.

    Attributes:
        op_kernel: Row of the (op, kernel name) pair.
        api_start_ns: Launch. Unit: ns.
        api_duration_ns: Unit: ns.
        duration_ns: Unit: ns.
    """

    op_kernel: Int32
    api_start_ns: Int64
    api_duration_ns: Int64
    duration_ns: Int64

    def __len__(self) -> int:
        return len(self.op_kernel)


@dataclass(frozen=True)
class OpKernelColumns:
    """Distinct (op, short kernel name, uses Tensor Cores) triples.

    Attributes:
        op: Row of the op.
        name: Code of the short name; equal names have equal codes.
        uses_tc: Whether these launches run Tensor Core instructions.
        half_precision: Whether the kernel's names tell of operands of 16 bits or fewer.
    """

    op: Int32
    name: Int32
    uses_tc: Bool
    half_precision: Bool


@dataclass(frozen=True)
class MemoryColumns:
    """Copies and sets in order of launch.

    Attributes:
        name: Code of the launching call's name.
        api_start_ns: Unit: ns.
        api_duration_ns: Unit: ns.
        duration_ns: Unit: ns.
    """

    name: Int32
    api_start_ns: Int64
    api_duration_ns: Int64
    duration_ns: Int64


@dataclass(frozen=True)
class DeviceColumns:
    """Visible GPUs.

    Attributes:
        device_ids: Number of each GPU.
        names: Product names.
        used: Whether any kernel, copy, set or graph ran on it.
        memory_bytes: Memory of each GPU; None: unknown. Unit: bytes.
        memory_used_bytes: Most of it in use at once; None: unknown. Unit: bytes.
    """

    device_ids: tuple[int, ...]
    names: tuple[str, ...]
    used: Bool
    memory_bytes: tuple[int | None, ...] = ()
    memory_used_bytes: tuple[int | None, ...] = ()

    def __len__(self) -> int:
        return len(self.device_ids)


@dataclass(frozen=True)
class RollupInput:
    """Everything that an aggregation of one domain is computed from.

    Attributes:
        domain: Row of the domain; 0 is the default one, which holds all device work.
        mode: Mode in which ranges were read.
        last_ns: End of the last interval. Unit: ns.
        ops: The ops.
        instances: Their executions.
        kernels: Kernels.
        op_kernels: Distinct (op, kernel) pairs.
        memory: Copies and sets.
        devices: GPUs.
        busy: Per device, cumulative unions of busy time per ``LEVELS``: each holds those before.
        collectives: Per device, when kernels computed and when they moved data between GPUs.
        ranges: Ranges that may mark an iteration.
        default_key: Name and reason of the key node found at import; stops per process are resolved
            from its name.
        settings: Settings of the script that markers told; what was not told is missing.
    """

    domain: int
    mode: str
    last_ns: int
    ops: OpColumns
    instances: InstanceColumns
    kernels: KernelColumns
    op_kernels: OpKernelColumns
    memory: MemoryColumns
    devices: DeviceColumns
    busy: tuple[tuple[Flattened, ...], ...]
    collectives: tuple[tuple[Flattened, Flattened], ...]
    ranges: NamedRanges
    default_key: tuple[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)


def ops_view(inputs: tuple[RollupInput, ...]) -> OpInstancesView:
    """What the choice of a key node needs of the ops of all domains."""
    ops = inputs[0].ops
    return OpInstancesView(
        ops.op_ids,
        ops.names,
        ops.directions,
        ops.processes,
        np.concatenate([data.instances.op for data in inputs]),
        np.concatenate([data.instances.stop_ns for data in inputs]),
    )
