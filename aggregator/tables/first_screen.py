"""The first screen of an aggregation: verdict, step, where it goes, findings, ops, as one document.

The same document is what ``dlprof show`` prints and what an assistant gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aggregator.events.steps import MIN_STEPS
from aggregator.profile.limits import LimitCode
from aggregator.system.untrusted_json import read_json
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.declared.advice import ADVICE
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY, RESOURCE_USAGE
from aggregator.tables.gpu_time import split_the_step
from aggregator.tables.limits import read_limits
from aggregator.tables.verdict import read_verdict

MOST_OPS: Final = 10
_STRAY: Final = "unassociated_"
_MODULE: Final = "module"
"""Grade of an op that stands for the work of a module outside its ops."""
_Op = tuple[str, str, int, str, str]
"""Name, type, GPU time, grade and direction of an op. Unit: ns."""


def read_first_screen(data: AggregationData) -> dict[str, Any]:
    """Return the first screen of an aggregation; what is unknown is None or empty."""
    summary = data.read_object(PERFORMANCE_SUMMARY)
    verdict = read_verdict(data)
    limits = read_limits(data)
    found = data.rows(ADVICE, {"status__in": "found"})
    step = read_step(summary)
    ops = _ops(data)
    return {
        "step": step,
        "loop": _loop(data, summary),
        "between_steps": _between(summary),
        "gpu": read_gpu_time(data, step),
        "names": _names(ops),
        "verdict": {"text": verdict.sentence, "finding": verdict.advice},
        "findings": [_finding(row) for row in found],
        "limits": [
            {"code": limit.code, "text": limit.sentence.rstrip("."), "figures": limit.touches}
            for limit in limits.limits
            # The step says by itself that it is one under the profiler.
            if limit.code is not LimitCode.PROFILED_SPEED
        ],
        "bounds": {name: bound.bound for name, bound in limits.bounds.items()},
        "top_ops": _top_ops(ops, summary),
    }


def read_step(summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the step: without profiling if that was measured or given, else as profiled."""
    profiled = summary["step_ns"]
    if profiled is None:
        return None
    measured, given = summary["bare_step_ns"], summary["given_step_ns"]
    basis = "bare" if measured is not None else "given" if given is not None else "profiled"
    unprofiled = given if measured is None else measured
    return {
        "ns": profiled if unprofiled is None else unprofiled,
        "basis": basis,
        "statistic": summary["step_statistic"],
        "reason": summary["uneven_reason"] or None,
        "bare_reason": None if unprofiled is not None else summary["bare_step_reason"] or None,
        "median_ns": summary["step_median_ns"],
        "mean_ns": summary["step_mean_ns"],
        "p10_ns": summary["step_p10_ns"],
        "p90_ns": summary["step_p90_ns"],
        "profiled_ns": profiled,
        "bare_ns": unprofiled,
        "corrected_ns": summary["corrected_step_ns"],
        "steps": summary["step_count"],
        "iterations": summary["profiled_iterations"],
        "first": summary["step_first"],
        "last": summary["step_last"],
    }


def _loop(data: AggregationData, summary: Mapping[str, Any]) -> dict[str, Any]:
    sql = "SELECT value FROM view_profile_info WHERE key = 'key_node_confidence'"
    known = data.database.rows(sql) if data.database.has("view_profile_info") else []
    confidence = str(known[0][0]) if known else ""
    from_kernels = bool(summary["loop_reason"])
    if not summary["key_node"]:
        confidence = "low" if from_kernels else "none"
    reason = summary["loop_reason"] or summary["key_node_reason"] or ""
    steps = summary["loop_steps"] or 0
    if 0 < steps < MIN_STEPS:
        confidence = "low"
        reason = f"{reason}; fewer than {MIN_STEPS} steps, so none is a usual one"
    elif summary["key_node"] and not steps and summary["loop_steps"] is not None:
        confidence, reason = "none", f"{reason}; no turn of it launches work of a GPU"
    return {
        "key_node": summary["key_node"] or "",
        "iterations": summary["total_iterations"],
        "steps": steps,
        "confidence": confidence or "none",
        "reason": reason,
    }


