"""What an import and an aggregation tell their caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from aggregator.metrics.window import Window
    from aggregator.profile import ProfileWarning
    from aggregator.progress import Progress


@dataclass(frozen=True)
class ImportResult:
    """What an import found.

    Attributes:
        database: The database written.
        aggr_id: Its first aggregation.
        mode: Mode in which ranges were read.
        mode_reason: Why.
        key_node: Key node; empty: none.
        key_node_reason: Why.
        iteration_stops_ns: Ends of all iterations. Unit: ns.
        iter_start: First aggregated iteration.
        iter_stop: Last aggregated iteration.
        iter_start_ns: Start of the aggregated range. Unit: ns.
        iter_stop_ns: End of the aggregated range. Unit: ns.
        counts: Rows per kind of event.
        warnings: What was not used, repaired or guessed.
        wall_time_ns: Unit: ns.
        gpu_time_ns: Sum of kernel and memory durations. Unit: ns.
        tc_gpu_time_ns: Sum of Tensor Core kernel durations. Unit: ns.
    """

    database: Path
    aggr_id: int
    mode: str
    mode_reason: str
    key_node: str
    key_node_reason: str
    iteration_stops_ns: tuple[int, ...]
    iter_start: int
    iter_stop: int
    iter_start_ns: int
    iter_stop_ns: int
    counts: dict[str, int] = field(default_factory=dict)
    warnings: tuple[ProfileWarning, ...] = ()
    wall_time_ns: int = 0
    gpu_time_ns: int = 0
    tc_gpu_time_ns: int = 0


@dataclass(frozen=True)
class AggregationResult:
    """One aggregation of a database.

    Attributes:
        aggr_id: Its id.
        reused: Whether the same request had been aggregated before.
        iter_start: First aggregated iteration.
        iter_stop: Last aggregated iteration.
        key_node: Key node; empty: none.
        database: The database that holds it: for one of NVIDIA's, its conversion.
    """

    aggr_id: int
    reused: bool
    iter_start: int
    iter_stop: int
    key_node: str
    database: Path


def tell_iterations(window: Window, progress: Progress) -> None:
    """Say which iterations were found and which are aggregated."""
    count = len(window.iterations)
    stops = ", ".join(str(stop) for stop in window.iterations.stop_ns[:50].tolist())
    more = ", ..." if count > 50 else ""
    progress.message(f'Found {count} {_plural(count)} using key_node "{window.key_node.name}"')
    if window.key_node.reason:
        progress.message(f"Key node: {window.key_node.reason}")
    progress.message(f"Iterations: [{stops}{more}]")
    progress.message(
        f"Aggregating data over {window.count} {_plural(window.count)}: iteration {window.first} "
        f"start ({window.start_ns} ns) to iteration {window.last} end ({window.stop_ns} ns)"
    )


def _plural(count: int) -> str:
    return "iteration" if count == 1 else "iterations"
