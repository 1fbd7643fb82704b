"""The parts that ops are counted in, and which parts an execution of an op is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from aggregator.profile import Int32, Int64, empty_i32, empty_i64

VECTOR = "float32"
"""Precision whose peak bounds work that is no matrix product: the GPU's vector units."""
LINK = "link"
"""Copies over the bus to the host or to another GPU."""
NETWORK = "network"
"""Collectives: what bounds them lies outside the GPU, so their ideal time is unknown."""


@dataclass(frozen=True)
class CostUnit:
    """One distinct call that was counted; equal calls share it.

    Attributes:
        name: Operator, ``convolution_backward``, or kind of copy.
        input_shapes: JSON list of sizes; empty: none recorded.
        output_shape: JSON list of the output's sizes, where they had to be found; else empty.
        flops: Floating point operations; None: unknown. Unit: count.
        num_bytes: Bytes to move; None: unknown. Unit: bytes.
        is_matrix: Whether the operations are those of matrix products.
        precision: What bounds it: a key of ``peaks.Peaks``, ``link``, ``network``, or empty:
            unknown.
        reason: Why something is unknown; empty: all is known.
    """

    name: str
    input_shapes: str = ""
    output_shape: str = ""
    flops: int | None = None
    num_bytes: int | None = None
    is_matrix: bool = False
    precision: str = ""
    reason: str = ""


@dataclass(frozen=True)
class InstanceCosts:
    """What every execution of an op should cost.

    A *cost* is a multiset of units; executions of the same units share one.

    Attributes:
        units: The distinct units.
        part_cost: Cost of each part; sorted.
        part_unit: Row of ``units`` of each part.
        part_calls: How often the unit is in the cost.
        of_instance: Cost of each op instance; -1: it ran nothing on a GPU.
        count: Number of costs.
    """

    units: tuple[CostUnit, ...] = ()
    part_cost: Int64 = field(default_factory=empty_i64)
    part_unit: Int64 = field(default_factory=empty_i64)
    part_calls: Int64 = field(default_factory=empty_i64)
    of_instance: Int32 = field(default_factory=empty_i32)
    count: int = 0
