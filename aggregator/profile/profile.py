"""The columns of a profile: the output of every source and the input of every later step.

Columns, not objects: one NumPy array per column, one row per event. All times are int64
nanoseconds on the profile's own clock (0 = start of the collection). A *code* is an int32 index
into a tuple of distinct strings; -1 means "none". Intervals are half-open ``[start, end)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

import numpy as np

from aggregator.errors import UsageError
from aggregator.profile.arrays import Int32, Int64, Integers, empty_i32, empty_i64
from aggregator.profile.recorded_part import RecordedPart
from aggregator.profile.step_reference import StepReference
from aggregator.texts import say

DEFAULT_DOMAIN = "default-domain"


class SourceFormat(StrEnum):
    """Format of the source of a profile."""

    NSYS = "nsys"
    KINETO = "kineto"
    XPLANE = "xplane"
    DLPROF = "dlprof"


@dataclass
class Ranges:
    """NVTX push/pop ranges, in the order of the source."""

    start_ns: Int64 = field(default_factory=empty_i64)  # When the range was pushed. Unit: ns.
    # When it was popped; a range never popped ends with the capture. Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)
    thread: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.threads``.
    domain: Int32 = field(default_factory=empty_i32)  # Code into ``Profile.domain_names``.
    # Code into ``Profile.range_names``: the text without what PyTorch appends to it.
    name: Int32 = field(default_factory=empty_i32)
    # PyTorch's autograd sequence number; -1: none.
    seq: Integers = field(default_factory=empty_i64)
    # Code into ``Profile.shape_texts``, or ``NO_ROW``.
    shapes: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.start_ns)

    def selected(self, rows: Int64) -> Ranges:
        """Some of the ranges."""
        return Ranges(**{name: values[rows] for name, values in vars(self).items()})

    def joined(self, more: Ranges) -> Ranges:
        """These ranges, followed by more."""
        other = vars(more)
        return Ranges(**{n: np.concatenate([own, other[n]]) for n, own in vars(self).items()})


@dataclass
class ApiCalls:
    """CUDA runtime and driver calls on the CPU."""

    start_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    thread: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.threads``.
    # Links a call to its device work, together with the process.
    correlation_id: Int64 = field(default_factory=empty_i64)
    name: Int32 = field(default_factory=empty_i32)  # Code into ``Profile.strings``.
    # Name of the kernel that the call launches, code into ``Profile.strings``; that of an empty
    # name: none.
    # Empty: the source does not record it.
    kernel: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass
class DeviceWork:
    """Work that ran on a GPU: kernels, copies and sets share these columns."""

    start_ns: Int64 = field(default_factory=empty_i64)  # Start on the GPU. Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)  # End on the GPU. Unit: ns.
    device: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.devices``.
    stream_id: Int64 = field(default_factory=empty_i64)  # CUDA stream number as recorded.
    process: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.process_ids``.
    # Links the work to its API call, or ``NO_ROW``.
    correlation_id: Int64 = field(default_factory=empty_i64)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass
class Kernels(DeviceWork):
    """GPU functions run."""

    name: Int32 = field(default_factory=empty_i32)  # Short name, code into ``Profile.strings``.
    # Demangled name, code into ``Profile.strings``.
    long_name: Int32 = field(default_factory=empty_i32)
    # Shape (n, 3): blocks of the grid in x, y, z.
    grid: Int32 = field(default_factory=lambda: np.empty((0, 3), dtype=np.int32))
    # Shape (n, 3): threads of a block in x, y, z.
    block: Int32 = field(default_factory=lambda: np.empty((0, 3), dtype=np.int32))


@dataclass
class MemoryOps(DeviceWork):
    """Copies and sets."""

    # Bytes moved or set; -1: not recorded. Unit: bytes.
    num_bytes: Int64 = field(default_factory=empty_i64)
    # CUDA's copy kind (1 host to device, 2 device to host, 8 device to device, ...); -1 for a set.
    copy_kind: Int64 = field(default_factory=empty_i64)
    # Kind of the memory on the host's side: 0 pageable, 1 pinned; -1: not recorded, or none.
    host_kind: Int64 = field(default_factory=empty_i64)


ABSENT_RECORD = -2
"""Record of an event that is not in the capture."""


@dataclass
class Waits:
    """Calls that wait, or that make a stream wait, for a stream or an event."""

    process: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.process_ids``.
    correlation_id: Int64 = field(default_factory=empty_i64)  # Of the call.
    device: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.devices``.
    # Stream that waits or is waited for; -1: none, or all of the GPU.
    stream_id: Int64 = field(default_factory=empty_i64)
    # Correlation id of the call that recorded the event; -1: no event, or not recorded;
    # ``ABSENT_RECORD``.
    record_id: Int64 = field(default_factory=empty_i64)
    # Stream in which it was recorded; -1: no event, or not recorded.
    record_stream_id: Int64 = field(default_factory=empty_i64)
    # Rows of ``Profile.api_calls``, once they are linked: of the call, and of the one that recorded
    # the event; -1: not recorded.
    call: Int32 = field(default_factory=empty_i32)
    record_call: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.correlation_id)


@dataclass
class BlockingStreams:
    """Streams that wait for the legacy default stream, and that stream itself."""

    process: Int64 = field(default_factory=empty_i64)  # Row of ``Profile.process_ids``.
    stream_id: Int64 = field(default_factory=empty_i64)  # CUDA stream number as recorded.
    is_default: Int64 = field(default_factory=empty_i64)  # 1: the legacy default stream itself.


@dataclass
class CollectiveCalls:
    """Calls of collectives that all their ranks recorded."""

    kernel: Int64 = field(default_factory=empty_i64)  # Row of ``Profile.kernels``.
    call: Int64 = field(default_factory=empty_i64)  # Number of the call, the same on all ranks.


@dataclass
class GraphNodes:
    """Nodes of CUDA graphs when they are created, and the node that each piece of work replayed."""

    time_ns: Int64 = field(default_factory=empty_i64)  # Of the creation. Unit: ns.
    thread: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.threads``.
    node: Int64 = field(default_factory=empty_i64)  # Its id, unique in a process.
    # Node that it was cloned from, or ``NO_ROW``.
    original: Int64 = field(default_factory=empty_i64)
    # Node of each kernel, copy and set; -1: no graph launched it. Empty: not recorded.
    of_work: tuple[Int64, ...] = ()

    def __len__(self) -> int:
        return len(self.node)


@dataclass
class NodeNames:
    """Modules that the program wrote to the nodes of its CUDA graphs when it captured them."""

    # Path of each module, ``layers.0.attention``, and whether it is its backward pass.
    modules: tuple[tuple[str, bool], ...] = ()
    # Code into ``modules`` of each kernel, copy and set, or ``NO_ROW``. Empty: not recorded.
    of_work: tuple[Int32, ...] = ()


@dataclass
class Marks:
    """NVTX marks: points in time."""

    time_ns: Int64 = field(default_factory=empty_i64)  # Unit: ns.
    thread: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.threads``.
    domain: Int32 = field(default_factory=empty_i32)  # Code into ``Profile.domain_names``.
    name: Int32 = field(default_factory=empty_i32)  # Code into ``Profile.range_names``.

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Annotation:
    """A range or mark that carries a category or a payload."""

    start_ns: int  # Unit: ns.
    end_ns: int | None  # None: a mark, or a range never closed. Unit: ns.
    global_tid: int  # The source's global thread id; -1: unknown.
    domain: str  # Name of its domain.
    name: str  # Text of the range or mark.
    category: str  # Name or number of its category; empty: none.
    payload: str  # Value that was passed along, as text; empty: none.


@dataclass(frozen=True)
class Device:
    """One GPU that the profiled processes could see."""

    # CUDA ordinal; that of the host if processes have the same ordinal for different GPUs.
    device_id: int
    name: str = ""  # Product name; empty: unknown.
    compute_capability: tuple[int, int] | None = None  # (major, minor); None: unknown.
    sm_count: int | None = None  # Streaming multiprocessors; None: unknown.
    memory_bytes: int | None = None  # Total memory. Unit: bytes. None: unknown.
    # Most that was in use at once during the run. Unit: bytes. None: unknown.
    memory_used_bytes: int | None = None
    # In use before the application started. Unit: bytes. None: unknown.
    memory_before_bytes: int | None = None
    # Mean of NVML's utilization during the run. Unit: %. None: unknown.
    busy_pct: float | None = None
    # Source of the memory in use: ``nvml`` (all processes), ``cuda`` (recorded allocations) or
    # ``pytorch`` (its allocator only); empty: unknown.
    memory_source: str = ""
    memory_reason: str = ""  # Why the use is unknown; empty: it is known.
    uuid: str = ""  # Universally unique identifier; empty: unknown.
    host_id: int | None = None  # Id of the GPU in the export; None: as ``device_id``.
    clock_hz: int | None = None  # Highest clock of its multiprocessors. Unit: Hz. None: unknown.
    bandwidth: int | None = None  # Of its memory. Unit: bytes/s. None: unknown.


@dataclass(frozen=True)
class Counter:
    """A quantity of a GPU that was sampled; between samples that are missing it is unknown."""

    device: int  # Row of ``Profile.devices``.
    name: str
    unit: str  # bytes or percent.
    source: str  # nvml, nsys or kineto.
    start_ns: Int64  # When each sample was read. Unit: ns.
    stop_ns: Int64  # Until when it stands. Unit: ns.
    value: Int64  # Unit: bytes, or hundredths of a percent.


@dataclass(frozen=True)
class Session:
    """Host and time of a capture."""

    # Time 0 of the profile's clock, since 1970. Unit: ns. None: unknown.
    start_utc_ns: int | None = None
    host_name: str = ""  # Name of the machine; empty: unknown.


@dataclass(frozen=True)
class SystemInfo:
    """Versions and hardware of the machine that was profiled; empty text: unknown."""

    cpu_model: str = ""
    driver_version: str = ""
    framework: str = ""
    cuda_version: str = ""
    cudnn_version: str = ""
    nsys_version: str = ""
    gpu_count_text: str = ""


@dataclass(frozen=True)
class ProfileWarning:
    """Something of the profile that was not used, repaired or guessed."""

    code: str  # Stable name for scripts.
    message: str  # One sentence.
    count: int  # Number of events concerned.
    share: float | None = None  # Of the launches, work or time that it could concern, 0 to 1.
    example: str = ""  # One of the events, for people; empty: none.


MOVED_CLOCK = "GPU_CLOCK"
"""Code of the warning that the work of GPUs was moved, because their clock was behind."""
ONE_OF_RANKS = "ONE_OF_RANKS"
"""Code of the warning that the other ranks of a job are not in the capture of one."""
LOST_RECORDS = frozenset(
    {"LOST_EVENTS", "DROPPED_EVENTS", "INCOMPLETE_EVENTS", "NO_GPU_WORK", "CUT_FILE"}
)
"""Codes of warnings that records are missing: a GPU that shows no work may have done some."""


@dataclass
class Profile:
    """One capture, as columns."""

    source_name: str  # File name of the source.
    end_ns: int  # Last time point of any event. Unit: ns.
    # Kernel and API names; what ``name`` codes of API calls and kernels index.
    strings: tuple[str, ...]
    range_names: tuple[str, ...]  # Texts that ``Ranges.name`` refers to.
    # Texts that ``Ranges.shapes`` refers to, as from PyTorch: ``[[64, 3], []]``.
    shape_texts: tuple[str, ...]
    # Domains that ``Ranges.domain`` refers to; 0 is the default domain.
    domain_names: tuple[str, ...]
    threads: Int64  # Shape (t,): the source's global thread ids.
    thread_process: Int32  # Shape (t,): row of ``process_ids`` for each thread.
    process_ids: tuple[int, ...]  # Operating system's process ids.
    devices: tuple[Device, ...]  # GPUs, ordered by ``device_id``.
    ranges: Ranges
    # Ranges of ``nvtxRangeStart/End``: they do not nest and may end elsewhere.
    start_end_ranges: Ranges
    marks: Marks
    api_calls: ApiCalls
    kernels: Kernels
    copies: MemoryOps
    sets: MemoryOps
    syncs: DeviceWork
    # Waits for streams and events, with the records of the events.
    waits: Waits = field(default_factory=Waits)
    blocking_streams: BlockingStreams = field(default_factory=BlockingStreams)
    collective_calls: CollectiveCalls = field(default_factory=CollectiveCalls)
    # What its rank puts into each kernel's collective; -1: none, or not recorded. Empty: the source
    # does not record it. Unit: bytes.
    message_bytes: Int64 = field(default_factory=empty_i64)
    # CUDA graphs that were recorded as a whole, without their kernels.
    graphs: DeviceWork = field(default_factory=DeviceWork)
    graph_nodes: GraphNodes = field(default_factory=GraphNodes)
    node_names: NodeNames = field(default_factory=NodeNames)
    # Pairs of kernels in two streams, shape (2, n): the second depends on the first, as nodes of a
    # CUDA graph.
    kernel_links: Int64 = field(default_factory=lambda: np.empty((2, 0), dtype=np.int64))
    # Traces of the capture of CUDA graphs, recorded apart from the replays; their names and
    # sizes are codes into this profile's.
    captures: tuple[Profile, ...] = ()
    annotations: tuple[Annotation, ...] = ()  # Ranges and marks with a category or a payload.
    thread_names: dict[int, str] = field(default_factory=dict)  # Thread names by global thread id.
    system: SystemInfo = field(default_factory=SystemInfo)
    session: Session = field(default_factory=Session)
    # What a step takes without profiling.
    reference: StepReference = field(default_factory=StepReference)
    # Which part of the run was recorded.
    recorded_part: RecordedPart = field(default_factory=RecordedPart)
    # Starts and ends of the times without markers by process, where their steps got names from
    # others. Unit: ns.
    unmarked: dict[int, Int64] = field(default_factory=dict)
    # Correlation ids of the kernels that were left out, because they had no possible time.
    broken_kernels: Int64 = field(default_factory=empty_i64)
    # When the calls were made whose kernels are not in the capture, in order. Unit: ns.
    missing_ns: Int64 = field(default_factory=empty_i64)
    # Starts and ends of ranges before each call of CUDA, in order of start; empty: not needed.
    call_markers: Int64 = field(default_factory=empty_i64)
    warnings: list[ProfileWarning] = field(default_factory=list)
    released: dict[str, int] = field(default_factory=dict)  # Rows of the kinds that were forgotten.
    # Element type of the first tensor of each of ``shape_texts``; empty if unknown.
    shape_types: tuple[str, ...] = ()
    # JSON object of the parameters beside each of ``shape_texts``, by PyTorch's names; empty if
    # unknown.
    shape_parameters: tuple[str, ...] = ()
    # JSON list of the element types of all arguments of each of ``shape_texts``; empty if unknown.
    shape_element_types: tuple[str, ...] = ()
    rank: int | None = None  # Number of the process in its job; None: unknown.
    job_ranks: int | None = None  # Number of processes of the job; None: unknown.
    source_format: SourceFormat = SourceFormat.NSYS  # Format of the source, which hints refer to.
    records_memory: bool = False  # Whether the source holds allocations of GPU memory.
    counters: tuple[Counter, ...] = ()  # Samples of GPUs.

    @property
    def lost_records(self) -> bool:
        """Whether the recorder lost work of the GPU."""
        return any(warning.code in LOST_RECORDS for warning in self.warnings)

    def release_range_times(self) -> None:
        """Forget when single ranges were, on which thread and in which domain."""
        self.released.setdefault("ranges", len(self.ranges))
        self.ranges = Ranges(name=self.ranges.name, shapes=self.ranges.shapes)

    def release_ranges(self) -> None:
        """Forget single ranges, but not how many there were: most of the memory of a profile."""
        for kind in ("ranges", "start_end_ranges"):
            self.released.setdefault(kind, len(getattr(self, kind)))
            setattr(self, kind, Ranges())

    def counts(self) -> dict[str, int]:
        """Rows per kind of event."""
        kinds = (
            *("ranges", "start_end_ranges", "marks", "api_calls", "kernels", "copies", "sets"),
            *("syncs", "graphs"),
        )
        return {kind: self.released.get(kind, len(getattr(self, kind))) for kind in kinds}


def require_domains(present: Sequence[str], wanted: Sequence[str]) -> None:
    """Check that a profile has the custom domains that were asked for.

    Args:
        present: Domains of the profile, the default one first.
        wanted: Domains asked for.

    Raises:
        UsageError: The profile lacks one of them.
    """
    custom = sorted(present[1:])
    for name in wanted:
        if name not in present:
            close = get_close_matches(name, custom, n=1)
            listed = (
                say("There are: {names}.", names=", ".join(custom))
                if custom
                else say("It has no custom domains.")
            )
            hint = (
                say("Did you mean {name}? {listed}", name=close[0], listed=listed)
                if close
                else listed
            )
            raise UsageError(say("The profile has no NVTX domain '{name}'.", name=name), hint=hint)
