"""Tables of ``benchmarks/OVERHEAD.md``, from the results of ``benchmarks.overhead``."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

ALONE, OWN, NSYS, MARKED = "alone", "own", "nsys", "high"
"""Ways to run a program: without dlprof, with its collector, with Nsight Systems, all marked."""
CLOCK_PCT, CORRECTED_PCT, END_S, NAMED_PCT = 3.0, 5.0, 3.0, 95.0
"""Goals: a difference may also be as large as one between runs alone. That of the end is one of a
program of 40 recorded steps."""
MOST_SLOWED_PCT = 10.0
"""Runs with more steps during which the hardware slowed the GPU down are named."""
_STEPS = (
    "program",
    "alone, ms",
    "they differ by",
    "reported, ms",
    "steps",
    "to its own clock",
    "overhead",
    "of Nsight Systems",
    "after the window",
    "corrected, ms",
    "difference",
)
_CAPTURES = (
    "program",
    "end alone, s",
    "with dlprof, s",
    "with Nsight Systems, s",
    "export, MB",
    "of Nsight Systems, MB",
    "recorded",
    "op known",
    "module known",
    "kernels compared",
    "wrong names",
    "less precise",
    "without a name",
)
Result = Mapping[str, Any]


def workload_tables(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the steps and captures of the programs; what misses a goal is bold."""
    yield from _table(_STEPS, (_step_row(name, result) for name, result in results.items()))
    yield from _table(_CAPTURES, (_capture_row(name, result) for name, result in results.items()))
    yield from _goals(results)
    for name, result in results.items():
        for way in (OWN, NSYS, MARKED):
            for reason in {run.get("reason") for run in result.get(way, ())} - {None}:
                yield f"* `{name}`, {way}: {reason}"
        slowed = [run for way in (ALONE, OWN, NSYS) for run in result.get(way, ())]
        shares = [run.get("slowed_pct", 0.0) for run in slowed]
        if max(shares, default=0.0) > MOST_SLOWED_PCT:
            listed = ", ".join(f"{share:.0f}" for share in shares)
            yield f"* `{name}`: GPU slowed down by the hardware in {listed} % of the steps"
        for error in result.get("errors", ()):
            yield f"* `{name}`: {' '.join(str(error).split())[-300:]}"
    yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _goals(results: Mapping[str, Result]) -> Iterator[str]:
    """Yield how many programs reach each goal, of those that were measured."""
    kinds: dict[str, Callable[[Result], bool | None]] = {
        "the reported step is right": _is_step_right,
        "the overhead is lower than that of Nsight Systems": _is_cheaper,
        "steps after the window are as fast as alone": _is_fast_after,
        f"the end takes at most {END_S:g} s": lambda one: _at_most(
            _middle(one, OWN, "end_s"), END_S
        ),
        f"the op of {NAMED_PCT:g} % of the GPU time is known": _is_named,
        "no name is wrong": lambda one: _at_most(one.get("names", {}).get("wrong"), 0),
    }
    for text, reaches in kinds.items():
        reached = [found for result in results.values() if (found := reaches(result)) is not None]
        yield f"* {text}: {sum(reached)} of {len(reached)}"
    yield ""


def _at_most(value: float | None, most: float) -> bool | None:
    return None if value is None else value <= most


def _spread_pct(result: Result) -> float:
    """Return by how much runs alone differ in a quarter of their steps. Unit: percent."""
    runs = list(_alone_ms(result))
    size = min(map(len, runs), default=0) // 4
    found = [0.0]
    for quarter in range(4 if size else 0):
        part = slice(quarter * size, (quarter + 1) * size)
        medians = [statistics.median(times_ms[part]) for times_ms in runs]
        found.append(100 * (max(medians) - min(medians)) / statistics.median(medians))
    return max(found)


def _alone_ms(result: Result) -> Iterator[Sequence[float]]:
    for run in result.get(ALONE, ()):
        yield run["times_ms"][run["warm_up"] :]


def _is_step_right(result: Result) -> bool | None:
    """Whether the step is known and that of the program's own clock; None: nothing was captured."""
    runs = result.get(OWN, ())
    if not runs:
        return None
    error = _middle(result, OWN, "clock_error_pct")
    is_known = all(isinstance(run.get("bare_step"), int) for run in runs)
    return is_known and error is not None and error <= max(CLOCK_PCT, _spread_pct(result))


def _is_cheaper(result: Result) -> bool | None:
    own, nsys = (_difference_pct(result, way, "recorded") for way in (OWN, NSYS))
    return None if own is None or nsys is None else own < nsys


