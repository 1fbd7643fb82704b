"""The tables of reports: columns of the viewer's tables under DLProf's headers.

``hidden`` columns are written only with ``--extended=true``; DLProf did not have them. What a
column means that only a report has is documented with its view in ``docs/dldb-schema.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from aggregator.tables.declared import advice
from aggregator.tables.declared.efficiency import OP_EFFICIENCY
from aggregator.tables.declared.kernels import KERNELS
from aggregator.tables.declared.ops import NAMES, OP_TYPES, OPS, time_columns
from aggregator.tables.spec import (
    Column,
    Source,
    TableSpec,
    boolean,
    choice,
    identifier,
    number,
    real,
    text,
)
from profiler_cli.reports.source import OF_AGGREGATION, OF_DOMAIN

# Columns of ops, op types and groups: the view of each names them alike.
_OP_ID, _OP_NAME, _DIRECTION, _ = NAMES
_OP_TYPE: Final = OP_TYPES.by_name["op_type"]  # Quoted like a name.
_OP_NAMES: Final = {"Op ID": _OP_ID, "Op Name": _OP_NAME, "Direction": _DIRECTION}
_NUM_CALLS: Final = OPS.by_name["num_calls"]
_DATA_TYPE: Final = OPS.by_name["data_type"]
_STACK_TRACE: Final = OPS.by_name["stack_trace"]
_KERNEL_NAME: Final = KERNELS.by_name["kernel_name"]
_USES_TC: Final = KERNELS.by_name["uses_tc"]


def _time_headers(label: str, average: str) -> tuple[str, ...]:
    """Return the headers of the four columns of a time; DLProf spells the average in two ways."""
    return tuple(f"{part} {label} (ns)" for part in ("Total", average, "Min", "Max"))


_OP_TIMES: Final = dict(
    zip(
        (
            *_time_headers("CPU Time", "Avg."),
            *_time_headers("GPU Time", "Avg."),
            *_time_headers("CPU Overhead", "Avg."),
            *_time_headers("GPU Idle", "Avg."),
        ),
        time_columns("t"),
        strict=True,
    )
)

# Costs and efficiency, for the reports on ops, op types and groups; DLProf did not have them.
_EFFICIENCY: Final = {
    "FLOPs": OP_EFFICIENCY.by_name["flops"],
    "Bytes": OP_EFFICIENCY.by_name["bytes"],
    "TFLOP/s": OP_EFFICIENCY.by_name["tflops_per_second"],
    "GB/s": OP_EFFICIENCY.by_name["gbytes_per_second"],
    "Ideal Time (ns)": OP_EFFICIENCY.by_name["ideal_time_ns"],
    "Left To Win (ns)": OP_EFFICIENCY.by_name["left_time_ns"],
    "Share Of Peak %": OP_EFFICIENCY.by_name["peak_pct"],
    "Arithmetic Intensity": OP_EFFICIENCY.by_name["arithmetic_intensity"],
    "Bound": choice("bound", ""),
}


def _table(
    title: str,
    view: str,
    columns: Mapping[str, Column],
    order: Iterable[str],
    *,
    extended: Mapping[str, Column] | None = None,
    where: str = OF_DOMAIN,
    row_id: str = "",
) -> TableSpec:
    more = extended or {}
    return TableSpec(
        name=view,
        title=title,
        source=Source(view=view, where=where),
        columns=tuple(
            replace(column, title=header) for header, column in {**columns, **more}.items()
        ),
        default_ordering=tuple(order),
        key=(),
        row_id=row_id,
        hidden=tuple(column.name for column in more.values()),
    )


# A section of the summary report.
ITERATION_EFFICIENCY: Final = _table(
    "Iteration Efficiency",
    "view_iteration_efficiency",
    {
        "Iteration": number("iteration", "", "t.iter_value"),
        "Duration (ns)": number("duration_ns", "", "t.duration"),
        "GPU Time (ns)": number("gpu_time_ns", "", "t.gpu_time_sum"),
        **_EFFICIENCY,
        "Model FLOPs Utilization %": real("mfu_pct", "", "t.mfu"),
    },
    ("iteration",),
)


def _stored(name: str) -> Column:
    """Return a column of advice as it is stored: an empty text stays one."""
    return replace(advice.ADVICE.by_name[name], sql=f"t.{name}")


#: The table of each report, by its token.
TABLES: Final = {
    # Every op with its times. GPU time of an op is the union of its device work, copies and sets
    # included.
    "detail": _table(
        # The title in DLProf, even if only some iterations are aggregated.
        "All Iterations",
        "view_op_metrics",
        {
            **_OP_NAMES,
            "Op Type": _OP_TYPE,
            "No. Calls": _NUM_CALLS,
            "TC Eligible": OPS.by_name["tc_eligible"],
            "Using TC": OPS.by_name["using_tc"],
            **_OP_TIMES,
            "Data Type": _DATA_TYPE,
            "Stack Trace": _STACK_TRACE,
        },
        ("op_id",),
        row_id="t.row_id",
        extended={
            "Module Path": text("module_path", ""),
            "Mapped GPU Time (ns)": number("mapped_gpu_time_ns", "", "t.mapped_gpu_time_sum"),
            "Kernel Calls": OPS.by_name["kernel_calls"],
            "Kernel Time (ns)": number("kernel_time_ns", "", "t.kernel_time"),
            "TC Kernel Time (ns)": number("tc_kernel_time_ns", "", "t.tc_kernel_time"),
            "FLOPs per Call": number("flops_per_call", ""),
            "TC Possible": choice("tc_fit", "", "t.tc_fit_text"),
            "TC Possible Reason": text("tc_fit_reason", ""),
            **_EFFICIENCY,
        },
    ),
    # The times of each pair of op and kernel name. GPU time is the sum of kernel durations, without
    # copies and sets.
    "kernel": _table(
        "Kernel Report",
        "view_kernel_metrics",
        {
            "Kernel Name": _KERNEL_NAME,
            **_OP_NAMES,
            "Uses TC": _USES_TC,
            **{
                header: KERNELS.by_name[f"{time}_{part}ns"]
                for time, label in (("gpu_time", "GPU Time"), ("api_time", "API Time"))
                for header, part in zip(
                    _time_headers(label, "Avg"), ("", "avg_", "min_", "max_"), strict=True
                )
            },
        },
        ("op_name", "kernel_name", "op_id"),
        row_id="t.row_id",
    ),
    # Every kernel launch of the aggregated iterations. As in DLProf, the long name is that of the
    # last launch of the short name in the op.
    "iteration": _table(
        "Iteration Report",
        "view_kernel_launches",
        {
            "Iteration": number("iteration", "", "t.iter_value"),
            **_OP_NAMES,
            "Op Type": _OP_TYPE,
            "Kernel Name": _KERNEL_NAME,
            "Device ID": identifier("device_id", "", integer=True),
            "GPU Start Time (ns)": number("start_time_ns", "", "t.kernel_timestamp"),
            "GPU Duration (ns)": number("gpu_time_ns", "", "t.kernel_duration"),
            "API Call Start (ns)": number("api_start_ns", "", "t.api_start"),
            "API Call Time (ns)": number("api_time_ns", "", "t.api_duration"),
            "Uses TC": _USES_TC,
            **{
                f"{side} {axis}": number(f"{side}_{axis}".lower(), "")
                for side in ("Grid", "Block")
                for axis in "XYZ"
            },
            "Data Types": _DATA_TYPE,
            "Input Shapes": text("input_shapes", ""),
            "Parameters": text("parameters", ""),
            "Output Shapes": text("output_shapes", ""),
            "Long Kernel Name": text("last_long_kernel_name", ""),
        },
        ("iteration", "op_name", "kernel_name", "start_time_ns"),
        row_id="t.row_id",
        extended={
            "Stream ID": identifier("stream_id", "", integer=True),
            "Process ID": identifier("process_id", "", integer=True),
            "Launched Kernel Name": text("long_kernel_name", ""),
            "Stack Trace": _STACK_TRACE,
        },
    ),
    # The ops that can use Tensor Cores, and whether their kernels did. The counts are
    # those of kernel names, not launches.
    "tensor": _table(
        "Tensor Core Report",
        "view_tensor_core_ops",
        {
            **_OP_NAMES,
            "Op Type": _OP_TYPE,
            "Uses TC": boolean("using_tc", ""),
            "Total GPU Time (ns)": number("gpu_time_ns", "", "t.gpu_time"),
            "TC GPU Time (ns)": number("tc_gpu_time_ns", "", "t.tc_gpu_time"),
            "Non-TC GPU Time (ns)": number("non_tc_gpu_time_ns", "", "t.non_tc_gpu_time"),
            "TC Utilization (%)": real("tc_utilization_pct", "", "t.tc_utilization"),
            "Total Kernel Count": number("kernel_count", ""),
            "TC Kernel Count": number("tc_kernel_count", ""),
            "TC Kernel Names": text("tc_kernel_names", ""),
            "Non-TC Kernel Count": number("non_tc_kernel_count", ""),
            "Non-TC Kernel Names": text("non_tc_kernel_names", ""),
        },
        ("op_id",),
    ),
    # The totals of each op type.
    "op_type": _table(
        "Op Type Summary Report",
        "view_op_type_summary",
        {
            "Op Type": _OP_TYPE,
            "# Ops": OP_TYPES.by_name["num_ops"],
            "# Calls": _NUM_CALLS,
            **_OP_TIMES,
        },
        ("op_type",),
        extended=_EFFICIENCY,
    ),
    # Each prefix of op names, and the whole model.
    "group_node": _table(
        "Group Op Report",
        "view_group_summary",
        {
            "Name": text("name", "", "t.group_name"),
            "Num Calls Aggregated": _NUM_CALLS,
            "Num TC Eligible Ops": number("num_tc_eligible_ops", ""),
            "Num Ops Using TC": number("num_ops_using_tc", ""),
            **_OP_TIMES,
        },
        ("name",),
        extended=_EFFICIENCY,
    ),
    # The problems that DLProf's detectors found, in the order of the detectors, as in DLProf.
    "expert_systems": _table(
        "Expert Systems Feedback",
        "view_expert_systems",
        {"Problem": text("problem", ""), "Recommendation": text("recommendation", "")},
        (),
        where=OF_AGGREGATION,
    ),
    # Findings with how much time a fix could save, then open questions.
    "advice": _table(
        "Advice",
        "view_advice",
        {
            "Place": _stored("place"),
            "Advice": choice("advice", "", "t.advice_name"),
            "Status": _stored("status"),
            "Severity": _stored("severity"),
            "Could Save (ns)": _stored("gain_ns"),
            "Could Save (%)": _stored("gain_pct"),
            "Source": _stored("gain_source"),
            "Certainty": _stored("certainty"),
            "Problem": _stored("problem"),
            "Recommendation": _stored("recommendation"),
            "Reasoning": _stored("reasoning"),
            "Data Needed": _stored("needs"),
            "Frameworks": choice("frameworks", ""),
            "Evidence": _stored("evidence"),
            "Proof Query": _stored("proof_query"),
            "Proof Column": choice("proof_column", ""),
            "Proof Value": _stored("proof_value"),
        },
        ("place",),
        where=OF_AGGREGATION,
    ),
}
