"""A comparison as plain data, as ``dlprof compare --format=json`` and the REST API give it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct, field

from aggregator.compare import result
from aggregator.compare.exact import UNIT_NS, decimal, rounded_pairs
from aggregator.metrics.ownership import BUSY_CLASSES, CLASSES
from aggregator.system.replies import doc

Times = list[tuple[int, int]]
_BUSY: Final = CLASSES[:BUSY_CLASSES]


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

    class_: str = field(name="class")
    base_ns: Exact
    new_ns: Exact
    difference_ns: Exact


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
    """The GPU time of one op, what the GPU waits for its work, or what no op owns of a class."""

    row: Annotated[int, doc("0: the largest difference.")]
    path: Annotated[str, doc("Module and op, else reason or class, between slashes.")]
    module: str
    op: str
    op_type: str
    direction: str
    is_gpu_time: Annotated[bool, doc("False: the GPU does not work in this time.")]
    base_ns: float
    new_ns: float
    difference_ns: float
    verdict: Annotated[str, doc("faster, slower, same or cannot tell: that of its largest part.")]
    shown_base_us: Annotated[int, doc(_SHOWN)]
    shown_new_us: Annotated[int, doc(_SHOWN)]
    parts: Annotated[list[NumberedCompareRow], doc("Its rows, the largest difference first.")]


class CompareModule(Struct, kw_only=True):
    """The sum of all rows below a path."""

    path: Annotated[str, doc("Path of the module; a slash for the whole step.")]
    base_ns: Annotated[float, doc("Mean per step on the base side.")]
    new_ns: Annotated[float, doc("Mean per step on the new side.")]


class CompareModules(Struct, kw_only=True):
    """Where the time of both sides is."""

    modules: list[CompareModule]


class _Compared(Struct, kw_only=True):
    """Why the step changed."""

    base: CompareSide
    new: CompareSide
    difference_ns: Exact
    interval_ns: Annotated[
        list[int] | None,
        doc("95 % interval of the difference; of other batches as if new had the samples of base."),
    ]
    covers_runs: Annotated[bool, doc("Whether the interval covers changes from run to run.")]
    verdict: Annotated[str, doc("faster, slower, same or cannot tell.")]
    headline: str
    samples: Annotated[
        list[int] | None, doc("Samples of a step of base and new; null: the same, or unknown.")
    ]
    are_other_programs: Annotated[bool, doc("Whether hardly an op is on both sides.")]
    notes: list[str]
    classes: list[CompareClass]
    causes: list[CompareCause]
    setup: list[result.CompareSetting]


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


def to_document(comparison: result.Comparison) -> dict[str, Any]:
    """Return a comparison as dictionaries, lists and plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(describe_fully(comparison), enc_hook=str)
    return plain


def describe_fully(comparison: result.Comparison) -> Comparison:
    """The whole comparison; the differences of rows, classes and causes each add up exactly."""
    rows, times = comparison.rows, _times(comparison.rows)
    base, new = [sum(column) for column in zip(*times, strict=True)] if times else [0, 0]
    return Comparison(
        base=_side(comparison.base, base),
        new=_side(comparison.new, new),
        difference_ns=decimal(new - base),
        interval_ns=_whole(comparison.judgement.interval_ns),
        covers_runs=comparison.judgement.covers_runs,
        verdict=str(comparison.judgement.verdict),
        headline=str(comparison.headline),
        samples=None if comparison.samples is None else list(comparison.samples),
        are_other_programs=comparison.are_other_programs,
        notes=[str(note) for note in comparison.notes],
        classes=_classes(comparison.classes, rows, times),
        causes=_causes(comparison.causes),
        rows=list(map(_row, rows, times)),
        setup=list(comparison.setup),
    )


def summarize(comparison: result.Comparison) -> ComparisonSummary:
    """The comparison with the number of its rows in their place."""
    found = describe_fully(comparison)
    return ComparisonSummary(**msgspec.structs.asdict(found) | {"rows": len(found.rows)})


def numbered_rows(comparison: result.Comparison) -> list[NumberedCompareRow]:
    """Return the rows with their numbers and with times as they are shown."""
    shown = rounded_pairs([(row.base_ns, row.new_ns) for row in comparison.rows])
    return [
        NumberedCompareRow(
            **msgspec.structs.asdict(row),
            row=number,
            path=f"/{'/'.join(comparison.rows[number].path)}/",
            shown_base_us=shown[number][0],
            shown_new_us=shown[number][1],
        )
        for number, row in enumerate(map(_row, comparison.rows, _times(comparison.rows)))
    ]


