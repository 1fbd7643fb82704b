"""Input of the replay: calls, device work and waits of a profile, as columns.

One row per event, NumPy columns, all times int64 nanoseconds on the clock of the profile. Rows are
numbered from 0 here; -1 means "none".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aggregator.events.model import Calls, Columns, Names, OpCalls, Ops, Work
from aggregator.profile.arrays import Bool, Float64, Int64, before_known


@dataclass(frozen=True)
class LinkedWork(Work):
    """Work with the call that launched it and the collective that it is.

    ``num_bytes`` of a collective is what the rank contributed.
    """

    call: Int64  # Row of ``Calls`` that launched it; -1: not recorded.
    collective: Int64  # Same number: the same collective on several ranks; -1: none matched.
    moved_bytes: Int64  # What it moves over the link of its GPU; -1: not recorded. Unit: bytes.

    @property
    def is_earlier(self) -> Bool:
        """Whether each was launched before the capture began: before all with a call on its GPU."""
        return before_known(self.device, self.call >= 0, self.start_ns)


@dataclass(frozen=True)
class LinkedWaits(Columns):
    """Recorded waits: of a stream for an event, or of the CPU for a stream or an event."""

    call: Int64  # Row of ``Calls`` that waits, or that makes a stream wait.
    device: Int64  # Number of the GPU; -1: not recorded.
    stream: Int64  # Stream that waits or is waited for; -1: all of the device.
    record_call: Int64  # Row of ``Calls`` that recorded the event; -1: no event, or none known.
    record_stream: Int64  # Stream in which the event was recorded; -1: no event, or none known.


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
class ReplayInput:
    """What a graph is built from."""

    calls: Calls
    call_names: tuple[str, ...]  # Names of calls by row.
    work: LinkedWork
    waits: LinkedWaits
    blocking_streams: BlockingStreams
    # Pairs of rows of ``work`` in two streams, shape (2, n): the second depends on the first.
    links: Int64
    loading: Loading
    ops: Ops
    # Ideal time of each op by its GPU time, at the peak rates of the GPU; NaN: not known.
    ideal_share: Float64
    op_calls: OpCalls
    names: Names  # Distinct kernels.
    converts: Bool  # Whether each of them converts tensor layouts for convolutions.
    iteration: Int64  # Numbers of the iterations, ascending.
    iteration_start_ns: Int64  # Start of each on the CPU. Unit: ns.
    iteration_end_ns: Int64  # End of each on the CPU, exclusive. Unit: ns.
    has_waits: bool  # Whether the capture records events and synchronization.
    lost_records: bool  # Whether the recorder lost events.
    is_clock_moved: bool = False  # Whether the import moved the work of GPUs to fit the CPU.

    def calls_named(self, *parts: str) -> Bool:
        """Return whether the name of each call contains one of some texts."""
        found = [any(part in name for part in parts) for name in self.call_names]
        return np.array([*found, False], dtype=bool)[self.calls.name]
