"""``dlprof --standby``: run the application at its own speed, and record it only when asked.

``dlprof record`` asks, or this process does: by the clock, or when the steps become slower.
"""

from __future__ import annotations

import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from aggregator.sources.collector.standing_by import (
    make_job,
    minutes_changed_ns,
    read_job,
    read_minutes,
    wait_until_taken,
)
from profiler_cli.capture import processes, raw_records
from profiler_cli.capture.capture_session import FOLDER_VARIABLE, Ending
from profiler_cli.capture.cupti_collector import OwnCollection
from profiler_cli.capture.nsight import Nsys, free_base
from profiler_cli.capture.recorder import CUPTI, choose_recorder
from profiler_cli.capture.running import Application
from profiler_cli.options.parser import STANDBY_VARIABLE
from profiler_cli.outputs import display, output_folder

if TYPE_CHECKING:
    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

WINDOW_STEPS: Final = 40
"""Steps of a window, if a request has no other number."""
FILES_VARIABLE: Final = "DLPROF_COLLECT_FILES"
STEM: Final = "window-"
"""Begin of the names of the databases; the time of the request follows."""
LEAST_LINES: Final = 3
"""Minutes before a step can be called slow: the level of the steps until then."""
LEVEL_LINES: Final = 2
"""Minutes until the window of the level: the first has the warm-up in it."""
SLOW_LINES: Final = 2
"""Minutes in sequence that have to be slow."""
MOST_LINES: Final = 30
"""The slow minutes are looked for among the last ones: a window may have taken some of them."""
TAKE_S: Final = 10.0
"""A dlprof record moves the records of a job that has ended within a moment."""
_LOOK_S: Final = 5.0


def step_medians(lines: Sequence[Mapping[str, Any]], since_utc_s: float) -> list[int]:
    """Return the median steps of the loop of a process that has most of them. Unit: ns.

    Args:
        lines: What the process noted, a line a minute.
        since_utc_s: When the level was looked at last; earlier lines do not count.
    """
    loops: dict[str, int] = {}
    for line in lines:
        loops[str(line["loop"])] = loops.get(str(line["loop"]), 0) + int(line["steps"])
    most = max(loops, key=lambda name: loops[name], default="")
    return [
        int(line["median_ns"])
        for line in lines
        if line["loop"] == most and float(line["utc_s"]) > since_utc_s
    ]


def has_slowed(medians: Sequence[int], ratio: float) -> bool:
    """Return whether all minutes from one on are slower by a factor than the level before it."""
    first = max(LEAST_LINES, len(medians) - MOST_LINES)
    return any(
        min(medians[at:]) > ratio * statistics.median(medians[:at])
        for at in range(first, len(medians) - SLOW_LINES + 1)
    )


def standby_variables(folder: Path) -> dict[str, str]:
    """Return the variables that let a process of a job stand by."""
    return {STANDBY_VARIABLE: "1", FILES_VARIABLE: "1", FOLDER_VARIABLE: str(folder)}