def ops_of(rows: Sequence[NumberedCompareRow]) -> list[CompareOp]:
    """Join the rows of each op, the largest difference first; what no op owns stays as it is.

    Time in which the GPU waits for its work has a row of its own: the other is its GPU time.
    """
    groups: dict[tuple[str | int, ...], list[NumberedCompareRow]] = {}
    for row in rows:
        is_gpu_time = row.class_ in _BUSY
        key = (row.path, row.module, row.op, row.op_type, row.direction, is_gpu_time)
        groups.setdefault(key if row.op else (*key, row.row), []).append(row)
    ops = [
        CompareOp(
            row=0,
            path=parts[0].path,
            module=parts[0].module,
            op=parts[0].op,
            op_type=parts[0].op_type,
            direction=parts[0].direction,
            is_gpu_time=parts[0].class_ in _BUSY,
            base_ns=sum(float(part.base_ns) for part in parts),
            new_ns=sum(float(part.new_ns) for part in parts),
            difference_ns=sum(float(part.difference_ns) for part in parts),
            verdict=_verdict(parts),
            shown_base_us=sum(part.shown_base_us for part in parts),
            shown_new_us=sum(part.shown_new_us for part in parts),
            parts=parts,
        )
        for parts in groups.values()
    ]
    ops.sort(key=lambda op: -abs(op.difference_ns))
    for number, op in enumerate(ops):
        op.row = number
    return ops


def _verdict(parts: Sequence[CompareRow]) -> str:
    """Return the verdict of the largest part that changes as all of them together do."""
    total = sum(float(part.difference_ns) for part in parts)
    fitting = (part for part in parts if float(part.difference_ns) * total > 0)
    return next(fitting, parts[0]).verdict


def _times(rows: Sequence[result.Row | result.Change]) -> Times:
    return rounded_pairs([(row.base_ns, row.new_ns) for row in rows], UNIT_NS)


def _values(pair: tuple[int, int]) -> dict[str, Any]:
    base, new = pair
    return {
        "base_ns": decimal(base),
        "new_ns": decimal(new),
        "difference_ns": decimal(new - base),
    }


def _whole(interval_ns: tuple[float, float] | None) -> list[int] | None:
    return None if interval_ns is None else [round(bound) for bound in interval_ns]


def _classes(
    classes: Sequence[result.Change], rows: Sequence[result.Row], times: Times
) -> list[CompareClass]:
    """Sums of the rounded rows, so that the rows of a class add up to the class."""
    sums = {change.name: (0, 0) for change in classes}
    for row, (base, new) in zip(rows, times, strict=True):
        before = sums.get(row.kind, (0, 0))
        sums[row.kind] = (before[0] + base, before[1] + new)
    return [CompareClass(class_=name, **_values(pair)) for name, pair in sums.items()]


def _causes(causes: Sequence[result.Change]) -> list[CompareCause]:
    pairs = zip(causes, _times(causes), strict=True)
    return [CompareCause(cause=row.name, **_values(pair)) for row, pair in pairs]


def _side(side: result.Side, step: int) -> CompareSide:
    return CompareSide(
        step_ns=decimal(step),
        median_ns=round(side.median_ns),
        basis=side.basis,
        unprofiled_ns=side.unprofiled_ns,
        iterations=side.iterations,
        captures=len(side.captures),
        sources=[
            CompareCapture(
                name=capture.name,
                aggregation=capture.aggregation,
                iter_start=capture.first,
                iter_stop=capture.last,
                key_node=capture.key_node,
                gpus=capture.devices,
            )
            for capture in side.captures
        ],
    )


def _row(row: result.Row, times: tuple[int, int]) -> CompareRow:
    return CompareRow(
        class_=row.kind,
        reason=row.reason,
        module=row.module,
        op=row.op,
        op_type=row.op_type,
        direction=row.direction,
        match=str(row.match),
        base_name=row.base_name,
        **_values(times),
        verdict=str(row.judgement.verdict),
        interval_ns=_whole(row.judgement.interval_ns),
        within_pct=row.judgement.within_pct,
        q_value=row.judgement.q_value,
        mann_whitney_p=row.judgement.mann_whitney_p,
        base_kernels=list(row.base_kernels),
        new_kernels=list(row.new_kernels),
    )
