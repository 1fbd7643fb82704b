"""Input of the replay: calls, device work and waits of a profile, as columns.

One row per event, NumPy columns, all times int64 nanoseconds on the clock of the profile. Rows are
numbered from 0 here; -1 means "none".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.profile.arrays import Bool, Float64, Int64, before_known

KERNEL, COPY, SET, GRAPH = 0, 1, 2, 3  # Kinds of device work.


@dataclass(frozen=True)
class Calls:
    """Calls of CUDA on the CPU, in order of start."""

    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    thread: Int64  # Number of the thread.
    process: Int64  # Number of the process.
    name: Int64  # Code into ``names``.
    op: Int64  # Row of ``ReplayInput.ops`` in which it was made.
    names: tuple[str, ...]  # Distinct names, by code.

    def __len__(self) -> int:
        return len(self.start_ns)

    def named(self, *parts: str) -> Bool:
        """Whether the name of each call contains one of some texts."""
        found = [any(part in name for part in parts) for name in self.names]
        return np.array([*found, False], dtype=bool)[self.name]


@dataclass(frozen=True)
class Work:
    """Work of the GPUs: kernels, copies, sets, and CUDA graphs recorded as a whole."""

    kind: Int64  # ``KERNEL``, ``COPY``, ``SET`` or ``GRAPH``.
    start_ns: Int64  # Start on the GPU. Unit: ns.
    end_ns: Int64  # End on the GPU. Unit: ns.
    device: Int64  # Number of the GPU.
    stream: Int64  # CUDA stream as recorded; -1: not recorded.
    process: Int64  # Number of the process.
    call: Int64  # Row of ``Calls`` that launched it; -1: not recorded.
    op: Int64  # Row of ``ReplayInput.ops`` that it belongs to.
    name: Int64  # Row of ``ReplayInput.kernel_names``; -1: no kernel.
    copy_kind: Int64  # CUDA's kind of the copy; -1: no copy.
    host_kind: Int64  # Memory on the host's side: 0 pageable, 1 pinned; -1: unknown or none.
    collective: Int64  # Same number: the same collective on several ranks; -1: none matched.
    # Amount of data that the rank contributed to a collective, or that is copied; -1: not
    # recorded, or none. Unit: bytes.
    num_bytes: Int64
    moved_bytes: Int64  # What it moves over the link of its GPU; -1: not recorded. Unit: bytes.

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_earlier(self) -> Bool:
        """Whether each was launched before the capture began: before all with a call on its GPU."""
        return before_known(self.device, self.call >= 0, self.start_ns)


@dataclass(frozen=True)
class Waits:
    """Recorded waits: of a stream for an event, or of the CPU for a stream or an event."""

    call: Int64  # Row of ``Calls`` that waits, or that makes a stream wait.
    device: Int64  # Number of the GPU; -1: not recorded.
    stream: Int64  # Stream that waits or is waited for; -1: all of the device.
    record_call: Int64  # Row of ``Calls`` that recorded the event; -1: no event, or none known.
    record_stream: Int64  # Stream in which the event was recorded; -1: no event, or none known.

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True)
class BlockingStreams:
    """Streams that wait for the legacy default stream, and that stream itself."""

    process: Int64  # Number of the process.
    stream: Int64  # CUDA stream as recorded.
    is_default: Bool  # Whether it is the legacy default stream.


@dataclass(frozen=True)
class Loading:
    """When threads waited for the next batch of a data loader."""

    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    thread: Int64  # Number of the thread.
    loads: Bool  # Whether the thread made the batch itself, without worker processes.


@dataclass(frozen=True)
class Spans:
    """Executions of ops on the CPU, in order of start."""

    op: Int64  # Row of ``ReplayInput.ops``.
    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    thread: Int64  # Number of the thread.


@dataclass(frozen=True)
class Ops:
    """Ops that own calls and work; tuples by row."""

    op_ids: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    directions: tuple[str, ...]
    eligible: Bool  # Whether the op can use Tensor Cores, by its type.
    # Ideal time by its GPU time, at the peak rates of the GPU; NaN: not known.
    ideal_share: Float64


@dataclass(frozen=True)
class ReplayInput:
    """What a graph is built from."""

    calls: Calls
    work: Work
    waits: Waits
    blocking_streams: BlockingStreams
    loading: Loading
    ops: Ops
    spans: Spans
    kernel_names: tuple[str, ...]  # Distinct kernels.
    uses_tc: Bool  # Whether each of ``kernel_names`` runs Tensor Core instructions.
    converts: Bool  # Whether each of ``kernel_names`` converts tensor layouts for convolutions.
    communicates: Bool  # Whether each of ``kernel_names`` moves data between GPUs.
    iteration: Int64  # Numbers of the iterations, ascending.
    iteration_start_ns: Int64  # Start of each on the CPU. Unit: ns.
    iteration_end_ns: Int64  # End of each on the CPU, exclusive. Unit: ns.
    has_waits: bool  # Whether the capture records events and synchronization.
    lost_records: bool  # Whether the recorder lost events.
