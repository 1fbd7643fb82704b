"""Capture each variant of a trial once, and compare the captures: what changed in the step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

from aggregator.compare.result import Comparison
from aggregator.compare.sides import Source, compare_files
from aggregator.errors import DlprofError
from aggregator.system.progress import NullProgress
from profiler_cli.capture.running import last_lines
from profiler_cli.trial.runs import Trial, split_command, with_settings

DATABASE: Final = "dlprof_dldb.sqlite"
_FACTOR, _MORE_S = 3, 30.0
"""A program is ended after so many times the median run of the trial and so many seconds: its loop
has been recorded by then, and it may go on for days."""
_ERROR: Final = "dlprof: error: "
_SAVE_S: Final = 600.0
"""Aggregating a capture takes no longer."""
_END_S: Final = 10.0


def compare_captures(
    trial: Trial, folder: Path, on_capture: Callable[[str], object]
) -> dict[int, Comparison | str]:
    """Capture the base and each variant that was measured.

    Returns:
        The comparison of each variant with the base, or why there is none.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C; no process is left.
    """
    limit_s = _FACTOR * median(run.seconds for run in trial.runs if run.step_ns) + _MORE_S
    captures: dict[int, Path | str] = {}
    for variant, command in enumerate(trial.plan.commands):
        # Without the base there is nothing to compare with.
        if isinstance(captures.get(0), str):
            captures[variant] = ""
        elif trial.measured(variant):
            name = f"try{variant}" if variant else "base"
            on_capture(name)
            captures[variant] = _capture(command, folder / name, limit_s)
    base = captures.pop(0, "The base was not measured.")
    return {variant: _compare(base, capture) for variant, capture in captures.items()}


def _compare(base: Path | str, new: Path | str) -> Comparison | str:
    if isinstance(base, str):
        return f"The base was not captured: {base}"
    if isinstance(new, str):
        return f"It was not captured: {new}"
    try:
        sides = [[Source.parse(str(path))] for path in (base, new)]
        return compare_files(sides[0], sides[1], NullProgress(), keep=True)
    except DlprofError as error:
        return error.message


def _capture(command: str, folder: Path, limit_s: float) -> Path | str:
    """Capture a variant as ``dlprof COMMAND`` does; returns the database, or what dlprof said."""
    settings, words = split_command(command)
    options = [f"--output_path={folder}", "--force=true", "--end_with_dlprof=true"]
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            [sys.executable, "-m", "profiler_cli.dlprof", *options, *words],
            env=with_settings(os.environ, settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        ) as process,
    ):
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(limit_s)
            if process.poll() is None:  # As Ctrl-C: what was recorded is aggregated.
                process.send_signal(signal.SIGINT)
                process.wait(_SAVE_S)
        except subprocess.TimeoutExpired:
            return f"dlprof did not end within {_SAVE_S:g} s"
        finally:
            _end(process)
        database = folder / DATABASE
        if database.is_file():
            return database
        said = " ".join(last_lines(output)).rpartition(_ERROR)[2]
        return said or f"dlprof ended with exit code {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End dlprof, which ends its program: the second request is not put off by the first."""
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