class _NoMonitor:
    """Watches no GPU: a job may stand by for weeks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def started(self) -> None:
        """Note nothing."""


@dataclass
class StandbyCollection(OwnCollection):
    """The collector in a job that stands by."""

    every_s: float | None = None
    ratio: float | None = None  # Of ``--when``.
    arguments: tuple[str, ...] = ()  # Of the ``dlprof record`` that is started here.
    console: Console | None = None
    output: Path = Path()  # Folder of the windows.
    windows: int = 0
    _next_s: float = 0.0  # When a window is due by the clock.
    _since_utc_s: float = 0.0
    _looked_s: float = 0.0
    _changed_ns: int = 0  # When the minutes that were looked at were written.
    _level_lines: int = LEVEL_LINES  # After so many a window of the usual steps is recorded.
    _level: Path | None = None  # The window of the steps at their level; it is compared with.
    _asked: subprocess.Popen[bytes] | None = field(default=None)

    is_recording: ClassVar[bool] = False

    def environment(self, before: Mapping[str, str], options: Options) -> dict[str, str]:
        """Return the environment of the application, whose processes stand by."""
        result = super().environment(before, options)
        self._next_s = time.monotonic() + (self.every_s or math.inf)
        return result | (standby_variables(self.folder) if self.folder is not None else {})

    def poll(self, pid: int) -> None:
        """Record a window if it is time."""
        now_s = time.monotonic()
        if self._asked is not None:
            if self._asked.poll() is None:
                return
            is_done, self._asked = self._asked.returncode == 0, None
            self.windows += is_done
            if is_done and self.ratio is not None:
                self._compare()
        if now_s >= self._next_s:
            self._next_s = now_s + (self.every_s or math.inf)
            self._record("by the clock")
        elif self.ratio is not None and now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._look(self.ratio)

    def _look(self, ratio: float) -> None:
        job = read_job(self.folder) if self.folder is not None else None
        changed_ns = minutes_changed_ns(job) if job is not None else 0
        if job is None or changed_ns == self._changed_ns:
            return  # Weeks of minutes take a while to read.
        self._changed_ns, minutes = changed_ns, read_minutes(job).values()
        processes_ns = [step_medians(lines, self._since_utc_s) for lines in minutes]
        if any(has_slowed(medians, ratio) for medians in processes_ns):
            self._since_utc_s = time.time()
            self._record(f"steps are more than {ratio:g} times as long as before")
        elif not self.windows and max(map(len, processes_ns), default=0) >= self._level_lines:
            self._level_lines += LEVEL_LINES  # If it fails it is tried again, but not at once.
            self._record("the level of the steps, to compare with")

    def _record(self, why: str) -> None:
        if self.console is not None:
            self.console.message(f"Recording a window: {why}")
        main = "import sys; from profiler_cli.dlprof import main; sys.exit(main())"
        self._asked = subprocess.Popen(
            [sys.executable, "-c", main, "record", *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def _compare(self) -> None:
        """Say how the window that was just recorded compares with the one before."""
        newest = max(self.output.glob(f"{STEM}*.sqlite"), default=None)
        before, self._level = self._level, newest
        if before is not None and newest is not None and self.console is not None:
            names = shlex.join([display(before), display(newest)])
            self.console.message(f"What became slower: dlprof compare {names}")

    def stop(self) -> None:
        """Do nothing: the processes record only what was asked for."""

    def kept(self) -> str:
        """Return nothing: each window is a profile already."""
        return ""

    def __exit__(self, *details: object) -> None:
        if self.folder is not None:
            wait_until_taken(self.folder, TAKE_S)
        super().__exit__(*details)
        raw_records.remove(self.records)


def run_standby(options: Options, console: Console) -> int:
    """Run the application, which stands by, to its end; returns its exit code.

    Raises:
        UsageError: The application cannot be started.
        ToolError: dlprof's own collector does not work here.
    """
    processes.check_application(options.application)
    recorder = choose_recorder(replace(options, collector=CUPTI))
    with output_folder(options.output_path):
        raw_records.report_left(options.output_path, console)
        base = free_base(options)
        records = raw_records.make_folder(base, None)
        folder = make_job(options.application, records)
        collection = StandbyCollection(
            Nsys(Path(), ()),
            folder=folder,
            is_started=False,
            library=recorder.library,
            records=records,
            cupti=recorder.cupti,
            every_s=options.every,
            ratio=options.when,
            arguments=_arguments(options),
            console=console,
            output=options.output_path,
        )
        ending = Ending()
        with collection:
            console.message(
                "Standing by: nothing is recorded until dlprof record asks for it "
                f"(dlprof record {os.getpid()})"
            )
            environment = collection.environment(
                processes.application_environment(options), options
            )
            application = Application(options, console, collection, base, ending)
            application.run(list(options.application), environment, _NoMonitor())
    console.message(f"The application {ending.words}; nothing stands by any more")
    return ending.exit_code


def _arguments(options: Options) -> tuple[str, ...]:
    """Return the arguments of ``dlprof record`` for a window of this job."""
    steps = options.profile_steps if options.profile_steps.isdecimal() else str(WINDOW_STEPS)
    found = [str(os.getpid()), f"--output_path={options.output_path.absolute()}", "--all-ranks"]
    return (*found, f"--steps={steps}", f"--keep={options.keep}", f"--disk_gb={options.disk_gb:g}")
