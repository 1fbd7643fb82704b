"""Units that costs are stored in, and the units of each execution of an op."""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.profile.arrays import Int32, Int64, empty_i32, empty_i64

VECTOR = "float32"
"""Precision of work other than matrix products: bounded by the GPU's vector units."""
LINK = "link"
"""Copies over the bus to the host or to another GPU."""
NETWORK = "network"
"""Collectives: bounded outside the GPU, so their ideal time is unknown."""


@dataclass(frozen=True)
class CostUnit:
    """One distinct call that was counted; equal calls share it."""

    name: str  # Operator, ``convolution_backward``, or kind of copy.
    input_shapes: str = ""  # JSON list of sizes; empty: not recorded.
    # JSON list of the output's sizes, if they had to be derived; else empty.
    output_shape: str = ""
    flops: int | None = None  # Floating point operations; None: unknown. Unit: count.
    num_bytes: int | None = None  # Bytes to move; None: unknown. Unit: bytes.
    is_matrix: bool = False  # Whether the operations are those of matrix products.
    # Bound of the work: a key of ``peaks.Peaks``, ``link``, ``network``; empty: unknown.
    precision: str = ""
    reason: str = ""  # Why a value is unknown; empty: all are known.
    # Whether its kernels may compute matrix products that are not counted.
    hides_matrix: bool = False


@dataclass(frozen=True)
class InstanceCosts:
    """Cost of every execution of an op.

    A *cost* is a multiset of units; executions of the same units share one.
    """

    units: tuple[CostUnit, ...] = ()  # The distinct units.
    part_cost: Int64 = field(default_factory=empty_i64)  # Cost of each part; sorted.
    part_unit: Int64 = field(default_factory=empty_i64)  # Row of ``units`` of each part.
    part_calls: Int64 = field(default_factory=empty_i64)  # Number of calls of the unit in the cost.
    # Cost of each op instance; -1: it ran nothing on a GPU.
    of_instance: Int32 = field(default_factory=empty_i32)
    count: int = 0  # Number of costs.
