"""The reports of ``dlprof``: what they contain, and their names in ``--reports``.

A report is written from the views of a finished database, for one aggregation and one domain. To
add one, declare it and list it in ``REPORTS``: the option and its help follow from it. This module
loads nothing of the engine, so that ``--help`` is quick: ``tables.py`` has the columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO, Final

from profiler_cli.reports.source import OF_AGGREGATION, WHOLE_PROFILE
from profiler_cli.reports.summary import SUMMARY
from profiler_cli.reports.table import Report, RowsListener, TableReport, write_json_rows
from profiler_cli.reports.values import json_value

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource

DETAIL: Final = TableReport(name="detail", suffix="detailed")
KERNEL: Final = TableReport(name="kernel", suffix="kernel")
ITERATION: Final = TableReport(name="iteration", suffix="iteration")
TENSOR: Final = TableReport(name="tensor", suffix="tensor_core")
OP_TYPE: Final = TableReport(name="op_type", suffix="op_type")
# "node" became "op" in DLProf 1.7; the token of the command line stayed.
GROUP_NODE: Final = TableReport(name="group_node", suffix="group_op")
EXPERT_SYSTEMS: Final = TableReport(
    name="expert_systems", suffix="expert_systems", per_domain=False
)
ADVICE: Final = TableReport(name="advice", suffix="advice", per_domain=False, is_addition=True)


class HtmlReport(Report):
    """One file with the viewer's page, all panels and the first rows of all tables."""

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the file, with all requested domains."""
        from aggregator.html_report.report import (  # noqa: PLC0415
            ReportRequest,
            write_html_report,
        )

        request = ReportRequest(source.database, source.aggr_id, source.domains)
        write_html_report(request, stream, on_rows)


HTML: Final = HtmlReport(
    name="html", suffix="report", per_domain=False, own_format="html", is_addition=True
)


class ModelData(Report):
    """``--dump_model_data``: the correlated data of one aggregation, as stored in the database.

    JSON, ``{"<section>": [{"<column>": <value>, ...}, ...]}`` with the columns of the views; times
    in ns. Op instances, API calls and memory operations are those of the whole profile.
    """

    # Section -> view, and which of its rows.
    SECTIONS: Final = {
        "Iterations": ("view_iterations_all", OF_AGGREGATION),
        "Ops": ("view_op_metrics", OF_AGGREGATION),
        "Op Instances": ("view_op_instances", WHOLE_PROFILE),
        "Kernels": ("view_kernel_launches", OF_AGGREGATION),
        "API Calls": ("view_api_calls", WHOLE_PROFILE),
        "Memory Ops": ("view_memory_ops", WHOLE_PROFILE),
    }
    # Columns that only reproduce DLProf's iteration report.
    INTERNAL: Final = frozenset({"last_long_kernel_name"})

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write all sections, with all domains."""
        separator = "{"
        for section, (view, where) in self.SECTIONS.items():
            columns = [name for name in source.columns(view) if name not in self.INTERNAL]
            chunks = source.iter_chunks(view, columns, where=where)
            stream.write(f"{separator}\n   {json.dumps(section)} : [".encode())
            write_json_rows(dict.fromkeys(columns, json_value), chunks, stream, on_rows)
            stream.write(b"]")
            separator = ","
        stream.write(b"\n}\n")


MODEL_DATA: Final = ModelData(
    name="model_data", suffix="model_data", per_domain=False, own_format="json"
)

REPORTS: Final[dict[str, Report]] = {
    report.name: report
    for report in (
        *(SUMMARY, DETAIL, KERNEL, ITERATION, TENSOR, OP_TYPE, GROUP_NODE, EXPERT_SYSTEMS),
        *(ADVICE, HTML),
    )
}
