"""Runs the application under Nsight Systems and sees to it that a profile and a clean end remain.

The application keeps the terminal. Ctrl-C stops the application, not the work: what was captured
until then is aggregated. Whatever way this ends, no process that was started here goes on.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import NsysFailedError, UsageError
from profiler_cli import processes
from profiler_cli.capture_gpu import GpuMonitor
from profiler_cli.injection import application_environment
from profiler_cli.nsight import (
    EXPORT_SUFFIX,
    REPORT_SUFFIXES,
    STREAM_SUFFIX,
    Nsys,
    check_nsys_opts,
    export_command,
    find_installed,
    profile_command,
)
from profiler_cli.outputs import display
from profiler_cli.tee import OutputTees

if TYPE_CHECKING:
    from types import FrameType

    from profiler_cli.console import Console
    from profiler_cli.options import Options

LONG_RUN_S: Final = 300.0
LARGE_FILE_BYTES: Final = 1_000_000_000
LAST_LINES: Final = 8
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
POLL_S: Final = 0.1
# What batch systems grant between asking a job to end and killing it is about 30 s.
TERMINATE_GRACE_S: Final = 10.0
_SUFFIXES: Final = (*REPORT_SUFFIXES, STREAM_SUFFIX, EXPORT_SUFFIX)


@dataclass(frozen=True)
class Captured:
    """What a capture left.

    Attributes:
        export: The SQLite export.
        exit_code: Of the application; 0 where dlprof itself ended it after ``--duration``.
        interrupted: Whether the user stopped it with Ctrl-C.
    """

    export: Path
    exit_code: int
    interrupted: bool


@dataclass
class _Ending:
    """How the run ended.

    Attributes:
        code: Exit code of nsys, which is the application's.
        signals: Signals that dlprof itself got meanwhile.
        seconds: How long it took.
        last_lines: The last output.
    """

    code: int = 0
    signals: list[int] = field(default_factory=list)
    seconds: float = 0.0
    last_lines: list[str] = field(default_factory=list)


def capture(options: Options, console: Console) -> Captured:
    """Profile the application.

    Args:
        options: What the user asked for; the output folder exists.
        console: Where messages go.

    Raises:
        UsageError: The application or an option cannot work.
        NsysNotFoundError: There is no nsys.
        NsysFailedError: It left no profile.
        KeyboardInterrupt: The user gave up with a second Ctrl-C.
        SystemExit: dlprof was asked to end.
    """
    warnings = check_nsys_opts(options.nsys_opts)
    check_application(options.application)
    nsys = find_installed(options.nsys_path)
    base = _free_base(options)
    shows_output = options.verbosity not in {"quiet", "minimal"}
    command = profile_command(nsys, options, base, show_output=shows_output)
    for warning in warnings:
        console.message(warning)
    console.message(f"Profiling with Nsight Systems {nsys.version_text}: {shlex.join(command)}")
    before = _present(base)
    gpus = GpuMonitor()
    environment = application_environment(options)
    ending = _run(command, environment, console, gpus, shows_output=shows_output)
    console.message("The application has ended" if ending.code == 0 else _ended(ending))
    if signal.SIGTERM in ending.signals or signal.SIGHUP in ending.signals:
        raise SystemExit(EXIT_TERMINATED)
    if ending.signals.count(signal.SIGINT) > 1:
        raise KeyboardInterrupt
    export = _result(nsys, options, base, before, ending)
    if problem := gpus.add_to_export(export):
        console.message(f"Warning: the GPU's memory could not be recorded: {problem}")
    _warn_of_size(base, console)
    interrupted = bool(ending.signals) or ending.code in {EXIT_INTERRUPTED, -signal.SIGINT}
    return Captured(export, _exit_code(ending, options, interrupted=interrupted), interrupted)


def check_application(application: Sequence[str]) -> None:
    """Refuse what cannot be started, before anything runs.

    Raises:
        UsageError: It is no program.
    """
    first = application[0]
    if shutil.which(first) is not None:
        return
    if Path(first).is_file():
        hint = (
            f"Put python in front: dlprof ... python {shlex.join(application)}"
            if first.endswith(".py")
            else f"Make it executable: chmod +x {shlex.quote(first)}"
        )
        raise UsageError(f"'{first}' is no program that can be run.", hint=hint)
    raise UsageError(
        f"There is no program '{first}'.",
        hint="All switches of dlprof come before the application, its own after it.",
    )


def _free_base(options: Options) -> Path:
    """Path of nsys's files without extension; with a number where they would replace others."""
    base = options.output_path / options.nsys_base_name
    if options.force:
        return base
    candidate, number = base, 0
    while _present(candidate):
        number += 1
        candidate = base.with_name(f"{base.name}_{number}")
    return candidate


