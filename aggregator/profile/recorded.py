"""A profile whose ops were recorded by NVIDIA's DLProf in its database.

Names, Op IDs, directions, shapes and the owner of every event are kept as they are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.profile.arrays import Bool, Int32, Int64, empty_i32, empty_i64
from aggregator.profile.profile import Profile


@dataclass(frozen=True)
class RecordedOp:
    """One op as DLProf stored it."""

    op_id: str  # Unique name, ``CONV2D_1``.
    op_name: str  # Path and name.
    op_type: str  # Kind of op.
    direction: str  # ``fprop``, ``bprop`` or empty.
    data_type: str  # Element type; empty: not recorded.
    stack_trace: str  # Call sites; empty: not recorded.
    tc_support_status: int  # 0: can use Tensor Cores; 2: unassociated work; 3: cannot.


@dataclass
class RecordedInstances:
    """Executions of ops; one row each."""

    op: Int32 = field(default_factory=empty_i32)  # Row of ``RecordedOps.ops``.
    start_ns: Int64 = field(default_factory=empty_i64)  # Start on the CPU. Unit: ns.
    end_ns: Int64 = field(default_factory=empty_i64)  # End on the CPU. Unit: ns.
    thread: Int32 = field(default_factory=empty_i32)  # Row of ``Profile.threads``.
    # Row of ``RecordedOps.shapes``, or ``NO_ROW``.
    shapes: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.op)


@dataclass
class Owners:
    """The op and execution that each event of one kind belongs to."""

    op: Int32 = field(default_factory=empty_i32)  # Row of ``RecordedOps.ops``.
    # Number of the op's execution, from 0, as DLProf numbered them.
    number: Int64 = field(default_factory=empty_i64)
    # Row of ``Profile.api_calls`` that made the event, or ``NO_ROW``.
    call: Int32 = field(default_factory=empty_i32)


@dataclass(frozen=True)
class RecordedShapes:
    """Shapes and parameters of an execution, as DLProf's reports show them."""

    inputs: str
    parameters: str
    outputs: str


@dataclass(frozen=True)
class RecordedAggregation:
    """One rollup that the source database holds."""

    key_node: str  # Op that marks an iteration; empty: none.
    iter_start: int  # First aggregated iteration.
    iter_stop: int  # Last aggregated iteration, inclusive.
    stops_ns: tuple[int, ...] = ()  # Ends of all iterations but the last one. Unit: ns.
    last_ns: int = 0  # End of the last iteration; 0: unknown. Unit: ns.

    @property
    def is_whole(self) -> bool:
        """Whether all iterations are aggregated."""
        return self.iter_start == 0 and self.iter_stop == len(self.stops_ns)


@dataclass
class RecordedOps:
    """Ops, their executions, and who owns each event."""

    version: str = ""  # Version of the DLProf that wrote the database.
    mode: str = ""  # Its mode, one of ``options.Mode``.
    profile_name: str = ""  # Name that the user gave the profile.
    original_command: str = ""  # Command line that made it.
    ops: tuple[RecordedOp, ...] = ()  # The ops.
    instances: RecordedInstances = field(default_factory=RecordedInstances)  # Their executions.
    shapes: tuple[RecordedShapes, ...] = ()  # Distinct shapes.
    kernels: Owners = field(default_factory=Owners)  # Owner of each kernel.
    copies: Owners = field(default_factory=Owners)  # Owner of each copy.
    sets: Owners = field(default_factory=Owners)  # Owner of each set.
    # Owner of each API call; ``call`` is its own row.
    calls: Owners = field(default_factory=Owners)
    uses_tc: Bool | None = None  # Per kernel, whether it uses Tensor Cores; None: not recorded.
    aggregations: tuple[RecordedAggregation, ...] = ()  # Rollups of the source; empty: unknown.


@dataclass
class RecordedProfile(Profile):
    """A profile with the ops that its source holds."""

    recorded: RecordedOps = field(default_factory=RecordedOps)  # Ops and owners of the events.
