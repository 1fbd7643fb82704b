"""Aggregate a profile, write the reports and print the result."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.dldb.guarded import few_rows, limited, time_limit_s
from aggregator.dldb.reader import is_own_database, open_database
from aggregator.errors import DatabaseError
from aggregator.options import DEFAULT_PROFILE_NAME, AggregationRequest, ImportOptions, Mode
from aggregator.pipeline import aggregate_copy, import_profile
from aggregator.profile.limits import OF_WARNING, LimitCode
from aggregator.profile.profile import require_domains
from aggregator.system.sqlite_uri import as_text
from profiler_cli.commands.advise import format_best
from profiler_cli.commands.rank_summary import RANKS_FILE, write_ranks
from profiler_cli.commands.step_reference import (
    CORRECTED_VIEW,
    RECORDED_VIEW,
    STEP_VIEW,
    VIEW,
    format_corrected,
    format_recorded,
    format_reference,
    step_lines,
)
from profiler_cli.options.declared import Options
from profiler_cli.options.parser import rank_files
from profiler_cli.outputs import (
    DEFAULT_DOMAIN,
    Batch,
    OutputPlan,
    claimed_outputs,
    display,
    file_name_part,
    output_folder,
    plan_outputs,
)
from profiler_cli.reports.declared import MODEL_DATA, REPORTS
from profiler_cli.reports.source import OF_AGGREGATION, WHOLE_PROFILE, ReportSource
from profiler_cli.reports.summary import read_usage
from profiler_cli.reports.table import Report

if TYPE_CHECKING:
    from aggregator.dldb.import_writer import ImportResult
    from profiler_cli.console import Console

NS_PER_S: Final = 1_000_000_000


def run_aggregation(
    options: Options, command: Sequence[str], console: Console, *, is_captured: bool = False
) -> None:
    """Aggregate the input files, write the requested reports and print the result.

    Args:
        options: Options of the command line.
        command: The whole command line, which the database stores.
        console: Output for messages and results.
        is_captured: Whether this process captured the application.
    """
    sources = rank_files(options.database)
    is_again = len(sources) == 1 and is_own_database(sources[0])

    def choose(busy: frozenset[int]) -> OutputPlan:
        return plan_outputs(
            options.output_path,
            file_name_part(options.profile_name) or DEFAULT_PROFILE_NAME,
            [
                *((report.suffix, file_format) for report, file_format in _chosen_reports(options)),
                *([RANKS_FILE] if options.summary != "false" else []),
            ],
            writes_database=True,
            force=options.force,
            sources=sources,
            busy=busy,
        )

    with output_folder(options.output_path), claimed_outputs(choose) as plan, console.working():
        if is_again:
            aggr_id = _add_aggregation(sources[0], plan.database, options, console)
        else:
            aggr_id = _import(sources, plan.database, options, command, console)
        figures, lead_id, feedback = _write_reports(aggr_id, plan, options, console)
        best = format_best(plan.database, lead_id)
        if options.summary != "false":
            write_ranks(plan, options, console, is_captured=is_captured)
    console.message("Writing expert_systems report to (stdout)")
    console.result(figures + best + feedback)


def _chosen_reports(options: Options) -> list[tuple[Report, str]]:
    reports = [REPORTS[token] for token in options.reports]
    reports += [MODEL_DATA] if options.dump_model_data else []
    return [
        (report, file_format)
        for report in reports
        for file_format in ((report.own_format,) if report.own_format else options.formats)
    ]


def _request(options: Options) -> AggregationRequest:
    bounds = options.iter_start, options.iter_stop
    request = AggregationRequest(options.key_node, *bounds, options.phase)
    if options.bare_step_ms is not None:
        request = replace(request, bare_step_ns=round(options.bare_step_ms * 1e6))
    return replace(request, gpu_peaks=options.gpu_peaks) if options.gpu_peaks else request


def _import(
    sources: Sequence[Path],
    database: Path,
    options: Options,
    command: Sequence[str],
    console: Console,
) -> int:
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
    elif options.executor == "local":
        from aggregator.ranks.rank_import import import_ranks  # noqa: PLC0415 - rare

        result = import_ranks(wanted, sources, console, options.workers)
    else:
        result = _import_elsewhere(wanted, sources, options, console)
    for warning in result.warnings:
        console.message(f"Warning: {warning.message} [{warning.code}]")
    return result.aggr_id


def _import_elsewhere(
    wanted: ImportOptions, sources: Sequence[Path], options: Options, console: Console
) -> ImportResult:
    from aggregator.jobs.executors import import_ranks_by, open_executor  # noqa: PLC0415 - rare
    from aggregator.ranks.pool import worker_count  # noqa: PLC0415

    workers = options.workers or worker_count(sources)
    with open_executor(options.executor, workers) as executor:
        return import_ranks_by(executor, wanted, sources, console)


def _add_aggregation(source: Path, database: Path, options: Options, console: Console) -> int:
    """Add an aggregation to a copy of the database, unless it has one with these settings.

    That of a phase, or with a step that was given, is of the steady iterations, if no others were
    requested.
    """
    if (
        (options.phase or options.bare_step_ms is not None)
        and options.iter_start is None
        and options.iter_stop is None
    ):
        options = _within_steady(source, options, console)
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
        console.message(
            f"Aggregation {result.aggr_id} of {display(source)} has the requested settings already"
        )
    return result.aggr_id


def _within_steady(source: Path, options: Options, console: Console) -> Options:
    """Return options that request the steps that an import found, without start-up and end."""
    with open_database(source) as database:
        query = (
            "SELECT iter_start, iter_stop FROM view_aggregations WHERE is_steady AND phase = ''"
            " AND (? = '' OR key_node_name = ?) LIMIT 1"
        )
        rows = few_rows(database.connection.execute(query, (options.key_node or "",) * 2))
    if not rows:
        return options
    first, last = rows[0]
    console.message(
        f"Iterations {first} to {last} without start-up are aggregated (--iter_start=0: all)"
    )
    return replace(options, iter_start=first, iter_stop=last)


def _write_reports(
    aggr_id: int, plan: OutputPlan, options: Options, console: Console
) -> tuple[str, int, str]:
    """Write all files of the run; they are published together, when all are complete.

    Returns:
        The figures for standard output, their aggregation, and the feedback of DLProf.
    """
    with open_database(plan.database) as database:
        connection = database.connection
        try:
            with limited(connection, plan.database, time_limit_s(plan.database)):
                domains = _chosen_domains(connection, options.domains)
                source = _report_source(connection, plan.database, aggr_id, domains, options)
                lead = replace(source, aggr_id=_leading_aggregation(connection, aggr_id, options))
                _write_files(source, lead, plan, options, console)
                reference = lead.one_row(VIEW)
                given = lead.one_row(STEP_VIEW).get("given_step")
                is_known = reference.get("bare_step") is not None or given is not None
                line = format_reference(reference, given)
                line += format_corrected(lead.one_row(CORRECTED_VIEW))
                figures = (
                    format_losses(lead)
                    + format_recorded(lead.one_row(RECORDED_VIEW))
                    + (line if is_known else "")
                    + _step_times(lead)
                    + _simple_totals(lead)
                    + ("" if is_known else f"{line}\n")
                )
                return figures, lead.aggr_id, format_feedback(lead)
        except sqlite3.Error as error:
            raise DatabaseError(
                f"Cannot read {display(plan.database)} for the reports: {error}."
            ) from error


def _leading_aggregation(connection: sqlite3.Connection, aggr_id: int, options: Options) -> int:
    """Return the aggregation of the steady range, if no range was requested and there is one."""
    if options.iter_start is not None or options.iter_stop is not None:
        return aggr_id
    query = (
        "SELECT aggr_id FROM view_aggregations WHERE is_steady AND (key_node_name, phase) ="
        " (SELECT key_node_name, phase FROM view_aggregations WHERE aggr_id = ?)"
    )
    rows = few_rows(connection.execute(query, (aggr_id,)))
    known = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if rows and connection.execute(known, (STEP_VIEW,)).fetchone() is not None:
        # The step that the user gave now is not that of an earlier aggregation.
        query = f"SELECT DISTINCT given_step FROM {STEP_VIEW} WHERE aggr_id = ?"  # noqa: S608
        given = [few_rows(connection.execute(query, (number,))) for number in (aggr_id, rows[0][0])]
        rows = rows if [tuple(row) for row in given[0]] == [tuple(row) for row in given[1]] else []
    return int(rows[0][0]) if rows else aggr_id


def _report_source(
    connection: sqlite3.Connection,
    database: Path,
    aggr_id: int,
    domains: Sequence[str],
    options: Options,
) -> ReportSource:
    rows = few_rows(connection.execute("SELECT key, value FROM view_profile_info"))
    info = {row["key"]: row["value"] for row in rows}
    mode = Mode(info.get("mode", Mode.SIMPLE.value))
    is_tensorflow = mode in {Mode.TENSORFLOW1, Mode.TENSORFLOW2}
    return ReportSource(
        connection,
        aggr_id,
        DEFAULT_DOMAIN,
        mode,
        has_data_types=options.detailed_mode or not is_tensorflow,
        is_extended=options.extended,
        database=database,
        domains=tuple(domains),
    )


def _chosen_domains(connection: sqlite3.Connection, wanted: Sequence[str]) -> list[str]:
    """Return the default domain and the requested custom domains, or all of them."""
    rows = few_rows(connection.execute("SELECT domain_name FROM view_domains"))
    # A damaged database may contain other values than text.
    names = {as_text(name) or "" for (name,) in rows}
    custom = sorted(names - {DEFAULT_DOMAIN})
    require_domains([DEFAULT_DOMAIN, *custom], wanted)
    return [DEFAULT_DOMAIN, *(name for name in custom if not wanted or name in wanted)]


def _write_files(
    source: ReportSource, lead: ReportSource, plan: OutputPlan, options: Options, console: Console
) -> None:
    """Write the reports; those that DLProf did not have show the leading aggregation."""
    chosen = _chosen_reports(options)
    if not chosen:
        return
    console.phase("report")
    with Batch(force=plan.force) as batch:
        for report, file_format in chosen:
            for domain in source.domains if report.per_domain else (DEFAULT_DOMAIN,):
                path = plan.report(report.suffix, domain, file_format)
                console.message(f"Writing {report.name} report to ({display(path)})")
                with batch.open(path) as stream:
                    shown = replace(lead if report.is_addition else source, domain=domain)
                    report.write(shown, file_format, stream, console.advance)
        batch.commit()


_INCOMPLETE: Final = frozenset(
    {LimitCode.LOST_RECORDS, LimitCode.MISSING_WORK, LimitCode.PARTIAL_REPLAYS}
)


def format_losses(source: ReportSource) -> str:
    """Return what the recorder lost of the GPU's work, without which later figures are too low."""
    chunks = source.iter_chunks("view_warnings", ("code", "message", "count"), where=WHOLE_PROFILE)
    rows = few_rows(row for rows in chunks for row in rows)
    lines = [
        f"The capture {'may be' if code == 'INCOMPLETE_EVENTS' else 'is'} incomplete ({count:,}): "
        f"{message}\n"
        for code, message, count in rows
        if OF_WARNING.get(str(code)) in _INCOMPLETE
    ]
    return "".join(lines) + "\n" if lines else ""


