"""Output of the command: messages, results, and a progress bar for long work.

Messages and results go to standard output. The progress bar goes to standard error, if that is a
terminal. ``main`` prints errors.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from enum import IntEnum
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from aggregator.system.plain_text import escape_control_characters
from aggregator.system.progress import Level

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

EXIT_DONE: Final = 0
EXIT_INTERNAL: Final = 1
EXIT_INTERRUPTED: Final = 130
BUG_HINT: Final = "This is a bug in dlprof. Run it again with --debug for the traceback."
DISTRIBUTION: Final = "open-dlprof"
PHASE_TITLES: Final = {
    "read": "Reading profile",
    "correlate": "Correlating",
    "aggregate": "Aggregating",
    "write": "Writing database",
    "index": "Indexing database",
    "report": "Writing reports",
}


def program_version() -> str:
    """Return the version of the installed distribution; it is unknown in a bare checkout."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow and rare

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown (not installed)"


def print_error(program: str, message: str, hint: str, code: str = "") -> None:
    """Print an error, its code and what to do about it to standard error, if anyone reads it."""
    with suppress(OSError):
        ending = f" [{code}]" if code else ""
        print(escape_control_characters(f"{program}: error: {message}{ending}"), file=sys.stderr)
        if hint:
            print(escape_control_characters(hint), file=sys.stderr)


@contextmanager
def handling_signals(
    handler: Callable[[int, FrameType | None], object], *numbers: int
) -> Iterator[None]:
    """Handle signals within the block; those that are ignored, as under ``nohup``, stay so."""
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


class Verbosity(IntEnum):
    """Values of ``--verbosity``; a message is shown if its level is at most this."""

    QUIET = 0
    MINIMAL = 1
    NORMAL = 2
    DETAILED = 3
    DIAGNOSTIC = 4


class Console:
    """Shows the progress of the engine and the reports, as a ``Progress`` of the engine.

    With diagnostic verbosity it also prints the duration of each phase.
    """

    def __init__(
        self, verbosity: Verbosity, stdout: TextIO | None = None, stderr: TextIO | None = None
    ) -> None:
        self._verbosity = verbosity
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._phase = ""
        self._phase_start_s = 0.0
        self._phase_rows = 0

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """Begin a phase, and end the previous one."""
        self._end_phase()
        self._phase = name
        self._phase_start_s = time.monotonic()
        self._phase_rows = 0
        if self._bar is not None:
            title = PHASE_TITLES.get(name, name.capitalize())
            self._task = self._bar.add_task(title, total=total_rows)

    def advance(self, rows: int) -> None:
        """Add to the number of completed rows of the phase."""
        self._phase_rows += rows
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, rows)

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Print a message; its first line begins with a time stamp, as in DLProf."""
        if level <= self._verbosity:
            stamp = datetime.now().astimezone().strftime("%H:%M:%S")
            self._write(f"[DLProf-{stamp}] {text}")

    def result(self, text: str) -> None:
        """Print a result without a time stamp, unless the verbosity is quiet."""
        if self._verbosity >= Verbosity.MINIMAL:
            self._write(text)

    def answer(self, text: str) -> None:
        """Print what the command was run for, at every verbosity."""
        self._write(text)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show the progress bar while the block runs, if standard error is a terminal."""
        is_shown = self._verbosity >= Verbosity.NORMAL and self._stderr.isatty()
        with _make_bar(self._stderr) if is_shown else nullcontext() as bar:
            self._bar = bar
            try:
                yield
            finally:
                self._end_phase()
                self._bar = None

    def _end_phase(self) -> None:
        if not self._phase:
            return
        seconds = time.monotonic() - self._phase_start_s
        rows = f", {self._phase_rows:,} rows" if self._phase_rows else ""
        name, self._phase = self._phase, ""
        if self._bar is not None and self._task is not None:
            self._bar.refresh()
            self._bar.remove_task(self._task)
        self._task = None
        self.message(f"Phase {name}: {seconds:.2f} s{rows}", Level.DIAGNOSTIC)

    def _write(self, text: str) -> None:
        text = escape_control_characters(text)
        if self._bar is not None and self._stdout.isatty():
            # Bar and text share the terminal: only the console of the bar separates them.
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            return
        try:
            print(text, file=self._stdout, flush=True)
        except OSError:
            # The reader has closed the pipe, as in "dlprof ... | head", or the terminal is gone, or
            # the disk of a log is full: the work continues.
            discard_output(self._stdout)


def discard_output(stream: TextIO) -> None:
    """Redirect a stream whose reader has closed it to the null device, so that flushing works."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _make_bar(stderr: TextIO) -> Bar:
    # Importing rich takes a tenth of a second, which --help does not need.
    from rich.console import Console as RichConsole  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text  # noqa: PLC0415

    class RowsColumn(ProgressColumn):
        """Completed rows, total rows, and the rate."""

        def render(self, task: Task) -> Text:
            total = f" of {_short(task.total)}" if task.total else ""
            rate = f", {_short(task.speed)}/s" if task.speed else ""
            return Text(f"{_short(task.completed)}{total}{rate}", no_wrap=True)

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        RowsColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
        console=RichConsole(file=stderr),
        transient=True,
        # Redirecting would move standard output to standard error.
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _short(count: float) -> str:
    """Format a count in at most five characters, so that the line fits in 80 columns."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"
