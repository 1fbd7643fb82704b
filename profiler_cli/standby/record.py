"""``dlprof record``: record some steps of a job that stands by, and show them."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from aggregator.compare.summary import SUFFIX as SUMMARY_SUFFIX
from aggregator.sources.collector.standing_by import (
    ANSWER_S,
    export_window,
    find_job,
    list_jobs,
    request_window,
    to_document,
)
from aggregator.system.plain_text import escape_control_characters
from profiler_cli.capture import raw_records
from profiler_cli.capture.nsight import EXPORT_SUFFIX
from profiler_cli.console import EXIT_DONE, Console, Verbosity
from profiler_cli.options.parser import SubcommandParser
from profiler_cli.options.values import whole_number
from profiler_cli.outputs import display, output_folder
from profiler_cli.standby.job import STEM, WINDOW_STEPS


def run_record(words: Sequence[str]) -> int:
    """Run ``dlprof record`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    if options.list:
        _print_jobs(options.format)
        return EXIT_DONE
    job, pid = find_job(options.job)
    console = Console(Verbosity.NORMAL)
    with output_folder(options.output_path):
        base = options.output_path / (STEM + time.strftime("%Y%m%d-%H%M%S"))
        database = base.with_name(base.name + ".sqlite")
        records = raw_records.make_folder(base, None)
        try:
            window = request_window(
                job,
                records,
                steps=options.steps,
                pid=pid,
                all_ranks=options.all_ranks,
                answer_s=options.limit,
                progress=console,
            )
            export = base.with_name(f"{base.name}.export{EXPORT_SUFFIX}")
            for loss in export_window(window, export):
                console.message(f"Warning: {loss}")
        finally:
            raw_records.remove(records)
        try:
            _import(export, database, words, console)
        finally:
            if not options.keep_export:
                export.unlink(missing_ok=True)
        _make_room(options.output_path, options.keep, options.disk_gb, console)
    from profiler_cli.commands.show import run_show  # noqa: PLC0415 - after the window

    return run_show([str(database), f"--format={options.format}"])


def _import(export: Path, database: Path, words: Sequence[str], console: Console) -> None:
    from aggregator.options import ImportOptions  # noqa: PLC0415 - loads the engine
    from aggregator.pipeline import import_profile  # noqa: PLC0415
    from aggregator.system.progress import NullProgress  # noqa: PLC0415

    wanted = ImportOptions(
        source=export, database=database, original_command=("dlprof", "record", *words)
    )
    for warning in import_profile(wanted, NullProgress()).warnings:
        console.message(f"Warning: {warning.message} [{warning.code}]")
    console.message(f"Wrote {display(database)}")


def _make_room(folder: Path, keep: int, disk_gb: float, console: Console) -> None:
    """Replace the oldest windows by summaries where there are too many, or they are too large."""
    from profiler_cli.commands.export import run_export  # noqa: PLC0415 - rare

    windows = folder.glob(f"{STEM}*.sqlite")
    found = sorted((path for path in windows if ".export" not in path.name), reverse=True)
    size = 0
    for number, path in enumerate(found):
        size += path.stat().st_size
        if number == 0 or (number < keep and size <= disk_gb * 1e9):
            continue
        summary = path.with_suffix(SUMMARY_SUFFIX)
        with suppress(OSError):
            run_export([str(path), "--format=summary", f"--output={summary}", "--force"])
            path.unlink()
            console.message(f"Replaced {display(path)} by its summary")


def _print_jobs(output: str) -> None:
    jobs = list_jobs()
    if output == "json":
        print(json.dumps([to_document(job) for job in jobs], indent=2))
        return
    if not jobs:
        print("No job of this user stands by on this machine.")
    for job in jobs:
        pids = ", ".join(map(str, sorted(job.ranks))) or "no step yet"
        print(
            escape_control_characters(f"{job.pid}: {shlex.join(job.command)} (processes: {pids})")
        )


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof record",
        description=(
            "Record some steps of a job that was started with dlprof --standby, make a profile of "
            "them, and show it. The job goes on at its own speed afterwards."
        ),
        epilog="Exit codes: 0 done; 2 no such job, or it is busy; 3 nothing was recorded.",
    )
    parser.add(
        "job JOB",
        "number of one of its processes, or a part of its command (default: the only job)",
        nargs="?",
        default="",
    )
    parser.add("--list", "list the jobs that stand by")
    number = whole_number(at_least=1).parse
    parser.add(
        "--steps N",
        f"steps to record (default: {WINDOW_STEPS})",
        type=number,
        default=WINDOW_STEPS,
    )
    parser.add("--all-ranks", "record the same steps of all processes (default: of the first rank)")
    parser.add("--output_path DIR", "folder of the profile (default: .)", type=Path, default=Path())
    parser.add(
        "--limit SECONDS",
        f"how long to wait for the end of a step (default: {ANSWER_S:.0f})",
        type=float,
        default=ANSWER_S,
    )
    parser.add(
        "--keep N",
        "keep the last N windows whole; of older ones only summaries (default: all)",
        type=number,
        default=1_000_000,
    )
    parser.add(
        "--disk_gb GB",
        "the same when the windows take more than this (default: no limit)",
        type=float,
        default=float("inf"),
    )
    parser.add("--keep_export", "keep the export as well")
    parser.add("--format", "(default: text)", choices=("text", "json", "markdown"), default="text")
    return parser