def _present(base: Path) -> dict[Path, int]:
    """Files that nsys writes for a base name, with their time of change."""
    paths = [base.with_name(base.name + suffix) for suffix in _SUFFIXES]
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def _run(
    command: Sequence[str],
    environment: dict[str, str],
    console: Console,
    gpus: GpuMonitor,
    *,
    shows_output: bool,
) -> _Ending:
    """Run to the end, forward signals, leave nothing running."""
    ending = _Ending()
    shares_terminal = processes.owns_terminal()
    start = time.monotonic()
    with processes.no_orphans(), OutputTees(show=shows_output) as tees, gpus:
        process = subprocess.Popen(
            list(command),
            env=environment,
            stdout=tees.stdout,
            stderr=tees.stderr,
            # With a terminal Ctrl-C must reach the application; without one it is ours to forward.
            process_group=None if shares_terminal else 0,
            preexec_fn=processes.end_with_parent,  # noqa: PLW1509 - one system call, no threads yet
        )
        tees.started()
        gpus.started()
        with _signals(process, ending, console, shares_terminal=shares_terminal):
            ending.code = _wait(process, ending, console, start)
        ending.seconds = time.monotonic() - start
    ending.last_lines = tees.last_lines(LAST_LINES)
    return ending


def _wait(process: subprocess.Popen[bytes], ending: _Ending, console: Console, start: float) -> int:
    warned = False
    deadline: float | None = None
    while True:
        try:
            code = process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            pass
        else:
            return 128 - code if code < 0 else code
        now = time.monotonic()
        if not warned and now - start > LONG_RUN_S and not ending.signals:
            warned = True
            console.message(
                "Warning: profiling for more than 5 minutes; files become large and their "
                "aggregation slow. --delay and --duration profile a part of the run"
            )
        must_end = signal.SIGTERM in ending.signals or signal.SIGHUP in ending.signals
        if must_end and deadline is None:
            deadline = now + TERMINATE_GRACE_S
        if deadline is not None and now > deadline:
            process.kill()


@contextmanager
def _signals(
    process: subprocess.Popen[bytes], ending: _Ending, console: Console, *, shares_terminal: bool
) -> Iterator[None]:
    """Pass on what dlprof is told; a second Ctrl-C ends everything."""

    def forward(number: int, frame: FrameType | None) -> None:
        first = number not in ending.signals
        ending.signals.append(number)
        if number != signal.SIGINT or not first:
            processes.signal_tree(process.pid, signal.SIGTERM)
        else:
            console.message(
                "Interrupted: the application is stopped and what was captured is aggregated; "
                "Ctrl-C once more gives up"
            )
            if not shares_terminal:
                processes.signal_group(process.pid, signal.SIGINT)

    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, forward) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(ending: _Ending) -> str:
    return f"The application has ended with exit code {ending.code}"


def _exit_code(ending: _Ending, options: Options, *, interrupted: bool) -> int:
    if interrupted:
        return EXIT_INTERRUPTED
    timed_out = options.duration and ending.seconds >= options.delay + options.duration
    if timed_out and ending.code in {EXIT_TERMINATED, 128 + signal.SIGKILL}:
        # nsys ended the application because the time was over, as asked.
        return 0
    return ending.code


def _result(
    nsys: Nsys, options: Options, base: Path, before: dict[Path, int], ending: _Ending
) -> Path:
    """The export; made from the report where nsys wrote only that.

    Raises:
        NsysFailedError: There is neither.
    """
    written = {path for path, time_ns in _present(base).items() if before.get(path) != time_ns}
    export = base.with_name(base.name + EXPORT_SUFFIX)
    if export in written:
        return export
    report = next((path for path in written if path.suffix in REPORT_SUFFIXES), None)
    if report is not None:
        done = subprocess.run(
            export_command(nsys, report, export),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if export.is_file():
            return export
        ending.last_lines = _tail((done.stdout + done.stderr).splitlines())
    raise _no_result(options, base, written, ending)


def _tail(lines: list[str]) -> list[str]:
    return [line.rstrip() for line in lines if line.strip()][-LAST_LINES:]


def _no_result(
    options: Options, base: Path, written: set[Path], ending: _Ending
) -> NsysFailedError:
    stream = base.with_name(base.name + STREAM_SUFFIX)
    said = "\n".join(ending.last_lines)
    if stream in written:
        message = f"Nsight Systems could not make a report of {display(stream)}."
        said = f"{said}\nIts importer needs the libraries libdw1 and libelf1.".strip()
    elif options.nsys_profile_range and ending.code == 0:
        message = "Nothing was captured: the script never started the profiled range."
        said = (
            "Call torch.cuda.profiler.start() and stop() around it, or leave out "
            f"--nsys_profile_range.\n{said}"
        ).strip()
    elif options.delay and ending.seconds < options.delay:
        message = (
            f"Nothing was captured: the application ended after {ending.seconds:.1f} s, before "
            f"--delay={options.delay:g} was over."
        )
    else:
        message = "Nsight Systems left no profile."
        if ending.code:
            message = f"Nsight Systems left no profile (exit code {ending.code})."
    return NsysFailedError(
        message, hint=said, return_code=ending.code, last_lines=list(ending.last_lines)
    )


def _warn_of_size(base: Path, console: Console) -> None:
    for path in _present(base):
        if path.stat().st_size > LARGE_FILE_BYTES:
            console.message(
                f"Warning: {display(path)} is {path.stat().st_size / 1e9:.1f} GB; --duration or "
                "--nsys_profile_range profile a part of the run"
            )