def _between(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = read_json(str(summary["between_steps"] or "[]"))
    return found if isinstance(found, list) else []


def read_gpu_time(data: AggregationData, step: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return where the step goes: the GPU is busy or idle, and the parts of both add up to it.

    Without a step it is the recorded span that they add up to.
    """
    usage = data.read_object(RESOURCE_USAGE)
    found, is_corrected = split_the_step(usage)
    span_ns = usage["recorded_span_ns"]
    if found is None:
        return {"busy_pct": None, "idle_pct": None, "recorded_span_ns": span_ns, "parts": []}
    step_ns = span_ns if step is None else step["ns"] if is_corrected else step["mean_ns"]
    parts = [
        {
            "name": part.name,
            "ns": None if step_ns is None else round(part.pct / 100.0 * step_ns),
            "pct": part.pct,
            "is_busy": part.is_busy,
        }
        for part in found.parts
    ]
    return {
        "busy_pct": found.busy_pct,
        "idle_pct": found.idle_pct,
        "recorded_span_ns": span_ns,
        "parts": parts,
    }


def _ops(data: AggregationData) -> list[_Op]:
    """Return the names, types and GPU times of the ops of an aggregation, longest first."""
    sql = (
        "SELECT op_node_name, op_node_type, gpu_time, name_grade, direction FROM view_op_nodes"
        " WHERE aggr_id = :aggr_id AND domain_name = :domain AND gpu_time > 0"
        " ORDER BY gpu_time DESC, row_id"
    )
    if not data.database.has("view_op_nodes", "row_id"):
        sql = sql.replace(", row_id", "")
    if not data.database.has("view_op_nodes", "name_grade"):
        sql = sql.replace("name_grade", "''")
    rows = data.database.rows(sql, {name: data.params[name] for name in ("aggr_id", "domain")})
    return [
        (str(name), str(kind), int(time_ns), str(grade), str(direction or ""))
        for name, kind, time_ns, grade, direction in rows
    ]


def _names(ops: list[_Op]) -> dict[str, float | None]:
    """Shares of the GPU time of which the op is known, of which the module is, and of neither."""
    total = sum(op[2] for op in ops)
    if not total:
        return {"named_pct": None, "module_pct": None, "unassociated_pct": None}
    op_ns = module_ns = stray_ns = 0
    for name, kind, time_ns, grade, _ in ops:
        if _is_stray(name, kind):
            stray_ns += time_ns
            continue
        op_ns += 0 if grade == _MODULE else time_ns
        module_ns += time_ns if grade == _MODULE or _module_of(name) else 0
    return {
        "named_pct": round(100.0 * op_ns / total, 4),
        "module_pct": round(100.0 * module_ns / total, 4),
        "unassociated_pct": round(100.0 * stray_ns / total, 4),
    }


def _is_stray(name: str, kind: str) -> bool:
    return kind.startswith(_STRAY) or name.rpartition("/")[2].startswith(_STRAY)


def _module_of(name: str) -> str:
    """Return the path of an op without the op itself, or an empty text if it is in no module."""
    return name.rpartition("/")[0].strip("/")


def _top_ops(ops: list[_Op], summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    total = max(sum(op[2] for op in ops), 1)
    # Without ranges the iteration is the whole profile, and a loop of kernels has steps.
    steps = summary["loop_steps"] if summary["loop_reason"] else summary["profiled_iterations"]
    count = max(steps or 1, 1)
    return [
        {
            "name": name.rpartition("/")[2],
            "module": _module_of(name),
            "direction": direction,
            "gpu_ns_per_step": round(time_ns / count),
            "share_pct": round(100.0 * time_ns / total, 4),
        }
        for name, _, time_ns, _, direction in ops[:MOST_OPS]
    ]


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["advice"],
        "text": row["problem"],
        "recommendation": row["recommendation"],
        "saving_ns": row["gain_ns"],
        "saving_pct": row["gain_pct"],
        "saving_bound": row["gain_bound"],
        "saving_most_ns": row["most_ns"],
        "saving_most_pct": row["most_pct"],
        "certainty": row["certainty"],
        "source": row["gain_source"] or "",
    }
