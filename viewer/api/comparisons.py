"""Profiles compared with each other, and what profiles of one name did over time."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from rest_framework.request import Request

from aggregator.answers.figures import Figure, check_figure
from aggregator.answers.gpu_memory import MemoryDifferences, read_memory_difference
from aggregator.answers.registry import choice
from aggregator.compare.document import (
    CompareModules,
    CompareOp,
    ComparisonSummary,
    NumberedCompareRow,
    RowSamples,
    describe_fully,
    numbered_rows,
    ops_of,
    summarize,
)
from aggregator.compare.document import Comparison as ComparisonReply
from aggregator.compare.facts import program_of
from aggregator.compare.figures import FIGURES, draw
from aggregator.compare.history import (
    History,
    HistoryEntry,
    HistorySkipped,
    read_entry,
    read_history,
)
from aggregator.compare.picture import module_sums
from aggregator.compare.result import Comparison
from aggregator.compare.sides import Source, compare_files
from aggregator.dldb.stored import require_aggregable
from aggregator.errors import DlprofError, InvalidValueError, ProfileError
from aggregator.options import DEFAULT_PROFILE_NAME
from aggregator.system.progress import NullProgress
from aggregator.system.untrusted_json import read_count
from aggregator.tables.aggregation_data import list_reply
from aggregator.tables.connection import opened
from aggregator.tables.declared.owners import COMPARE_OPS, COMPARE_ROWS
from aggregator.tables.in_memory_table import query_records
from aggregator.tables.plotly.theme import Theme
from aggregator.tables.request import ListQuery, parse_list_query
from aggregator.tables.spec import TableSpec
from aggregator.texts import say
from viewer.api.replies.profiles import ProfileItem, describe
from viewer.api.schema import get_view, list_parameters, page_of, query, reply
from viewer.api.scope import environment, open_profile, registry
from viewer.api.structs import reference
from viewer.profiles.registry import ServedProfile

MOST_CAPTURES = 20
MOST_PROFILES = 200
"""Profiles of a history: each takes up to a second when it is read first."""
_TIMES = ("base_ns", "new_ns", "difference_ns")
_SIDES = (
    query("base", "Captures of the base: PROFILE or PROFILE@AGGREGATION, with commas between."),
    query("new", "Captures of the new side, likewise."),
)


@get_view(reply(ComparisonReply), *_SIDES)
def CompareView(request: Request) -> ComparisonReply:
    """The whole comparison, as ``dlprof compare --format=json`` writes it."""
    return describe_fully(_comparison(request))


@get_view(reply(ComparisonSummary), *_SIDES)
def CompareSummaryView(request: Request) -> ComparisonSummary:
    """Both sides, the difference with its doubt, classes, causes and set-up."""
    return summarize(_comparison(request))


@get_view(
    page_of("NumberedCompare", reference(NumberedCompareRow)),
    *_SIDES,
    *list_parameters(COMPARE_ROWS),
    is_list=True,
)
def CompareRowsView(request: Request) -> dict[str, Any]:
    """Rows that pass the filters, in order; by default the largest difference first."""
    query = parse_list_query(COMPARE_ROWS, request.query_params.dict(), besides=("base", "new"))
    return _page(COMPARE_ROWS, query, numbered_rows(_comparison(request)))


@get_view(
    page_of("CompareOp", reference(CompareOp)),
    *_SIDES,
    *list_parameters(COMPARE_OPS),
    is_list=True,
)
def CompareOpsView(request: Request) -> dict[str, Any]:
    """Ops that pass the filters, in order; by default the largest difference first."""
    query = parse_list_query(COMPARE_OPS, request.query_params.dict(), besides=("base", "new"))
    return _page(COMPARE_OPS, query, ops_of(numbered_rows(_comparison(request))))


def _page(
    spec: TableSpec, query: ListQuery, rows: Sequence[NumberedCompareRow | CompareOp]
) -> dict[str, Any]:
    plain = [to_builtins(row) for row in rows]
    records = [
        {**row, "id": row["row"], **{name: float(row[name]) for name in _TIMES}} for row in plain
    ]
    count, ids = query_records(spec, query, records)
    return list_reply(query, count, [plain[int(row_id)] for row_id in ids])


@get_view(reply(CompareModules), *_SIDES)
def CompareModulesView(request: Request) -> CompareModules:
    """Sums of the rows below each path; those too small to be drawn are left out."""
    return CompareModules(modules=module_sums(_comparison(request)))


@get_view(
    reply(Figure),
    *_SIDES,
    query("row", "Of the figure ``row``: number of the row, from 0.", "integer", default=0),
    query("theme", "Colors.", enum=list(Theme), default=Theme.LIGHT),
)
def CompareFigureView(request: Request, name: str) -> Any:
    """Traces and layout, as Plotly draws them."""
    check_figure(name, FIGURES)
    theme = Theme(choice("theme", request.query_params.get("theme", Theme.LIGHT), tuple(Theme)))
    comparison = _comparison(request)
    row = _row(request, comparison) if name == "row" else 0
    return draw(comparison, name, row, theme)


@get_view(
    reply(MemoryDifferences),
    query("base", "Profile of the base; @AGGREGATION is ignored.", required=True),
    query("new", "Profile of the new side, likewise.", required=True),
)
def CompareMemoryView(request: Request) -> MemoryDifferences:
    """For each GPU that both record: its peaks by kind and by module and op.

    The differences of the kinds, and those of the owners, add up to that of the peaks.
    """
    sides = (request.query_params.get(name, "") for name in ("base", "new"))
    base, new = (side.partition("@")[0] for side in sides)
    with open_profile(base) as (_, before), open_profile(new) as (_, after):
        return read_memory_difference(before, after)


@get_view(
    reply(RowSamples),
    *_SIDES,
    query("row", "Number of the row, from 0.", "integer", required=True),
)
def CompareRowView(request: Request) -> RowSamples:
    """The times of the row in every iteration, one list per capture."""
    comparison = _comparison(request)
    row = comparison.rows[_row(request, comparison)]
    return RowSamples(
        base_ns=[part.tolist() for part in row.base_samples],
        new_ns=[part.tolist() for part in row.new_samples],
    )


@get_view(
    reply(History),
    query("name", "Name of the profiles; all profiles if left out."),
    query(
        "profile",
        "A profile, instead: those of its series, which have its name, or have none and come from "
        "the same command.",
    ),
)
def HistoryView(request: Request) -> History:
    """Step, classes and ops of each profile, by date, and where they changed."""
    files = [(item.id, item.path) for item in _chosen(request)]
    return read_history(files, _read_entry)


def _chosen(request: Request) -> Sequence[ServedProfile]:
    """The profiles of a history: of a name, of a series, or all of them."""
    name, profile = (request.query_params.get(key) for key in ("name", "profile"))
    if name is not None and profile is not None:
        raise InvalidValueError(say("Give a name or a profile, not both."), parameter="profile")
    chosen: Sequence[ServedProfile] = registry().all()
    if profile is not None:
        chosen = _series(registry().get(profile), chosen)
    elif name is not None:
        chosen = [item for item in chosen if _described(item).name == name]
    if not chosen:
        raise InvalidValueError(
            say("No profile has the name '{name}'.", name=name or ""), parameter="name"
        )
    if len(chosen) > MOST_PROFILES:
        raise InvalidValueError(
            say(
                "A history of the viewer shows at most {most} profiles, not {count}.",
                count=len(chosen),
                most=MOST_PROFILES,
            ),
            hint=say("Use dlprof history for the folder of their databases."),
        )
    return chosen


def _series(wanted: ServedProfile, profiles: Sequence[ServedProfile]) -> Sequence[ServedProfile]:
    """The profiles that are captures of one program, with the wanted one."""
    key = _series_key(wanted)
    if key is None:
        return [wanted]
    return [profile for profile in profiles if _series_key(profile) == key]


def _series_key(served: ServedProfile) -> tuple[str, str] | None:
    """What captures of one program have in common; None: nothing that is known."""
    if served.name:
        return "name", served.name
    try:
        with opened(served.path, time_limit_s=environment().query_timeout_s, keep=True) as database:
            [(name, command)] = database.rows(
                "SELECT profile_name, original_command FROM view_system_config"
            )
    except (DlprofError, ValueError):
        return None
    if name and name != DEFAULT_PROFILE_NAME:
        return "name", str(name)
    program = program_of(str(command or ""))
    return ("command", program) if program else None


def _described(served: ServedProfile) -> ProfileItem:
    return describe(served, time_limit_s=environment().query_timeout_s)


def _read_entry(name: str, path: Path) -> HistoryEntry | HistorySkipped:
    """Read a database once while it stays as it is; one that went meanwhile is skipped."""
    try:
        state = path.stat()
    except OSError:
        return read_entry(name, path)
    return _known_entry(name, path, (state.st_mtime_ns, state.st_size, state.st_ino))


@functools.lru_cache(maxsize=2 * MOST_PROFILES)
def _known_entry(name: str, path: Path, _: tuple[int, ...]) -> HistoryEntry | HistorySkipped:
    return read_entry(name, path)


def _row(request: Request, comparison: Comparison) -> int:
    text = request.query_params.get("row", "")
    number = read_count(text)
    if number is None or number >= len(comparison.rows):
        raise InvalidValueError(
            say("The comparison has no row '{row}'.", row=text),
            hint=say("It has {count} rows, from 0.", count=len(comparison.rows)),
            parameter="row",
        )
    return number


def _comparison(request: Request) -> Comparison:
    base, new = (_sources(request, name) for name in ("base", "new"))
    times = tuple(source.path.stat().st_mtime_ns for source in (*base, *new))
    return _compared(tuple(base), tuple(new), times)


@functools.lru_cache(maxsize=4)
def _compared(
    base: tuple[Source, ...], new: tuple[Source, ...], times: tuple[int, ...]
) -> Comparison:
    """The rows of a comparison are asked for one after the other; files may be replaced."""
    return compare_files(base, new, NullProgress())


def _sources(request: Request, name: str) -> Sequence[Source]:
    words = [word for word in request.query_params.get(name, "").split(",") if word]
    if not 1 <= len(words) <= MOST_CAPTURES:
        raise InvalidValueError(
            say("The parameter {name} needs 1 to {most} captures.", name=name, most=MOST_CAPTURES),
            parameter=name,
        )
    return [_source(word, name) for word in words]


def _source(word: str, parameter: str) -> Source:
    profile, at, number = word.partition("@")
    served = registry().get(profile)
    aggregation = read_count(number) if at else None
    if at and aggregation is None:
        raise InvalidValueError(
            say("'{word}' is no PROFILE@AGGREGATION.", word=word), parameter=parameter
        )
    _require_ours(served)
    return Source(word, served.path, aggr=aggregation)


def _require_ours(served: ServedProfile) -> None:
    if _described(served).is_foreign:
        raise ProfileError(
            say("A database of NVIDIA's DLProf is compared after an aggregation of it."),
            hint=say("Aggregate it once, and choose the converted profile."),
        )
    require_aggregable(served.path)
