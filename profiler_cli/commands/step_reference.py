"""Report what profiling costs in one line: the step without it, and the step with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aggregator.system.untrusted_json import read_json

COLUMNS: Final = (
    *("bare_step", "bare_step_p10", "bare_step_p90", "bare_steps", "profiled_step"),
    *("overhead_pct", "reason"),
)
VIEW: Final = "view_step_reference"
RECORDED_COLUMNS: Final = (
    *("recorded_windows", "recorded_time", "run_time", "recorded_steps", "run_steps"),
    "recorded_note",
)
RECORDED_VIEW: Final = "view_recorded_part"
CORRECTED_COLUMNS: Final = (
    *("corrected_step", "corrected_step_p10", "corrected_step_p90", "replayed_step"),
    *("corrected_busy_pct", "corrected_idle", "corrected_limit", "profiling_cost"),
    *("profiling_cost_scale", "corrected_unexplained", "waits_for_gpu_pct", "waits_for_cpu_pct"),
    *("waits_for_loader_pct", "waits_for_communication_pct"),
)
CORRECTED_VIEW: Final = "view_corrected_step"
_LIMITS: Final = {
    "gpu": "work of the GPU",
    "cpu": "work of the CPU",
    "loader": "the data loader",
    "communication": "communication",
}


STEP_VIEW: Final = "view_typical_step"
STEP_COLUMNS: Final = (
    *("typical_step", "statistic", "step_median", "step_mean", "step_p10", "step_p90"),
    *("typical_steps", "first_iteration", "last_iteration", "loop_steps", "uneven_reason"),
    *("loop_reason", "between_steps", "given_step"),
)


def step_lines(row: Mapping[str, Any], *, is_steady: bool) -> list[str]:
    """Return what a step takes as profiled, and what lies between steps, for a row of the view.

    Args:
        row: The row.
        is_steady: Whether another line says which iterations are steady.
    """
    steps = row.get("typical_steps")
    if not isinstance(steps, int) or steps < 1 or not isinstance(row["typical_step"], int):
        return []
    median, mean, low, high = (
        _ms(row[f"step_{name}"]) for name in ("median", "mean", "p10", "p90")
    )
    spread = f"10th to 90th percentile {low} to {high} ms"
    iterations = f"iterations {row['first_iteration']} to {row['last_iteration']}"
    of = f"({steps} {'steady steps' if is_steady else f'steps, {iterations}'}), as profiled"
    line = f"Step: median {median} ms, {spread} {of}"
    if row["statistic"] == "mean":
        reason = f": {row['uneven_reason']}" if row["uneven_reason"] else ""
        line = f"Step: mean {mean} ms, median {median} ms{reason}; {spread} {of}"
    lines = [line]
    if row["loop_reason"]:
        lines.append(_sentence(str(row["loop_reason"])))
    if gaps := read_gaps(row):
        parts = ", ".join(f"{gap['kind']} {_ms(gap['ns'])} ms ({gap['count']})" for gap in gaps)
        lines.append(f"Between steps: {parts}.")
    return lines


def read_gaps(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what lies between steps: kind, time and number of each."""
    found = read_json(str(row.get("between_steps") or "[]"))
    gaps = found if isinstance(found, list) else []
    return [
        gap
        for gap in gaps
        if isinstance(gap, dict)
        and isinstance(gap.get("ns"), int)
        and isinstance(gap.get("count"), int)
        and isinstance(gap.get("kind"), str)
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def format_reference(row: Mapping[str, Any], given_ns: object = None) -> str:
    """Return the line for a row of the view; empty for databases of older versions.

    Args:
        row: The row.
        given_ns: Step that the user gave; None: none was given. Unit: ns.
    """
    if not isinstance(row.get("bare_step"), int) and isinstance(given_ns, int):
        return f"Step without profiling: {_ms(given_ns)} ms, as given by --bare_step_ms\n"
    if not row:
        return ""
    unprofiled, overhead = row["bare_step"], row["overhead_pct"]
    if not isinstance(unprofiled, int):
        reason = f" {row['reason']}" if row["reason"] else ""
        return f"Step without profiling: unknown.{reason}\n"
    low, high = (_ms(row[f"bare_step_{name}"]) for name in ("p10", "p90"))
    line = (
        f"Step without profiling: median {_ms(unprofiled)} ms, 10th to 90th percentile {low} to "
        f"{high} ms ({row['bare_steps']} steps)"
    )
    if isinstance(overhead, int | float):
        line += f"; profiling changes it by {round(overhead):+d}%"
    return f"{line}\n"


def format_recorded(row: Mapping[str, Any]) -> str:
    """Return the line that the profile is a part of the run; empty if it is not, or unknown."""
    note = row.get("recorded_note")
    return f"{str(note)[0].upper()}{str(note)[1:]}.\n" if note else ""


def format_corrected(row: Mapping[str, Any]) -> str:
    """Return the line of the corrected step for a row of its view; empty if there is none."""
    if not isinstance(row.get("corrected_step"), int):
        return ""
    limit, busy = str(row["corrected_limit"]), row["corrected_busy_pct"]
    line = f"Corrected for profiling: the GPU is busy {busy:.0f}% of that step"
    if limit in _LIMITS:
        line += f", and {row[f'waits_for_{limit}_pct']:.0f}% of it waits for {_LIMITS[limit]}"
    if row["corrected_unexplained"]:
        line += f"; {_ms(row['corrected_unexplained'])} ms that profiling adds are not explained"
    return f"{line}\n"


def corrected_document(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row for JSON; None if there is no corrected step."""
    if row.get("corrected_step") is None:
        return None
    times = {*CORRECTED_COLUMNS[:4], "corrected_idle", "profiling_cost", "corrected_unexplained"}
    return {f"{name}_ns" if name in times else name: row[name] for name in CORRECTED_COLUMNS}


def reference_document(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row for JSON; None for databases of older versions."""
    if not row:
        return None
    names = {"bare_step": "bare_step_ns", "bare_step_p10": "bare_step_p10_ns"}
    names |= {"bare_step_p90": "bare_step_p90_ns", "profiled_step": "profiled_step_ns"}
    return {names.get(name, name): row[name] for name in COLUMNS}


def recorded_document(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row for JSON; None where the recorder does not say."""
    if row.get("recorded_windows") is None:
        return None
    times = {"recorded_time", "run_time"}
    return {f"{name}_ns" if name in times else name: row[name] for name in RECORDED_COLUMNS}


def _ms(time_ns: object) -> str:
    return f"{time_ns / 1e6:.2f}" if isinstance(time_ns, int) else "unknown"
