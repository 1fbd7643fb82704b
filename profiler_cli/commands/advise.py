"""``dlprof advise``: print advice for scripts and CI; the exit code is the highest severity.

Reads the advice that is stored with an aggregation. An Nsight Systems export or a database of
NVIDIA's DLProf is aggregated in a temporary folder first. No files are written.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from aggregator.dldb.guarded import few_rows, time_limit_s
from aggregator.dldb.reader import Dldb, open_database
from aggregator.errors import DatabaseError, UsageError
from aggregator.pipeline import open_or_import
from aggregator.system.plain_text import escape_control_characters, on_one_line
from aggregator.system.untrusted_json import read_json
from profiler_cli.commands.databases import chosen_aggregation, reading
from profiler_cli.commands.show import saved_share, saved_time
from profiler_cli.commands.step_reference import (
    COLUMNS,
    CORRECTED_COLUMNS,
    CORRECTED_VIEW,
    RECORDED_COLUMNS,
    RECORDED_VIEW,
    STEP_COLUMNS,
    STEP_VIEW,
    VIEW,
    corrected_document,
    format_corrected,
    format_recorded,
    format_reference,
    recorded_document,
    reference_document,
)
from profiler_cli.options.parser import AGGREGATION, SubcommandParser

EXIT_CODES: Final = {"low": 11, "medium": 12, "high": 13}
"""Exit code by the highest severity; 0 if there is no advice."""
_ADVICE_VIEW: Final = "view_advice"
_MAX_NAME: Final = 75
BEST: Final = 3
"""Findings at the end of a run."""
_SOURCES: Final = {
    "replay": "replay",
    "corrected": "replay without the costs of profiling",
    "estimate": "an estimate",
}
_ADVICE_COLUMNS: Final = (
    *(
        "place",
        "advice_name",
        "status",
        "severity",
        "gain_ns",
        "gain_pct",
        "most_ns",
        "most_pct",
        "gain_source",
        "gain_bound",
        "certainty",
    ),
    *("problem", "recommendation", "reasoning", "needs", "frameworks", "drill_down", "evidence"),
    *("proof_query", "proof_column", "proof_value"),
)
_EPILOG: Final = (
    "Exit codes: 0 no advice; else by the highest severity: 11 low, 12 medium, 13 high (see "
    "--fail_on); 2 usage; 4 the profile and 5 the database cannot be used."
)


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof advise",
        description="Show what to change, how much time that could save and how certain it is.",
        epilog=_EPILOG,
    )
    parser.add("file FILE", "a DLProf database, or a profile to aggregate first", nargs="?")
    parser.add("--database FILE", "the same, as an option")
    parser.add("--json", "write JSON, with evidence and queries")
    parser.add(*AGGREGATION)
    parser.add(
        "--fail_on",
        "lowest severity that changes the exit code (default: low)",
        choices=("low", "medium", "high", "never"),
        default="low",
    )
    return parser


def run_advise(words: Sequence[str]) -> int:
    """Run ``dlprof advise`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    name = options.file or options.database
    if not name or (options.file and options.database):
        raise UsageError("dlprof advise needs one FILE.", hint="dlprof advise dlprof_dldb.sqlite")
    with ExitStack() as stack:
        database = stack.enter_context(_open(Path(name), stack))
        stack.enter_context(reading(database))
        aggregation = _aggregation(database, options.aggregation)
        rows = _rows(database, int(aggregation["aggr_id"]))
        found = [row for row in rows if row["status"] == "found"]
        unknown = [row for row in rows if row["status"] != "found"]
        aggr = int(aggregation["aggr_id"])
        reference = _first_row(database, VIEW, COLUMNS, aggr)
        given = _first_row(database, STEP_VIEW, STEP_COLUMNS, aggr).get("given_step")
        corrected = _first_row(database, CORRECTED_VIEW, CORRECTED_COLUMNS, aggr)
        recorded = _first_row(database, RECORDED_VIEW, RECORDED_COLUMNS, aggr)
        if options.json:
            document = _document(name, aggregation, found, unknown)
            document["step_reference"] = reference_document(reference)
            document["corrected_step"] = corrected_document(corrected)
            document["recorded"] = recorded_document(recorded)
            output = json.dumps(document, indent=2) + "\n"
        else:
            line = format_recorded(recorded) + format_reference(reference, given)
            line += format_corrected(corrected)
            line += format_verdict(database.path, aggr)
            output = escape_control_characters(line + _text(name, aggregation, found, unknown))
    print(output, end="")
    return _exit_code(found, options.fail_on)


def format_verdict(path: Path, aggr_id: int) -> str:
    """Return the line that says what limits the step of an aggregation."""
    from aggregator.tables.aggregation_data import AggregationData  # noqa: PLC0415 - slow to load
    from aggregator.tables.connection import opened  # noqa: PLC0415
    from aggregator.tables.declared.profile import domains  # noqa: PLC0415
    from aggregator.tables.verdict import read_verdict  # noqa: PLC0415

    with opened(path, time_limit_s=time_limit_s(path)) as database:
        data = AggregationData(database, {"aggr_id": aggr_id, "domain": domains(database)[0]})
        return f"{read_verdict(data).sentence}.\n"


def format_best(path: Path, aggr_id: int) -> str:
    """Return the verdict on the step and the findings that lead ``dlprof advise``.

    Args:
        path: A database of this program.
        aggr_id: The aggregation; its advice is stored.
    """
    with open_database(path) as database, reading(database):
        if _ADVICE_VIEW not in database.views:
            return ""
        rows = _rows(database, aggr_id)
    found = [row for row in rows if row["status"] == "found"]
    lines = [] if found else [_nothing([row for row in rows if row["status"] != "found"]), ""]
    for row in found[:BEST]:
        lines += [*_headline(row), ""]
    if found:
        more = f" ({len(found)} in all)" if len(found) > BEST else ""
        lines += [f"Evidence: dlprof advise {shlex.quote(str(path))}{more}", ""]
    return format_verdict(path, aggr_id) + "\n" + "\n".join(lines) + "\n"


def _exit_code(found: list[dict[str, Any]], fail_on: str) -> int:
    levels = list(EXIT_CODES)
    if fail_on == "never":
        return 0
    least = levels.index(fail_on)
    ranks = [levels.index(row["severity"]) for row in found if row["severity"] in levels]
    worst = max(ranks, default=-1)
    return EXIT_CODES[levels[worst]] if worst >= least else 0


def _open(source: Path, stack: ExitStack) -> Dldb:
    """Open the database, or import the profile into one in a temporary folder."""
    database = open_or_import(source, stack)
    if _ADVICE_VIEW in database.views:
        return database
    database.close()
    raise DatabaseError(
        f"The database '{source}' has no advice: it was written by an older version.",
        hint="Aggregate its profile again: dlprof --database=profile.sqlite",
    )


def _aggregation(database: Dldb, wanted: int | None) -> dict[str, Any]:
    query = (
        "SELECT a.aggr_id, s.iter_start, s.iter_stop, s.key_node FROM view_aggregations AS a"
        " JOIN view_performance_summary AS s ON s.aggr_id = a.aggr_id"
        " JOIN (SELECT domain_name FROM view_domains LIMIT 1) AS d USING (domain_name)"
        " ORDER BY a.aggr_id"
    )
    rows = [dict(row) for row in few_rows(database.connection.execute(query))]
    number = chosen_aggregation([row["aggr_id"] for row in rows], wanted)
    return next(row for row in reversed(rows) if row["aggr_id"] == number)


def _rows(database: Dldb, aggr: int) -> list[dict[str, Any]]:
    query = f"SELECT * FROM {_ADVICE_VIEW} WHERE aggr_id = ? ORDER BY place"  # noqa: S608
    found = [dict(row) for row in few_rows(database.connection.execute(query, (aggr,)))]
    # Databases of earlier versions lack the source and the bounds of the gain.
    absent = {"gain_source": "", "gain_bound": "", "most_ns": None, "most_pct": None}
    rows = [{name: (absent | row)[name] for name in _ADVICE_COLUMNS} for row in found]
    for row in rows:
        row["evidence"] = _parsed(row["evidence"])
        row["drill_down"] = _parsed(row["drill_down"]) if row["drill_down"] else None
    return rows


def _parsed(text: object) -> Any:
    value = read_json(str(text))
    if value is None:
        raise ValueError("its advice is not valid JSON")
    return value


def _document(
    name: str,
    aggregation: dict[str, Any],
    found: list[dict[str, Any]],
    unknown: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "database": name,
        "aggregation": aggregation,
        "advice": found,
        "unknown": [
            {key: row[key] for key in ("advice_name", "problem", "needs")} for row in unknown
        ],
    }


def _first_row(database: Dldb, view: str, columns: Sequence[str], aggr: int) -> dict[str, Any]:
    """Return the row of an aggregation in a view; empty if the database has none."""
    if view not in database.views:
        return {}
    query = f"SELECT {', '.join(columns)} FROM {view} WHERE aggr_id = ? LIMIT 1"  # noqa: S608
    rows = few_rows(database.connection.execute(query, (aggr,)))
    return dict(rows[0]) if rows else {}


def _text(
    name: str,
    aggregation: dict[str, Any],
    found: list[dict[str, Any]],
    unknown: list[dict[str, Any]],
) -> str:
    first, last = aggregation["iter_start"], aggregation["iter_stop"]
    lines = [
        f"Advice for {name}, aggregation {aggregation['aggr_id']}, iterations {first} to {last}"
    ]
    lines.append("" if found else f"\n{_nothing(unknown)}")
    for row in found:
        lines += _finding(row)
    if unknown:
        lines.append("Could not be judged:" if found else "\nCould not be judged:")
        lines += [_wrapped(f"{row['problem']}. Needed: {row['needs']}", "  ") for row in unknown]
    return "\n".join(lines).rstrip() + "\n"


def _nothing(unknown: list[dict[str, Any]]) -> str:
    """Say that nothing was found.

    Without GPU work no adviser could run, without steps only those of kernels and copies: that does
    not mean that there are no problems.
    """
    open_questions = {row["advice_name"] for row in unknown}
    if "gpu_work" in open_questions:
        return "Nothing could be judged."
    if "steps" in open_questions:
        return "Nothing to change was found in the kernels and copies."
    return "Nothing to change was found."


def _finding(row: dict[str, Any]) -> list[str]:
    lines = [*_headline(row), _wrapped(row["reasoning"], "   Why: ")]
    lines += [_evidence(item) for item in row["evidence"][:3]]
    if row["needs"]:
        lines.append(_wrapped(row["needs"], "   To be sure: "))
    return [*lines, ""]


def _headline(row: dict[str, Any]) -> list[str]:
    share, time_ns = row["gain_pct"], row["gain_ns"]
    if share is None:
        gain = ""
    elif time_ns is None:
        gain = f", up to {100 / max(100 - share, 1):.2g}x throughput"
    else:
        time = saved_time(time_ns, row["most_ns"], row["gain_bound"])
        up_to = "" if row["gain_bound"] == "at_least" else "up to "
        gain = f", could save {up_to}{time} ({saved_share(share, row['most_pct'])}%)"
    if gain and row["gain_source"]:
        gain += f" by {_SOURCES.get(row['gain_source'], row['gain_source'])}"
    head = f"{row['place']}. {row['severity'].upper()}{gain} ({row['certainty']}): {row['problem']}"
    return [_wrapped(head, ""), _wrapped(row["recommendation"], "   Do: ")]


def _evidence(item: dict[str, Any]) -> str:
    """A line on an item; what was summed over steps is that of a mean one."""
    time_ns, count = item["time_ns"], item["count"]
    steps = item.get("steps")  # Earlier databases lack them.
    unit = " a step" if steps else ""
    of_time = "" if item["kind"] == "gap" else unit
    time = (
        "" if time_ns is None else f"  {time_ns / (steps if of_time else 1) / 1e6:.3f} ms{of_time}"
    )
    often = "" if count is None else f"  {round(count / (steps or 1), 2):g}x{unit}"
    name = item["name"]
    if item["kind"] in ("op", "before"):  # The path that people know, without the op's number.
        name = name.partition(" ")[2] or name
    return f"   - {item['kind']} {_shortened(name)}{time}{often}"


def _shortened(name: str) -> str:
    """Shorten a name to one line, and keep its beginning and end."""
    name = on_one_line(name)
    return name if len(name) <= _MAX_NAME else f"{name[:48]}...{name[-24:]}"


def _wrapped(text: str, lead: str) -> str:
    return textwrap.fill(
        text,
        100,
        initial_indent=lead,
        subsequent_indent="   ",
        break_long_words=False,
        break_on_hyphens=False,  # An option must be fit to be copied.
    )
