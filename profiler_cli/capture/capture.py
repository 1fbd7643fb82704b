"""Run the application while something records it, and aggregate the capture.

Nothing that fails here changes what the application does: it has dlprof's own output and terminal,
goes on if dlprof is killed, and its exit code is dlprof's if it failed. Ctrl-C, SIGTERM and SIGHUP
stop the application alone: what was recorded until then is aggregated.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import DlprofError, NoGpuActivityError, NsysFailedError
from aggregator.importing.gpu_memory import SNAPSHOT_SUFFIX, snapshots_of
from aggregator.sources.formats import REPORT_SUFFIXES
from profiler_cli.capture import processes, raw_records
from profiler_cli.capture.capture_session import RANGE_HINT, Collection, Ending, plan_collection
from profiler_cli.capture.cupti_collector import own_warnings, plan_own
from profiler_cli.capture.full_memory import ADVICE, memory_was_full
from profiler_cli.capture.gpu_samples import GpuMonitor
from profiler_cli.capture.nsight import (
    EXPORT_SUFFIX,
    STREAM_SUFFIX,
    Nsys,
    check_nsys_opts,
    free_base,
    importers,
    present,
    remove_environments,
    run_tool,
)
from profiler_cli.capture.recorder import choose_recorder
from profiler_cli.capture.running import HIDDEN, LAST_LINES, Application
from profiler_cli.console import BUG_HINT, EXIT_INTERNAL, print_error
from profiler_cli.outputs import display, output_folder

if TYPE_CHECKING:
    from profiler_cli.console import Console
    from profiler_cli.options.declared import Options

LARGE_FILE_BYTES: Final = 1_000_000_000


@dataclass
class _Run:
    """One run, as far as it has come."""

    ending: Ending
    kept: str = ""  # Where the capture is, and how it becomes a profile.


def run_capture(options: Options, command: Sequence[str], console: Console) -> int:
    """Profile the application and aggregate.

    Args:
        options: Options of the command line.
        command: The whole command line, which the database stores.
        console: Output for messages and results.

    Returns:
        The exit code of the application; if that succeeded, and there is no profile, that of the
        error, which is printed.

    Raises:
        DlprofError: The application was not started.
        KeyboardInterrupt: The user pressed Ctrl-C again.
        SystemExit: dlprof received another signal to end.
    """
    run = _Run(Ending())
    try:
        with output_folder(options.output_path):
            _profile(options, command, console, run)
    except DlprofError as error:
        if not run.ending.pid or options.debug:
            raise
        _report(error.message, error.hint, run, error.code)
        return run.ending.exit_code or error.exit_code
    except Exception as error:
        if not run.ending.pid or options.debug:
            raise
        _report(f"{type(error).__name__}: {error}", BUG_HINT, run)
        return run.ending.exit_code or EXIT_INTERNAL
    except (KeyboardInterrupt, SystemExit):
        if run.kept:
            print_error("dlprof", "Ended before there was a profile.", run.kept)
        raise
    return run.ending.exit_code


def _report(message: str, hint: str, run: _Run, code: str = "") -> None:
    print_error("dlprof", message, "\n".join(filter(None, (hint, run.kept))), code)


def _profile(options: Options, command: Sequence[str], console: Console, run: _Run) -> None:
    export = capture(options, console, run)
    # Not before the capture, when its threads would receive the forwarded signals.
    from profiler_cli.commands.analyze import run_aggregation  # noqa: PLC0415

    run.kept = (
        "The capture was kept. To aggregate it again: "
        f"dlprof --database={shlex.quote(display(export))}"
    )
    try:
        run_aggregation(replace(options, database=str(export)), command, console, is_captured=True)
    except NoGpuActivityError as error:
        run.kept = ""
        error.message, error.hint = _without_gpu(options, run.ending)
        raise


def _without_gpu(options: Options, ending: Ending) -> tuple[str, str]:
    """Return the message, and the hint, for a run whose capture has no work of the GPU."""
    message = (
        f"Nothing was aggregated: the application {ending.words}, and launched no GPU work that "
        "could be recorded."
    )
    if ending.code and not ending.is_timed_out:
        return message, ""
    given = ("delay", options.delay), ("duration", options.duration)
    parts = [f"--{name}={value:g}" for name, value in given if value]
    parts += ["--nsys_profile_range"] * options.nsys_profile_range
    if parts:
        return message, f"Only a part of the run was recorded ({', '.join(parts)})."
    return message, "Does it use the GPU?"


def capture(options: Options, console: Console, run: _Run) -> Path:
    """Profile the application; returns the export.

    Raises:
        UsageError: The application or an option is not valid.
        ToolError: Nothing can record, or it recorded nothing.
        KeyboardInterrupt: The user pressed Ctrl-C twice.
        SystemExit: dlprof received two signals to end.
    """
    warnings = check_nsys_opts(options.nsys_opts)
    processes.check_application(options.application)
    raw_records.report_left(options.output_path, console)
    recorder = choose_recorder(options)
    base = free_base(options)
    if recorder.nsys is None:
        collection: Collection = plan_own(options, base, recorder.library, recorder.cupti)
        warnings = own_warnings(options)
    else:
        collection = plan_collection(recorder.nsys, options, base)
    for warning in warnings:
        console.message(warning)
    with collection:
        try:
            return _capture(options, console, collection, base, recorder.why, run)
        finally:
            run.kept = run.kept or collection.kept()


def _capture(
    options: Options,
    console: Console,
    collection: Collection,
    base: Path,
    why: str,
    run: _Run,
) -> Path:
    """Run the application and return its export, as ``capture`` does."""
    ending = run.ending
    shows_output = options.verbosity not in HIDDEN
    command = collection.command(options, base, show_output=shows_output)
    title = f"{collection.title} ({why})" if why else collection.title
    console.message(f"Profiling with {title}: {shlex.join(command)}")
    before = present(base)
    gpus = GpuMonitor()
    snapshots = base.with_name(f"{base.name}{SNAPSHOT_SUFFIX}")
    older = set(snapshots_of(base))
    marked = processes.application_environment(options, snapshots if options.memory else None)
    environment = collection.environment(marked, options)
    Application(options, console, collection, base, ending).run(command, environment, gpus)
    collection.read_steps()
    console.message(_outcome(ending, options))
    collection.check_began(ending, options)
    export = collection.save(base)
    if export is None:
        export = _result(collection.nsys, options, base, before, ending)
        if not options.keep_environment:
            console.message(remove_environments(export))
    for warning in collection.warnings:
        console.message(f"Warning: {warning}")
    if problem := gpus.add_to_export(export):
        console.message(f"Warning: GPU memory usage could not be recorded: {problem}")
    if problem := collection.add_to_export(export, ending.seconds):
        console.message(f"Warning: the times of bare steps could not be recorded: {problem}")
    _warn_of_size(base, console)
    if ending.exit_code and memory_was_full(export, collection.steps):
        console.message(ADVICE)
    if options.memory:
        _report_snapshots([path for path in snapshots_of(base) if path not in older], console)
    _report_running(environment[processes.CAPTURE_VARIABLE], console)
    return export


def _report_snapshots(snapshots: Sequence[Path], console: Console) -> None:
    for path in snapshots:
        name = shlex.quote(display(path))
        console.message(f"Memory of PyTorch: {display(path)}; show it with: dlprof memory {name}")
    if not snapshots:
        console.message("Warning: no process of PyTorch recorded its memory")


def _report_running(mark: str, console: Console) -> None:
    """Name the processes that the application left running: they are the user's."""
    found = [(pid, processes.process_name(pid)) for pid in processes.of_capture(mark)]
    names = [f"{name} ({pid})" for pid, name in found if name]
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        listed = ", ".join(names[:5])
        console.message(f"Processes that the application started go on, unrecorded: {listed}{more}")


