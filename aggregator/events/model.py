"""Events as columns, one row each; times are ns on the clock of the profile.

Rows of other tables are counted from 0, ``NO_ROW`` stands for none. These and other codes have 32
bits where that is enough, half the memory: a product of them needs a wider type. An analysis that
needs more of an event derives a class with further columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt

from aggregator.profile.arrays import NO_ROW, Bool, Int32, Int64, Integers, empty_i32

UNKNOWN: Final = -1
"""Stands for a number that was not recorded, or that this kind of event does not have."""


LOADER_TYPES: Final = ("enumerate(DataLoader)", "DataLoader")
"""Prefixes of the types of ops that wait for the next batch of a data loader."""


class WorkKind(IntEnum):
    """Kinds of work of a GPU."""

    KERNEL = 0
    COPY = 1
    SET = 2
    GRAPH = 3  # A CUDA graph that was recorded as a whole.


class Columns:
    """Columns of one length; a base class of dataclasses whose fields are all arrays."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]

    def rows(self, rows: Any) -> Self:
        """Select rows."""
        names = [column.name for column in fields(self)]  # type: ignore[arg-type]
        return type(self)(**{name: getattr(self, name)[rows] for name in names})


@dataclass(frozen=True)
class Work(Columns):
    """Work of GPUs: kernels in order of launch, then copies and sets, then whole graphs."""

    kind: Integers  # ``WorkKind``.
    start_ns: Int64
    end_ns: Int64
    device: Integers  # Row of devices.
    stream: Integers  # CUDA stream as recorded, or ``UNKNOWN``.
    process: Integers  # Row of processes.
    api_start_ns: Int64  # Start of the launching call; of the work where none was recorded.
    api_end_ns: Int64  # Its end; equals the start where no call was recorded.
    op: Integers  # Row of ``Ops``.
    name: Integers  # Row of ``Names``; ``NO_ROW`` for other work than kernels.
    copy_kind: Integers  # CUDA's kind of the copy; ``UNKNOWN`` for other work.
    host_kind: Integers  # Memory on the side of the host: 0 pageable, 1 pinned, or ``UNKNOWN``.
    num_bytes: Integers  # Bytes copied or set, or ``UNKNOWN``.
    row_id: Integers  # Id in its table, from 1.


@dataclass(frozen=True)
class Calls(Columns):
    """CUDA calls, in order of start."""

    start_ns: Int64
    end_ns: Int64
    thread: Integers  # Row of threads.
    process: Integers  # Row of processes.
    name: Integers  # Row of the names of calls.
    op: Integers  # Row of ``Ops``.
    row_id: Integers


@dataclass(frozen=True)
class OpCalls(Columns):
    """Executions of ops on the CPU, in order of start."""

    start_ns: Int64
    end_ns: Int64
    thread: Integers  # Row of threads.
    op: Integers  # Row of ``Ops``.
    row_id: Integers


@dataclass(frozen=True)
class OpTimes(Columns):
    """Executions of ops with their times, in order of start."""

    op: Int32  # Row of ``Ops``.
    start_ns: Int64
    end_ns: Int64
    cpu_time_ns: Int64
    cpu_overhead_ns: Int64
    gpu_time_ns: Int64
    gpu_idle_ns: Int64


@dataclass(frozen=True)
class Launches(Columns):
    """Kernels, or copies and sets, in order of launch."""

    code: Int32  # Row of ``OpKernels``; of copies and sets the code of the launching call's name.
    api_start_ns: Int64  # Launch.
    api_duration_ns: Int64
    duration_ns: Int64


@dataclass(frozen=True)
class OpKernels:
    """Distinct (op, kernel) pairs; kernels are distinguished by their full names."""

    op: Int32  # Row of ``Ops``.
    name: Int32  # Code of the short name; equal names have equal codes.
    uses_tc: Bool  # Whether these launches run Tensor Core instructions.
    half_precision: Bool  # Whether the kernel's name shows operands of 16 bits or fewer.
    # Row of the distinct kernel; empty if read from a database.
    kernel: Int32 = field(default_factory=empty_i32)


@dataclass(frozen=True)
class Devices:
    """Visible GPUs."""

    device_ids: tuple[int, ...]  # Number of each GPU.
    names: tuple[str, ...]  # Product names.
    used: Bool  # Whether any kernel, copy, set or graph ran on it.
    memory_bytes: tuple[int | None, ...] = ()  # Memory of each GPU; None: unknown. Unit: bytes.
    # Most of it in use at once; None: unknown. Unit: bytes.
    memory_used_bytes: tuple[int | None, ...] = ()
    lost_records: bool = False  # Whether GPUs may have done work that was not recorded.

    def __len__(self) -> int:
        return len(self.device_ids)


