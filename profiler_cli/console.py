"""What the command says while it works: messages, results, and a progress bar for long work.

Messages and results go to standard output; the bar goes to standard error, and only when that is
a terminal. Errors are not said here but by ``main``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TextIO

from aggregator.plain_text import shown
from aggregator.progress import Level

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

PHASE_TITLES: Final = {
    "read": "Reading profile",
    "correlate": "Correlating",
    "aggregate": "Aggregating",
    "write": "Writing database",
    "index": "Indexing database",
    "report": "Writing reports",
}


class Verbosity(IntEnum):
    """The words of ``--verbosity``; a message is shown when its level is at most this."""

    QUIET = 0
    MINIMAL = 1
    NORMAL = 2
    DETAILED = 3
    DIAGNOSTIC = 4


class Console:
    """Listens to the engine and the reports, and writes for a person.

    It is a ``Progress`` of the engine. With diagnostic verbosity it also says how long each
    phase took.
    """

    def __init__(
        self,
        verbosity: Verbosity,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
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
        """A new phase begins; the one before it is over."""
        self._end_phase()
        self._phase = name
        self._phase_start_s = time.monotonic()
        self._phase_rows = 0
        if self._bar is not None:
            title = PHASE_TITLES.get(name, name.capitalize())
            self._task = self._bar.add_task(title, total=total_rows)

    def advance(self, rows: int) -> None:
        """That many more rows of the phase are done."""
        self._phase_rows += rows
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, rows)

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """One stamped message; further lines of it carry no stamp, as DLProf's do."""
        if level <= self._verbosity:
            stamp = datetime.now().astimezone().strftime("%H:%M:%S")
            self._write(f"[DLProf-{stamp}] {text}")

    def result(self, text: str) -> None:
        """What the user came for: shown unless quiet, without a stamp."""
        if self._verbosity >= Verbosity.MINIMAL:
            self._write(text)

    def error(self, text: str, reason: str) -> None:
        """What went wrong and why, to standard error whatever the verbosity."""
        print(shown(f"dlprof: error: {text}\n{reason}"), file=self._stderr, flush=True)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show the bar, if there is somebody to see it, while the block runs."""
        if self._verbosity < Verbosity.NORMAL or not self._stderr.isatty():
            try:
                yield
            finally:
                self._end_phase()
            return
        with _make_bar(self._stderr) as bar:
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
        text = shown(text)
        if self._bar is not None and self._stdout.isatty():
            # Bar and text share the screen: only the bar's own console keeps them apart.
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
            return
        try:
            print(text, file=self._stdout, flush=True)
        except BrokenPipeError:
            # The reader has gone, as in "dlprof ... | head": that must not undo the work.
            discard_output(self._stdout)


def discard_output(stream: TextIO) -> None:
    """Send a stream whose reader has gone nowhere, so that not even its last flush fails."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _make_bar(stderr: TextIO) -> Bar:
    """A bar that names the phase, and tells rows, rows per second, time gone and time left."""
    # Costs a tenth of a second to import, which --help and scripts need not pay.
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
        """Rows done of how many, and the rate."""

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
        # Redirecting would move our standard output to standard error.
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _short(count: float) -> str:
    """A count in at most five characters: the whole line fits 80 columns."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return f"{count:.0f}"
