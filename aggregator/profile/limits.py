"""What a capture allows to be said: its limits, and the figures that each of them touches.

A limit is found at import and stored as a warning, whose code says which limit it is. Figures are
declared once, in ``FIGURES``: what shows one asks ``bounds_of`` and knows no limit by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aggregator.texts import Text, say


class LimitCode(StrEnum):
    """Kinds of limits of a capture."""

    MISSING_WORK = "missing_work"
    PARTIAL_REPLAYS = "partial_replays"
    WHOLE_GRAPHS = "whole_graphs"
    CLOCK_ORDER = "clock_order"
    OVERLAP_IN_STREAM = "overlap_in_stream"
    BROKEN_TIMES = "broken_times"
    REPEATED_ROWS = "repeated_rows"
    LOST_RECORDS = "lost_records"
    WAITS_WITHOUT_EVENTS = "waits_without_events"
    WAIT_IDS = "wait_ids"
    SYNC_OVER_RUNNING = "sync_over_running"
    FUTURE_RECORDS = "future_records"
    SAMPLED_RANKS = "sampled_ranks"
    UNMARKED_SHAPES = "unmarked_shapes"
    PROFILED_SPEED = "profiled_speed"
    NOT_READ = "not_read"


@dataclass(frozen=True)
class LimitKind:
    """What every limit of a kind means."""

    title: Text
    effect: Text  # What it means for the reader.
    recommendation: Text  # What to do.
    # Whether the capture lacks or contradicts something; otherwise it was made like that.
    is_fault: bool = True


_AGAIN: Final = say("Record a shorter part of the run again")

LIMITS: Final[Mapping[LimitCode, LimitKind]] = {
    LimitCode.MISSING_WORK: LimitKind(
        say("Launches without work"),
        say(
            "The GPU did more than the capture shows: it was busy for longer, and idle for less, "
            "than what is shown"
        ),
        say(
            "Let the loop run for some steps under the profiler before the part that counts, flush "
            "its buffers less often, and record again"
        ),
    ),
    LimitCode.PARTIAL_REPLAYS: LimitKind(
        say("Replays without their kernels"),
        say("Replays of CUDA graphs lack kernels: the GPU did more in them than is shown"),
        say(
            "Begin the recording before the graphs are captured, or record graphs as a whole "
            "(nsys profile --cuda-graph-trace=graph)"
        ),
    ),
    LimitCode.WHOLE_GRAPHS: LimitKind(
        say("Graphs without kernels"),
        say(
            "Kernels, Tensor Cores and operations inside these graphs are unknown; their time is "
            "not"
        ),
        say(
            "Record them with dlprof's own collector, or with --graph_nodes=true (nsys profile "
            "--cuda-graph-trace=node)"
        ),
        is_fault=False,
    ),
    LimitCode.CLOCK_ORDER: LimitKind(
        say("Work before its launch"),
        say(
            "The clocks of CPU and GPU disagree: times between a launch and its work are at least "
            "as shown"
        ),
        say("Record again; if it stays, update the driver or the profiler"),
    ),
    LimitCode.OVERLAP_IN_STREAM: LimitKind(
        say("Work over other work of its stream"),
        say(
            "A stream runs its work in order, so the ends of these pieces are wrong: they end "
            "where the next one begins, and the GPU was busy for at most as long as shown"
        ),
        say("Record again; if it stays, update the driver or the profiler"),
    ),
    LimitCode.BROKEN_TIMES: LimitKind(
        say("Times that are none"),
        say("These records count without a duration, or are left out"),
        say("Record again; if it stays, update the driver or the profiler"),
    ),
    LimitCode.REPEATED_ROWS: LimitKind(
        say("Repeated rows"),
        say("Equal records are counted once, so that all figures are those of the run"),
        say("Export the recording again, and do not append traces to each other"),
    ),
    LimitCode.LOST_RECORDS: LimitKind(
        say("Lost records"),
        say("The recorder lost work: totals are at least as shown, and idle time at most"),
        say("{first}, with larger buffers, and let the program end normally", first=_AGAIN),
    ),
    LimitCode.WAITS_WITHOUT_EVENTS: LimitKind(
        say("Waits without events"),
        say("What these waits waited for is unknown, and so is the critical path through them"),
        say("Begin the recording before the events are recorded"),
    ),
    LimitCode.WAIT_IDS: LimitKind(
        say("Waits with wrong numbers"),
        say(
            "These waits name a record that is no record, so the order of streams is unknown there"
        ),
        say("Update PyTorch: the numbers of waits are written by its profiler"),
    ),
    LimitCode.SYNC_OVER_RUNNING: LimitKind(
        say("Waits that end too early"),
        say(
            "The CPU went on although the stream that it waited for was still busy: clocks or "
            "records are wrong, and what depends on these waits is unknown"
        ),
        say("Record again; if it stays, update the driver or the profiler"),
    ),
    LimitCode.FUTURE_RECORDS: LimitKind(
        say("Waits for the future"),
        say("These waits name an event that is recorded after them, so the order there is unknown"),
        say("Update PyTorch: the numbers of waits are written by its profiler"),
    ),
    LimitCode.SAMPLED_RANKS: LimitKind(
        say("Some of the ranks"),
        say("Ranks that are not here may be later, or keep the others waiting for longer"),
        say("Record every rank, or at least one of each node, and give all files"),
        is_fault=False,
    ),
    LimitCode.UNMARKED_SHAPES: LimitKind(
        say("Steps without names"),
        say("The kernels of these steps belong to no op: the ops take at least what is shown"),
        say("Record with --detail=high, which marks all steps"),
        is_fault=False,
    ),
    LimitCode.PROFILED_SPEED: LimitKind(
        say("Speed under the profiler"),
        say("Profiling lengthens the gaps that the CPU leaves: idle time is at most what is shown"),
        say(
            "Measure a step without profiling: dlprof python train.py does so, or give what the "
            "program prints with --bare_step_ms"
        ),
        is_fault=False,
    ),
    LimitCode.NOT_READ: LimitKind(
        say("Records that are not read"),
        say("What these records would say is in no figure"),
        say("Look at them in the tool that wrote them"),
        is_fault=False,
    ),
}
"""Every kind of limit. A fault makes ``dlprof doctor`` exit with 10; others are properties of how
the capture was made, which only touch figures."""

OF_WARNING: Final[Mapping[str, LimitCode]] = {
    "MISSING_WORK": LimitCode.MISSING_WORK,
    "PARTIAL_REPLAYS": LimitCode.PARTIAL_REPLAYS,
    "GRAPHS_WITHOUT_KERNELS": LimitCode.WHOLE_GRAPHS,
    "EARLY_WORK": LimitCode.CLOCK_ORDER,
    "GPU_CLOCK": LimitCode.CLOCK_ORDER,
    "ENDLESS_WORK": LimitCode.OVERLAP_IN_STREAM,
    "BROKEN_EVENTS": LimitCode.BROKEN_TIMES,
    "IMPOSSIBLE_TIMES": LimitCode.BROKEN_TIMES,
    "REVERSED_EVENTS": LimitCode.BROKEN_TIMES,
    "REPEATED_ROWS": LimitCode.REPEATED_ROWS,
    "LOST_EVENTS": LimitCode.LOST_RECORDS,
    "DROPPED_EVENTS": LimitCode.LOST_RECORDS,
    "INCOMPLETE_EVENTS": LimitCode.LOST_RECORDS,
    "UNFINISHED_WORK": LimitCode.LOST_RECORDS,
    "NO_GPU_WORK": LimitCode.LOST_RECORDS,
    "CUT_FILE": LimitCode.LOST_RECORDS,
    "WAITS_WITHOUT_EVENTS": LimitCode.WAITS_WITHOUT_EVENTS,
    "WAIT_IDS": LimitCode.WAIT_IDS,
    "SYNC_OVER_RUNNING": LimitCode.SYNC_OVER_RUNNING,
    "FUTURE_RECORDS": LimitCode.FUTURE_RECORDS,
    "MISSING_RANKS": LimitCode.SAMPLED_RANKS,
    "ONE_OF_RANKS": LimitCode.SAMPLED_RANKS,
    "STEPS_WITHOUT_NAMES": LimitCode.UNMARKED_SHAPES,
    "UNUSED_EVENTS": LimitCode.NOT_READ,
}
"""The limit that a warning of an import is; other warnings are none."""


class BoundKind(StrEnum):
    """What a figure says of the run if a limit touches it."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    UNKNOWN = "unknown"


