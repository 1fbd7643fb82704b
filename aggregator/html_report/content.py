"""What a report holds of one domain: panels, figures, the first rows of every table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggregator.figures import MAX_BARS, Theme
from aggregator.html_report.encoding import Strings, encode_rows
from aggregator.query.request import parse_list_query
from aggregator.query.spec import TableSpec
from aggregator.query.sql import bind, count_rows, distinct_values, iter_rows
from aggregator.resources.addresses import OBJECTS, WHOLE_TABLES
from aggregator.resources.figures import FIGURES, FIGURES_OF_ITERATIONS, Look, Place
from aggregator.resources.iterations import ITERATIONS
from aggregator.resources.kernels import ITERATION_KERNELS, KERNELS_OF_EVERY_OP, OP_KERNELS
from aggregator.resources.objects import read_object
from aggregator.resources.ops import GROUP_OPS, ITERATION_OPS, OP_DETAIL, OPS, TOP_OPS
from aggregator.resources.recommendations import read_recommendations

#: Rows of each table; the page says so where there are more.
ROWS = 1_000
#: Launches of an iteration: the table shows ROWS of them, those of one op are chosen out of all.
_LAUNCHES = 5_000
#: Kernels of single ops, all ops together.
_OP_KERNELS = 20_000

#: Bars of the iteration figure of which the page shows a part when it is zoomed.
_FINE_BARS = 1_000

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


def read_objects(place: Place) -> dict[str, Any]:
    """The panels, by their address."""
    objects: dict[str, Any] = {
        name: read_object(spec, place.database, place.params) for name, spec in OBJECTS.items()
    }
    advice = read_recommendations(place.database, place.params)
    objects["recommendations"] = {"count": len(advice), "results": advice}
    objects["top-ops"] = _top_ops(place)
    return objects


def _top_ops(place: Place) -> dict[str, Any]:
    query = parse_list_query(OPS, {"page_size": str(TOP_OPS)})
    table = bind(OPS, place.database, place.params)
    rows = list(iter_rows(table, query, place.database, limit=TOP_OPS))
    return {
        "count": len(rows),
        "page": query.page,
        "page_size": query.page_size,
        "ordering": query.ordering_text,
        "results": rows,
        "unknown": table.unknown,
    }


def read_figures(place: Place) -> dict[str, Any]:
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
        f"{name}/{key}": build(place, look)
        for name, build in FIGURES.items()
        for key, look in (of_iterations if name in FIGURES_OF_ITERATIONS else looks).items()
    }


def read_tables(place: Place, strings: Strings) -> Part:
    """The first rows of every table, by its address."""
    parts = {address: read_table(spec, place, strings) for address, spec in WHOLE_TABLES.items()}
    parts["op-details"] = read_table(OP_DETAILS, place, strings)
    tables = {address: part.data for address, part in parts.items()}
    return Part(tables, sum(part.rows for part in parts.values()))


def read_table(
    spec: TableSpec,
    place: Place,
    strings: Strings,
    more: Mapping[str, str | int] | None = None,
    limit: int = ROWS,
) -> Part:
    """The first rows of a table, how many there are, and what is not known of them.

    Args:
        spec: The table.
        place: Aggregation and domain.
        strings: Takes the texts.
        more: Iteration or op that the table is of.
        limit: At most so many rows.
    """
    table = bind(spec, place.database, {**place.params, **(more or {})})
    query = parse_list_query(spec, {"ordering": ",".join(_FIRST.get(spec.name, ()))})
    rows = list(iter_rows(table, query, place.database, limit=limit))
    strings.keep_sentences(table.unknown.values())
    whole = len(rows) < limit
    data = {
        "count": len(rows) if whole else count_rows(table, query, place.database),
        "unknown": table.unknown,
        "columns": encode_rows(spec, rows, strings),
    }
    return Part(data, len(rows))


def read_op_kernels(place: Place, strings: Strings) -> Part:
    """The kernels of each op that the report lists, by op, as long as there is room."""
    ops = bind(OPS, place.database, place.params)
    listed = iter_rows(ops, parse_list_query(OPS, {}), place.database, limit=ROWS)
    kernels: dict[str, list[dict[str, Any]]] = {row["op_id"]: [] for row in listed}
    table = bind(KERNELS_OF_EVERY_OP, place.database, place.params)
    query = parse_list_query(KERNELS_OF_EVERY_OP, {})
    for row in iter_rows(table, query, place.database):
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


def read_iteration(place: Place, strings: Strings, iteration: int) -> Part:
    """Ops and launches of one iteration."""
    more = {"iteration": iteration}
    ops = read_table(ITERATION_OPS, place, strings, more)
    launches = read_table(ITERATION_KERNELS, place, strings, more, limit=_LAUNCHES)
    data: dict[str, Any] = {"ops": ops.data, "kernels": launches.data}
    if launches.data["count"] > _LAUNCHES:
        data["launches_of_op"] = _launches_of_op(place, more)
    return Part(data, ops.rows + launches.rows)


def _launches_of_op(place: Place, more: Mapping[str, str | int]) -> dict[str, int]:
    """How many launches each op has, for the ops whose launches are not all in the report."""
    table = bind(ITERATION_KERNELS, place.database, {**place.params, **more})
    query = parse_list_query(ITERATION_KERNELS, {})
    op_id = ITERATION_KERNELS.by_name["op_id"]
    return dict(distinct_values(table, query, op_id, place.database, -1))


def choose_iterations(place: Place, key_node: str | None) -> Iterator[int]:
    """Aggregated iterations, the most telling ones first.

    These are the one that the page opens, the one of median length, the longest, the shortest;
    then all others in order.
    """
    table = place.table(ITERATIONS)
    rows = zip(table["iteration_index"], table["duration_ns"], table["is_profiled"], strict=True)
    profiled = [(index, duration) for index, duration, is_profiled in rows if is_profiled]
    if not profiled:
        return
    indexes = [index for index, _ in profiled]
    by_length = [index for index, _ in sorted(profiled, key=lambda row: row[1])]
    # Interval 0 is the start of the program where a key node was found.
    is_start_up = indexes[0] == 0 and len(indexes) > 1 and bool(key_node)
    opened = indexes[1] if is_start_up else indexes[0]
    telling = (opened, by_length[len(by_length) // 2], by_length[-1], by_length[0])
    yield from dict.fromkeys((*telling, *indexes))
