"""The findings of DLProf's detectors, and the kernels with the most GPU time."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Struct

from aggregator.system.replies import doc
from aggregator.system.sqlite_uri import as_text
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import ProfileDatabase
from aggregator.tables.declared.kernels import MERGED_KERNELS
from aggregator.tables.declared.ops import TOP_OPS
from aggregator.tables.request import parse_list_query
from aggregator.tables.sql import read_counted_page
from aggregator.texts.recognition import recognized

_RECOMMENDATIONS: Final = "view_expert_systems"
_DRILL_DOWNS: Final = {"ShowBadDataTypeOps": "bad-data-type-ops"}
"""The database names a script function. It is looked up among the views of the page, never run."""


class Recommendation(Struct):
    """A finding of one of DLProf's detectors."""

    id: int
    detector: Annotated[str | None, doc("Name of the detector.")]
    problem: str
    recommendation: str
    drill_down: Annotated[str | None, doc("View that shows the details.")]
    drill_down_args: str | None


class Recommendations(Struct):
    """All findings of an aggregation."""

    count: int
    results: list[Recommendation]


class TopKernel(Struct):
    """A kernel over all ops that launched it."""

    readable_name: Annotated[str, doc("Library, operation, types, tile and layout.")]
    kernel_long_name: Annotated[str | None, doc("Full name of the kernel.")]
    kernel_name: Annotated[str, doc("Short name of the kernel.")]
    uses_tc: Annotated[bool | None, doc("Whether it used Tensor Cores.")]
    num_calls: Annotated[int, doc("Number of launches.")]
    gpu_time_ns: Annotated[int, doc("Sum of the durations of its launches.")]
    num_ops: Annotated[int, doc("Number of ops that launched it.")]
    share_pct: Annotated[float | None, doc("Share of all kernels' time.")]


class TopKernels(Struct):
    """The kernels with the most GPU time."""

    count: Annotated[int, doc("Number of different kernels, by full name.")]
    results: list[TopKernel]


def read_recommendations(data: AggregationData) -> Recommendations:
    """Problems and advice, in the order in which they were stored."""
    view, database = _RECOMMENDATIONS, data.database
    if not database.has(view):
        return Recommendations(count=0, results=[])
    detector = "exp_sys_id" if database.has(view, "exp_sys_id") else "NULL"
    sql = (
        "SELECT problem, recommendation, javascript_function, javascript_args, "  # noqa: S608
        f"{detector} FROM {view} WHERE aggr_id = :aggr_id"
    )
    found = [
        Recommendation(
            id=index,
            detector=name,
            problem=_stored_sentence(database, problem),
            recommendation=_stored_sentence(database, recommendation),
            drill_down=_DRILL_DOWNS.get(function or ""),
            drill_down_args=as_text(args) or None,
        )
        for index, (problem, recommendation, function, args, name) in enumerate(
            database.rows(sql, data.params), start=1
        )
    ]
    return Recommendations(count=len(found), results=found)


def _stored_sentence(database: ProfileDatabase, value: Any) -> str:
    """Return a stored sentence in a form that can be translated; empty if there is none."""
    text = as_text(value) or ""
    return database.texts.get(text, text) if database.is_ours else recognized(text)


def read_top_kernels(data: AggregationData) -> TopKernels:
    """Ten kernels by full name, each summed over the ops that launched it."""
    query = parse_list_query(MERGED_KERNELS, {"page_size": str(TOP_OPS)})
    count, rows = read_counted_page(data.resolve(MERGED_KERNELS), query, data.database)
    names = TopKernel.__struct_fields__
    return TopKernels(
        count=count, results=[TopKernel(**{name: row[name] for name in names}) for row in rows]
    )