def _step_times(source: ReportSource) -> str:
    """Return the median step of the aggregation, and what a steady range left out."""
    row = source.one_row("view_performance_summary")
    step = source.one_row(STEP_VIEW)
    is_steady = bool(row.get("is_steady"))
    lines = step_lines(step, is_steady=is_steady) if step else _iteration_line(row)
    has_steps = bool(lines)
    if row.get("steady_note") and (is_steady or source.mode is not Mode.SIMPLE):
        note = str(row["steady_note"])
        lines.append(f"{note[0].upper()}{note[1:]}.")
    if is_steady:
        lines.append(
            f"All that follows is about iterations {row['iter_start']} to {row['iter_stop']}; "
            f"DLProf's report files cover all {row['total_iterations']} iterations."
        )
    if has_steps:
        lines += _gpu_time(source)
    return "".join(f"{line}\n" for line in (*lines, "")) if lines else ""


def _gpu_time(source: ReportSource) -> list[str]:
    """Return busy and idle time of the GPU, which add up to the step."""
    from aggregator.tables.gpu_time import split_the_step  # noqa: PLC0415 - slow to load

    found, is_corrected = split_the_step(read_usage(source))
    if found is None:
        return []
    basis = "without profiling" if is_corrected else "as profiled"
    return [f"Of the mean step, {basis}: {found.text}."]