@dataclass(frozen=True)
class Waits(Columns):
    """Recorded waits: of a stream for an event, or of the CPU for a stream or an event."""

    start_ns: Int64  # Start of the call that waits, or that makes a stream wait.
    process: Int64  # Row of processes.
    device: Int64  # Row of devices, or ``NO_ROW``.
    stream: Int64  # Stream that waits or is waited for; ``UNKNOWN``: all of the device.
    # Time since the start of the call that recorded the event, or ``UNKNOWN``. Unit: ns.
    record_ago_ns: Int64
    recorded_stream: Int64  # Stream in which it was recorded, or ``UNKNOWN``.


@dataclass(frozen=True)
class Collectives(Columns):
    """Kernels that move data between the ranks of a job, in order of launch."""

    kernel: Int64  # Row of the kernel.
    rank: Int64  # Id of the rank.
    communicator: Int64  # ``UNKNOWN`` where it was not matched with those of other ranks.
    sequence: Int64  # Number in its communicator, or ``UNKNOWN``.
    num_ranks: Int64
    num_bytes: Int64  # What the rank contributed, or ``UNKNOWN``.
    waiting_ns: Int64  # How long it waited for other ranks, or ``UNKNOWN``.
    kept_waiting_ns: Int64  # How long all others waited for it, or ``UNKNOWN``.
    kind: npt.NDArray[Any]  # ``AllReduce`` and so on.


@dataclass(frozen=True)
class Ops:
    """The ops of all domains; tuples and arrays by row."""

    op_ids: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    directions: tuple[str, ...]
    domain: Int64  # Row of domains; 0 is the default one.
    eligible: Bool  # Whether the op can use Tensor Cores, by its type.
    forward: Int64  # Row of the forward op of a backward one, or ``NO_ROW``.
    process: Int64  # Row of processes.
    data_types: tuple[str, ...]  # Element types; empty where they were not recorded.

    def __len__(self) -> int:
        return len(self.op_ids)

    @property
    def is_loader(self) -> Bool:
        """Which ops wait for a data loader."""
        return np.array([kind.startswith(LOADER_TYPES) for kind in self.types], dtype=bool)


@dataclass(frozen=True)
class Names:
    """Distinct kernels; tuples and arrays by row."""

    short: tuple[str, ...]
    long: tuple[str, ...]  # Demangled names.
    # 1 if it runs Tensor Core instructions, 0 if not, ``UNKNOWN`` where the name does not say.
    verdict: Int64
    half: Bool  # Whether its name indicates operands of 16 bits or fewer.
    communicates: Bool  # Whether it moves data between GPUs.

    def __len__(self) -> int:
        return len(self.short)

    @property
    def uses_tc(self) -> Bool:
        """Which kernels are known to run Tensor Core instructions."""
        result: Bool = self.verdict == 1
        return result


Shaped = TypeVar("Shaped", bound=Columns)


def stacked(parts: Sequence[Shaped]) -> Shaped:
    """Join columns of one class, one part after the other."""
    kind = type(parts[0])
    names = [column.name for column in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


_AT_ONCE: Final = 16
"""Calls that may start in the same tick of the clock and are compared with a launch."""


def find_calls(calls: Calls, process: Int64, start_ns: Int64, end_ns: Int64 | None = None) -> Int64:
    """Return the row of the first call of a process with a start, and an end if one is given.

    ``NO_ROW`` where there is none. Calls of several threads may start at the same time.
    """
    place = np.searchsorted(calls.start_ns, start_ns, side="left")
    result = np.full(len(place), NO_ROW)
    left = np.arange(len(place))
    for step in range(_AT_ONCE):
        row = place[left] + step
        inside = row < len(calls)
        left, row = left[inside], row[inside]
        here = calls.start_ns[row] == start_ns[left]
        left, row = left[here], row[here]
        fits = calls.process[row] == process[left]
        if end_ns is not None:
            fits &= calls.end_ns[row] == end_ns[left]
        result[left[fits]] = row[fits]
        left = left[~fits]
        if not len(left):
            break
    return result


def launching_calls(calls: Calls, work: Work) -> Int64:
    """Return the row of the call that launched each work; ``NO_ROW`` where none was recorded.

    The op does not matter: what a CUDA graph replays belongs to the op that was captured, not to
    the op that launches the graph.
    """
    found = find_calls(calls, work.process, work.api_start_ns, work.api_end_ns)
    is_none = (work.api_end_ns == work.api_start_ns) & (work.api_start_ns == work.start_ns)
    found[is_none] = NO_ROW
    return found