BOUND_WORDS: Final = {
    BoundKind.AT_LEAST: "at least",
    BoundKind.AT_MOST: "at most",
    BoundKind.UNKNOWN: "uncertain",
}
"""What stands before or behind a figure."""
BOUND_SIGNS: Final = {BoundKind.AT_LEAST: ">= ", BoundKind.AT_MOST: "<= ", BoundKind.UNKNOWN: "? "}
"""The same where there is no room for words."""


@dataclass(frozen=True)
class Figure:
    """A quantity that people read, and which limits make it a bound."""

    title: Text
    # What shows it below an aggregation: fields of objects and columns of tables
    # (``resource-usage.busy_pct``), or whole answers (``critical-path``).
    fields: tuple[str, ...]
    at_least: frozenset[LimitCode] = frozenset()  # It is no smaller.
    at_most: frozenset[LimitCode] = frozenset()  # It is no larger.
    unknown: frozenset[LimitCode] = frozenset()  # It may be either.


_MISSING: Final = frozenset(
    {
        *(LimitCode.MISSING_WORK, LimitCode.PARTIAL_REPLAYS, LimitCode.LOST_RECORDS),
        LimitCode.BROKEN_TIMES,
    }
)
_OVERLAP: Final = frozenset({LimitCode.OVERLAP_IN_STREAM})
_ORDER: Final = frozenset(
    {
        *(LimitCode.WAITS_WITHOUT_EVENTS, LimitCode.WAIT_IDS),
        *(LimitCode.SYNC_OVER_RUNNING, LimitCode.FUTURE_RECORDS),
    }
)
_BUSY_PARTS: Final = ("tc", "non_tc", "communication", "graph", "memory")

