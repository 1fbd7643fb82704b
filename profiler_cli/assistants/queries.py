"""Tools of an assistant: each function is one, reads one answer, and changes nothing.

The server gives the first parameter, and adds ``profile``, ``aggregation`` and ``max_bytes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from aggregator.answers.changes import CHANGES, address_notes
from aggregator.answers.registry import ANSWERS, ask
from aggregator.answers.replay import (
    read_critical_path,
    read_op_sensitivity,
    read_stragglers,
    read_what_if,
)
from aggregator.answers.timeline import MOST_LANES, TimelineAnswers
from aggregator.compare.document import to_document
from aggregator.compare.sides import Source, compare_files
from aggregator.errors import InvalidValueError
from aggregator.system.progress import NullProgress
from aggregator.system.replies import doc, to_plain
from aggregator.system.untrusted_json import read_list
from aggregator.tables.declared.addresses import TABLES, find_table
from aggregator.tables.declared.advice import ADVICE
from aggregator.tables.declared.iterations import AGGREGATIONS, ITERATIONS
from aggregator.tables.declared.profile import profile_details, profile_item
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY
from aggregator.tables.first_screen import read_gpu_time, read_step
from aggregator.tables.limits import read_limits
from aggregator.tables.request import check_parameters, parse_list_query
from aggregator.tables.spec import TableSpec
from aggregator.tables.sql import count_rows, iter_rows
from aggregator.tables.timeline.events import Category
from aggregator.tables.verdict import read_verdict
from profiler_cli.assistants.answers import Answer, as_columns, known_values
from profiler_cli.assistants.profiles import Profiles, Scope
from profiler_cli.assistants.select import select_rows

Ordering = Annotated[str, doc("Columns to sort by: -gpu_time_ns,op_name.")]
Filters = Annotated[
    dict[str, str] | None,
    doc(
        "Filters of describe, and search, the text that any name contains: "
        "{'gpu_time_ns__gte': '1000', 'using_tc': '0', 'search': 'conv'}."
    ),
]
Columns = Annotated[list[str] | None, doc("Columns; left out: those of the page.")]
Limit = Annotated[int, doc("Rows.")]
MOST_ROWS: Final = 1_000
_ALL_VIEWS: Final = "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name"
VIEWS: Final = {
    "ops": "ops",
    "op-types": "op-types",
    "group-ops": "group-ops",
    "kernels": "kernels-by-op",
    "iterations": "iterations",
    "gpus": "gpus",
    "ranks": "ranks",
    "collectives": "ranks",
    "rank-iterations": "ranks",
    "op-efficiency": "roofline",
}
"""View of the page that shows a table; the dashboard shows the others."""


def list_profiles(profiles: Profiles) -> Answer:
    """The open profiles, their aggregations and GPUs."""
    found = []
    for profile in profiles.known.values():
        with profiles.scope(profile.name, None) as scope:
            database = scope.data.database
            item = profile_item(profile.source, "", database)
            details = profile_details(database)
            columns = ("id", "iter_start", "iter_stop", "key_node")
            rows = scope.data.rows(AGGREGATIONS)
            found.append(
                {
                    "profile": profile.name,
                    "file": str(profile.source),
                    **{key: item[key] for key in ("mode", "framework", "gpu_count", "gpu_name")},
                    "iteration_count": item["iteration_count"],
                    "default_aggregation": scope.aggregation,
                    "aggregations": [{name: row.get(name) for name in columns} for row in rows],
                    "warnings": [note["message"] for note in details["warnings"]],
                    "link": scope.link("dashboard"),
                }
            )
    return {"profiles": found}


def summarize(scope: Scope) -> Answer:
    """Why it is slow: the verdict, the step time and its shares, what could save most."""
    data = scope.data
    found = data.read_object(PERFORMANCE_SUMMARY)
    summary, step = known_values(found), read_step(found)
    limits = read_limits(data)
    advice = [
        {name: row[name] for name in ("advice", "severity", "gain_ns", "gain_pct", "problem")}
        for row in data.rows(ADVICE, {"status__in": "found"}, limit=5)
    ]
    return {
        "verdict": to_plain(read_verdict(data)),
        "step": step,
        "summary": summary,
        "gpu": read_gpu_time(data, step),
        "advice": advice,
        "limits": [
            {"code": limit.code, "text": limit.sentence, "effect": limit.effect}
            for limit in limits.limits
        ],
        "bounds": {name: bound.bound for name, bound in limits.bounds.items()},
        "link": scope.link("dashboard"),
    }


def advise(
    scope: Scope, name: Annotated[str | None, doc("One advice; left out: all.")] = None
) -> Answer:
    """What to change and what it could save; with a name also evidence, SQL and its result.

    Raises:
        InvalidValueError: There is no such advice.
    """
    rows = scope.data.rows(ADVICE)
    link = scope.link("dashboard")
    if name is None:
        gains = ("gain_ns", "gain_pct", "most_ns", "most_pct", "gain_bound", "certainty")
        shown = ("advice", "severity", *gains, "problem", "recommendation")
        found = [row for row in rows if row["status"] == "found"]
        unknown = [row for row in rows if row["status"] != "found"]
        return {
            "advice": [{key: row[key] for key in shown if row[key] is not None} for row in found],
            "cannot_be_judged": [
                {"advice": row["advice"], "why": row["problem"], "needs": row["needs"]}
                for row in unknown
            ],
            "link": link,
        }
    one = next((row for row in rows if row["advice"] == name), None)
    if one is None:
        names = ", ".join(row["advice"] for row in rows) or "none"
        raise InvalidValueError(f"There is no advice '{name}'.", hint=f"The profile has: {names}.")
    proof = run_sql(scope, one["proof_query"], 5) if one["proof_query"] else None
    known: Answer = {key: part for key, part in one.items() if part is not None}
    return known | {"evidence": read_list(one["evidence"]), "proof": proof, "link": link}


def read_table(
    scope: Scope,
    table: Annotated[str, doc("ops, kernels, op-types, iterations/3/kernels …")],
    ordering: Ordering = "",
    filters: Filters = None,
    columns: Columns = None,
    limit: Limit = 20,
) -> Answer:
    """Rows of any table of describe.

    Raises:
        DlprofError: There is no such table, column or filter.
    """
    params = {**(filters or {}), **({"ordering": ordering} if ordering else {})}
    found = find_table(table.strip("/"))
    if found is None:
        raise InvalidValueError(
            f"There is no table '{table}'.", hint="The tool describe lists the tables."
        )
    spec = found.spec
    shown = columns or _shown_columns(spec)
    unknown = [name for name in shown if name not in spec.by_name]
    if unknown:
        raise InvalidValueError(
            f"The table has no column '{unknown[0]}'.", hint=f"It has: {', '.join(spec.by_name)}."
        )
    data = scope.data.narrowed(found.params)
    bound = data.resolve(spec)
    query = parse_list_query(spec, params)
    rows = list(iter_rows(bound, query, data.database, limit=_rows(limit)))
    reasons = {name: why for name, why in bound.unknown.items() if name in shown}
    return {
        "table": spec.name,
        "count": count_rows(bound, query, data.database),
        "ordering": query.ordering_text,
        **as_columns(rows, [name for name in shown if name not in reasons]),
        **({"unknown": reasons} if reasons else {}),
        "link": scope.link(VIEWS.get(spec.name, "dashboard")),
    }


def _shown_columns(spec: TableSpec) -> list[str]:
    """Return the those of the page, and what other tools take: ids and numbers of rows."""
    ids = [name for name in spec.by_name if name in {"op_id", "iteration_index", "device_id"}]
    names = [*ids, *spec.lead, *(name for name in spec.by_name if name not in spec.hidden)]
    return list(dict.fromkeys(names))


def _rows(limit: int) -> int:
    return min(max(limit, 1), MOST_ROWS)


def _reader(table: str, meaning: str) -> Callable[..., Answer]:
    """Return the query of a table that is asked for often."""

    def read(
        scope: Scope,
        ordering: Ordering = "",
        filters: Filters = None,
        columns: Columns = None,
        limit: Limit = 20,
    ) -> Answer:
        return read_table(scope, table, ordering, filters, columns, limit)

    read.__doc__ = meaning
    return read


def describe(
    scope: Scope, name: Annotated[str | None, doc("Table or view; left out: all.")] = None
) -> Answer:
    """The tables; or the columns of one with their meanings and filters; or those of a view."""
    if name is None:
        rows = scope.data.database.rows(_ALL_VIEWS)
        return {"tables": list(TABLES), "sql_views": [str(view) for (view,) in rows]}
    found = find_table(name.strip("/"))
    if found is not None:
        described = [
            {"column": shown.name, "meaning": shown.description, "filters": list(shown.filters)}
            for shown in found.spec.columns
        ]
        return {"table": found.spec.name, "title": found.spec.title, "described": described}
    database = scope.data.database
    if database.has(name):
        return {"view": name, "columns": sorted(database.columns(name))}
    raise InvalidValueError(
        f"There is no table or view '{name}'.", hint="Without a name, describe lists the tables."
    )


def ranks(scope: Scope) -> Answer:
    """The ranks of a distributed job, and which of them makes the step slow."""
    table = read_table(scope, "ranks", limit=MOST_ROWS)
    if table["count"] < 2:
        return {"sentence": "The profile holds a single rank.", **table}
    return {"comparison": to_plain(read_stragglers(scope.data)), **table}


def critical_path(scope: Scope) -> Answer:
    """What a step waits for, and which ops would shorten it if they were faster."""
    found = to_plain(read_critical_path(scope.data))
    ops = to_plain(read_op_sensitivity(scope.data))["ops"]
    names = ("measured_step_ns", "replayed_step_ns", "error_pct", "confidence", "notes")
    columns = ("op_id", "op_name", "direction", "own_ns", "path_ns", "path_pct", "slack_ns")
    ordered = sorted(ops, key=lambda item: -item["path_ns"])[:20]
    return {
        **{name: found[name] for name in names},
        "critical_path": found["critical_path"][:20],
        "ops": [{name: op[name] for name in columns} for op in ordered],
        "link": scope.link("critical-path"),
    }


def what_if(
    scope: Scope,
    changes: Annotated[
        dict[str, str],
        doc(" ".join(f"{name}: {note}" for name, note in address_notes().items())),
    ],
) -> Answer:
    """The step time with changes, predicted by a replay, with an interval.

    Raises:
        DlprofError: A change is unknown, or the profile cannot be replayed.
    """
    check_parameters(changes, CHANGES)
    found = to_plain(read_what_if(scope.data, changes=changes))
    found.pop("iterations", None)
    before, saving = found["measured_step_ns"], found["saving_ns"]
    saved = {} if saving is None else {"saved_pct": 100 * saving / max(before, 1)}
    return {**found, **saved, "link": scope.link("critical-path")}


def timeline_range(
    scope: Scope,
    iteration: Annotated[int | None, doc("Iteration, or:")] = None,
    start_ns: int | None = None,
    stop_ns: int | None = None,
) -> Answer:
    """What ran in some time: GPU time by kind and op, and the longest events.

    Raises:
        InvalidValueError: There is no such iteration, or the database holds no single events.
    """
    timeline = TimelineAnswers(scope.data)
    lanes = timeline.lanes()
    if lanes.start_ns is None or lanes.stop_ns is None:
        reason = next(iter(lanes.unknown.values()), "The profile holds no events.")
        raise InvalidValueError(str(reason))
    low = lanes.start_ns if start_ns is None else start_ns
    high = lanes.stop_ns if stop_ns is None else stop_ns
    if iteration is not None:
        low, high = _bounds(scope, iteration)
    keys = [lane.key for lane in lanes.lanes][:MOST_LANES]
    found = to_plain(timeline.range(keys, low, high))
    for kind in found["categories"]:
        kind["category"] = Category(kind["category"]).name.lower().replace("_", " ")
    return {**found, "link": scope.link("timeline", range=f"{low}-{high}")}


def _bounds(scope: Scope, iteration: int) -> tuple[int, int]:
    rows = scope.data.rows(ITERATIONS)
    row = next((row for row in rows if row["iteration_index"] == iteration), None)
    if row is None or row["start_time_ns"] is None or row["stop_time_ns"] is None:
        raise InvalidValueError(
            f"The aggregation has no iteration {iteration}.",
            hint=f"It has {len(rows)} iterations; the table iterations lists them.",
        )
    return row["start_time_ns"], row["stop_time_ns"]


def compare(
    profiles: Profiles,
    base: Annotated[str, doc("Profile, or PROFILE@FIRST-LAST (iterations).")],
    new: Annotated[str, doc("Likewise.")],
) -> Answer:
    """What made the step longer or shorter from base to new, op by op, and how sure that is.

    Raises:
        DlprofError: There is no such profile, or they cannot be compared.
    """
    sides = [_side(profiles, word) for word in (base, new)]
    found = _whole_ns(to_document(compare_files(sides[:1], sides[1:], NullProgress())))
    names = ("class", "reason", "module", "op", "direction", "difference_ns", "verdict")
    rows = sorted(found["rows"], key=lambda row: -abs(row["difference_ns"]))
    kept = [row for row in rows if row["difference_ns"]]
    for side in ("base", "new"):
        del found[side]["sources"]
    del found["causes"]  # The rows have them, and the answer is short.
    with profiles.scope(base.partition("@")[0], None) as one:
        link = one.link("compare")
    changed = [row for row in found["classes"] if row["difference_ns"]]
    return {**found, "classes": changed, **as_columns(kept, names), "link": link}


def _whole_ns(value: Any, name: str = "") -> Any:
    """Return the exact times, which the document holds as text, in whole nanoseconds."""
    if isinstance(value, dict):
        return {key: _whole_ns(part, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole_ns(part) for part in value]
    return round(float(value)) if name.endswith("_ns") and isinstance(value, str) else value


def _side(profiles: Profiles, word: str) -> Source:
    name, at, choice = word.partition("@")
    path = profiles.find(name).database
    return Source.parse(f"{path}{at}{choice}")


def run_sql(
    scope: Scope,
    query: Annotated[str, doc("One SELECT on the database's views.")],
    limit: Limit = 50,
) -> Answer:
    """Rows of a SELECT, for what no table answers; read only, at most 30 s and 1,000 rows.

    Another process runs it, which can be ended at any moment.

    Raises:
        InvalidValueError: SQLite refuses the statement.
        DlprofError: It took too long, or the database is damaged.
    """
    with scope.profile.open_apart() as database:
        return select_rows(database, query, _rows(limit))


def read_answer(
    scope: Scope,
    address: Annotated[str, doc(f"One of {', '.join(ANSWERS)}, with its parts filled in.")],
    params: Annotated[dict[str, str] | None, doc("Its query parameters.")] = None,
) -> Answer:
    """Any other answer of the REST API, such as memory, or the calls of an op.

    Raises:
        DlprofError: There is no such answer or parameter, or it cannot be given.
    """
    found: Answer = to_plain(ask(scope.data, address.strip("/"), params or {}))
    return found


TOOLS: Final[Mapping[str, Callable[..., Answer]]] = {
    "list_profiles": list_profiles,
    "summary": summarize,
    "advice": advise,
    "compare": compare,
    "describe": describe,
    "table": read_table,
    "ops": _reader(
        "ops", "Ops (layers of the model): GPU and CPU time, Tensor Core use, efficiency."
    ),
    "kernels": _reader("kernels", "GPU kernels by op: launches, times, Tensor Core use."),
    "iterations": _reader("iterations", "Iterations (steps): their times by kind of work."),
    "ranks": ranks,
    "sql": run_sql,
    "critical_path": critical_path,
    "what_if": what_if,
    "timeline_range": timeline_range,
    "answer": read_answer,
}
"""Each tool by its name."""
