"""Input of the advisers: the steady steps of one aggregation, as columns.

Everything is measured on the GPU's clock. A training loop runs ahead of its GPU: the time of a step
on the CPU is how long launching took. How long the step took is the time between the first GPU work
of one step and that of the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aggregator.advice.recorded_memory import RecordedMemory
from aggregator.events.model import Calls, Names, Ops, Work, WorkKind
from aggregator.events.steps import typical_step
from aggregator.events.window import Steps
from aggregator.profile.arrays import Bool, Int64, row_codes
from aggregator.profile.intervals import Flattened, flatten
from aggregator.profile.limits import LimitCode
from aggregator.profile.profile import SourceFormat
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.changes import Select, work_at
from aggregator.replay.scale import StepScale
from aggregator.replay.slow_ranks import RankGains
from aggregator.texts import Text, say

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
PAGEABLE = 0  # ``Work.host_kind``; pinned memory is 1.

LATE_NS = 10_000
"""A launch is late if it begins less than this before the GPU has no work left, or after."""
QUEUED_NS = 30_000
"""Work that starts later than this after its launch waited in a queue of the GPU."""
MIN_REPLAYED = 4  # Kernels that a replay of a CUDA graph launches by one call, at least.


@dataclass(frozen=True)
class WindowWork(Work):
    """GPU work of the window, and the first work after it on each GPU.

    ``device`` is the number of the GPU, as ``Gpu`` has it.
    """

    # How long a collective waited for other ranks; -1 if unknown, and for other work. Unit: ns.
    waiting_ns: Int64

    @cached_property
    def duration_ns(self) -> Int64:
        """Time on the GPU. Unit: ns."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class JudgedOps(Ops):
    """The ops of the profile with what is known of their use of Tensor Cores."""

    # Whether each can use them, by shape and kernels; None: unknown, or with another element type.
    fit: tuple[int | None, ...]
    shapes: Mapping[int, str]
    """Input shapes of the first call, by row; a backward op has those of its forward op."""


@dataclass(frozen=True)
class WaitingCalls(Calls):
    """Calls on the CPU that wait for the GPU."""

    device: Int64  # Number of the GPU that their process used most; -1: none.


@dataclass(frozen=True)
class Gpu:
    """A GPU that ran work in the window."""

    device: int  # Its number.
    name: str  # Product name.
    capability: tuple[int, int] | None  # Compute capability; None if unknown.
    memory_bytes: int | None  # Its memory; None if unknown.
    memory_used_bytes: int | None  # Largest amount in use; None if unknown.
    low_ns: int  # Start of the first work of the window.
    high_ns: int  # Start of the first work after the window, or the end of its last work.
    computing: Flattened  # When kernels computed.
    moving: Flattened  # When kernels moved data between GPUs.
    loading: Flattened  # When its processes waited for the next batch of their data loader.
    processes: tuple[int, ...]  # Process ids of the processes that used it most.

    @property
    def wall_ns(self) -> int:
        """Duration of the window on this GPU. Unit: ns."""
        return self.high_ns - self.low_ns

    @property
    def memory_used_pct(self) -> float | None:
        """Share of its memory in use; None if unknown. Unit: %."""
        if not self.memory_bytes or not self.memory_used_bytes:
            return None
        return 100.0 * self.memory_used_bytes / self.memory_bytes


@dataclass(frozen=True)
class RankWait:
    """How long a rank of the job waited in the collectives of the window."""

    rank: int  # Its number.
    device: int  # GPU that it used most; -1: none.
    waiting_ns: int  # Time it waited for other ranks, hidden by computing or not. Unit: ns.
    exposed_ns: int  # Time it waited while no kernel computed on its GPU. Unit: ns.
    kept_waiting_ns: int  # Total time that the other ranks waited for it. Unit: ns.
    # How late it entered a collective at most, by iteration of the window. Unit: ns.
    late_ns: Mapping[int, int]


