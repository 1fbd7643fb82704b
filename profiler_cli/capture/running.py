"""The application while it runs: its output, the signals that dlprof receives, its end.

It is dlprof's child and nothing else: no pipe and no terminal of dlprof's lies between it and its
output, so it goes on, whatever becomes of dlprof.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Final, Protocol

from aggregator.system.resources import gc_paused
from profiler_cli.capture import processes
from profiler_cli.console import handling_signals

if TYPE_CHECKING:
    from types import FrameType

    from profiler_cli.capture.capture_session import Collection, Ending
    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

HIDDEN: Final = ("quiet", "minimal")
"""Verbosities that hide the output of the application."""
LONG_RUN_S: Final = 300.0
LAST_LINES: Final = 8
POLL_S: Final = 0.1
ENGINE: Final = (
    "aggregator.sources.collector.export",
    "aggregator.sources.nsys.reader",
    "aggregator.importing.correlation",
    "aggregator.dldb.import_writer",
    "aggregator.tables.aggregation_data",
    "profiler_cli.commands.analyze",
)
"""What aggregates a capture. Loading it takes half a second of a CPU, more on slow disks."""
LOAD_AFTER_S: Final = 0.3
"""A program that fails at once does not wait for the engine."""
# Batch systems kill a job about 30 s after they ask it to end; it may need them for a checkpoint.
SAVE_AFTER_S: Final = 3.0
_TAIL_BYTES: Final = 1 << 15
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Monitor(Protocol):
    """What watches the GPUs while the application runs."""

    def __enter__(self) -> object:
        """Begin."""

    def __exit__(self, *details: object) -> None:
        """End."""

    def started(self) -> None:
        """Note that the application has been started."""


@dataclass
class Application:
    """The application of one run."""

    options: Options
    console: Console
    collection: Collection
    base: Path  # Path of the result without extension.
    ending: Ending  # Gets how the run ended.

    def run(self, command: Sequence[str], environment: Mapping[str, str], gpus: Monitor) -> None:
        """Run the command to its end.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl-C twice.
            SystemExit: dlprof received two signals to end.
        """
        ending, start_s = self.ending, time.monotonic()
        shares_terminal = processes.owns_terminal()
        with ExitStack() as stack:
            stack.enter_context(gpus)
            output = self._output(stack)
            # Before the application is there: it may be the reason for the first signal.
            stack.enter_context(_signals(ending))
            sys.stdout.flush()
            process = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdout=output,
                stderr=output,
                # With a terminal, Ctrl-C reaches the application; without one, it is forwarded.
                process_group=None if shares_terminal else 0,
                preexec_fn=processes.end_with_parent if self.options.end_with_dlprof else None,  # noqa: PLW1509 - one system call, no threads yet
            )
            ending.pid = process.pid
            gpus.started()
            try:
                ending.code = self._wait(process, shares_terminal=shares_terminal)
            except BaseException:
                self._quit(process)
                raise
            finally:
                ending.seconds = time.monotonic() - start_s
                if self.collection.is_nsys:
                    processes.end_profilers(environment[processes.CAPTURE_VARIABLE])
            ending.is_timed_out = self._is_timed_out()
            if output is not None and not isinstance(output, int):
                ending.last_lines = last_lines(output)

    def _output(self, stack: ExitStack) -> IO[bytes] | int | None:
        """Return where the output goes; None: where dlprof's own does.

        With a low verbosity the application's is dropped, and what Nsight Systems says is kept in
        a file, for an error.
        """
        if self.options.verbosity not in HIDDEN:
            return None
        if self.collection.is_nsys:
            with suppress(OSError):
                return stack.enter_context(tempfile.TemporaryFile())
        return subprocess.DEVNULL

    def _wait(self, process: subprocess.Popen[bytes], *, shares_terminal: bool) -> int:
        """Wait for the end; whatever fails in dlprof meanwhile is only reported."""
        start_s = time.monotonic()
        is_warned = is_saved = is_broken = False
        engine: Thread | None = None
        asked_s: float | None = None
        while True:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(POLL_S)
                if engine is not None:
                    engine.join()
                return 128 - code if code < 0 else code
            now_s = time.monotonic()
            is_recording = self.collection.is_recording
            if engine is None and is_recording and now_s - start_s > LOAD_AFTER_S:
                engine = Thread(target=_load_engine)
                engine.start()
            if asked_s is not None:
                if is_recording and not is_saved and now_s - asked_s > SAVE_AFTER_S:
                    # The application has more to do: what there is may be all that will be.
                    is_saved = True
                    if engine is not None:
                        engine.join()
                    self._save()
            elif self.ending.signals:
                asked_s = now_s
                self._forward(shares_terminal=shares_terminal)
            elif not is_broken:
                is_broken = not self._poll(process.pid)
                if is_recording and not is_warned and now_s - start_s > LONG_RUN_S:
                    is_warned = True
                    self.console.message(
                        "Warning: profiling for more than 5 minutes; files become large and "
                        "aggregation slow. Use --delay and --duration to profile a part of the run"
                    )

    def _save(self) -> None:
        """Save what there is; what fails here is tried again, and reported, after the end."""
        with suppress(Exception):  # Else the application would be ended in its checkpoint.
            self.collection.save(self.base)

    def _poll(self, pid: int) -> bool:
        """Begin or end the collection if it is time; returns whether that works."""
        try:
            self.collection.poll(pid)
        except Exception as error:  # noqa: BLE001 - the application goes on, whatever fails here
            self.console.message(f"Warning: profiling cannot be controlled any more: {error}")
            return False
        return True

    def _forward(self, *, shares_terminal: bool) -> None:
        """Pass the first signal on to the application, and record no more."""
        number = self.ending.signals[0]
        is_ctrl_c = number == signal.SIGINT
        cause = "Interrupted" if is_ctrl_c else signal.Signals(number).name
        again = "press Ctrl-C again to quit" if is_ctrl_c else "a second signal ends dlprof"
        aim = " and aggregating the captured data" if self.collection.is_recording else ""
        self.console.message(f"{cause}: stopping the application{aim}; {again}")
        if not is_ctrl_c:
            self._send(self.ending.pid, number)
        elif not shares_terminal:
            processes.signal_group(self.ending.pid, signal.SIGINT)
        self.collection.stop()

    def _send(self, pid: int, number: int) -> None:
        is_tool = self.collection.is_nsys
        processes.send(processes.application_processes(pid, is_helper=is_tool), number)

    def _quit(self, process: subprocess.Popen[bytes]) -> None:
        """Ask the application to end, after a second signal; it is not waited for much longer."""
        self._send(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(processes.GRACE_S)
        if self.collection.is_nsys and process.poll() is None:
            process.terminate()

    def _is_timed_out(self) -> bool:
        """Return whether the application was ended because ``--duration`` was over."""
        duration_s, ending = self.options.duration, self.ending
        if not duration_s or ending.seconds < self.options.delay + duration_s:
            return False
        return not ending.signals and ending.code in {128 + signal.SIGTERM, 128 + signal.SIGKILL}


def _load_engine() -> None:
    """Load what aggregates the capture, while the application does its own imports."""
    # The threads of its libraries inherit this: dlprof's own thread receives all signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    with suppress(Exception), gc_paused():  # What fails is reported where it is used.
        for name in ENGINE:
            import_module(name)


def last_lines(output: IO[bytes]) -> list[str]:
    """Return the last lines of a file that are not blank."""
    output.seek(max(output.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
    text = output.read().decode(errors="replace")
    lines = [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]
    return [line for line in lines if line][-LAST_LINES:]


def _signals(ending: Ending) -> AbstractContextManager[None]:
    """Note the first signal that dlprof receives; a second one ends dlprof."""

    def receive(number: int, frame: FrameType | None) -> None:
        ending.signals.append(number)
        if len(ending.signals) > 1:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    return handling_signals(receive, *_SIGNALS)
