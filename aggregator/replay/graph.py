"""The graph of dependencies of a profile, as columns.

Nodes lie on chains: a thread of the CPU, or a stream of a GPU. A chain of the CPU has two
positions per call, its start and its end, so that the time between two calls (*think time*) and the
call itself are segments of one sequence. A chain of a GPU has one position per piece of work, its
end. Within a chain, each position follows the one before it; an edge joins positions of different
chains, or a call with the work that it waits for.

Times of the replay obey

* CPU: ``time[p] = max(time[p - 1] + cpu_step_ns[p], source + lag_ns of every edge into p)``;
* GPU: ``end[w] = max(end[w - 1] + gap_ns[w], time of the launching call + launch_lag_ns[w],
  source + lag_ns of every edge into w) + duration_ns[w]``.

Gaps and lags are the measured ones, so the replay of unchanged durations gives the profile again.
A lag far longer than usual for its kind is idle time that no edge explains (``unexplained_ns``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from aggregator.profile.arrays import Bool, Int64, Integers
from aggregator.replay.inputs import ReplayInput

NEVER = np.int64(-(1 << 60))
"""A time before all others: of a source that does not exist. Unit: ns."""


class EdgeKind(IntEnum):
    """What an edge stands for."""

    SYNC = 0  # A call on the CPU waits for work of a GPU.
    EVENT = 1  # A stream waits for an event of another stream.
    THREAD = 2  # A thread goes on when another one has done its part.
    QUEUE = 3  # A launch waits until there is room in the queue of the GPU.
    COLLECTIVE = 4  # A collective waits for the other ranks.
    GRAPH = 5  # A node of a CUDA graph follows one in another stream, as recorded or observed.
    LEGACY = 6  # The legacy default stream and a blocking stream wait for each other.


class Source(IntEnum):
    """What an end of an edge is."""

    CPU = 0  # A position of ``cpu_*``.
    WORK_END = 1  # The end of a row of ``work_*``.


@dataclass(frozen=True)
class Edges:
    """Edges between chains, ordered by the measured time of their targets."""

    kind: Int64  # ``EdgeKind``.
    source_type: Int64  # ``Source``.
    source: Int64  # Position of the CPU, or row of the work.
    target_type: Int64  # ``Source``: a position of the CPU, or the start of a row of the work.
    target: Int64  # Position of the CPU, or row of the work.
    lag_ns: Int64  # Time between them, when the edge is what the target waited for. Unit: ns.
    binds: Bool  # Whether the target did wait for it in the profile.
    lost_ns: Int64  # Part of the lag that nothing explains: a call returned that late. Unit: ns.

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Graph:
    """Nodes and edges of a profile, in the order of their chains."""

    data: ReplayInput  # What it was built from.
    # --- CPU: positions 2 i and 2 i + 1 are the start and the end of call ``call_row[i]`` ---
    call_row: Int64  # Row of ``data.calls``, ordered by thread and start.
    cpu_time_ns: Int64  # Measured time of each position. Unit: ns.
    recorded_ns: Int64  # The same on the clock of ``data``, also without profiling. Unit: ns.
    # Time since the position before it in its thread, without the time it waited for another
    # chain; the first position of a thread has its measured time. Unit: ns.
    cpu_step_ns: Int64
    thread_first: Int64  # First position of each chain of the CPU, and the number of positions.
    loading_ns: Integers  # Part of each step in which a data loader was waited for. Unit: ns.
    # --- GPU: rows ordered by stream and start; collectives have a row for their arrival before ---
    work_row: Int64  # Row of ``data.work``.
    is_arrival: Bool  # Whether the row only marks the arrival of a rank at a collective.
    work_start_ns: Int64  # Measured. Unit: ns.
    duration_ns: Int64  # Time on the GPU, without waiting for other ranks. Unit: ns.
    gap_ns: Int64  # Time after the end of the row before it, as far as queued. Unit: ns.
    launch: Int64  # Position of the CPU that launched it; -1: not recorded.
    launch_lag_ns: Int64  # Time between that position and the start. Unit: ns.
    launch_binds: Bool  # Whether the launch is what it waited for.
    stream_first: Int64  # First row of each chain of a GPU, and the number of rows.
    unexplained_ns: Int64  # Idle time before each row that no edge explains. Unit: ns.
    # --- between chains ---
    edges: Edges
    notes: tuple[str, ...]  # What lowers the confidence.

    @property
    def work_end_ns(self) -> Int64:
        """Measured end of each row of the work. Unit: ns."""
        return self.work_start_ns + self.duration_ns
