"""A comparison as plain data, as ``dlprof compare --format=json`` and the REST API give it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from aggregator.compare.exact import UNIT_NS, decimal, rounded
from aggregator.compare.result import Capture, Change, Comparison, Judgement, Row, Side

Times = list[tuple[int, int]]


def to_document(comparison: Comparison) -> dict[str, Any]:
    """The whole comparison; the differences of rows, classes and causes each add up exactly."""
    rows = comparison.rows
    times = _times([row.base_ns for row in rows], [row.new_ns for row in rows])
    step = [sum(column) for column in zip(*times, strict=True)] if times else [0, 0]
    interval = comparison.judgement.interval_ns
    return {
        "base": _side(comparison.base, step[0]),
        "new": _side(comparison.new, step[1]),
        "difference_ns": decimal(step[1] - step[0]),
        "interval_ns": None if interval is None else [round(bound) for bound in interval],
        "covers_runs": comparison.judgement.covers_runs,
        "verdict": str(comparison.judgement.verdict),
        "headline": str(comparison.headline),
        "notes": [str(note) for note in comparison.notes],
        "classes": _classes(comparison.classes, rows, times),
        "causes": _causes(comparison.causes),
        "rows": [_row(row, pair) for row, pair in zip(rows, times, strict=True)],
        "setup": [
            {"key": item.key, "base": item.base, "new": item.new} for item in comparison.setup
        ],
    }


def _times(base: Sequence[Fraction], new: Sequence[Fraction]) -> Times:
    """Both columns in units that add up to the rounded sums."""
    return list(zip(rounded(base, UNIT_NS), rounded(new, UNIT_NS), strict=True))


def _values(pair: tuple[int, int]) -> dict[str, Any]:
    base, new = pair
    return {
        "base_ns": decimal(base),
        "new_ns": decimal(new),
        "difference_ns": decimal(new - base),
    }


def _classes(classes: Sequence[Change], rows: Sequence[Row], times: Times) -> list[dict[str, Any]]:
    """Sums of the rounded rows, so that the rows of a class add up to the class."""
    sums = {change.name: (0, 0) for change in classes}
    for row, (base, new) in zip(rows, times, strict=True):
        before = sums.get(row.kind, (0, 0))
        sums[row.kind] = (before[0] + base, before[1] + new)
    return [{"class": name, **_values(pair)} for name, pair in sums.items()]


def _causes(causes: Sequence[Change]) -> list[dict[str, Any]]:
    times = _times([row.base_ns for row in causes], [row.new_ns for row in causes])
    return [{"cause": row.name, **_values(pair)} for row, pair in zip(causes, times, strict=True)]


def _side(side: Side, step: int) -> dict[str, Any]:
    return {
        "step_ns": decimal(step),
        "median_ns": round(side.median_ns),
        "basis": side.basis,
        "unprofiled_ns": side.unprofiled_ns,
        "iterations": side.iterations,
        "captures": len(side.captures),
        "sources": [_capture(capture) for capture in side.captures],
    }


def _capture(capture: Capture) -> dict[str, Any]:
    return {
        "name": capture.name,
        "aggregation": capture.aggregation,
        "iter_start": capture.first,
        "iter_stop": capture.last,
        "key_node": capture.key_node,
        "gpus": capture.devices,
    }


def _row(row: Row, times: tuple[int, int]) -> dict[str, Any]:
    return {
        "class": row.kind,
        "reason": row.reason,
        "module": row.module,
        "op": row.op,
        "op_type": row.op_type,
        "direction": row.direction,
        "match": str(row.match),
        "base_name": row.base_name,
        **_values(times),
        **_judgement(row.judgement),
        "base_kernels": list(row.base_kernels),
        "new_kernels": list(row.new_kernels),
    }


def _judgement(judgement: Judgement) -> dict[str, Any]:
    interval = judgement.interval_ns
    return {
        "verdict": str(judgement.verdict),
        "interval_ns": None if interval is None else [round(bound) for bound in interval],
        "within_pct": judgement.within_pct,
        "q_value": judgement.q_value,
        "mann_whitney_p": judgement.mann_whitney_p,
    }