FIGURES: Final[Mapping[str, Figure]] = {
    "gpu_busy": Figure(
        say("Share of the step in which the GPU is busy"),
        (
            "resource-usage.busy_pct",
            *(f"resource-usage.{part}_pct" for part in _BUSY_PARTS),
            *("performance-summary.gpu_utilization_pct", "gpu-utilization.using_gpu_pct"),
            *("performance-summary.corrected_busy_pct", "gpus.gpu_utilization_pct"),
        ),
        at_least=_MISSING | {LimitCode.PROFILED_SPEED},
        at_most=_OVERLAP,
    ),
    "gpu_idle": Figure(
        say("Share of the step in which the GPU is idle"),
        (
            "resource-usage.idle_pct",
            *(f"resource-usage.{part}_pct" for part in ("dataloader", "io", "cpu", "other")),
            *("gpu-utilization.idle_gpu_pct", "performance-summary.corrected_idle_ns"),
        ),
        at_least=_OVERLAP,
        at_most=_MISSING | {LimitCode.PROFILED_SPEED},
    ),
    "step": Figure(
        say("Time of a step"),
        ("performance-summary.step_ns",),
        at_least=frozenset({LimitCode.CLOCK_ORDER, LimitCode.LOST_RECORDS}),
        at_most=frozenset({LimitCode.PROFILED_SPEED}),
    ),
    "steps": Figure(
        say("Number of steps"),
        tuple(
            f"performance-summary.{name}"
            for name in ("loop_steps", "step_count", "step_first", "between_steps")
        ),
        at_least=_MISSING - {LimitCode.BROKEN_TIMES},
    ),
    "gpu_time": Figure(
        say("Time of kernels"),
        (
            *(f"kernel-summary.{part}.gpu_time_ns" for part in ("all", "using_tc", "other")),
            *("kernel-summary.communication.gpu_time_ns", "efficiency.gpu_time_ns"),
            *("ops.gpu_time_ns", "op-types.gpu_time_ns", "kernels.gpu_time_ns"),
            *(
                f"op-summary.{part}.gpu_time_ns"
                for part in ("all", "using_tc", "eligible_not_using", "other")
            ),
            *(
                f"efficiency.{kind}_time_ns"
                for kind in ("ideal", "left", "compute", "memory", "link")
            ),
        ),
        at_least=_MISSING | {LimitCode.WHOLE_GRAPHS},
        at_most=_OVERLAP,
    ),
    "kernels": Figure(
        say("Number of kernels"),
        (
            *(f"kernel-summary.{part}.count" for part in ("all", "using_tc", "other")),
            *(f"kernel-summary.{part}.cpu_time_ns" for part in ("all", "using_tc", "other")),
            *("kernel-summary.communication.count", "kernels.num_calls"),
        ),
        at_least=(_MISSING - {LimitCode.BROKEN_TIMES}) | {LimitCode.WHOLE_GRAPHS},
    ),
    "tensor_cores": Figure(
        say("Use of Tensor Cores"),
        (
            *("performance-summary.tc_utilization_pct", "tensor-core-efficiency.using_tc_pct"),
            "tensor-core-efficiency.tc_utilization_pct",
            "tensor-core-efficiency.not_using_tc_pct",
        ),
        unknown=_MISSING | _OVERLAP | {LimitCode.WHOLE_GRAPHS},
    ),
    "flops": Figure(
        say("Operations"),
        (
            *("efficiency.flops", "efficiency.matrix_flops", "efficiency.model_flops"),
            *("efficiency.hardware_flops", "efficiency.bytes", "efficiency.mfu_pct"),
            *("efficiency.hfu_pct", "efficiency.tflops_per_second_per_gpu"),
        ),
        at_least=(_MISSING - {LimitCode.BROKEN_TIMES})
        | {LimitCode.WHOLE_GRAPHS, LimitCode.UNMARKED_SHAPES},
    ),
    "launch_latency": Figure(
        say("Time from a launch to its work"),
        ("timeline/event.api_start_ns",),
        at_least=frozenset({LimitCode.CLOCK_ORDER}),
    ),
    "critical_path": Figure(
        say("Critical path and predictions"),
        ("critical-path", "op-sensitivity", "what-if"),
        unknown=_MISSING | _OVERLAP | _ORDER | {LimitCode.CLOCK_ORDER},
    ),
    "op_names": Figure(
        say("Names of the GPU's work"),
        ("name-evidence.gpu_time_ns", "name-evidence.gpu_time_pct"),
        at_least=frozenset({LimitCode.UNMARKED_SHAPES}),
        unknown=frozenset({LimitCode.PARTIAL_REPLAYS}),
    ),
    "rank_waiting": Figure(
        say("Waiting between ranks"),
        ("ranks.waiting_ns", "collectives.waiting_ns", "stragglers"),
        at_least=frozenset({LimitCode.SAMPLED_RANKS}),
        unknown=_MISSING,
    ),
}
"""Every figure that a limit can touch."""


@dataclass(frozen=True)
class Bound:
    """What a touched figure says."""

    kind: BoundKind
    limits: tuple[LimitCode, ...]  # The limits of the capture that touch it.


def bounds_of(codes: Collection[LimitCode]) -> dict[str, Bound]:
    """Return the figures that the limits of a capture touch; others are as measured."""
    found = {name: _bound(figure, codes) for name, figure in FIGURES.items()}
    return {name: bound for name, bound in found.items() if bound is not None}


def _bound(figure: Figure, codes: Collection[LimitCode]) -> Bound | None:
    low, high, either = (
        side.intersection(codes) for side in (figure.at_least, figure.at_most, figure.unknown)
    )
    touching = tuple(code for code in LimitCode if code in low | high | either)
    if not touching:
        return None
    if either or (low and high):
        return Bound(BoundKind.UNKNOWN, touching)
    return Bound(BoundKind.AT_LEAST if low else BoundKind.AT_MOST, touching)


def touched_by(code: LimitCode) -> tuple[str, ...]:
    """Return the names of the figures that a limit touches."""
    return tuple(bounds_of({code}))
