"""The contents of a report for one domain: panels, figures, the first rows of every table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from aggregator.answers.registry import ANSWERS
from aggregator.html_report.encoding import Strings, encode_rows
from aggregator.system.replies import to_plain
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.declared.addresses import OBJECTS, WHOLE_TABLES
from aggregator.tables.declared.iterations import ITERATIONS
from aggregator.tables.declared.kernels import ITERATION_KERNELS, KERNELS_OF_EVERY_OP, OP_KERNELS
from aggregator.tables.declared.ops import GROUP_OPS, ITERATION_OPS, OP_DETAIL, OPS
from aggregator.tables.figures import FIGURES, FIGURES_OF_ITERATIONS, Look
from aggregator.tables.plotly.iterations import MAX_BARS
from aggregator.tables.plotly.theme import Theme
from aggregator.tables.request import parse_list_query
from aggregator.tables.spec import TableSpec
from aggregator.tables.sql import count_rows, distinct_values, iter_rows

_PANELS = ("limits", "recommendations", "top-kernels", "verdict")
ROWS = 1_000  # Rows of each table; the page has a note if there are more.
#: Launches of an iteration: the table shows ROWS of them, those of one op are chosen out of all.
_LAUNCHES = 5_000
_OP_KERNELS = 20_000  # Kernels of single ops, all ops together.

_FINE_BARS = 1_000  # Bars of the iteration figure of which the page shows a part when it is zoomed.

#: Which rows are the first, where the table's own order would leave out what matters.
_FIRST = {
    # Groups take as much time as all that is below them, so that no row comes without its parents.
    GROUP_OPS.name: ("-gpu_time_ns", "level", "name"),
    ITERATIONS.name: ("-is_profiled", "iteration_index"),
}

#: The ops with all their times; the API gives them one by one.
OP_DETAILS = replace(
    OP_DETAIL,
    source=replace(OP_DETAIL.source, where=OPS.source.where),
    default_ordering=OPS.default_ordering,
)


@dataclass(frozen=True)
class Part:
    """Encoded data, and how many rows were read for it."""

    data: dict[str, Any]
    rows: int


def read_objects(data: AggregationData) -> dict[str, Any]:
    """The panels, by their address in the API."""
    objects: dict[str, Any] = {name: data.read_object(spec) for name, spec in OBJECTS.items()}
    objects["top-ops"] = data.top_ops()
    return objects | {name: to_plain(ANSWERS[name].read(data)) for name in _PANELS}


def read_figures(data: AggregationData) -> dict[str, Any]:
    """Each figure in both themes.

    Those of iterations also without what is outside, and with more bars for a part of them.
    """
    looks = {f"{theme}": Look(theme) for theme in Theme}
    of_iterations = {
        f"{theme}/{view}{detail}": Look(theme, only_profiled=view == "profiled", max_bars=bars)
        for theme in Theme
        for view in ("all", "profiled")
        for detail, bars in (("", MAX_BARS), ("/fine", _FINE_BARS))
    }
    return {
        f"{name}/{key}": build(data, look)
        for name, build in FIGURES.items()
        for key, look in (of_iterations if name in FIGURES_OF_ITERATIONS else looks).items()
    }


def read_tables(data: AggregationData, strings: Strings) -> Part:
    """The first rows of every table, by its address."""
    parts = {address: read_table(spec, data, strings) for address, spec in WHOLE_TABLES.items()}
    parts["op-details"] = read_table(OP_DETAILS, data, strings)
    tables = {address: part.data for address, part in parts.items()}
    return Part(tables, sum(part.rows for part in parts.values()))


def read_table(spec: TableSpec, data: AggregationData, strings: Strings, limit: int = ROWS) -> Part:
    """The first rows of a table, how many there are, and the reasons of unknown columns."""
    table = data.resolve(spec)
    query = parse_list_query(spec, {"ordering": ",".join(_FIRST.get(spec.name, ()))})
    rows = list(iter_rows(table, query, data.database, limit=limit))
    strings.keep_sentences(table.unknown.values())
    is_whole = len(rows) < limit
    part = {
        "count": len(rows) if is_whole else count_rows(table, query, data.database),
        "unknown": table.unknown,
        "columns": encode_rows(spec, rows, strings),
    }
    return Part(part, len(rows))


def read_op_kernels(data: AggregationData, strings: Strings) -> Part:
    """The kernels of each op that the report lists, by op, as long as there is room."""
    ops = data.rows(OPS, limit=ROWS)
    kernels: dict[str, list[dict[str, Any]]] = {row["op_id"]: [] for row in ops}
    table = data.resolve(KERNELS_OF_EVERY_OP)
    query = parse_list_query(KERNELS_OF_EVERY_OP, {})
    for row in iter_rows(table, query, data.database):
        if row["op_id"] in kernels:
            kernels[row["op_id"]].append(row)
    strings.keep_sentences(table.unknown.values())
    unknown = {name: text for name, text in table.unknown.items() if name != "op_id"}
    tables: dict[str, Any] = {}
    count = 0
    for op_id, rows in kernels.items():
        if count >= _OP_KERNELS:
            break
        columns = encode_rows(OP_KERNELS, rows[:ROWS], strings)
        tables[op_id] = {"count": len(rows), "unknown": unknown, "columns": columns}
        count += len(rows)
    return Part(tables, count)


def read_iteration(data: AggregationData, strings: Strings, iteration: int) -> Part:
    """Ops and launches of one iteration."""
    data = data.narrowed({"iteration": iteration})
    ops = read_table(ITERATION_OPS, data, strings)
    launches = read_table(ITERATION_KERNELS, data, strings, limit=_LAUNCHES)
    parts: dict[str, Any] = {"ops": ops.data, "kernels": launches.data}
    if launches.data["count"] > _LAUNCHES:
        parts["launches_of_op"] = _launches_of_op(data)
    return Part(parts, ops.rows + launches.rows)


def _launches_of_op(data: AggregationData) -> dict[str, int]:
    """Number of launches of each op, where the report does not hold all launches."""
    query = parse_list_query(ITERATION_KERNELS, {})
    op_id = ITERATION_KERNELS.by_name["op_id"]
    table = data.resolve(ITERATION_KERNELS)
    return dict(distinct_values(table, query, op_id, data.database, -1))


def choose_iterations(data: AggregationData, key_node: str | None) -> Iterator[int]:
    """Aggregated iterations, the most useful ones first.

    These are the one that the page opens, the one of median length, the longest and the shortest;
    then all others in order.
    """
    table = data.columns(ITERATIONS)
    rows = zip(table["iteration_index"], table["duration_ns"], table["is_profiled"], strict=True)
    profiled = [(index, duration) for index, duration, is_profiled in rows if is_profiled]
    if not profiled:
        return
    indexes = [index for index, _ in profiled]
    by_length = [index for index, _ in sorted(profiled, key=lambda row: row[1])]
    # Interval 0 is the start of the program where a key node was found.
    is_start_up = indexes[0] == 0 and len(indexes) > 1 and bool(key_node)
    opened = indexes[1] if is_start_up else indexes[0]
    first = (opened, by_length[len(by_length) // 2], by_length[-1], by_length[0])
    yield from dict.fromkeys((*first, *indexes))
