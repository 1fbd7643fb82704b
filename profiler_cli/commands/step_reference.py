"""What profiling costs, in one line: the step without it, the step with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

COLUMNS: Final = (
    *("bare_step", "bare_step_p10", "bare_step_p90", "bare_steps", "profiled_step"),
    *("overhead_pct", "reason"),
)
VIEW: Final = "view_step_reference"


def format_reference(row: Mapping[str, Any]) -> str:
    """Return the line for a row of the view; empty for databases of older versions."""
    if not row:
        return ""
    bare, profiled, overhead = (row[name] for name in ("bare_step", "profiled_step", COLUMNS[5]))
    if not isinstance(bare, int):
        reason = f" {row['reason']}" if row["reason"] else ""
        return f"Step without profiling: unknown.{reason}\n"
    low, high = (_ms(row[f"bare_step_{name}"]) for name in ("p10", "p90"))
    line = (
        f"Step without profiling: median {_ms(bare)} ms, 10th to 90th percentile {low} to {high} "
        f"ms ({row['bare_steps']} steps)"
    )
    if isinstance(profiled, int) and isinstance(overhead, int | float):
        line += f"; profiled: {_ms(profiled)} ms, {overhead:+.0f}%"
    return f"{line}\n"


def reference_document(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row for JSON; None for databases of older versions."""
    if not row:
        return None
    names = {"bare_step": "bare_step_ns", "bare_step_p10": "bare_step_p10_ns"}
    names |= {"bare_step_p90": "bare_step_p90_ns", "profiled_step": "profiled_step_ns"}
    return {names.get(name, name): row[name] for name in COLUMNS}


def _ms(time_ns: object) -> str:
    return f"{time_ns / 1e6:.2f}" if isinstance(time_ns, int) else "unknown"
