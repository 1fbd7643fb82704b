"""An imported profile: the data that the database stores, before any aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from aggregator.correlate.custom_domains import DomainWork
from aggregator.correlate.op_table import Op, OpTable
from aggregator.correlate.work import CorrelatedWork
from aggregator.costs.messages import Messages
from aggregator.costs.units import InstanceCosts
from aggregator.events.model import Ops
from aggregator.frameworks.meaning import RangeMeaning
from aggregator.kernels.traits import communication_kernels, tensor_core_kernels
from aggregator.metrics.iterations import KeyNode, NamedRanges
from aggregator.metrics.loops import Candidate
from aggregator.metrics.model import RollupInput
from aggregator.metrics.phases import PhaseColumns
from aggregator.profile.arrays import Bool, Int32, Int64, Integers, ordered, row_codes
from aggregator.profile.profile import Profile

if TYPE_CHECKING:
    from aggregator.metrics.memory.analysis import Recording

TC_ELIGIBLE, TC_UNASSOCIATED, TC_NOT_ELIGIBLE = 0, 2, 3
"""DLProf's ``tc_support_status``."""


@dataclass
class KernelNames:
    """Distinct (short name, long name, compute capability) of the kernels run."""

    of_kernel: Int32  # Row of this table per kernel, in order of launch.
    short: Int32  # Code of the short name into ``Profile.strings``.
    long: Int32  # Code of the long name into ``Profile.strings``.
    verdict: Int32  # 1 uses Tensor Cores, 0 does not, -1 unknown from the name.

    def communicates(self, strings: tuple[str, ...]) -> Bool:
        """Return whether each distinct kernel moves data between GPUs."""
        return communication_kernels([strings[code] for code in self.long.tolist()])

    @property
    def uses_tc(self) -> Bool:
        """Whether a kernel counts as using Tensor Cores: unknown does not."""
        result: Bool = self.verdict == 1
        return result


@dataclass
class ImportedProfile:
    """A correlated profile, ready to be stored and aggregated."""

    profile: Profile  # The raw columns.
    mode: str  # Mode in which ranges were read.
    meaning: RangeMeaning  # What range names mean.
    work: CorrelatedWork  # Instances and device work.
    ops: OpTable  # The framework's ops (or the placeholder of simple mode).
    ranges: NamedRanges  # Ranges that may mark an iteration.
    key_node: KeyNode  # The key node found.
    costs: InstanceCosts  # FLOPs and bytes of each op instance.
    domains: tuple[DomainWork, ...] = ()  # Custom domains.
    mode_reason: str = ""  # Why that mode.
    candidates: tuple[Candidate, ...] = ()  # Candidates for the key node, best first.
    first_ns: int = 0  # Start of the first iteration. Unit: ns.
    # When the markers ended, which slow the steps before down; 0: never. Unit: ns.
    marked_until_ns: int = 0
    recordings: tuple[Recording, ...] = ()  # GPU memory.
    key_node_confidence: str = ""  # ``high``, ``medium`` or ``low``; empty: no key node.
    messages: Messages = field(default_factory=Messages)  # Sizes of collectives.
    phases: PhaseColumns = field(default_factory=PhaseColumns)  # Prefill, decode and so on.
    # Input of aggregations: the default domain, then each custom one.
    rollups: tuple[RollupInput, ...] = ()
    # Row of ``profile.kernels`` at each position in order of launch.
    kernel_order: Int64 = field(init=False)
    # Row of copies followed by sets at each position in order of launch.
    memory_order: Int64 = field(init=False)
    kernel_names: KernelNames = field(init=False)  # Distinct kernels.

    def __post_init__(self) -> None:
        self.kernel_order = self.work.kernels.launch_order()
        self.memory_order = ordered(
            memory_column(self.work, "api_start_ns"), memory_column(self.work, "start_ns")
        )
        self.kernel_names = self.distinct_kernels()

    def release_events(self) -> None:
        """Drop the events once they are in tables; what aggregations are computed from stays."""
        del self.profile, self.work, self.ops, self.domains
        del self.kernel_order, self.memory_order, self.kernel_names

    @property
    def rollup(self) -> RollupInput:
        """The default domain, which holds all device work."""
        return self.rollups[0]

    def all_ops(self) -> tuple[Op, ...]:
        """Return the ops of all domains: the framework's first."""
        return (*self.ops.ops, *(op for domain in self.domains for op in domain.ops))

    def op_columns(self) -> Ops:
        """Return the ops of all domains as columns."""
        counts = [len(self.ops.ops), *(len(domain.ops) for domain in self.domains)]
        return op_columns(self.all_ops(), np.repeat(np.arange(len(counts)), counts))

    def op_offset(self, number: int) -> int:
        """Return the first row in ``all_ops`` of the ops of custom domain ``number``."""
        return len(self.ops.ops) + sum(len(domain.ops) for domain in self.domains[:number])

    def distinct_kernels(self) -> KernelNames:
        """Find the distinct kernels and decide which use Tensor Cores."""
        profile = self.profile
        found, rows = self.kernels_by(profile.kernels.device)
        names = [profile.strings[code] for code in found.long.tolist()]
        devices = [profile.devices[row] for row in profile.kernels.device[rows].tolist()]
        capabilities = [device.compute_capability for device in devices]
        return replace(found, verdict=tensor_core_kernels(names, capabilities))

    def kernels_by(self, column: Integers) -> tuple[KernelNames, Int64]:
        """Return the distinct (short name, long name, value of a column), and a kernel of each.

        The value is the verdict.
        """
        kernels, order = self.profile.kernels, self.kernel_order
        keys = (kernels.name, kernels.long_name, column)
        first, code = row_codes(*(key[order] for key in keys))
        rows = order[first]
        return KernelNames(code, *(key[rows].astype(np.int32) for key in keys)), rows


def op_columns(ops: Sequence[Op], domain: Int64) -> Ops:
    """Return ops as columns."""
    return Ops(
        op_ids=tuple(op.op_id for op in ops),
        names=tuple(op.op_name for op in ops),
        types=tuple(op.op_type for op in ops),
        directions=tuple(op.direction for op in ops),
        domain=domain,
        eligible=np.array([op.tc_eligible for op in ops], dtype=bool),
        forward=np.array([op.forward for op in ops], dtype=np.int64),
        process=np.array([op.process for op in ops], dtype=np.int64),
        data_types=tuple(op.data_type for op in ops),
    )


def memory_column(work: CorrelatedWork, name: str) -> Int64:
    """Return a ``LaunchedWork`` or ``MemoryOps`` column of copies followed by sets."""
    parts = (work.copies, work.sets)
    if hasattr(work.copies, name):
        return np.concatenate([getattr(part, name) for part in parts])
    return np.concatenate([getattr(part.work, name) for part in parts])


def inverse_order(order: Int64) -> Int64:
    """Return the position of each row in an order."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank
