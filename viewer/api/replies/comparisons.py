"""Replies about comparisons and histories."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct, field

from aggregator.system.replies import doc


class CompareCapture(Struct, kw_only=True):
    """One capture of a side."""

    name: str
    aggregation: int
    iter_start: Annotated[int, doc("First compared iteration.")]
    iter_stop: Annotated[int, doc("Last compared iteration, inclusive.")]
    key_node: str
    gpus: Annotated[int, doc("GPUs that ran work.")]


_EXACT = "Exact: a whole number, or a decimal as text."
Exact = Annotated[int | str, doc(_EXACT)]
_SHOWN = "Rounded so that all rows of the comparison add up to the rounded step."


class CompareSide(Struct, kw_only=True):
    """The base, or the new side."""

    step_ns: Annotated[int | str, doc(f"Mean step as profiled. {_EXACT}")]
    median_ns: Annotated[int, doc("Median step as profiled.")]
    basis: Annotated[str, doc("bare or given: the step without profiling is known; or profiled.")]
    unprofiled_ns: Annotated[
        int | None, doc("Median step without profiling; null: unknown of a capture.")
    ]
    iterations: Annotated[int, doc("Compared steps.")]
    captures: int
    sources: list[CompareCapture]


class CompareClass(Struct, kw_only=True):
    """Time of a class per step."""

    base_ns: Exact
    new_ns: Exact
    difference_ns: Exact
    class_: str = field(name="class")


class CompareCause(Struct, kw_only=True):
    """The same time by what the GPU did or waited for."""

    cause: str
    base_ns: Exact
    new_ns: Exact
    difference_ns: Exact


class CompareRow(CompareClass, kw_only=True):
    """What one op owns of a class."""

    reason: Annotated[str, doc("Why the GPU was idle, or empty.")]
    module: str
    op: str
    op_type: str
    direction: str
    match: Annotated[str, doc("same, aligned, module, only_base or only_new.")]
    base_name: Annotated[str, doc("Path and name on the base side, where it differs.")]
    verdict: Annotated[str, doc("faster, slower, same or cannot tell.")]
    interval_ns: Annotated[list[int] | None, doc("95 % interval.")]
    within_pct: float | None
    q_value: float | None
    mann_whitney_p: float | None
    base_kernels: list[str]
    new_kernels: list[str]


class NumberedCompareRow(CompareRow, kw_only=True):
    """A row with its number in the comparison."""

    row: Annotated[int, doc("0: the largest difference.")]
    path: Annotated[str, doc("Module and op, else reason or class, between slashes.")]
    shown_base_us: Annotated[int, doc(_SHOWN)]
    shown_new_us: Annotated[int, doc(_SHOWN)]


class CompareOp(Struct, kw_only=True):
    """What one op owns of all classes, or what no op owns of one."""

    row: Annotated[int, doc("0: the largest difference.")]
    path: Annotated[str, doc("As that of the rows.")]
    module: str
    op: str
    op_type: str
    direction: str
    difference_ns: float
    verdict: Annotated[str, doc("faster, slower, same or cannot tell: that of its largest part.")]
    shown_base_us: Annotated[int, doc(_SHOWN)]
    shown_new_us: Annotated[int, doc(_SHOWN)]
    parts: Annotated[list[NumberedCompareRow], doc("Its rows, the largest difference first.")]


class CompareModule(Struct, kw_only=True):
    """The sum of all rows below a path."""

    path: Annotated[str, doc("As that of the rows; a slash for the whole step.")]
    base_ns: Annotated[float, doc("Mean per step on the base side.")]
    new_ns: Annotated[float, doc("Mean per step on the new side.")]


class CompareModules(Struct, kw_only=True):
    """Where the time of both sides is."""

    modules: list[CompareModule]


class CompareSetting(Struct, kw_only=True):
    """Something else that differs."""

    key: str
    base: str
    new: str


class _Compared(Struct, kw_only=True):
    """Why the step changed."""

    base: CompareSide
    new: CompareSide
    difference_ns: Exact
    interval_ns: Annotated[list[int] | None, doc("95 % interval.")]
    covers_runs: Annotated[bool, doc("Whether the interval covers changes from run to run.")]
    verdict: Annotated[str, doc("faster, slower, same or cannot tell.")]
    headline: str
    notes: list[str]
    classes: list[CompareClass]
    causes: list[CompareCause]
    setup: list[CompareSetting]


class ComparisonSummary(_Compared, kw_only=True):
    """Why the step changed, without the rows."""

    rows: Annotated[int, doc("Number of rows.")]


class Comparison(_Compared, kw_only=True):
    """Why the step changed."""

    rows: list[CompareRow]


class RowSamples(Struct, kw_only=True):
    """A row's time in every step, one list per capture."""

    base_ns: list[list[float]]
    new_ns: list[list[float]]


class HistoryCapture(Struct, kw_only=True):
    """One profile of a history."""

    name: Annotated[str, doc("Id of the profile.")]
    started_at: Annotated[str | None, doc("UTC; null: the profile holds no date.")]
    aggregation: int
    iterations: int
    gpu: str
    step_ns: Annotated[float, doc("Mean step as profiled.")]
    unprofiled_ns: Annotated[int | None, doc("Median step without profiling; null: unknown.")]
    basis: Annotated[str, doc("bare or given: the step without profiling is known; or profiled.")]
    has_steps: Annotated[bool, doc("False: iterations instead of steps.")]


class HistoryChange(Struct, kw_only=True):
    """Where a trend changed."""

    index: Annotated[int, doc("First capture after the change.")]
    capture: str
    before_ns: int
    after_ns: int
    p_value: float


class HistoryTrend(Struct, kw_only=True):
    """Mean time per step in every capture."""

    kind: Annotated[str, doc("step, unprofiled, class or op.")]
    name: str
    direction: str
    values_ns: list[int]
    change_points: list[HistoryChange]


class HistorySkipped(Struct, kw_only=True):
    """A profile that cannot be part of the history."""

    name: str
    reason: str


class History(Struct, kw_only=True):
    """Profiles by date, and their trends."""

    captures: list[HistoryCapture]
    trends: list[HistoryTrend]
    skipped: list[HistorySkipped]
