"""What the advice is judged from: the steady steps of one aggregation, as columns.

Everything is measured on the GPU's clock. A training loop runs ahead of its GPU: the CPU's length
of a step tells how long launching took, the time between the first GPU work of one step and that
of the next how long the step took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aggregator.intervals import Flattened, flatten
from aggregator.profile import Bool, Int64, SourceFormat

KERNEL, COPY, SET, GRAPH = 0, 1, 2, 3
"""Kinds of GPU work."""
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
PAGEABLE, PINNED = 0, 1

LATE_NS = 10_000
"""A launch that begins no earlier than this before the GPU has run dry came too late."""
QUEUED_NS = 30_000
"""Work that starts later than this after its launch had to wait for other work of the GPU."""


@dataclass(frozen=True)
class Work:
    """GPU work of the window, and the first piece behind it on each GPU.

    Attributes:
        kind: ``KERNEL``, ``COPY``, ``SET`` or ``GRAPH``.
        start_ns: Start on the GPU.
        end_ns: End on the GPU.
        device: Number of the GPU.
        api_start_ns: Start of the launching call.
        api_end_ns: Its end.
        op: Row of ``Ops``.
        name: Row of ``Names`` for kernels; -1 for other work.
        copy_kind: CUDA's copy kind; -1: no copy.
        host_kind: ``PAGEABLE``, ``PINNED``; -1: unknown or no host memory.
        num_bytes: Bytes moved; 0 for kernels.
    """

    kind: Int64
    start_ns: Int64
    end_ns: Int64
    device: Int64
    api_start_ns: Int64
    api_end_ns: Int64
    op: Int64
    name: Int64
    copy_kind: Int64
    host_kind: Int64
    num_bytes: Int64

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def duration_ns(self) -> Int64:
        """Length on the GPU."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Ops:
    """The ops of the profile; tuples by row."""

    op_ids: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    directions: tuple[str, ...]
    data_types: tuple[str, ...]
    eligible: Bool
    fit: tuple[int | None, ...]
    forward: tuple[int | None, ...]
    shapes: Mapping[int, str]
    """Input shapes of the first call, by row; of a backward op those of its forward op."""


@dataclass(frozen=True)
class Names:
    """Distinct kernels; arrays by row.

    Attributes:
        short: Short names.
        long: Demangled names.
        verdict: 1 runs Tensor Core instructions, 0 does not, -1 unknown.
        half: Whether the name tells of 16-bit operands or fewer.
        communicates: Whether it moves data between GPUs.
    """

    short: tuple[str, ...]
    long: tuple[str, ...]
    verdict: Int64
    half: Bool
    communicates: Bool


@dataclass(frozen=True)
class Calls:
    """Calls on the CPU that wait for the GPU, in order of start. Units: ns."""

    start_ns: Int64
    end_ns: Int64
    op: Int64
    device: Int64
    name: tuple[str, ...]


@dataclass(frozen=True)
class Gpu:
    """One GPU that ran work in the window.

    Attributes:
        device: Its number.
        name: Product name.
        capability: Compute capability; None: unknown.
        memory_bytes: Its memory; None: unknown.
        memory_used_bytes: Most in use at once; None: unknown.
        low_ns: Start of the first work of the window.
        high_ns: Start of the first work behind it, else the end of the last.
        computing: When kernels computed.
        moving: When kernels moved data between GPUs.
        loading: When its processes waited for their data loader's next batch.
        processes: Operating system's ids of the processes that used it most.
    """

    device: int
    name: str
    capability: tuple[int, int] | None
    memory_bytes: int | None
    memory_used_bytes: int | None
    low_ns: int
    high_ns: int
    computing: Flattened
    moving: Flattened
    loading: Flattened
    processes: tuple[int, ...]

    @property
    def wall_ns(self) -> int:
        """Length of the window on this GPU. Unit: ns."""
        return self.high_ns - self.low_ns


@dataclass(frozen=True)
class RankWait:
    """What a rank of the job waited in the collectives of the window.

    Attributes:
        rank: Its number.
        waiting_ns: For other ranks. Unit: ns.
        kept_waiting_ns: What the others together waited for it. Unit: ns.
    """

    rank: int
    waiting_ns: int
    kept_waiting_ns: int


