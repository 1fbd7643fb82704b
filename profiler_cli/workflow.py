"""What one call of ``dlprof`` does, step by step: aggregate, write reports, tell the result."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.dldb.guarded import few_rows, limited, time_limit_s
from aggregator.dldb.reader import open_database
from aggregator.errors import DatabaseError, NotADldbError, UsageError
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.pipeline import aggregate_copy, import_profile
from aggregator.query.values import as_text
from aggregator.rank_import import import_ranks
from profiler_cli.application import rank_files
from profiler_cli.option_values import did_you_mean
from profiler_cli.options import DEFAULT_PROFILE_NAME, Options
from profiler_cli.outputs import (
    DEFAULT_DOMAIN,
    Batch,
    OutputPlan,
    display,
    file_name_part,
    output_folder,
    plan_outputs,
)
from profiler_cli.reports import REPORTS, Report
from profiler_cli.reports.expert_systems import format_feedback
from profiler_cli.reports.model_data import SUFFIX as MODEL_DATA_SUFFIX
from profiler_cli.reports.model_data import write_model_data
from profiler_cli.reports.source import ReportSource

if TYPE_CHECKING:
    from profiler_cli.console import Console

NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True)
class Aggregated:
    """A finished aggregation in a database."""

    database: Path
    aggr_id: int


def run_aggregation(options: Options, command: Sequence[str], console: Console) -> None:
    """Aggregate the given file, write the reports that were asked for, tell the result.

    Args:
        options: What the user asked for.
        command: The whole command line, to be kept in the database.
        console: Where messages and results go.
    """
    sources = rank_files(options.database)
    is_own_database = len(sources) == 1 and _is_own_database(sources[0])
    with output_folder(options.output_path):
        plan = plan_outputs(
            options.output_path,
            file_name_part(options.profile_name) or DEFAULT_PROFILE_NAME,
            _planned_files(options),
            writes_database=True,
            force=options.force,
            sources=sources,
        )
        with console.working():
            if is_own_database:
                done = _add_aggregation(sources[0], plan.database, options, console)
            else:
                done = _import(sources, plan.database, options, command, console)
            feedback = _write_reports(done, plan, options, console)
    console.message("Writing expert_systems report to (stdout)")
    console.result(feedback)


def _planned_files(options: Options) -> list[tuple[str, str]]:
    """(suffix, format) of each file beside the database."""
    files = [
        (REPORTS[token].suffix, file_format)
        for token in options.reports
        for file_format in _formats(REPORTS[token], options)
    ]
    if options.dump_model_data:
        files.append((MODEL_DATA_SUFFIX, "json"))
    return files


def _formats(report: Report, options: Options) -> tuple[str, ...]:
    return (report.own_format,) if report.own_format else options.formats


def _is_own_database(source: Path) -> bool:
    """Whether the file is a database of this program, to which an aggregation can be added."""
    if not source.is_file() or not os.access(source, os.R_OK):
        return False
    try:
        with open_database(source) as database:
            return database.is_ours
    except NotADldbError:
        return False


def _request(options: Options) -> AggregationRequest:
    request = AggregationRequest(options.key_node, options.iter_start, options.iter_stop)
    return replace(request, gpu_peaks=options.gpu_peaks) if options.gpu_peaks else request


def _import(
    sources: Sequence[Path],
    database: Path,
    options: Options,
    command: Sequence[str],
    console: Console,
) -> Aggregated:
    """Read the profile, or those of all ranks, into a new database."""
    wanted = ImportOptions(
        source=sources[0],
        database=database,
        mode=options.mode,
        request=_request(options),
        profile_name=options.profile_name,
        original_command=tuple(command),
        overwrite=options.force,
        domains=options.domains,
        nsys_path=options.nsys_path,
    )
    if len(sources) == 1:
        result = import_profile(wanted, console)
    else:
        result = import_ranks(wanted, sources, console, options.workers)
    for warning in result.warnings:
        console.message(f"Warning: {warning.message}")
    return Aggregated(result.database, result.aggr_id)


def _add_aggregation(
    source: Path, database: Path, options: Options, console: Console
) -> Aggregated:
    """Aggregate a copy of a database of ours once more; the same request twice is done once."""
    result = aggregate_copy(
        source,
        ImportOptions(
            source=source,
            database=database,
            mode=options.mode,
            request=_request(options),
            profile_name=options.profile_name,
            overwrite=options.force,
        ),
        console,
    )
    if result.reused:
        console.message(f"Aggregation {result.aggr_id} of {display(source)} is as requested")
    return Aggregated(database, result.aggr_id)


def _write_reports(done: Aggregated, plan: OutputPlan, options: Options, console: Console) -> str:
    """Write all files of the run; they appear together, when all are complete.

    Returns:
        What the user gets to see on standard output.
    """
    with open_database(done.database) as database:
        connection = database.connection
        try:
            with limited(connection, done.database, time_limit_s(done.database)):
                source = _report_source(connection, done, options)
                domains = _chosen_domains(connection, options.domains)
                source = replace(source, domains=tuple(domains))
                _write_files(source, domains, plan, options, console)
                return _simple_totals(source) + format_feedback(source)
        except sqlite3.Error as error:
            raise DatabaseError(
                f"Cannot read {display(done.database)} for the reports: {error}."
            ) from error


def _report_source(
    connection: sqlite3.Connection, done: Aggregated, options: Options
) -> ReportSource:
    rows = few_rows(connection.execute("SELECT key, value FROM view_profile_info"))
    info = {row["key"]: row["value"] for row in rows}
    mode = Mode(info.get("mode", Mode.SIMPLE.value))
    is_tensorflow = mode in {Mode.TENSORFLOW1, Mode.TENSORFLOW2}
    return ReportSource(
        connection,
        done.aggr_id,
        DEFAULT_DOMAIN,
        mode,
        has_data_types=options.detailed_mode or not is_tensorflow,
        is_extended=options.extended,
        database=done.database,
    )


def _chosen_domains(connection: sqlite3.Connection, wanted: Sequence[str]) -> list[str]:
    """The default domain and the custom ones that were asked for, or all.

    Raises:
        UsageError: A domain that the profile does not have.
    """
    rows = few_rows(connection.execute("SELECT domain_name FROM view_domains"))
    # A damaged database may hold other things than texts.
    names = {as_text(name) or "" for (name,) in rows}
    custom = sorted(names - {DEFAULT_DOMAIN})
    for name in wanted:
        if name not in custom and name != DEFAULT_DOMAIN:
            listed = f"There are: {', '.join(custom)}." if custom else "It has no custom domains."
            raise UsageError(
                f"The profile has no NVTX domain '{name}'.",
                hint=f"{did_you_mean(name, custom)} {listed}".strip(),
            )
    return [DEFAULT_DOMAIN, *(name for name in custom if not wanted or name in wanted)]


def _write_files(
    source: ReportSource,
    domains: Sequence[str],
    plan: OutputPlan,
    options: Options,
    console: Console,
) -> None:
    if not options.reports and not options.dump_model_data:
        return
    console.phase("report")
    with Batch(force=plan.force) as batch:
        for token in options.reports:
            report = REPORTS[token]
            for domain in domains if report.per_domain else (DEFAULT_DOMAIN,):
                _write_report(report, replace(source, domain=domain), plan, options, batch, console)
        if options.dump_model_data:
            path = plan.report(MODEL_DATA_SUFFIX, DEFAULT_DOMAIN, "json")
            console.message(f"Writing model data to ({display(path)})")
            with batch.open(path) as stream:
                write_model_data(source, stream, console.advance)
        batch.commit()


def _write_report(
    report: Report,
    source: ReportSource,
    plan: OutputPlan,
    options: Options,
    batch: Batch,
    console: Console,
) -> None:
    for file_format in _formats(report, options):
        path = plan.report(report.suffix, source.domain, file_format)
        console.message(f"Writing {report.name} report to ({display(path)})")
        with batch.open(path) as stream:
            report.write(source, file_format, stream, console.advance)


def _simple_totals(source: ReportSource) -> str:
    """The three totals of a profile without framework ranges; empty for any other."""
    if source.mode is not Mode.SIMPLE:
        return ""
    summary = source.one_row("view_model_summary")
    totals = {
        "Wall Time": summary["wall_time"],
        "Total GPU Time": summary["kernels_all_gpu_time"],
        "TC GPU Time": summary["kernels_tc_gpu_time"],
    }
    label_width = max(len(label) for label in totals)
    seconds = {label: f"{_as_ns(value) / NS_PER_S:.2f}" for label, value in totals.items()}
    value_width = max(len(text) for text in seconds.values())
    lines = [
        f"{label:>{label_width}}: {text:>{value_width}} s\n" for label, text in seconds.items()
    ]
    return "".join(lines) + "\n"


def _as_ns(value: object) -> int:
    return value if isinstance(value, int) else 0
