"""The reports of ``dlprof``: what they contain, and their names in ``--reports``.

A report is written from the views of a finished database, for one aggregation and one domain. To
add one, declare it and list it in ``REPORTS``: the option and its help follow from it. This module
loads nothing of the engine, so that ``--help`` is quick.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO, Final

from profiler_cli.reports.columns import EFFICIENCY, OP_TIMES, Column, Format, time_columns
from profiler_cli.reports.summary import SUMMARY
from profiler_cli.reports.table import Report, RowsListener, TableReport, write_json_rows

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource

OP_NAMES: Final = (
    Column("Op ID", "op_node_id", Format.NAME),
    Column("Op Name", "op_node_name", Format.NAME),
    Column("Direction", "direction", Format.WORD, pytorch_only=True),
)
OP_TYPE_COLUMN: Final = Column("Op Type", "op_node_type", Format.NAME)

# Every op with its times. GPU time of an op is the union of its device work, copies and sets
# included.
DETAIL: Final = TableReport(
    name="detail",
    suffix="detailed",
    # The title in DLProf, even if only some iterations are aggregated.
    title="All Iterations",
    view="view_op_metrics",
    columns=(
        *OP_NAMES,
        OP_TYPE_COLUMN,
        Column("No. Calls", "num_calls", Format.NUMBER),
        Column("TC Eligible", "tc_eligible", Format.FLAG),
        Column("Using TC", "using_tc", Format.FLAG),
        *OP_TIMES,
        Column("Data Type", "data_type", Format.WORD),
        Column("Stack Trace", "stack_trace", Format.NAME, pytorch_only=True),
        Column("Module Path", "module_path", Format.NAME, extended=True),
        Column("Mapped GPU Time (ns)", "mapped_gpu_time_sum", Format.NUMBER, extended=True),
        Column("Kernel Calls", "kernel_calls", Format.NUMBER, extended=True),
        Column("Kernel Time (ns)", "kernel_time", Format.NUMBER, extended=True),
        Column("TC Kernel Time (ns)", "tc_kernel_time", Format.NUMBER, extended=True),
        Column("FLOPs per Call", "flops_per_call", Format.NUMBER, extended=True),
        Column("TC Possible", "tc_fit_text", Format.WORD, extended=True),
        Column("TC Possible Reason", "tc_fit_reason", Format.NAME, extended=True),
        *EFFICIENCY,
    ),
    order_by=("op_node_id", "row_id"),
)

# The times of each pair of op and kernel name. GPU time is the sum of kernel durations, without
# copies and sets.
KERNEL: Final = TableReport(
    name="kernel",
    suffix="kernel",
    title="Kernel Report",
    view="view_kernel_metrics",
    columns=(
        Column("Kernel Name", "kernel_name", Format.NAME),
        *OP_NAMES,
        Column("Uses TC", "uses_tc", Format.FLAG),
        *time_columns("GPU Time", "gpu_time", "Avg"),
        *time_columns("API Time", "api_time", "Avg"),
    ),
    order_by=("op_node_name", "kernel_name", "op_node_id", "row_id"),
)

# Every kernel launch of the aggregated iterations. As in DLProf, the long name is that of the last
# launch of the short name in the op.
ITERATION: Final = TableReport(
    name="iteration",
    suffix="iteration",
    title="Iteration Report",
    view="view_kernel_launches",
    columns=(
        Column("Iteration", "iter_value", Format.NUMBER),
        *OP_NAMES,
        OP_TYPE_COLUMN,
        Column("Kernel Name", "kernel_name", Format.NAME),
        Column("Device ID", "device_id", Format.NUMBER),
        Column("GPU Start Time (ns)", "kernel_timestamp", Format.NUMBER),
        Column("GPU Duration (ns)", "kernel_duration", Format.NUMBER),
        Column("API Call Start (ns)", "api_start", Format.NUMBER),
        Column("API Call Time (ns)", "api_duration", Format.NUMBER),
        Column("Uses TC", "uses_tc", Format.FLAG),
        Column("Grid X", "grid_x", Format.NUMBER),
        Column("Grid Y", "grid_y", Format.NUMBER),
        Column("Grid Z", "grid_z", Format.NUMBER),
        Column("Block X", "block_x", Format.NUMBER),
        Column("Block Y", "block_y", Format.NUMBER),
        Column("Block Z", "block_z", Format.NUMBER),
        Column("Data Types", "data_type", Format.WORD),
        Column("Input Shapes", "input_shapes", Format.NAME),
        Column("Parameters", "parameters", Format.NAME),
        Column("Output Shapes", "output_shapes", Format.NAME),
        Column("Long Kernel Name", "last_long_kernel_name", Format.NAME),
        Column("Stream ID", "stream_id", Format.NUMBER, extended=True),
        Column("Process ID", "process_id", Format.NUMBER, extended=True),
        Column("Launched Kernel Name", "long_kernel_name", Format.NAME, extended=True),
        Column("Stack Trace", "stack_trace", Format.NAME, extended=True),
    ),
    order_by=("iter_value", "op_node_name", "kernel_name", "kernel_timestamp", "row_id"),
)

# The ops that can use Tensor Cores, and whether their kernels did. The counts are
# those of kernel names, not launches.
TENSOR: Final = TableReport(
    name="tensor",
    suffix="tensor_core",
    title="Tensor Core Report",
    view="view_tensor_core_ops",
    columns=(
        *OP_NAMES,
        OP_TYPE_COLUMN,
        Column("Uses TC", "using_tc", Format.FLAG),
        Column("Total GPU Time (ns)", "gpu_time", Format.NUMBER),
        Column("TC GPU Time (ns)", "tc_gpu_time", Format.NUMBER),
        Column("Non-TC GPU Time (ns)", "non_tc_gpu_time", Format.NUMBER),
        Column("TC Utilization (%)", "tc_utilization", Format.DECIMAL),
        Column("Total Kernel Count", "kernel_count", Format.NUMBER),
        Column("TC Kernel Count", "tc_kernel_count", Format.NUMBER),
        Column("TC Kernel Names", "tc_kernel_names", Format.NAME),
        Column("Non-TC Kernel Count", "non_tc_kernel_count", Format.NUMBER),
        Column("Non-TC Kernel Names", "non_tc_kernel_names", Format.NAME),
    ),
    order_by=("op_node_id",),
)

# The totals of each op type.
OP_TYPE: Final = TableReport(
    name="op_type",
    suffix="op_type",
    title="Op Type Summary Report",
    view="view_op_type_summary",
    columns=(
        OP_TYPE_COLUMN,
        Column("# Ops", "num_nodes", Format.NUMBER),
        Column("# Calls", "num_calls", Format.NUMBER),
        *OP_TIMES,
        *EFFICIENCY,
    ),
    order_by=("op_node_type",),
)

# Each prefix of op names, and the whole model.
GROUP_NODE: Final = TableReport(
    name="group_node",
    # "node" became "op" in DLProf 1.7; the token of the command line stayed.
    suffix="group_op",
    title="Group Op Report",
    view="view_group_metrics",
    columns=(
        Column("Name", "group_name", Format.NAME),
        Column("Num Calls Aggregated", "num_calls", Format.NUMBER),
        Column("Num TC Eligible Ops", "num_tc_eligible_ops", Format.NUMBER),
        Column("Num Ops Using TC", "num_ops_using_tc", Format.NUMBER),
        *OP_TIMES,
        *EFFICIENCY,
    ),
    order_by=("group_name",),
    extended_view="view_group_summary",
)

# The problems that DLProf's detectors found.
EXPERT_SYSTEMS: Final = TableReport(
    name="expert_systems",
    suffix="expert_systems",
    title="Expert Systems Feedback",
    view="view_expert_systems",
    columns=(
        Column("Problem", "problem", Format.NAME),
        Column("Recommendation", "recommendation", Format.NAME),
    ),
    # In the order of the detectors, as in DLProf.
    order_by=(),
    per_domain=False,
)

# Findings with how much time a fix could save, then open questions.
ADVICE: Final = TableReport(
    name="advice",
    suffix="advice",
    title="Advice",
    view="view_advice",
    columns=(
        Column("Place", "place", Format.NUMBER),
        Column("Advice", "advice_name", Format.WORD),
        Column("Status", "status", Format.WORD),
        Column("Severity", "severity", Format.WORD),
        Column("Could Save (ns)", "gain_ns", Format.NUMBER),
        Column("Could Save (%)", "gain_pct", Format.DECIMAL),
        Column("Source", "gain_source", Format.WORD),
        Column("Certainty", "certainty", Format.WORD),
        Column("Problem", "problem", Format.NAME),
        Column("Recommendation", "recommendation", Format.NAME),
        Column("Reasoning", "reasoning", Format.NAME),
        Column("Data Needed", "needs", Format.NAME),
        Column("Frameworks", "frameworks", Format.WORD),
        Column("Evidence", "evidence", Format.NAME),
        Column("Proof Query", "proof_query", Format.NAME),
        Column("Proof Column", "proof_column", Format.WORD),
        Column("Proof Value", "proof_value", Format.NUMBER),
    ),
    order_by=("place",),
    per_domain=False,
    is_addition=True,
)


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

    # Section -> view, and whether its rows belong to an aggregation.
    SECTIONS: Final = {
        "Iterations": ("view_iterations_all", True),
        "Ops": ("view_op_metrics", True),
        "Op Instances": ("view_op_instances", False),
        "Kernels": ("view_kernel_launches", True),
        "API Calls": ("view_api_calls", False),
        "Memory Ops": ("view_memory_ops", False),
    }
    # Columns that only reproduce DLProf's iteration report.
    INTERNAL: Final = frozenset({"last_long_kernel_name"})

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write all sections, with all domains."""
        separator = "{"
        for section, (view, per_aggregation) in self.SECTIONS.items():
            columns = [name for name in source.columns(view) if name not in self.INTERNAL]
            chunks = source.iter_chunks(
                view, columns, per_aggregation=per_aggregation, per_domain=False
            )
            stream.write(f"{separator}\n   {json.dumps(section)} : [".encode())
            write_json_rows([(name, Format.RAW) for name in columns], chunks, stream, on_rows)
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