def _iteration_line(row: Mapping[str, object]) -> list[str]:
    """Return the median iteration, for a database of a version that stored no steps."""
    steps = row.get("steps")
    if not row.get("key_node") or not isinstance(steps, int) or steps < 2:
        return []
    median, low, high = (_in(1e6, row[f"iter_{name}"]) for name in ("median", "p10", "p90"))
    spread = f"10th to 90th percentile {low} to {high} ms"
    of = f"({steps} steps, iterations {row['iter_start']} to {row['iter_stop']}), as profiled"
    return [f"Step: median {median} ms, {spread} {of}"]


def _in(unit_ns: float, value: object) -> str:
    return f"{value / unit_ns:.2f}" if isinstance(value, int | float) else "unknown"


def _simple_totals(source: ReportSource) -> str:
    """Return the totals of a profile in simple mode; empty for other modes."""
    if source.mode is not Mode.SIMPLE:
        return ""
    summary = source.one_row("view_model_summary")
    in_graphs = _graph_time(source)
    gpu_time = _as_ns(summary["kernels_all_gpu_time"]) + in_graphs
    totals = {
        "Wall Time": _seconds(summary["wall_time"]),
        "Total GPU Time": _seconds(gpu_time),
        "TC GPU Time": _seconds(summary["kernels_tc_gpu_time"]),
    }
    if in_graphs:
        totals["TC GPU Time"] = "unknown"
        totals["In CUDA graphs"] = f"{_seconds(in_graphs)}, whose kernels were not recorded"
    label_width = max(map(len, totals))
    value_width = max(len(text) for text in totals.values() if text.endswith(" s"))
    lines = [f"{label:>{label_width}}: {text:>{value_width}}\n" for label, text in totals.items()]
    return "".join(lines) + "\n"


