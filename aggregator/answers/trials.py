"""What was predicted of a change, and what a trial measured: the memory of ``dlprof trial``.

It is a file of lines beside the database of the profile that predicted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from aggregator.errors import DatabaseWriteError
from aggregator.system.plain_text import on_one_line
from aggregator.system.replies import doc
from aggregator.tables.aggregation_data import AggregationData
from aggregator.texts import say

FILE: Final = "trials.jsonl"
MOST_BYTES: Final = 4 << 20
"""Of a longer file the end is read."""


class Prediction(Struct, frozen=True):
    """How a profile says that a change would change the step."""

    kind: Annotated[str, doc("advice or what-if.")]
    name: Annotated[str, doc("Name of the advice, or the changes of the what-if.")]
    change_pct: Annotated[
        float | None, doc("Change of the step; below 0: faster; null: not predicted.")
    ]
    certainty: Annotated[
        str,
        doc("Of advice sure, likely or possible; of a what-if high, medium, low or bound."),
    ]
    aggregation: int


class RememberedTrial(Struct, frozen=True):
    """A change that was tried."""

    at: Annotated[str, doc("When, UTC.")]
    database: Annotated[str, doc("File of the profile, beside which this is stored.")]
    base: Annotated[str, doc("Command of the base.")]
    variant: Annotated[str, doc("Command of the change.")]
    prediction: Annotated[Prediction | None, doc("null: none was asked for.")]
    verdict: Annotated[str, doc("faster, slower, same or cannot tell.")]
    unit: Annotated[str, doc("What the times are for: step, sample or token.")]
    base_ns: Annotated[float | None, doc("Mean time of the base without profiling.")]
    new_ns: Annotated[float | None, doc("The same of the change.")]
    change_pct: Annotated[float | None, doc("Measured change; below 0: faster; null: unknown.")]
    interval_pct: Annotated[list[float] | None, doc("95 % interval of that; null: too few runs.")]
    runs: Annotated[list[int], doc("Measured runs of the base and of the change.")]
    noise_pct: Annotated[float | None, doc("Standard deviation of runs of one program.")]
    losses: Annotated[str, doc("agree, differ or unknown: those of the first steps.")]
    reason: Annotated[str, doc("Why there is no verdict; else empty.")] = ""

    @property
    def error_points(self) -> float | None:
        """How far the prediction is from the measurement, in points; None: one is unknown."""
        predicted = self.prediction.change_pct if self.prediction else None
        known = predicted is not None and self.change_pct is not None
        return predicted - self.change_pct if known else None  # type: ignore[operator]


class Trials(Struct):
    """The changes that were tried."""

    count: int
    unreadable: Annotated[int, doc("Lines of the file that are no trials.")]
    trials: Annotated[list[RememberedTrial], doc("The latest first.")]


def read_trials(data: AggregationData) -> Trials:
    """What was predicted by this profile, and what trials of the changes measured."""
    path = data.database.path
    found, unreadable = remembered(trials_file(path))
    own = [trial for trial in found if trial.database == path.name]
    return Trials(count=len(own), unreadable=unreadable, trials=own[::-1])


def trials_file(database: Path) -> Path:
    """Return where the trials of a database are remembered."""
    return database.with_name(FILE)


def remembered(file: Path) -> tuple[list[RememberedTrial], int]:
    """Return the trials of a file in their order, and how many lines are something else."""
    try:
        with file.open("rb") as opened:
            start = max(opened.seek(0, os.SEEK_END) - MOST_BYTES, 0)
            opened.seek(start)
            lines = opened.read(MOST_BYTES).splitlines()[bool(start) :]
    except OSError:
        return [], 0
    decoder = msgspec.json.Decoder(RememberedTrial)
    found, unreadable = [], 0
    for line in filter(bytes.strip, lines):
        try:
            found.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            unreadable += 1
    return found, unreadable


def remember(file: Path, trials: Sequence[RememberedTrial]) -> None:
    """Add trials to a file, each as a line.

    Raises:
        DatabaseWriteError: It cannot be written.
    """
    text = b"".join(msgspec.json.encode(trial) + b"\n" for trial in trials)
    try:
        with file.open("ab") as opened:
            opened.write(text)
    except OSError as error:
        raise DatabaseWriteError(
            say("The trial cannot be remembered in '{file}'.", file=file),
            hint=error.strerror or "",
        ) from error


# --- sentences ----------------------------------------------------------------------------------


def change_text(change_pct: float) -> str:
    """A change of time in words: -3.2 is 3.2 % faster."""
    return f"{abs(change_pct):.1f} % {'slower' if change_pct > 0 else 'faster'}"


def prediction_text(predicted: Prediction, change_pct: float | None) -> str:
    """Say what was predicted, and how far from it the measurement is."""
    of = f"{predicted.kind} {predicted.name}"
    certainty = f", {predicted.certainty}" if predicted.certainty else ""
    if predicted.change_pct is None:
        return f"Predicted ({of}{certainty}): unknown"
    text = f"Predicted ({of}{certainty}): {change_text(predicted.change_pct)}"
    if change_pct is None:
        return text
    return f"{text}; off by {abs(predicted.change_pct - change_pct):.1f} points"


def remembered_text(trial: RememberedTrial) -> str:
    """A remembered trial in one line."""
    measured = f"measured {change_text(trial.change_pct)}" if trial.change_pct is not None else ""
    said = ", ".join(filter(None, (measured, trial.verdict)))
    text = f"{on_one_line(trial.variant)} on {trial.at[:10]}: {said}"
    if trial.prediction is not None:
        predicted = prediction_text(trial.prediction, trial.change_pct)
        text += f". {predicted}"
    return text
