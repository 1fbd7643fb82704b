"""The verdict on what limits a step, read from the tables and objects of an aggregation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Struct

from aggregator.advice.finding import GainBound
from aggregator.advice.verdict import (
    FirstFinding,
    Limit,
    PathShares,
    Roofline,
    StepShares,
    Symptoms,
    limiting_factor,
)
from aggregator.profile.limits import BoundKind
from aggregator.system.replies import doc
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.declared.advice import ADVICE
from aggregator.tables.declared.efficiency import EFFICIENCY
from aggregator.tables.declared.iterations import GPUS
from aggregator.tables.declared.summaries import KERNEL_SUMMARY, PERFORMANCE_SUMMARY, RESOURCE_USAGE
from aggregator.tables.limits import found_limits, read_limits
from aggregator.texts import say

_WITHOUT = "Without profiling"
"""How sentences begin that say themselves what they are of."""
AHEAD_RATIO = 1.5
"""Work on several streams runs at once, but hardly for more than this multiple of the time."""

_NEEDED = ("tc_pct", "non_tc_pct", "memory_pct", "cpu_pct", "other_pct")
_IDLE = ("io_pct", "cpu_pct", "other_pct")


class Verdict(Struct, kw_only=True):
    """What limits a step."""

    limit: Limit
    sentence: Annotated[str, doc("The verdict in one sentence; for an unknown one the reason.")]
    share_pct: Annotated[float | None, doc("Share of the step it is based on.")]
    advice: Annotated[str | None, doc("Name of the advice that explains it.")]
    is_corrected: Annotated[bool, doc("Whether it is that of the step without profiling.")]
    pace: Annotated[str | None, doc("That the CPU runs ahead of the GPU, if it does.")]


def read_verdict(data: AggregationData) -> Verdict:
    """Return the verdict; ``unknown`` with the reason as its sentence where nothing is clear."""
    summary = data.read_object(PERFORMANCE_SUMMARY)
    profiled = Symptoms(
        shares=_shares(data.read_object(RESOURCE_USAGE)),
        **_steps(summary),
        gains_pct=_gains(data),
        has_unprofiled=_has_unprofiled(summary),
        first=_first(data),
        roofline=_roofline(data.read_object(EFFICIENCY)),
        # Without ranges the replay is that of the whole profile.
        path=None if summary["loop_reason"] else _path(data),
    )
    unprofiled = _without_profiling(profiled, summary)
    found = limiting_factor(profiled if unprofiled is None else unprofiled)
    is_corrected = unprofiled is not None and found.limit != Limit.UNKNOWN
    sentence = found.sentence
    if is_corrected and not sentence.startswith(_WITHOUT):
        sentence = say("Without profiling: {sentence}", sentence=sentence)
    touching = found_limits(data.database, "gpu_busy", "gpu_idle", "step")
    if touching:
        step = read_limits(data).bounds.get("step")
        is_unknown = step is not None and step.bound is BoundKind.UNKNOWN
        sentence = say(
            "{sentence} (as recorded; limit of the capture: {limit})",
            sentence=sentence,
            limit=touching[0].title,
        )
        if is_unknown:  # All other advice rests on the step.
            sentence = say(
                "The step is unknown. {advice}. {sentence}",
                advice=touching[0].recommendation,
                sentence=sentence,
            )
    return Verdict(
        limit=found.limit,
        sentence=sentence,
        share_pct=found.share_pct,
        advice=found.advice,
        is_corrected=is_corrected,
        pace=_pace(data),
    )


def _steps(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return times and number of the steps, or of iterations where the database has no steps."""
    if summary["loop_steps"] is None:
        mean, typical = summary["iter_avg_ns"], summary["iter_median_ns"]
        found = {"mean_ns": mean, "median_ns": typical, "step_ns": typical}
        return found | {"steps": summary["steps"] or 0}
    found = {name: summary[f"step_{name}"] for name in ("mean_ns", "median_ns")}
    return found | {"step_ns": summary["step_ns"], "steps": summary["step_count"] or 0}


def _pace(data: AggregationData) -> str | None:
    """Say that the steps are the CPU's, where the GPU cannot have done what they launched."""
    view, where = "view_iterations_profiled", "aggr_id = :aggr_id AND domain_name = :domain"
    launched = data.read_object(KERNEL_SUMMARY)["all"]["gpu_time_ns"]
    if launched is None or not data.database.has(view, "duration"):
        return None
    sql = f"SELECT count(*), coalesce(sum(duration), 0) FROM {view} WHERE {where}"  # noqa: S608
    ((steps, length),) = data.database.rows(sql, data.params)
    devices = max(len(data.rows(GPUS)), 1)
    if steps == 0 or launched <= AHEAD_RATIO * devices * length:
        return None
    return say(
        "These are steps of the CPU, which does not wait for the GPU: work launched in {steps} "
        "steps takes the GPU {launched} ms, the steps take {length} ms. Profile more steps, or "
        "steps that end with torch.cuda.synchronize(), to see the pace of the GPU.",
        steps=steps,
        launched=f"{launched / 1e6:.1f}",
        length=f"{length / 1e6:.1f}",
    )


