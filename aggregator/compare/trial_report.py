"""A trial as text, Markdown, JSON, and as the lines by which it is remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

import msgspec

from aggregator.answers.trials import (
    Prediction,
    RememberedTrial,
    change_text,
    prediction_text,
)
from aggregator.compare.document import to_document as comparison_document
from aggregator.compare.markdown import escaped
from aggregator.compare.result import Comparison, Verdict
from aggregator.compare.text import to_text as comparison_text
from aggregator.compare.trials import Agreement, Estimate, TrialRun, Unit
from aggregator.system.plain_text import on_one_line

_MOST_ROWS: Final = 10
_UNITS_NS: Final = (("ms", 1e6), ("us", 1e3), ("ns", 1.0))


@dataclass(frozen=True)
class TrialReport:
    """Everything that a trial found."""

    commands: tuple[str, ...]  # The base first.
    runs: tuple[TrialRun, ...]
    estimates: tuple[Estimate, ...]  # One of each variant but the base.
    failures: Mapping[int, TrialRun]  # The run after which a variant was given up.
    predictions: tuple[Prediction | None, ...] = ()  # In the order of the estimates.
    comparisons: Mapping[int, Comparison | str] | None = None  # Of captures; text: why not.
    repeats: int = 0  # As planned.
    steps: int = 0  # Of a run, as planned.
    stopped_early: bool = False
    is_interrupted: bool = False

    def prediction(self, variant: int) -> Prediction | None:
        """Return what was predicted of a variant."""
        return self.predictions[variant - 1] if variant <= len(self.predictions) else None


# --- sentences ------------------------------------------------------------------------------------


def sentence(found: Estimate) -> str:
    """Say what a variant changes, and how certain that is."""
    if found.base_ns is None or found.new_ns is None or found.change_pct is None:
        return f"Cannot tell: {found.reason}"
    low, high = found.interval_pct or (0.0, 0.0)
    times = _times(found.base_ns, found.new_ns, found.unit)
    if found.interval_pct is None:
        return f"Cannot tell ({times}): {found.reason}"
    runs = _runs_text(found.runs)
    if found.verdict is Verdict.FASTER:
        bounds = f"95 % interval {-high:.1f} to {-low:.1f} %"
        return f"{-found.change_pct:.1f} % faster ({times}, {bounds}), {runs}"
    if found.verdict is Verdict.SLOWER:
        bounds = f"95 % interval {low:.1f} to {high:.1f} %"
        return f"{found.change_pct:.1f} % slower ({times}, {bounds}), {runs}"
    bounds = f"95 % interval {change_text(low)} to {change_text(high)}"
    if found.verdict is Verdict.SAME:
        return f"The same within {max(-low, high):.1f} % ({times}, {bounds}), {runs}"
    return f"Cannot tell ({times}, {bounds}), {runs}"


def _times(base_ns: float, new_ns: float, unit: Unit) -> str:
    name, scale = next(pair for pair in _UNITS_NS if base_ns >= pair[1] or pair[1] == 1.0)
    per = "" if unit is Unit.STEP else f" per {unit}"
    return f"{base_ns / scale:.4g} -> {new_ns / scale:.4g} {name}{per}"


def _runs_text(runs: Sequence[int]) -> str:
    base, new = runs
    return f"{base} runs each, interleaved" if base == new else f"{base} and {new} runs"


_AGREEMENT: Final = {
    Agreement.AGREE: "Losses agree",
    Agreement.DIFFER: "The result is changed: losses differ",
    Agreement.UNKNOWN: "Whether losses agree is unknown",
}


def _details(report: TrialReport, found: Estimate) -> Iterator[str]:
    failed = report.failures.get(found.variant)
    if failed is not None and found.runs[1]:
        yield f"A later run of it {failed.failure}."
    if found.runs[1]:
        yield f"{_AGREEMENT[found.losses]}: {found.losses_note}."
    predicted = report.prediction(found.variant)
    if predicted is not None:
        yield f"{prediction_text(predicted, found.change_pct)}."
    steps = [run.steps for run in report.runs if run.variant in (0, found.variant) and run.steps]
    if steps and min(steps) < report.steps:
        yield f"A run had only {min(steps)} steps: it ended, or --run-seconds were over."
    yield from found.notes


def _machine(report: TrialReport) -> str:
    noises = [found.noise_pct for found in report.estimates if found.noise_pct is not None]
    noise = "unknown"
    if noises:
        noise = f"runs of one program differ by {max(noises):.1f} % (standard deviation)"
    clocks = [run.sm_clock_mhz for run in report.runs if run.sm_clock_mhz]
    clock = f"{median(clocks):.0f} MHz" if clocks else "unknown"
    if clocks and max(clocks) != min(clocks):
        clock += f" ({min(clocks)} to {max(clocks)})"
    return f"Noise of the machine: {noise}. GPU clock: {clock}."


def _ended(report: TrialReport) -> list[str]:
    lines = []
    if report.is_interrupted:
        lines.append("Interrupted: these are the runs that had ended.")
    if report.stopped_early:
        lines.append("Stopped early: the intervals are narrow enough.")
    return lines


def _label(variant: int) -> str:
    return f"try {variant}" if variant else "base"


# --- text -----------------------------------------------------------------------------------------


def to_text(report: TrialReport) -> str:
    """The trial as lines for the console."""
    lines = [f"base : {on_one_line(report.commands[0])}"]
    base = report.failures.get(0)
    if base is not None:
        lines += _failed_lines(base)
    for found in report.estimates:
        lines += [f"{_label(found.variant)}: {on_one_line(report.commands[found.variant])}"]
        lines += [f"  {sentence(found)}."]
        lines += [f"  {line}" for line in _details(report, found)]
        failed = report.failures.get(found.variant)
        if failed is not None:
            lines += _failed_lines(failed)
    lines += [*_ended(report), _machine(report)]
    for variant, comparison in (report.comparisons or {}).items():
        lines += ["", f"{_label(variant)} against the base, captured"]
        made = (
            comparison if isinstance(comparison, str) else comparison_text(comparison, _MOST_ROWS)
        )
        lines += made.rstrip("\n").split("\n")
    return "\n".join(lines) + "\n"


def _failed_lines(run: TrialRun) -> list[str]:
    return [f"  It {run.failure}; it wrote last:", *(f"    {line}" for line in run.last_lines)]


def replay_text(trials: Sequence[RememberedTrial]) -> str:
    """Remembered trials as a table, the latest last."""
    head = f"{'when':<16} {'predicted':>10} {'measured':>10} {'points':>7}  verdict      prediction"
    lines = [head]
    for trial in trials:
        error = trial.error_points
        named = trial.prediction
        of = f"{named.kind} {named.name} ({named.certainty})" if named else "none"
        cells = [
            f"{trial.at[:16].replace('T', ' '):<16}",
            f"{_percent(named.change_pct if named else None):>10}",
            f"{_percent(trial.change_pct):>10}",
            f"{'' if error is None else f'{error:+.1f}':>7}",
            f" {trial.verdict:<11}",
            f" {on_one_line(of)}: {on_one_line(trial.variant)}",
        ]
        lines.append(" ".join(cells))
    return "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.1f} %"


# --- Markdown -------------------------------------------------------------------------------------


def to_markdown(report: TrialReport) -> str:
    """The trial for the comment of a pull request."""
    lines = [
        "| variant | measured | predicted | losses |",
        "|---|---|---|---|",
        f"| base: {escaped(report.commands[0])} | | | |",
    ]
    for found in report.estimates:
        predicted = report.prediction(found.variant)
        said = prediction_text(predicted, found.change_pct) if predicted else ""
        losses = f"{found.losses}" if found.runs[1] else ""
        name = f"{_label(found.variant)}: {escaped(report.commands[found.variant])}"
        lines.append(f"| {name} | {escaped(sentence(found))} | {escaped(said)} | {losses} |")
    lines.append("")
    for found in report.estimates:
        details = [escaped(line) for line in found.notes]
        if found.losses is Agreement.DIFFER:
            details.insert(0, escaped(f"{_AGREEMENT[found.losses]}: {found.losses_note}."))
        lines += [f"> {_label(found.variant)}: {line}" for line in details]
    lines += [escaped(line) for line in (*_ended(report), _machine(report))]
    for variant, comparison in (report.comparisons or {}).items():
        said = comparison if isinstance(comparison, str) else str(comparison.headline)
        lines += ["", f"{_label(variant)}, captured: {escaped(said)}"]
    return "\n".join(lines) + "\n"


# --- documents ------------------------------------------------------------------------------------


def to_document(report: TrialReport) -> dict[str, Any]:
    """The trial as plain data."""
    return {
        "base": report.commands[0],
        "variants": [
            {
                "command": report.commands[found.variant],
                "sentence": sentence(found),
                **asdict(found),
                "prediction": msgspec.to_builtins(report.prediction(found.variant)),
            }
            for found in report.estimates
        ],
        "runs": [asdict(run) for run in report.runs],
        "repeats": report.repeats,
        "steps": report.steps,
        "stopped_early": report.stopped_early,
        "is_interrupted": report.is_interrupted,
        "comparisons": {
            str(variant): found if isinstance(found, str) else comparison_document(found)
            for variant, found in (report.comparisons or {}).items()
        },
    }


def to_memory(report: TrialReport, database: str) -> list[RememberedTrial]:
    """Return what is remembered of a trial: variants of which a run was measured."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [
        msgspec.convert(
            {
                **asdict(found),
                "at": now,
                "database": database,
                "base": report.commands[0],
                "variant": report.commands[found.variant],
                "prediction": report.prediction(found.variant),
            },
            RememberedTrial,
        )
        for found in report.estimates
        if all(found.runs)
    ]