def _outcome(ending: Ending, options: Options) -> str:
    name = f"exit code {ending.code}"
    with suppress(ValueError):
        name = f"{signal.Signals(ending.code - 128).name}, {name}"
    if ending.is_timed_out:
        return f"The application was ended after --duration={options.duration:g} ({name})"
    if ending.code > 128 and not ending.signals:
        return (
            f"The application was ended by a signal ({name}): what the GPU did last was not saved"
        )
    return f"The application has ended{f' with {name}' if ending.code else ''}"


def _result(
    nsys: Nsys, options: Options, base: Path, before: dict[Path, int], ending: Ending
) -> Path:
    """Return the export; it is made from the report if nsys wrote only that."""
    written = {path for path, time_ns in present(base).items() if before.get(path) != time_ns}
    export = base.with_name(base.name + EXPORT_SUFFIX)
    if export in written:
        return export
    report = next((path for path in written if path.suffix in REPORT_SUFFIXES), None)
    if report is not None:
        words = ("export", "--type=sqlite", "--force-overwrite=true", f"--output={export}")
        done = run_tool(str(nsys.program), *words, str(report), limit_s=None)
        if export.is_file():
            return export
        lines = (done.stdout + done.stderr).splitlines()
        ending.last_lines = [line.rstrip() for line in lines if line.strip()][-LAST_LINES:]
    raise _no_result(nsys, options, base, written, ending)


def _no_result(
    nsys: Nsys, options: Options, base: Path, written: set[Path], ending: Ending
) -> NsysFailedError:
    stream = base.with_name(base.name + STREAM_SUFFIX)
    said = "\n".join(ending.last_lines)
    if stream in written:
        importer = next(iter(importers(nsys)), Path("QdstrmImporter"))
        name = display(stream)
        message = f"Nsight Systems could not make a report from {name}, which was kept."
        said = (
            f"{said}\nIts importer needs the libraries libdw1 and libelf1. To convert it, here or "
            f"elsewhere: {shlex.quote(str(importer))} --input-file {shlex.quote(name)}, then "
            f"dlprof --database={shlex.quote(str(stream.with_suffix(REPORT_SUFFIXES[0])))}"
        ).strip()
    elif options.nsys_profile_range and ending.code == 0:
        message = "Nothing was captured: the script never started the profiled range."
        said = f"{RANGE_HINT}\n{said}".strip()
    elif options.delay and ending.seconds < options.delay:
        message = (
            f"Nothing was captured: the application {ending.words} after {ending.seconds:.1f} s, "
            f"before --delay={options.delay:g} had passed."
        )
    else:
        message = f"Nsight Systems wrote no profile; the application {ending.words}."
    return NsysFailedError(
        message, hint=said, return_code=ending.code, last_lines=list(ending.last_lines)
    )


def _warn_of_size(base: Path, console: Console) -> None:
    for path in present(base):
        if path.stat().st_size > LARGE_FILE_BYTES:
            console.message(
                f"Warning: {display(path)} is {path.stat().st_size / 1e9:.1f} GB; use --duration "
                "or --nsys_profile_range to profile a part of the run"
            )