def _without_profiling(profiled: Symptoms, summary: Mapping[str, Any]) -> Symptoms | None:
    """Return the same of the corrected step, or None if it is unknown.

    What the GPU does takes as long as before, of a shorter step.
    """
    step_ns, busy = summary["corrected_step_ns"], summary["corrected_busy_pct"]
    raw, path = profiled.shares, profiled.path
    if step_ns is None or busy is None or raw is None or path is None:
        return None
    loading, communication = (
        summary[f"waits_for_{name}_pct"] or 0.0 for name in ("loader", "communication")
    )
    factor = busy / max(raw.computing + raw.communication + raw.copies, 1e-9)
    shares = StepShares(
        computing=raw.computing * factor,
        communication=raw.communication * factor,
        copies=raw.copies * factor,
        loading=min(loading, 100.0 - busy),
        idle=max(100.0 - busy - loading, 0.0),
    )
    of_gpu = summary["waits_for_gpu_pct"] or 0.0
    copies = of_gpu * path.copies / max(path.copies + path.computing, 1e-9)
    corrected = PathShares(
        host=summary["waits_for_cpu_pct"] or 0.0,
        loading=loading,
        computing=of_gpu - copies,
        communication=communication,
        copies=copies,
    )
    return replace(
        profiled,
        shares=shares,
        mean_ns=float(step_ns),
        median_ns=step_ns,
        path=corrected,
        step_ns=summary["bare_step_ns"] or step_ns,
    )


def _shares(usage: Mapping[str, Any]) -> StepShares | None:
    """Return None where a part is missing. Input and I/O that were not measured are idle time."""
    if any(usage[name] is None for name in _NEEDED):
        return None
    communication = usage["communication_pct"] or 0.0
    kernels = usage["tc_pct"] + usage["non_tc_pct"] + (usage["graph_pct"] or 0.0)
    return StepShares(
        computing=kernels - communication,
        communication=communication,
        copies=usage["memory_pct"],
        loading=usage["dataloader_pct"] or 0.0,
        idle=sum(usage[name] or 0.0 for name in _IDLE),
    )


def _has_unprofiled(summary: Mapping[str, Any]) -> bool:
    """Return whether the step without profiling was measured or given."""
    names = ("bare_step_ns", "corrected_step_ns", "given_step_ns")
    return any(summary[name] is not None for name in names)


def _first(data: AggregationData) -> FirstFinding | None:
    """Return the finding at the head of the list, or None if there is none."""
    row = next(iter(data.rows(ADVICE, {"status__in": "found"})), None)
    if row is None:
        return None
    return FirstFinding(
        row["advice"],
        row["problem"],
        row["gain_ns"],
        row["gain_pct"],
        row["gain_bound"] or GainBound.AT_MOST,
        *(row["most_ns"], row["most_pct"]),
    )


def _gains(data: AggregationData) -> dict[str, float]:
    rows = data.rows(ADVICE, {"status__in": "found"})
    return {row["advice"]: row["gain_pct"] for row in rows if row["gain_pct"] is not None}


def _roofline(efficiency: Mapping[str, Any]) -> Roofline:
    return Roofline(
        known_pct=efficiency["known_pct"],
        peak_pct=efficiency["peak_pct"],
        compute_ns=efficiency["compute_time_ns"],
        memory_ns=efficiency["memory_time_ns"],
        link_ns=efficiency["link_time_ns"],
    )


_PATH_VIEW = "view_critical_path"
_PATH = {
    "host": ("cpu", "before", "call", "thread", "launch", "return", "event"),
    "loading": ("loader",),
    "computing": ("kernel", "graph", "gap"),
    "communication": ("communication",),
    "copies": ("copy", "set"),
}
"""Kinds of the critical path by what they are part of."""


def _path(data: AggregationData) -> PathShares | None:
    """Return None where the steps were not replayed."""
    if not data.database.has(_PATH_VIEW):
        return None
    rows = data.database.rows(
        f"SELECT path_kind, SUM(share_pct) FROM {_PATH_VIEW} WHERE aggr_id = :aggr_id"  # noqa: S608
        " GROUP BY path_kind",
        {"aggr_id": data.params["aggr_id"]},
    )
    share = {str(kind): float(pct) for kind, pct in rows}
    if not share:
        return None
    return PathShares(
        **{
            part: min(sum(share.get(kind, 0.0) for kind in kinds), 100.0)
            for part, kinds in _PATH.items()
        }
    )