@dataclass(frozen=True)
class Steps:
    """Steps of the loop.

    Attributes:
        number: Numbers of all steady steps' iterations, ascending.
        length_ns: Length of each on the GPU.
        first: First iteration of the window that the rest was read from.
        last: Its last, inclusive.
        api_low_ns: Start of iteration ``first`` on the CPU.
        api_high_ns: End of iteration ``last`` on the CPU, exclusive.
    """

    number: Int64
    length_ns: Int64
    first: int
    last: int
    api_low_ns: int
    api_high_ns: int

    @property
    def count(self) -> int:
        """Steps in the window."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class Facts:
    """Everything that the advisers look at.

    Attributes:
        aggr: Number of the aggregation.
        domain: Name of the default domain.
        mode: Mode in which ranges were read.
        steps: The steady steps.
        work: GPU work.
        ops: The ops.
        names: Distinct kernels.
        waits: Calls that wait for the GPU.
        gpus: GPUs that ran work in the window.
        idle_devices: GPUs that the processes could see and that ran nothing.
        settings: What markers told of the script.
        has_graphs: Whether CUDA graphs were recorded as a whole: their kernels are unknown.
        has_loader: Whether ranges of a data loader were recorded.
        source_format: What recorded the profile; empty: an older database does not tell.
        rank_waits: What each rank waited for the others; empty: not all of them are known.
    """

    aggr: int
    domain: str
    mode: str
    steps: Steps
    work: Work
    ops: Ops
    names: Names
    waits: Calls
    gpus: tuple[Gpu, ...]
    idle_devices: tuple[int, ...]
    settings: Mapping[str, Any]
    has_graphs: bool
    has_loader: bool
    source_format: str = ""
    rank_waits: tuple[RankWait, ...] = ()

    @property
    def is_kineto(self) -> bool:
        """Whether torch.profiler recorded it: nsys's options would not help."""
        return self.source_format == SourceFormat.KINETO

    @cached_property
    def wall_ns(self) -> int:
        """Length of the window, summed over the GPUs. Unit: ns."""
        return max(sum(gpu.wall_ns for gpu in self.gpus), 1)

    def share_pct(self, time_ns: float) -> float:
        """A time, summed over the GPUs, as a share of the window. Unit: percent."""
        return 100.0 * time_ns / self.wall_ns

    @cached_property
    def launched(self) -> Bool:
        """Work launched by the window's iterations."""
        start, steps = self.work.api_start_ns, self.steps
        inside: Bool = (start >= steps.api_low_ns) & (start < steps.api_high_ns)
        return inside

    @cached_property
    def kernels(self) -> Bool:
        """Kernels launched by the window's iterations."""
        rows: Bool = self.launched & (self.work.kind == KERNEL)
        return rows

    @cached_property
    def verdict(self) -> Int64:
        """Tensor Core verdict of each piece of work; -1: unknown or no kernel."""
        return np.where(self.work.name >= 0, self._of_name(self.names.verdict), -1)

    @cached_property
    def half(self) -> Bool:
        """Whether each piece of work is a kernel with 16-bit operands."""
        half: Bool = (self.work.name >= 0) & self._of_name(self.names.half)
        return half

    def named(self, flags: list[bool]) -> Bool:
        """Whether each piece of work is a kernel for whose name the flag is set."""
        found: Bool = (self.work.name >= 0) & self._of_name(np.array(flags, dtype=bool))
        return found

    def of_ops(self, flags: list[bool]) -> Bool:
        """Whether each piece of work belongs to an op for which the flag is set."""
        found: Bool = np.array(flags, dtype=bool)[self.work.op]
        return found

    def _of_name(self, column: Any) -> Any:
        if not len(column):
            return np.zeros(len(self.work), dtype=column.dtype)
        return column[np.maximum(self.work.name, 0)]

    @cached_property
    def gap_ns(self) -> Int64:
        """Time directly before each piece of work in which its GPU ran nothing. Unit: ns."""
        gap: Int64 = np.maximum(self.work.start_ns - self._reached_ns, 0)
        return gap

    @cached_property
    def came_late(self) -> Bool:
        """Work whose launch began only when its GPU was about to run dry, or had."""
        late: Bool = self.work.api_start_ns >= self._reached_ns - LATE_NS
        return late

    @cached_property
    def _reached_ns(self) -> Int64:
        """Latest end of the work before each piece on its GPU; the first piece's own start."""
        work = self.work
        order = np.lexsort((work.end_ns, work.start_ns, work.device))
        reached = np.empty(len(work), dtype=np.int64)
        device = work.device[order]
        heads = np.flatnonzero(np.concatenate([[True], device[1:] != device[:-1]]))
        for head, tail in zip(heads.tolist(), [*heads[1:].tolist(), len(order)], strict=True):
            rows = order[head:tail]
            reached[rows[1:]] = np.maximum.accumulate(work.end_ns[rows])[:-1]
            reached[rows[:1]] = work.start_ns[rows[:1]]
        return reached

    @cached_property
    def busy(self) -> dict[int, Flattened]:
        """When each GPU ran anything."""
        work = self.work
        return {
            gpu.device: flatten(
                work.start_ns[work.device == gpu.device],
                np.minimum(work.end_ns[work.device == gpu.device], gpu.high_ns),
            )
            for gpu in self.gpus
        }

    @cached_property
    def gpu_bound_ratio(self) -> float:
        """Share of the kernel time in kernels that stood in a queue: 1 where the GPU sets the pace.

        Faster kernels make the step shorter only as far as the GPU sets the pace.
        """
        rows = self.kernels
        total = int(self.work.duration_ns[rows].sum())
        queued = rows & (self.work.start_ns - self.work.api_start_ns > QUEUED_NS)
        return int(self.work.duration_ns[queued].sum()) / total if total else 0.0

    def kernel_gain_pct(self, time_ns: float, speedup: float) -> float:
        """Share of the step that kernels win which become faster (Amdahl's law). Unit: percent.

        Args:
            time_ns: Their time now, summed over the GPUs.
            speedup: How many times as fast they become.
        """
        saved = time_ns * (1.0 - 1.0 / speedup) * self.gpu_bound_ratio
        return self.share_pct(saved)
