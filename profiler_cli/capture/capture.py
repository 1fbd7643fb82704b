"""Run the application under Nsight Systems, end all its processes, and aggregate the capture.

The application keeps the terminal. Ctrl-C stops only the application: the data captured until then
is aggregated.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import (
    DlprofError,
    NoGpuActivityError,
    NotProfiledError,
    NsysFailedError,
)
from aggregator.importing.gpu_memory import SNAPSHOT_SUFFIX, snapshots_of
from aggregator.sources.formats import REPORT_SUFFIXES
from profiler_cli.capture import processes
from profiler_cli.capture.collection import Collection, plan_collection
from profiler_cli.capture.gpu_samples import GpuMonitor
from profiler_cli.capture.nsight import (
    EXPORT_SUFFIX,
    STREAM_SUFFIX,
    Nsys,
    check_nsys_opts,
    export_command,
    remove_environments,
)
from profiler_cli.capture.own import choose_nsys, own_warnings, plan_own
from profiler_cli.capture.tee import OutputTees
from profiler_cli.console import EXIT_INTERRUPTED, EXIT_TERMINATED, print_error
from profiler_cli.outputs import display, output_folder

if TYPE_CHECKING:
    from types import FrameType

    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

LONG_RUN_S: Final = 300.0
LARGE_FILE_BYTES: Final = 1_000_000_000
LAST_LINES: Final = 8
POLL_S: Final = 0.1
# Batch systems kill a job about 30 s after they ask it to end.
TERMINATE_GRACE_S: Final = 10.0
_SUFFIXES: Final = (*REPORT_SUFFIXES, STREAM_SUFFIX, EXPORT_SUFFIX)


@dataclass(frozen=True)
class Captured:
    """Result of a capture."""

    export: Path  # The SQLite export.
    exit_code: int  # Exit code of the application; 0 if dlprof ended it after ``--duration``.
    interrupted: bool  # Whether the user stopped it with Ctrl-C.


@dataclass
class _Ending:
    """How the run ended."""

    code: int = 0  # Exit code of nsys, which is that of the application.
    pid: int = 0  # Its process; 0: not started yet.
    signals: list[int] = field(default_factory=list)  # Signals that dlprof received meanwhile.
    seconds: float = 0.0  # Duration of the run.
    last_lines: list[str] = field(default_factory=list)  # Last lines of the output.


def run_capture(options: Options, command: Sequence[str], console: Console) -> int:
    """Profile the application and aggregate.

    Args:
        options: Options of the command line.
        command: The whole command line, which the database stores.
        console: Output for messages and results.

    Returns:
        The exit code of the application.

    Raises:
        DlprofError: The capture or the aggregation failed; its hint has the path.
    """
    with output_folder(options.output_path):
        try:
            captured = capture(options, console)
        except NotProfiledError as error:
            # The run was that of the user: its exit code stays.
            print_error("dlprof", error.message, error.hint)
            return error.application_exit_code
        # Imported now, because the threads of the engine would receive the forwarded signals.
        from profiler_cli.commands.analyze import run_aggregation  # noqa: PLC0415

        try:
            captured_options = replace(options, database=str(captured.export))
            run_aggregation(captured_options, command, console, is_captured=True)
        except DlprofError as error:
            if captured.exit_code:
                # The failure of the application is why the profile cannot be used.
                print_error("dlprof", _why(captured), error.message)
                return captured.exit_code
            error.hint = _hint(error, captured)
            raise
    return captured.exit_code


def _why(captured: Captured) -> str:
    if captured.interrupted:
        return "The application was interrupted before there was anything to aggregate."
    return f"The application failed with exit code {captured.exit_code}; nothing was aggregated."


def _hint(error: DlprofError, captured: Captured) -> str:
    if isinstance(error, NoGpuActivityError):
        return (
            "The application finished, but launched no GPU work that could be recorded. "
            "Does it use the GPU?"
        )
    name = shlex.quote(display(captured.export))
    kept = f"The capture was kept. To aggregate it again: dlprof --database={name}"
    return f"{error.hint}\n{kept}".strip()


def capture(options: Options, console: Console) -> Captured:
    """Profile the application.

    Args:
        options: Options of the command line; the output folder exists.
        console: Output for messages.

    Raises:
        UsageError: The application or an option is not valid.
        NsysNotFoundError: nsys was not found.
        NsysFailedError: nsys wrote no profile.
        KeyboardInterrupt: The user pressed Ctrl-C twice.
        SystemExit: dlprof received a signal to end.
    """
    warnings = check_nsys_opts(options.nsys_opts)
    processes.check_application(options.application)
    nsys = choose_nsys(options)
    base = _free_base(options)
    if nsys is None:
        collection: Collection = plan_own(options, base)
        warnings = own_warnings(options)
    else:
        collection = plan_collection(nsys, options, base)
    with collection:
        return _capture(options, console, collection, base, warnings)


def _capture(
    options: Options, console: Console, collection: Collection, base: Path, warnings: list[str]
) -> Captured:
    """Run the application and return its export, as ``capture`` does."""
    shows_output = options.verbosity not in {"quiet", "minimal"}
    command = collection.command(options, base, show_output=shows_output)
    for warning in warnings:
        console.message(warning)
    console.message(f"Profiling with {collection.title}: {shlex.join(command)}")
    before = _present(base)
    gpus = GpuMonitor()
    snapshots = base.with_name(f"{base.name}{SNAPSHOT_SUFFIX}")
    older = set(snapshots_of(base))
    marked = processes.application_environment(options, snapshots if options.memory else None)
    environment = collection.environment(marked, options.bare_steps)
    ending = _run(command, environment, console, gpus, collection, shows_output=shows_output)
    collection.read_steps()
    console.message(_outcome(ending, options))
    if signal.SIGTERM in ending.signals or signal.SIGHUP in ending.signals:
        raise SystemExit(EXIT_TERMINATED)
    if ending.signals.count(signal.SIGINT) > 1:
        raise KeyboardInterrupt
    collection.check_began(ending.code)
    export = collection.write_export(base, ending.code)
    if export is None:
        export = _result(collection.nsys, options, base, before, ending)
        if not options.keep_environment:
            console.message(remove_environments(export))
    if problem := gpus.add_to_export(export):
        console.message(f"Warning: GPU memory usage could not be recorded: {problem}")
    if problem := collection.add_to_export(export):
        console.message(f"Warning: the times of bare steps could not be recorded: {problem}")
    _warn_of_size(base, console)
    if options.memory:
        _report_snapshots([path for path in snapshots_of(base) if path not in older], console)
    interrupted = bool(ending.signals) or ending.code in {EXIT_INTERRUPTED, -signal.SIGINT}
    return Captured(export, _exit_code(ending, options, interrupted=interrupted), interrupted)


def _report_snapshots(snapshots: Sequence[Path], console: Console) -> None:
    for path in snapshots:
        name = shlex.quote(display(path))
        console.message(f"Memory of PyTorch: {display(path)}; show it with: dlprof memory {name}")
    if not snapshots:
        console.message("Warning: no process of PyTorch recorded its memory")


def _free_base(options: Options) -> Path:
    """Return the path of the nsys files without extension, numbered if files exist."""
    base = options.output_path / options.nsys_base_name
    if options.force:
        return base
    candidate, number = base, 0
    while _present(candidate):
        number += 1
        candidate = base.with_name(f"{base.name}_{number}")
    return candidate


def _present(base: Path) -> dict[Path, int]:
    """Return the existing nsys files of a base name, with their modification times."""
    paths = [base.with_name(base.name + suffix) for suffix in _SUFFIXES]
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def _run(
    command: Sequence[str],
    environment: dict[str, str],
    console: Console,
    gpus: GpuMonitor,
    collection: Collection,
    *,
    shows_output: bool,
) -> _Ending:
    """Run the command to its end, and forward signals to it."""
    ending = _Ending()
    shares_terminal = processes.owns_terminal()
    start_s = time.monotonic()
    with (
        processes.no_orphans(),
        OutputTees(show=shows_output) as tees,
        gpus,
        # Before the application is there: it may be the reason for the first signal.
        _signals(ending, console, shares_terminal=shares_terminal),
    ):
        process = subprocess.Popen(
            list(command),
            env=environment,
            stdout=tees.stdout,
            stderr=tees.stderr,
            # With a terminal, Ctrl-C reaches the application; without one, it is forwarded.
            process_group=None if shares_terminal else 0,
            preexec_fn=processes.end_with_parent,  # noqa: PLW1509 - one system call, no threads yet
        )
        ending.pid = process.pid
        for number in set(ending.signals):
            _forward(number, ending, shares_terminal=shares_terminal)
        tees.started()
        gpus.started()
        ending.code = _wait(process, ending, console, collection)
        ending.seconds = time.monotonic() - start_s
    ending.last_lines = tees.last_lines(LAST_LINES)
    return ending


def _wait(
    process: subprocess.Popen[bytes], ending: _Ending, console: Console, collection: Collection
) -> int:
    start = time.monotonic()
    warned = False
    deadline: float | None = None
    while True:
        try:
            code = process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            pass
        else:
            return 128 - code if code < 0 else code
        collection.poll(process.pid)
        now = time.monotonic()
        if not warned and now - start > LONG_RUN_S and not ending.signals:
            warned = True
            console.message(
                "Warning: profiling for more than 5 minutes; files become large and "
                "aggregation slow. Use --delay and --duration to profile a part of the run"
            )
        must_end = signal.SIGTERM in ending.signals or signal.SIGHUP in ending.signals
        if must_end and deadline is None:
            deadline = now + TERMINATE_GRACE_S
        if deadline is not None and now > deadline:
            process.kill()


def _forward(number: int, ending: _Ending, *, shares_terminal: bool) -> None:
    """Pass a signal on to the application, if that has been started."""
    if not ending.pid:
        return
    if number != signal.SIGINT or ending.signals.count(number) > 1:
        processes.signal_tree(ending.pid, signal.SIGTERM)
    elif not shares_terminal:
        processes.signal_group(ending.pid, signal.SIGINT)


@contextmanager
def _signals(ending: _Ending, console: Console, *, shares_terminal: bool) -> Iterator[None]:
    """Forward the signals that dlprof receives; a second Ctrl-C ends everything."""

    def receive(number: int, frame: FrameType | None) -> None:
        ending.signals.append(number)
        if number == signal.SIGINT and ending.signals.count(number) == 1:
            console.message(
                "Interrupted: stopping the application and aggregating the captured data; "
                "press Ctrl-C again to quit"
            )
        _forward(number, ending, shares_terminal=shares_terminal)

    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, receive) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_code(ending: _Ending, options: Options, *, interrupted: bool) -> int:
    if interrupted:
        return EXIT_INTERRUPTED
    return 0 if _is_timed_out(ending, options) else ending.code


def _is_timed_out(ending: _Ending, options: Options) -> bool:
    """Return whether nsys ended the application because ``--duration`` was over."""
    if not options.duration or ending.seconds < options.delay + options.duration:
        return False
    return ending.code in {EXIT_TERMINATED, 128 + signal.SIGKILL}


def _outcome(ending: _Ending, options: Options) -> str:
    name = f"exit code {ending.code}"
    with suppress(ValueError):
        name = f"{signal.Signals(ending.code - 128).name}, {name}"
    if _is_timed_out(ending, options):
        return f"The application was ended after --duration={options.duration:g} ({name})"
    if ending.code > 128 and not ending.signals:
        return (
            f"The application was ended by a signal ({name}): what the GPU did last was not saved"
        )
    return f"The application has ended{f' with {name}' if ending.code else ''}"


def _result(
    nsys: Nsys, options: Options, base: Path, before: dict[Path, int], ending: _Ending
) -> Path:
    """Return the export; it is made from the report if nsys wrote only that.

    Raises:
        NsysFailedError: nsys wrote neither.
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
        lines = (done.stdout + done.stderr).splitlines()
        ending.last_lines = [line.rstrip() for line in lines if line.strip()][-LAST_LINES:]
    raise _no_result(options, base, written, ending)


def _no_result(
    options: Options, base: Path, written: set[Path], ending: _Ending
) -> NsysFailedError:
    stream = base.with_name(base.name + STREAM_SUFFIX)
    said = "\n".join(ending.last_lines)
    if stream in written:
        message = f"Nsight Systems could not make a report from {display(stream)}."
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
            f"--delay={options.delay:g} had passed."
        )
    else:
        message = "Nsight Systems wrote no profile."
        if ending.code:
            message = f"Nsight Systems wrote no profile (exit code {ending.code})."
    return NsysFailedError(
        message, hint=said, return_code=ending.code, last_lines=list(ending.last_lines)
    )


def _warn_of_size(base: Path, console: Console) -> None:
    for path in _present(base):
        if path.stat().st_size > LARGE_FILE_BYTES:
            console.message(
                f"Warning: {display(path)} is {path.stat().st_size / 1e9:.1f} GB; use --duration "
                "or --nsys_profile_range to profile a part of the run"
            )
