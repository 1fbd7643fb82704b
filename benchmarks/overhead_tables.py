"""Tables of ``docs/overhead.md``, from the results of ``benchmarks.overhead``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

GOALS = {"GPU": 5.0, "CPU": 15.0}
"""Highest overhead by what the step waits for. Unit: percent."""
REPORTED_PCT, CORRECTED_PCT, EXPORT_PCT = 3.0, 5.0, 40.0
_STEPS = (
    "program",
    "waits for",
    "own clock, ms",
    "reported bare, ms",
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
    yield from _table(_STEPS, (_step_row(name, one) for name, one in results.items()))
    yield from _table(_CAPTURES, (_capture_row(name, one) for name, one in results.items()))
    for name, one in results.items():
        for detail in ("normal", "high"):
            if reason := one.get(detail, {}).get("reason"):
                yield f"* `{name}` with `--detail={detail}`: {reason}"
        for error in one.get("errors", ()):
            yield f"* `{name}`: {' '.join(str(error).split())[-300:]}"
    yield ""


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
    own = result.get("own_ms") or []
    middle = statistics.median(own) if own else None
    normal, high = result.get("normal", {}), result.get("high", {})
    bare, profiled, corrected = (
        _ms(normal.get(key)) for key in ("bare_step", "profiled_step", "corrected_step")
    )
    goal = GOALS[result["limit"]]
    return [
        f"`{name}`",
        result["limit"],
        ", ".join(f"{time:.2f}" for time in sorted(own)),
        _number(bare),
        _difference(bare, middle, REPORTED_PCT),
        _number(profiled),
        _difference(profiled, middle, goal, only_above=True),
        _difference(_ms(high.get("profiled_step")), middle, 1e9),
        _number(corrected),
        _difference(corrected, middle, CORRECTED_PCT),
    ]


def _capture_row(name: str, result: Mapping[str, Any]) -> list[str]:
    normal, high = result.get("normal", {}), result.get("high", {})
    sizes = [one.get("export_bytes") for one in (normal, high)]
    names = result.get("names", {})
    share = 100 * sizes[0] / sizes[1] if sizes[0] and sizes[1] else None
    counts = [names.get(key) for key in ("compared", "wrong", "less precise", "unnamed")]
    return [
        f"`{name}`",
        *(f"{size / 1e6:.1f}" if size else "" for size in sizes),
        "" if share is None else _bold(f"{share:.0f} %", miss=share > EXPORT_PCT),
        *("" if count is None else _bold(str(count), miss=False) for count in counts),
        str(normal.get("settings", {}).get("marked_steps", "")),
    ]


def _ms(time_ns: object) -> float | None:
    return time_ns / 1e6 if isinstance(time_ns, int) else None


def _number(time_ms: float | None) -> str:
    return "unknown" if time_ms is None else f"{time_ms:.2f}"


def _difference(
    time_ms: float | None, own_ms: float | None, goal: float, *, only_above: bool = False
) -> str:
    if time_ms is None or own_ms is None:
        return ""
    pct = 100 * time_ms / own_ms - 100
    return _bold(f"{pct:+.1f} %", miss=pct > goal or (pct < -goal and not only_above))


def _bold(text: str, *, miss: bool) -> str:
    return f"**{text}**" if miss else text
