"""The columns of a profile: what every source delivers and every later step reads.

Columns, not objects: one NumPy array per column, one row per event. All times are int64
nanoseconds on the profile's own clock (0 = start of the collection). A *code* is an int32 index
into a tuple of distinct strings; -1 means "none". Intervals are half-open ``[start, end)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Int64: TypeAlias = npt.NDArray[np.int64]
Float64: TypeAlias = npt.NDArray[np.float64]
Int32: TypeAlias = npt.NDArray[np.int32]
Bool: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[Any]
"""Whole numbers of any width."""

DEFAULT_DOMAIN = "default-domain"


class SourceFormat(StrEnum):
    """What recorded a profile."""

    NSYS = "nsys"
    KINETO = "kineto"
    DLPROF = "dlprof"


def empty_i64() -> Int64:
    """An int64 column without rows."""
    return np.empty(0, dtype=np.int64)


def empty_i32() -> Int32:
    """An int32 column without rows."""
    return np.empty(0, dtype=np.int32)


@dataclass
class Ranges:
    """NVTX push/pop ranges, in the order of the source.

    Attributes:
        start_ns: When the range was pushed. Unit: ns.
        end_ns: When it was popped; a range never popped ends with the capture. Unit: ns.
        thread: Row of ``Profile.threads``.
        domain: Code into ``Profile.domain_names``.
        name: Code into ``Profile.range_names``: the text without what PyTorch appends to it.
        seq: PyTorch's autograd sequence number; -1: none.
        shapes: Code into ``Profile.shape_texts``; -1: none recorded.
    """

    start_ns: Int64 = field(default_factory=empty_i64)
    end_ns: Int64 = field(default_factory=empty_i64)
    thread: Int32 = field(default_factory=empty_i32)
    domain: Int32 = field(default_factory=empty_i32)
    name: Int32 = field(default_factory=empty_i32)
    seq: Integers = field(default_factory=empty_i64)
    shapes: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass
class ApiCalls:
    """CUDA runtime and driver calls on the CPU.

    Attributes:
        start_ns: Unit: ns.
        end_ns: Unit: ns.
        thread: Row of ``Profile.threads``.
        correlation_id: Links a call to its device work, together with the process.
        name: Code into ``Profile.strings``.
    """

    start_ns: Int64 = field(default_factory=empty_i64)
    end_ns: Int64 = field(default_factory=empty_i64)
    thread: Int32 = field(default_factory=empty_i32)
    correlation_id: Int64 = field(default_factory=empty_i64)
    name: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass
class DeviceWork:
    """Work that ran on a GPU: kernels, copies and sets share these columns.

    Attributes:
        start_ns: Start on the GPU. Unit: ns.
        end_ns: End on the GPU. Unit: ns.
        device: Row of ``Profile.devices``.
        stream_id: CUDA stream number as recorded.
        process: Row of ``Profile.process_ids``.
        correlation_id: Links the work to its API call; -1: none recorded.
    """

    start_ns: Int64 = field(default_factory=empty_i64)
    end_ns: Int64 = field(default_factory=empty_i64)
    device: Int32 = field(default_factory=empty_i32)
    stream_id: Int64 = field(default_factory=empty_i64)
    process: Int32 = field(default_factory=empty_i32)
    correlation_id: Int64 = field(default_factory=empty_i64)

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass
class Kernels(DeviceWork):
    """GPU functions run.

    Attributes:
        name: Short name, code into ``Profile.strings``.
        long_name: Demangled name, code into ``Profile.strings``.
        grid: Shape (n, 3): blocks of the grid in x, y, z.
        block: Shape (n, 3): threads of a block in x, y, z.
    """

    name: Int32 = field(default_factory=empty_i32)
    long_name: Int32 = field(default_factory=empty_i32)
    grid: Int32 = field(default_factory=lambda: np.empty((0, 3), dtype=np.int32))
    block: Int32 = field(default_factory=lambda: np.empty((0, 3), dtype=np.int32))


@dataclass
class MemoryOps(DeviceWork):
    """Copies and sets.

    Attributes:
        num_bytes: Bytes moved or set. Unit: bytes.
        copy_kind: CUDA's copy kind (1 host to device, 2 device to host, 8 device to device, ...);
            -1 for a set.
        host_kind: Kind of the memory on the host's side: 0 pageable, 1 pinned; -1: not recorded, or
            none.
    """

    num_bytes: Int64 = field(default_factory=empty_i64)
    copy_kind: Int64 = field(default_factory=empty_i64)
    host_kind: Int64 = field(default_factory=empty_i64)


@dataclass
class Marks:
    """NVTX marks: points in time.

    Attributes:
        time_ns: Unit: ns.
        thread: Row of ``Profile.threads``.
        domain: Code into ``Profile.domain_names``.
        name: Code into ``Profile.range_names``.
    """

    time_ns: Int64 = field(default_factory=empty_i64)
    thread: Int32 = field(default_factory=empty_i32)
    domain: Int32 = field(default_factory=empty_i32)
    name: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Annotation:
    """A range or mark that carries a category or a payload.

    Attributes:
        start_ns: Unit: ns.
        end_ns: None: a mark, or a range never closed. Unit: ns.
        global_tid: The source's global thread id; -1: unknown.
        domain: Name of its domain.
        name: Text of the range or mark.
        category: Name or number of its category; empty: none.
        payload: Value that was passed along, as text; empty: none.
    """

    start_ns: int
    end_ns: int | None
    global_tid: int
    domain: str
    name: str
    category: str
    payload: str


@dataclass(frozen=True)
class Device:
    """One GPU that the profiled processes could see.

    Attributes:
        device_id: CUDA ordinal, or the GPU's number on the host where the export tells.
        name: Product name; empty: unknown.
        compute_capability: (major, minor); None: unknown.
        sm_count: Streaming multiprocessors; None: unknown.
        memory_bytes: Total memory. Unit: bytes. None: unknown.
        memory_used_bytes: Most that was in use at once during the run. Unit: bytes. None: unknown.
        memory_before_bytes: In use before the application started. Unit: bytes. None: unknown.
        busy_pct: Mean of NVML's utilisation during the run. Unit: %. None: unknown.
        memory_source: What told the use: ``nvml`` (all processes) or ``pytorch`` (what its
            allocator held); empty: nothing did.
        memory_reason: Why the use is unknown; empty: it is known.
        uuid: What tells this GPU from every other one in the world; empty: unknown.
        clock_hz: Highest clock of its multiprocessors. Unit: Hz. None: unknown.
        bandwidth: Of its memory. Unit: bytes/s. None: unknown.
    """

    device_id: int
    name: str = ""
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_before_bytes: int | None = None
    busy_pct: float | None = None
    memory_source: str = ""
    memory_reason: str = ""
    uuid: str = ""
    clock_hz: int | None = None
    bandwidth: int | None = None


@dataclass(frozen=True)
class Session:
    """Where and when a profile was captured.

    Attributes:
        start_utc_ns: Time 0 of the profile's clock, since 1970. Unit: ns. None: unknown.
        host_name: Name of the machine; empty: unknown.
    """

    start_utc_ns: int | None = None
    host_name: str = ""


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
    """Something of the profile that was not used, repaired or guessed.

    Attributes:
        code: Stable name for scripts.
        message: One sentence.
        count: How many events it concerns.
    """

    code: str
    message: str
    count: int


@dataclass
class Profile:
    """One capture, as columns.

    Attributes:
        source_name: File name of the source, for people.
        end_ns: Last time point of any event. Unit: ns.
        strings: Kernel and API names; what ``name`` codes of API calls and kernels index.
        range_names: What ``Ranges.name`` indexes.
        shape_texts: What ``Ranges.shapes`` indexes; PyTorch's own text, ``[[64, 3], []]``.
        shape_types: Element type of the first tensor of each of ``shape_texts``; empty where the
            source tells no types, or that one does not.
        shape_parameters: JSON object of the parameters beside each of ``shape_texts``, by PyTorch's
            names; empty where the source tells none.
        domain_names: What ``Ranges.domain`` indexes; 0 is the default domain.
        threads: Shape (t,): the source's global thread ids.
        thread_process: Shape (t,): row of ``process_ids`` for each thread.
        process_ids: Operating system's process ids.
        devices: GPUs, ordered by ``device_id``.
        annotations: Ranges and marks with a category or a payload.
        thread_names: Thread names by global thread id.
        graphs: CUDA graphs that were recorded as a whole, without their kernels.
        start_end_ranges: Ranges of ``nvtxRangeStart/End``: they do not nest and may end elsewhere.
        released: Rows of the kinds that were forgotten.
        rank: Number of the process in its job, where the source tells; None: it does not.
        source_format: What wrote the source: hints to record more must fit it.
    """

    source_name: str
    end_ns: int
    strings: tuple[str, ...]
    range_names: tuple[str, ...]
    shape_texts: tuple[str, ...]
    domain_names: tuple[str, ...]
    threads: Int64
    thread_process: Int32
    process_ids: tuple[int, ...]
    devices: tuple[Device, ...]
    ranges: Ranges
    start_end_ranges: Ranges
    marks: Marks
    api_calls: ApiCalls
    kernels: Kernels
    copies: MemoryOps
    sets: MemoryOps
    syncs: DeviceWork
    graphs: DeviceWork = field(default_factory=DeviceWork)
    annotations: tuple[Annotation, ...] = ()
    thread_names: dict[int, str] = field(default_factory=dict)
    system: SystemInfo = field(default_factory=SystemInfo)
    session: Session = field(default_factory=Session)
    warnings: list[ProfileWarning] = field(default_factory=list)
    released: dict[str, int] = field(default_factory=dict)
    shape_types: tuple[str, ...] = ()
    shape_parameters: tuple[str, ...] = ()
    rank: int | None = None
    source_format: SourceFormat = SourceFormat.NSYS

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
            "ranges",
            "start_end_ranges",
            "marks",
            "api_calls",
            "kernels",
            "copies",
            "sets",
            "syncs",
            "graphs",
        )
        return {kind: self.released.get(kind, len(getattr(self, kind))) for kind in kinds}


def take(columns: Kernels, order: Int64) -> Kernels:
    """The same rows in another order (or a part of them)."""
    return Kernels(**{f.name: getattr(columns, f.name)[order] for f in fields(columns)})
