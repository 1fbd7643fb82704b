"""A profile whose ops are known already: what a database of NVIDIA's DLProf holds.

Names, Op IDs, directions, shapes and the owner of every event are given there and kept as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.profile import Bool, Int32, Int64, Profile, empty_i32, empty_i64


@dataclass(frozen=True)
class GivenOp:
    """One op as DLProf stored it.

    Attributes:
        op_id: Unique name, ``CONV2D_1``.
        op_name: Path and name.
        op_type: Kind of op.
        direction: ``fprop``, ``bprop`` or empty.
        data_type: Element type; empty: not recorded.
        stack_trace: Call sites; empty: not recorded.
        tc_support_status: 0: can use Tensor Cores; 2: unassociated work; 3: cannot.
    """

    op_id: str
    op_name: str
    op_type: str
    direction: str
    data_type: str
    stack_trace: str
    tc_support_status: int


@dataclass
class GivenInstances:
    """Executions of ops; one row each.

    Attributes:
        op: Row of ``GivenOps.ops``.
        start_ns: Start on the CPU. Unit: ns.
        end_ns: End on the CPU. Unit: ns.
        thread: Row of ``Profile.threads``.
        shapes: Row of ``GivenOps.shapes``; -1: none.
    """

    op: Int32 = field(default_factory=empty_i32)
    start_ns: Int64 = field(default_factory=empty_i64)
    end_ns: Int64 = field(default_factory=empty_i64)
    thread: Int32 = field(default_factory=empty_i32)
    shapes: Int32 = field(default_factory=empty_i32)

    def __len__(self) -> int:
        return len(self.op)


@dataclass
class Owners:
    """Which execution of which op each event of one kind belongs to.

    Attributes:
        op: Row of ``GivenOps.ops``.
        number: Which of the op's executions, counted from 0, as DLProf numbered them.
        call: Row of ``Profile.api_calls`` that made the event; -1: none recorded.
    """

    op: Int32 = field(default_factory=empty_i32)
    number: Int64 = field(default_factory=empty_i64)
    call: Int32 = field(default_factory=empty_i32)


@dataclass(frozen=True)
class GivenShapes:
    """Shapes and parameters of an execution, as DLProf's reports show them."""

    inputs: str
    parameters: str
    outputs: str


@dataclass(frozen=True)
class GivenAggregation:
    """One rollup that the source database holds.

    Attributes:
        key_node: Op that marks an iteration, as asked for or found; empty: none.
        iter_start: First aggregated iteration.
        iter_stop: Last aggregated iteration, inclusive.
        stops_ns: Ends of all iterations but the last one. Unit: ns.
        last_ns: End of the last iteration; 0: unknown. Unit: ns.
    """

    key_node: str
    iter_start: int
    iter_stop: int
    stops_ns: tuple[int, ...] = ()
    last_ns: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all iterations are aggregated."""
        return self.iter_start == 0 and self.iter_stop == len(self.stops_ns)


@dataclass
class GivenOps:
    """Ops, their executions, and who owns each event.

    Attributes:
        version: Version of the DLProf that wrote the database.
        mode: Its mode, one of ``options.Mode``.
        profile_name: Name that the user gave the profile.
        original_command: Command line that made it.
        ops: The ops.
        instances: Their executions.
        shapes: Distinct shapes.
        kernels: Owner of each kernel.
        copies: Owner of each copy.
        sets: Owner of each set.
        calls: Owner of each API call; ``call`` is its own row.
        uses_tc: Per kernel, whether it uses Tensor Cores; None: the database does not tell.
        aggregations: Rollups of the source; empty: unknown.
    """

    version: str = ""
    mode: str = ""
    profile_name: str = ""
    original_command: str = ""
    ops: tuple[GivenOp, ...] = ()
    instances: GivenInstances = field(default_factory=GivenInstances)
    shapes: tuple[GivenShapes, ...] = ()
    kernels: Owners = field(default_factory=Owners)
    copies: Owners = field(default_factory=Owners)
    sets: Owners = field(default_factory=Owners)
    calls: Owners = field(default_factory=Owners)
    uses_tc: Bool | None = None
    aggregations: tuple[GivenAggregation, ...] = ()


@dataclass
class GivenProfile(Profile):
    """A profile with the ops that its source names.

    Attributes:
        given: Ops and owners of the events.
    """

    given: GivenOps = field(default_factory=GivenOps)