@dataclass(frozen=True)
class Facts:
    """Everything that the advisers use."""

    aggr: int  # Number of the aggregation.
    domain: str  # Name of the default domain.
    mode: str  # Mode in which the ranges were read.
    steps: Steps  # The steady steps.
    work: WindowWork  # GPU work.
    ops: JudgedOps  # The ops.
    names: Names  # Distinct kernels.
    call_names: tuple[str, ...]  # Names of calls by row.
    waits: WaitingCalls  # Calls that wait for the GPU.
    gpus: tuple[Gpu, ...]  # GPUs that ran work in the window.
    idle_devices: tuple[int, ...]  # GPUs that were visible to the processes and ran nothing.
    settings: Mapping[str, Any]  # Settings of the script that markers recorded.
    has_graphs: bool  # Whether CUDA graphs were recorded as a whole, without their kernels.
    has_loader: bool  # Whether ranges of a data loader were recorded.
    # Share of the memory bandwidth that the steps are known to use; None: unknown, or they do not
    # decode.
    decode_bandwidth_pct: float | None = None
    # Mean number of steps in an epoch; None if the profile has no end of an epoch.
    batches_per_epoch: float | None = None
    source_format: str = ""  # Format of the profile; empty if unknown, in older databases.
    # How long each rank waited; empty if this is unknown for any of them.
    rank_waits: tuple[RankWait, ...] = ()
    limits: frozenset[LimitCode] = frozenset()  # What the capture does not allow to be said.
    rank_gains: RankGains | None = None  # None: the ranks cannot be compared.
    # Whether the steps are certain: nothing of them was lost, and the key node is no guess.
    is_sure_of_steps: bool = True
    # Whether processes that are no ranks of a job use the GPUs: their steps are no common ones.
    has_several_loops: bool = False
    memories: tuple[RecordedMemory, ...] = ()  # Recordings of GPU memory.
    replayed: ReplayedProfile | None = None  # Replay of some of the steps; None: there is none.
    # The same without the costs of profiling; None: it is not known what the steps take then.
    corrected: ReplayedProfile | None = None
    # Converts times of ``replay`` to times of the step; None if there is no replay.
    scale: StepScale | None = None
    # Median step without profiling, as measured or given by the user; None: unknown. Unit: ns.
    bare_step_ns: int | None = None

    @property
    def is_kineto(self) -> bool:
        """Whether torch.profiler made the profile: options of nsys do not apply."""
        return self.source_format == SourceFormat.KINETO

    @cached_property
    def wall_ns(self) -> int:
        """Duration of the window, summed over the GPUs. Unit: ns.

        A single window may hold the start and the end of the program: there it is the time in which
        the GPUs worked.
        """
        if self.steps.is_single:
            return max(sum(busy.covered_ns() for busy in self.busy.values()), 1)
        return max(sum(gpu.wall_ns for gpu in self.gpus), 1)

    def share_pct(self, time_ns: float) -> float:
        """Return a time, summed over the GPUs, as a share of ``wall_ns``. Unit: percent."""
        return 100.0 * time_ns / self.wall_ns

    def gpu_share_pct(self, gpu: Gpu, time_ns: float) -> float:
        """Return a time on one GPU as a share of its window, or of its work. Unit: percent."""
        single = self.steps.is_single
        whole = self.busy[gpu.device].covered_ns() if single else gpu.wall_ns
        return 100.0 * time_ns / max(whole, 1)

    @cached_property
    def step_ns(self) -> float:
        """Mean duration of a step, or of the work of a GPU in a single window. Unit: ns."""
        return self.wall_ns / (self.steps.count * len(self.gpus))

    @cached_property
    def typical_step_ns(self) -> float:
        """The typical step as profiled, or the work of a GPU in a single window. Unit: ns."""
        return (
            self.step_ns if self.steps.is_single else float(typical_step(self.steps.length_ns).ns)
        )

    @property
    def span(self) -> Text:
        """What shares are shares of, as part of a sentence."""
        return say("the GPU's working time") if self.steps.is_single else say("the step")

    def per_step(self, count: int) -> Text:
        """A number of kernels on all GPUs in the window, as part of a sentence."""
        mean = max(round(count / (self.steps.count * len(self.gpus))), 1)
        if self.steps.is_single:
            return say("{count:,} kernels in all", count=count)
        return say("{count:,} kernels per step", count=mean)

    @cached_property
    def is_training(self) -> bool:
        """Whether the window ran backward passes, or nothing says that it did not."""
        if self.mode != "pytorch":
            return True
        trains = [
            direction == "bprop" or "Optimizer." in name
            for direction, name in zip(self.ops.directions, self.ops.names, strict=True)
        ]
        return bool(self.of_ops(trains).any())

    @cached_property
    def slowest(self) -> Gpu:
        """The GPU that the others wait for; without ranks the one that computes longest."""
        by_device = {gpu.device: gpu for gpu in self.gpus}
        known = [wait for wait in self.rank_waits if wait.device in by_device]
        if known and any(wait.kept_waiting_ns for wait in known):
            late = max(known, key=lambda wait: wait.kept_waiting_ns - wait.waiting_ns)
            return by_device[late.device]
        return max(self.gpus, key=lambda gpu: (gpu.computing.covered_ns(), -gpu.device))

    @cached_property
    def launched(self) -> Bool:
        """Which work the iterations of the window launched."""
        start, steps = self.work.api_start_ns, self.steps
        inside: Bool = (start >= steps.api_low_ns) & (start < steps.api_high_ns)
        return inside

    @cached_property
    def kernels(self) -> Bool:
        """Which work is a kernel that the iterations of the window launched."""
        rows: Bool = self.launched & (self.work.kind == WorkKind.KERNEL)
        return rows

    @cached_property
    def has_replays(self) -> bool:
        """Whether CUDA graphs were replayed whose kernels were recorded: one call launched many."""
        work, rows = self.work, self.kernels
        if not rows.any():
            return False
        _, call = row_codes(work.device[rows], work.api_start_ns[rows])
        return bool((np.bincount(call) >= MIN_REPLAYED).any())

    @property
    def trusted_replay(self) -> ReplayedProfile | None:
        """The replay, unless its confidence is low."""
        profile = self.replayed
        return None if profile is None or profile.confidence == "low" else profile

    @property
    def trusted_correction(self) -> ReplayedProfile | None:
        """The replay without the costs of profiling, unless its confidence is low."""
        return None if self.trusted_replay is None else self.corrected

    @property
    def replay(self) -> ReplayedProfile | None:
        """The replay for savings: without the costs of profiling, if they are known."""
        return self.trusted_correction or self.trusted_replay

    @property
    def replayed_window(self) -> Bool:
        """Which of the replayed steps are in the window."""
        number = np.zeros(0, dtype=np.int64) if self.replay is None else self.replay.steps.number
        inside: Bool = (number >= self.steps.first) & (number <= self.steps.last)
        return inside

    @cached_property
    def gpu_work_ns(self) -> float:
        """Time of a mean step in which the busiest GPU works: it does not wait for ranks. ns."""
        return max(self._working_ns(gpu) for gpu in self.gpus) / self.steps.count

    def _working_ns(self, gpu: Gpu) -> int:
        rows = self.work.device == gpu.device
        # A collective waits at its start.
        start = self.work.start_ns[rows] + np.maximum(self.work.waiting_ns[rows], 0)
        end = np.minimum(self.work.end_ns[rows], gpu.high_ns)
        working = flatten(np.minimum(start, end), end)
        low, high = working.covered_before(np.array([gpu.low_ns, gpu.high_ns]))
        return int(high - low)

    @cached_property
    def corrected_idle_pct(self) -> float | None:
        """Share of the step without profiling in which the GPU is idle. Unit: percent."""
        profile = self.trusted_correction
        if profile is None:
            unprofiled = self.bare_step_ns
            return (
                None
                if unprofiled is None
                else 100.0 * max(1.0 - self.gpu_work_ns / unprofiled, 0.0)
            )
        mean_ns = max(float(profile.measured_ns.mean()), 1.0)
        return 100.0 * max(1.0 - profile.busy_ns / mean_ns, 0.0)

    def without_profiling_pct(self, gpu: Gpu, idle_ns: float) -> float | None:
        """Idle time of a GPU as a share of the step without profiling. Unit: percent.

        All idle time shrinks alike. None: unknown.
        """
        if self.corrected_idle_pct is None:
            return None
        idle_pct = 100.0 - self.gpu_share_pct(gpu, self.busy[gpu.device].covered_ns())
        share = self.gpu_share_pct(gpu, idle_ns) / max(idle_pct, 1e-9)
        return self.corrected_idle_pct * min(share, 1.0)

    def rows_of_replay(self, rows: Bool) -> Select:
        """The same work in the replay."""
        return work_at(self.work.start_ns[rows], self.work.end_ns[rows])

    @cached_property
    def verdict(self) -> Int64:
        """``Names.verdict`` of each work; -1 for other work than kernels."""
        return np.where(self.work.name >= 0, self._of_name(self.names.verdict), -1)

    @cached_property
    def half(self) -> Bool:
        """Which work is a kernel with 16-bit operands."""
        half: Bool = (self.work.name >= 0) & self._of_name(self.names.half)
        return half

    def named(self, flags: list[bool]) -> Bool:
        """Return which work is a kernel whose name has its flag set."""
        found: Bool = (self.work.name >= 0) & self._of_name(np.array(flags, dtype=bool))
        return found

    def of_ops(self, flags: list[bool]) -> Bool:
        """Return which work belongs to an op that has its flag set."""
        found: Bool = np.array(flags, dtype=bool)[self.work.op]
        return found

    def _of_name(self, column: Any) -> Any:
        if not len(column):
            return np.zeros(len(self.work), dtype=column.dtype)
        return column[np.maximum(self.work.name, 0)]

    @cached_property
    def gap_ns(self) -> Int64:
        """Idle time of the GPU directly before each work. Unit: ns."""
        gap: Int64 = np.maximum(self.work.start_ns - self._reached_ns, 0)
        return gap

    @cached_property
    def launched_late(self) -> Bool:
        """Mask of work launched after the GPU had (nearly) run dry."""
        late: Bool = self.work.api_start_ns >= self._reached_ns - LATE_NS
        return late

    @cached_property
    def _reached_ns(self) -> Int64:
        """Latest end of earlier work on the same GPU; the own start for the first work."""
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
        """When each GPU ran any work."""
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
        """Share of the kernel time in kernels that waited in a queue.

        It is 1 if the GPU limits the speed. Only to that share do faster kernels shorten the step.
        """
        rows = self.kernels
        total = int(self.work.duration_ns[rows].sum())
        queued = rows & (self.work.start_ns - self.work.api_start_ns > QUEUED_NS)
        return int(self.work.duration_ns[queued].sum()) / total if total else 0.0

    def kernel_gain_pct(self, time_ns: float, speedup: float) -> float:
        """Return the share of the step that faster kernels save (Amdahl's law). Unit: percent.

        Args:
            time_ns: Time of the kernels now, summed over the GPUs.
            speedup: Factor by which they become faster.
        """
        saved = time_ns * (1.0 - 1.0 / speedup) * self.gpu_bound_ratio
        return self.share_pct(saved)