def _graph_time(source: ReportSource) -> int:
    """Return the sum of durations of CUDA graphs that were recorded as a whole. Unit: ns."""
    if "duration" not in source.columns("view_graph_launches"):
        return 0
    chunks = source.iter_chunks("view_graph_launches", ("duration",), where=WHOLE_PROFILE)
    return sum(_as_ns(row[0]) for rows in chunks for row in rows)


def _seconds(value: object) -> str:
    """Format a time as DLProf does; below 0.1 s with all digits down to 1 us. Unit: ns."""
    if isinstance(value, int) and 0 < value < NS_PER_S // 10:
        return f"{value / NS_PER_S:.6f} s"
    return f"{_in(NS_PER_S, value)} s"


def _as_ns(value: object) -> int:
    return value if isinstance(value, int) else 0


def format_feedback(source: ReportSource) -> str:
    """Return the expert systems report as DLProf prints it after each run."""
    chunks = source.iter_chunks(
        "view_expert_systems", ("problem", "recommendation"), where=OF_AGGREGATION
    )
    issues = few_rows(row for rows in chunks for row in rows)
    count = f"{len(issues)} issue" if len(issues) == 1 else f"{len(issues)} issues"
    note = "Note that expert systems is still experimental as are all recommended changes"
    lines = [f"Expert Systems Feedback: {count} detected. {note}"]
    for problem, recommendation in issues:
        # DLProf's texts have blanks around a value that is missing.
        lines += ["", "Problem detected: ", f"  {' '.join(str(problem).split())}"]
        lines += ["Recommended change: ", f"  {recommendation}"]
    return "\n".join(lines) + "\n"
