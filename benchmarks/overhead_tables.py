"""Tables of ``docs/overhead.md``, from the results of ``benchmarks.overhead``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.measured import standard_error

GOALS = {"GPU": 5.0, "CPU": 15.0}
"""Highest overhead by what the step waits for. Unit: percent."""
MOST_SLOWED_PCT = 10.0
"""Captures with more steps during which the hardware slowed the GPU down are not compared."""
REPORTED_PCT, CORRECTED_PCT, EXPORT_PCT = 3.0, 5.0, 40.0
_STEPS = (
    "program",
    "waits for",
    "own clock, ms",
    "they differ by",
    "reported bare, ms",
    "to its own clock",
    "difference",
    "profiled, ms",
    "overhead",
    "of `high`",
    "corrected, ms",
    "difference",
)
_CAPTURES = (
    "program",
    "export, MB",
    "of `high`, MB",
    "share",
    "kernels compared",
    "wrong names",
    "less precise",
    "without a name",
    "marked steps",
)


def workload_tables(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Steps and captures of the programs; what misses a goal is bold."""
    yield from _table(_STEPS, (_step_row(name, result) for name, result in results.items()))
    yield from _table(_CAPTURES, (_capture_row(name, result) for name, result in results.items()))
    for name, result in results.items():
        for detail in ("normal", "high"):
            for reason in {run.get("reason") for run in result.get(detail, ())} - {None}:
                yield f"* `{name}` with `--detail={detail}`: {reason}"
        slowed = [
            *result.get("slowed_pct", ()),
            *(_slowed(run) for run in result.get("normal", ())),
        ]
        if any(slowed):
            shares = ", ".join(f"{share:.0f}" for share in slowed)
            yield f"* `{name}`: GPU slowed down by the hardware in {shares} % of the steps"
        for error in result.get("errors", ()):
            yield f"* `{name}`: {' '.join(str(error).split())[-300:]}"
    yield ""


def _slowed(run: Mapping[str, Any]) -> float:
    return max(run.get("slowed_bare_pct", 0.0), run.get("slowed_pct", 0.0))


def costs_table(costs: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Microseconds a launch, by what Nsight Systems records."""
    if not costs:
        return
    kinds = list(dict.fromkeys(kind for row in costs.values() for kind in row))
    rows = (
        [name, *(f"{row[kind]:.1f}" if kind in row else "" for kind in kinds)]
        for name, row in costs.items()
    )
    yield from _table(["recorded by nsys", *kinds], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _step_row(name: str, result: Mapping[str, Any]) -> list[str]:
    own = [time for time in result.get("own_ms", ()) if time]
    spread = 100 * (max(own) - min(own)) / statistics.median(own) if own else None
    goal = GOALS[result["limit"]]
    errors = [
        run["clock_error_pct"] for run in result.get("normal", ()) if "clock_error_pct" in run
    ]
    return [
        f"`{name}`",
        result["limit"],
        ", ".join(f"{time:.2f}" for time in own),
        "" if spread is None else f"{spread:.1f} %",
        ", ".join(_number(_ms(run.get("bare_step"))) for run in result.get("normal", ())),
        f"{max(errors):.1f} %" if errors else "",
        _difference(result, "normal", "bare_step", REPORTED_PCT),
        _median(result, "normal", "profiled_step"),
        _difference(result, "normal", "profiled_step", goal, only_above=True),
        _difference(result, "high", "profiled_step", 1e9),
        _median(result, "normal", "corrected_step"),
        _difference(result, "normal", "corrected_step", CORRECTED_PCT),
    ]


def _capture_row(name: str, result: Mapping[str, Any]) -> list[str]:
    sizes = [_middle(result, detail, "export_bytes") for detail in ("normal", "high")]
    names = result.get("names", {})
    share = 100 * sizes[0] / sizes[1] if sizes[0] and sizes[1] else None
    counts = [names.get(key) for key in ("compared", "wrong", "less precise", "unnamed")]
    marked = {run.get("settings", {}).get("marked_steps", "") for run in result.get("normal", ())}
    return [
        f"`{name}`",
        *(f"{size / 1e6:.1f}" if size else "" for size in sizes),
        "" if share is None else _bold(f"{share:.0f} %", miss=share > EXPORT_PCT),
        *("" if count is None else str(count) for count in counts),
        ", ".join(sorted(marked)),
    ]


def _middle(result: Mapping[str, Any], detail: str, key: str) -> float | None:
    """Median of a figure of the captures of a detail; None: no capture has it."""
    found = _values(result, detail, key)
    return statistics.median(found) if found else None


def _values(result: Mapping[str, Any], detail: str, key: str) -> list[int]:
    """A figure of the captures of a detail that have it."""
    return [run[key] for run in _compared(result, detail, key) if isinstance(run.get(key), int)]


def _compared(result: Mapping[str, Any], detail: str, key: str) -> Iterator[Mapping[str, Any]]:
    """Captures of a detail in which the GPU ran at its speed while the steps of a figure ran."""
    slowed = ["slowed_bare_pct"] if key in ("bare_step", "corrected_step") else []
    slowed += ["slowed_pct"] if key in ("profiled_step", "corrected_step") else []
    for run in result.get(detail, ()):
        if not any(run.get(part, 0.0) > MOST_SLOWED_PCT for part in slowed):
            yield run


def _median(result: Mapping[str, Any], detail: str, key: str) -> str:
    middle = _middle(result, detail, key)
    return _number(None if middle is None else middle / 1e6)


def _ms(time_ns: object) -> float | None:
    return time_ns / 1e6 if isinstance(time_ns, int) else None


def _number(time_ms: float | None) -> str:
    return "unknown" if time_ms is None else f"{time_ms:.2f}"


def _difference(
    result: Mapping[str, Any], detail: str, key: str, goal: float, *, only_above: bool = False
) -> str:
    """Difference of the medians of the captures and of the runs without dlprof, and its error."""
    own = [time for time in result.get("own_ms", ()) if time]
    found = _values(result, detail, key)
    if not found or not own:
        return ""
    ratio = statistics.median(found) / 1e6 / statistics.median(own)
    pct = 100 * ratio - 100
    errors = [standard_error(times) / statistics.median(times) for times in (found, own)]
    error = f" ± {100 * ratio * math.hypot(*errors):.1f}" if len(found) > 1 < len(own) else ""
    return _bold(f"{pct:+.1f}{error} %", miss=pct > goal or (pct < -goal and not only_above))


def _bold(text: str, *, miss: bool) -> str:
    return f"**{text}**" if miss else text