def _is_fast_after(result: Result) -> bool | None:
    change = _difference_pct(result, OWN, "after")
    return None if change is None else change <= max(CLOCK_PCT, _spread_pct(result))


def _is_named(result: Result) -> bool | None:
    share = _middle(result, OWN, "op_known_pct")
    return None if share is None else share >= NAMED_PCT


def _step_row(name: str, result: Result) -> list[str]:
    reported = [_ms(run.get("bare_step")) for run in result.get(OWN, ())]
    error, corrected = (_middle(result, OWN, key) for key in ("clock_error_pct", "corrected_step"))
    steps = _middle(result, OWN, "bare_steps")
    away = _corrected_pct(result)
    return [
        f"`{name}`",
        ", ".join(f"{statistics.median(times_ms):.2f}" for times_ms in _alone_ms(result)),
        f"{_spread_pct(result):.1f} %",
        ", ".join(_bold(_number(time), miss=time is None) for time in reported),
        "" if steps is None else f"{steps:g}",
        "" if error is None else _bold(f"{error:.1f} %", miss=not _is_step_right(result)),
        _change(_difference_pct(result, OWN, "recorded"), miss=_is_cheaper(result) is False),
        _change(_difference_pct(result, NSYS, "recorded"), miss=False),
        _change(_difference_pct(result, OWN, "after"), miss=_is_fast_after(result) is False),
        _number(None if corrected is None else corrected / 1e6),
        _change(away, miss=abs(away or 0.0) > max(CORRECTED_PCT, _spread_pct(result))),
    ]


def _capture_row(name: str, result: Result) -> list[str]:
    alone, own, nsys = (_middle(result, way, "end_s") for way in (ALONE, OWN, NSYS))
    sizes = [_middle(result, way, "export_bytes") for way in (OWN, NSYS)]
    recorded = {
        f"{run['recorded_steps']} of {run['run_steps']}"
        for run in result.get(OWN, ())
        if run.get("run_steps")
    }
    shares = [_middle(result, OWN, f"{kind}_known_pct") for kind in ("op", "module")]
    names = result.get("names", {})
    counts = [names.get(key) for key in ("compared", "wrong", "less precise", "unnamed")]
    return [
        f"`{name}`",
        "" if alone is None else f"{alone:.1f}",
        "" if own is None else _bold(f"{own:.1f}", miss=own > END_S),
        "" if nsys is None else f"{nsys:.1f}",
        *("" if size is None else f"{size / 1e6:.1f}" for size in sizes),
        ", ".join(sorted(recorded)),
        *(
            "" if share is None else _bold(f"{share:.1f} %", miss=share < least)
            for share, least in zip(shares, (NAMED_PCT, 0.0), strict=True)
        ),
        *(
            "" if count is None else _bold(str(count), miss=at == 1 and count > 0)
            for at, count in enumerate(counts)
        ),
    ]


def _middle(result: Result, way: str, key: str) -> float | None:
    """Return the median of a figure of the runs of a way, or None if no run has it."""
    found = [run[key] for run in result.get(way, ()) if isinstance(run.get(key), int | float)]
    return statistics.median(found) if found else None


def _difference_pct(result: Result, way: str, key: str) -> float | None:
    """Return by how much some steps of the runs of a way are longer than the same steps alone."""
    found = []
    for run in result.get(way, ()):
        alone = _same_alone_ms(result, run.get(key, ()))
        if alone is not None:
            own = statistics.median(run["times_ms"][at] for at in run[key])
            found.append(100 * own / alone - 100)
    return statistics.median(found) if found else None


def _corrected_pct(result: Result) -> float | None:
    found = []
    for run in result.get(OWN, ()):
        alone = _same_alone_ms(result, run.get("recorded", ()))
        if alone is not None and isinstance(run.get("corrected_step"), int):
            found.append(run["corrected_step"] / 1e4 / alone - 100)
    return statistics.median(found) if found else None


def _same_alone_ms(result: Result, steps: Sequence[int]) -> float | None:
    """Return the median of some steps in the runs alone, or None if no run has them."""
    medians = [
        statistics.median(run["times_ms"][at] for at in steps)
        for run in result.get(ALONE, ())
        if steps and max(steps) < len(run["times_ms"])
    ]
    return statistics.median(medians) if medians else None


def _change(pct: float | None, *, miss: bool) -> str:
    return "" if pct is None else _bold(f"{pct:+.1f} %", miss=miss)


def _ms(time_ns: object) -> float | None:
    return time_ns / 1e6 if isinstance(time_ns, int) else None


def _number(time_ms: float | None) -> str:
    return "unknown" if time_ms is None else f"{time_ms:.2f}"


def _bold(text: str, *, miss: bool) -> str:
    return f"**{text}**" if miss else text
