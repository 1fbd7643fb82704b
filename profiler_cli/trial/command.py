"""``dlprof trial``: run variants of a program in turn, and say which is faster."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from aggregator.answers.changes import parse_changes
from aggregator.answers.replay import read_what_if
from aggregator.answers.trials import (
    FILE,
    Prediction,
    remember,
    remembered,
    trials_file,
)
from aggregator.compare.result import Verdict
from aggregator.compare.trial_report import (
    TrialReport,
    replay_text,
    to_document,
    to_markdown,
    to_memory,
    to_text,
)
from aggregator.compare.trials import TrialRun
from aggregator.dldb.reader import open_database
from aggregator.errors import DatabaseWriteError, NothingMeasuredError, UsageError
from aggregator.system.plain_text import escape_control_characters, on_one_line
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.declared.advice import ADVICE
from profiler_cli.commands.compare import (
    EXIT_CANNOT_TELL,
    EXIT_REGRESSION,
    add_report,
    add_slowdown,
    write_report,
)
from profiler_cli.commands.databases import opened_aggregation
from profiler_cli.commands.whatif import changes_of
from profiler_cli.console import EXIT_DONE, EXIT_INTERRUPTED, handling_signals, print_error
from profiler_cli.options.parser import SubcommandParser
from profiler_cli.outputs import display
from profiler_cli.trial.captures import DATABASE, compare_captures
from profiler_cli.trial.runs import Trial, TrialPlan, check_plan, run_trial

_EPILOG: Final = (
    "Exit codes, as of dlprof compare: 0 no variant is slower; 10 one is slower by more than "
    "--max-slowdown; 14 cannot tell of one; 2 usage; 3 nothing could be measured; 130 interrupted."
)
FORMATS: Final[dict[str, Callable[[TrialReport], str]]] = {
    "text": to_text,
    "json": lambda report: json.dumps(to_document(report), indent=2) + "\n",
    "markdown": to_markdown,
}
SUFFIXES: Final = {".txt": "text", ".json": "json", ".md": "markdown"}


def run_trial_command(words: Sequence[str]) -> int:
    """Run ``dlprof trial`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    if options.replay:
        return _replay(options)
    plan = _plan(options)
    check_plan(plan)
    predictions, database = _predictions(options)
    with _signals_as_interrupt() as received:
        trial = run_trial(plan, lambda run: _progress(plan, run, received))
        report = _report(trial, predictions)
        if not any(run.step_ns for run in trial.runs) and not trial.is_interrupted:
            raise _nothing_measured(report)
        if options.profile and not trial.is_interrupted:
            report = _with_captures(trial, report, Path(options.output_path))
    _write(report, options)
    if database is not None and (rows := to_memory(report, database.name)):
        try:
            remember(trials_file(database), rows)
        except DatabaseWriteError as error:  # The verdict stays.
            print_error("dlprof", error.message, error.hint, error.code)
    if received:
        return 128 + received[0]
    return EXIT_INTERRUPTED if trial.is_interrupted else _exit_code(report, options.max_slowdown)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof trial",
        description=(
            "Try a change: run the base and its variants in turn, in random order, with nothing "
            "recorded but the times of steps, and say which is faster and how certain that is. "
            "Each program is ended when its steps have been timed."
        ),
        epilog=_EPILOG,
    )
    add = parser.add
    several: dict[str, Any] = {"action": "append", "default": []}
    add("--base COMMAND", "the program as it is: 'python train.py'")
    add(
        "--try COMMAND",
        "a variant; may be repeated, and begin with settings: 'NAME=VALUE python train.py'",
        dest="tries",
        **several,
    )
    plan = TrialPlan(())
    add("--repeats N", "most runs of each (5)", default=plan.repeats)
    add("--steps N", "steps timed in a run (200)", default=plan.steps)
    add(
        "--run-seconds S",
        "fewer steps are timed after so long (60)",
        type=float,
        default=plan.run_s,
    )
    add(
        "--time-limit S",
        "a run that has not been timed by then is ended, and has failed (600)",
        type=float,
        default=plan.limit_s,
    )
    add("--no-early-stop", "run all repeats, however narrow the interval")
    add("--seed N", "seed of the order of the runs")
    add_slowdown(parser)
    add("--database DB", f"profile of the base that predicts ({DATABASE})")
    add("--aggregation N", "aggregation of it (default: last)")
    add("--advice NAME", "advice of it that --try follows; in the order of the tries", **several)
    add("--whatif CHANGES", "or a what-if: 'channels-last', 'remove=item no-sync'", **several)
    add("--profile", "capture each variant once afterwards, and compare")
    add("--output_path DIR", "folder for these captures (dlprof_trial)", default="dlprof_trial")
    add("--replay", f"show the trials in {FILE} beside the database")
    add("--format", "output (default: text)", choices=tuple(FORMATS), default="text")
    add("--json", "as --format=json", dest="format", action="store_const", const="json")
    add_report(parser, SUFFIXES)
    return parser


def _plan(options: argparse.Namespace) -> TrialPlan:
    if not options.base or not options.tries:
        raise UsageError(
            "A base and a variant are needed.",
            hint="Example: dlprof trial --base 'python train.py' --try 'python train.py --fast'",
        )
    for path in options.report:
        if not path.parent.is_dir():
            raise UsageError(f"The report '{path}' cannot be written: there is no such folder.")
    return TrialPlan(
        commands=(options.base, *options.tries),
        repeats=options.repeats,
        steps=options.steps,
        run_s=options.run_seconds,
        limit_s=options.time_limit,
        may_stop_early=not options.no_early_stop,
        seed=options.seed,
    )


# --- predictions ----------------------------------------------------------------------------------


def _predictions(options: argparse.Namespace) -> tuple[tuple[Prediction, ...], Path | None]:
    """What the profile of the base predicts for the tries, and its file; None: there is none."""
    if options.advice and options.whatif:
        raise UsageError("Give either --advice or --whatif.")
    changes = [changes_of(text) for text in options.whatif]
    for change in changes:
        parse_changes(change)
    if len(options.advice or changes) > len(options.tries):
        raise UsageError("There are more predictions than variants.", hint="One --try for each.")
    path = Path(options.database or DATABASE)
    if not options.advice and not changes:
        if options.database and not path.is_file():
            open_database(path)  # Says what is wrong with it.
        return (), path if path.is_file() else None
    with opened_aggregation(open_database(path), options.aggregation) as data:
        if options.advice:
            return tuple(_by_advice(data, name) for name in options.advice), path
        return tuple(_by_changes(data, change) for change in changes), path


def _by_advice(data: AggregationData, name: str) -> Prediction:
    rows = {str(row["advice"]): row for row in data.rows(ADVICE, {"status__in": "found"})}
    if name not in rows:
        hint = f"It has: {', '.join(rows)}." if rows else "It has none at all."
        raise UsageError(f"The profile has no advice '{name}'.", hint=hint)
    gain_pct, certainty = rows[name]["gain_pct"], rows[name]["certainty"]
    return Prediction(
        kind="advice",
        name=name,
        change_pct=None if gain_pct is None else -float(gain_pct),
        certainty=str(certainty or ""),
        aggregation=int(data.params["aggr_id"]),
    )


def _by_changes(data: AggregationData, changes: Mapping[str, str]) -> Prediction:
    """Return what the replay of a profile predicts for changes."""
    found = read_what_if(data, changes=changes)
    step_ns = found.measured_step_ns
    if found.is_bound is None:
        raise UsageError("The what-if names no change.", hint="dlprof whatif --help lists them.")
    return Prediction(
        kind="what-if",
        name=" ".join(key if value == "1" else f"{key}={value}" for key, value in changes.items()),
        change_pct=None if found.saving_ns is None else -100 * found.saving_ns / max(step_ns, 1),
        certainty="bound" if found.is_bound else str(found.confidence),
        aggregation=int(data.params["aggr_id"]),
    )


def _replay(options: argparse.Namespace) -> int:
    file = trials_file(Path(options.database or DATABASE))
    found, unreadable = remembered(file)
    if options.format == "json":
        document = {"unreadable": unreadable, "trials": msgspec.to_builtins(found)}
        print(json.dumps(document, indent=2))
        return EXIT_DONE
    text = replay_text(found) if found else f"No trial is remembered in '{display(file)}'.\n"
    if unreadable:
        text += f"{unreadable} lines of '{display(file)}' are no trials.\n"
    print(escape_control_characters(text), end="")
    return EXIT_DONE


# --- the trial ------------------------------------------------------------------------------------


@contextmanager
def _signals_as_interrupt() -> Iterator[list[int]]:
    """Let Ctrl-C, SIGTERM and SIGHUP end a trial: what was measured is shown."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    with handling_signals(interrupt, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield received


def _progress(plan: TrialPlan, run: TrialRun, received: list[int]) -> None:
    name = f"try {run.variant}" if run.variant else "base"
    said = run.failure or f"{(run.step_ns or 0) / 1e6:.4g} ms, {run.steps} steps"
    most = plan.repeats * len(plan.commands)
    print(f"run {run.number + 1} of at most {most}, {name}: {said}", file=sys.stderr, flush=True)
    if received:  # Python drops an exception that a finalizer raises: a signal may come in one.
        raise KeyboardInterrupt


def _with_captures(trial: Trial, report: TrialReport, folder: Path) -> TrialReport:
    try:
        found = compare_captures(
            trial, folder, lambda name: print(f"capturing {name}", file=sys.stderr, flush=True)
        )
    except KeyboardInterrupt:
        trial.is_interrupted = True
        return replace(report, is_interrupted=True)
    return replace(report, comparisons=found)


def _report(trial: Trial, predictions: Sequence[Prediction]) -> TrialReport:
    failures = {
        variant: [run for run in trial.runs if run.variant == variant and run.failure][-1]
        for variant in trial.given_up
    }
    return TrialReport(
        commands=trial.plan.commands,
        runs=tuple(trial.runs),
        estimates=tuple(trial.estimates()),
        failures=failures,
        predictions=tuple(predictions),
        repeats=trial.plan.repeats,
        steps=trial.plan.steps,
        stopped_early=trial.stopped_early,
        is_interrupted=trial.is_interrupted,
    )


def _nothing_measured(report: TrialReport) -> NothingMeasuredError:
    run = report.failures[min(report.failures)]
    name = f"try {run.variant}" if run.variant else "the base"
    lines = "\n".join(map(on_one_line, run.last_lines))
    return NothingMeasuredError(f"Nothing was measured: {name} {run.failure}.", hint=lines)


def _write(report: TrialReport, options: argparse.Namespace) -> None:
    print(escape_control_characters(FORMATS[options.format](report)), end="", flush=True)
    for path in options.report:
        write_report(path, FORMATS[SUFFIXES[path.suffix]](report))


def _exit_code(report: TrialReport, max_slowdown: Fraction) -> int:
    found = report.estimates
    most_pct = 100 * max_slowdown
    slower = [row for row in found if row.verdict is Verdict.SLOWER]
    if any((row.change_pct or 0) > most_pct for row in slower):
        return EXIT_REGRESSION
    is_open = any(row.verdict is Verdict.CANNOT_TELL for row in found)
    return EXIT_CANNOT_TELL if is_open else EXIT_DONE
