"""The summary report: five sections of totals, and one on iterations with --extended=true.

CSV: each section starts with its title, a blank line stands between sections, values are not
quoted (a reader splits a line of the first three sections at its first comma).
JSON: section -> key -> array of one value; the sections from All Ops on: row -> column -> value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from profiler_cli.reports.columns import csv_decimal, json_decimal
from profiler_cli.reports.table import RowsListener, encode

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource

TITLE_SYSTEM: Final = "System Config"

# Title -> column of view_system_config. The GPU names come from their own view.
SYSTEM_ROWS: Final = {
    "Profile Name": "profile_name",
    "GPU Count": "num_gpus",
    "GPU Name(s)": "gpu_names",
    "CPU Model": "cpu_model",
    "GPU Driver Version": "driver_version",
    "Framework": "framework",
    "CUDA Version": "cuda_version",
    "cuDNN Version": "cudnn_version",
    "NSys Version": "nsys_version",
    "DLProf Version": "dlprof_version",
    "DLProf Build": "dlprof_build",
}
# Lines that DLProf leaves out when it has no value.
OPTIONAL_SYSTEM_ROWS: Final = frozenset({"Profile Name", "cuDNN Version", "DLProf Build"})

# Title -> column of view_model_summary, and whether it is a decimal.
SUMMARY_ROWS: Final = {
    "Wall Clock Time (ns)": ("wall_time", False),
    "Tensor Core Kernel Utilization %": ("tc_utilization", True),
    "GPU Utilization %": ("gpu_utilization", True),
    "Tensor Core Kernel Duration %": ("tc_duration_pct", True),
    "Non-Tensor Core Kernel Duration %": ("non_tc_duration_pct", True),
    "Memory Duration %": ("memory_duration_pct", True),
    "Dataloader Duration %": ("dataloader_duration_pct", True),
    "IO Duration %": ("io_duration_pct", True),
    "CPU Duration %": ("cpu_duration_pct", True),
    "Other Duration %": ("other_duration_pct", True),
}
# With --extended=true, behind DLProf's own. DLProf averaged over all visible GPUs.
EXTENDED_SUMMARY_ROWS: Final = {
    "GPU Utilization of Used GPUs %": ("used_gpu_utilization", True),
    "Communication Duration %": ("communication_pct", True),
    "Exposed Communication Duration %": ("exposed_communication_pct", True),
}
# Title -> column of view_model_efficiency; with --extended=true.
EFFICIENCY_ROWS: Final = {
    "Model FLOPs Utilization %": ("mfu", True),
    "Model FLOPs Utilization Of A Median Step %": ("median_step_mfu", True),
    "TFLOP/s Per GPU": ("tflops_per_second_per_gpu", True),
    "GPU Time At The Peaks %": ("peak_pct", True),
    "GPU Time With Known Costs %": ("known_pct", True),
}
# Column title -> column of view_iteration_efficiency, and whether it is a decimal; the last
# section with --extended=true, a row for each aggregated iteration.
ITERATION_EFFICIENCY: Final = {
    "Duration (ns)": ("duration", False),
    "GPU Time (ns)": ("gpu_time_sum", False),
    "FLOPs": ("flops", False),
    "Bytes": ("bytes", False),
    "TFLOP/s": ("tflops_per_second", False),
    "GB/s": ("gbytes_per_second", False),
    "Ideal Time (ns)": ("ideal_time", False),
    "Left To Win (ns)": ("left_time", False),
    "Share Of Peak %": ("peak_pct", True),
    "Arithmetic Intensity": ("arithmetic_intensity", False),
    "Bound": ("bound", False),
    "Model FLOPs Utilization %": ("mfu", True),
}
ITERATION_ROWS: Final = {
    "Total Iterations": ("total_iterations", False),
    "Aggregated Iterations": ("profiled_iterations", False),
    "Start Iteration": ("iter_start", False),
    "Stop Iteration": ("iter_stop", False),
    "Average Iteration Time (ns)": ("iter_avg", True),
    "Iteration Time Standard Deviation": ("iter_std_dev", True),
}
# Row label -> first part of its three columns in view_model_summary.
OP_ROWS: Final = {
    "All ops": "ops_all",
    "Ops using TC": "ops_tc",
    "Ops eligible for TC but not using": "ops_eligible",
    "All other ops": "ops_other",
}
KERNEL_ROWS: Final = {
    "All kernels": "kernels_all",
    "Kernels using TC": "kernels_tc",
    "Memory": "kernels_memory",
    "All other kernels": "kernels_other",
}


@dataclass(frozen=True)
class Value:
    """One value as the two file formats write it."""

    csv: str
    json: str


@dataclass(frozen=True)
class Listing:
    """A section of keys and values."""

    title: str
    values: dict[str, Value]


@dataclass(frozen=True)
class Totals:
    """A section that is a small table."""

    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Value]]


@dataclass(frozen=True)
class SummaryReport:
    """The report on totals; see the module."""

    name: str = "summary"
    suffix: str = "summary"
    per_domain: bool = True
    own_format: str = ""

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole report into a stream."""
        sections = read_sections(source)
        text = _format_json(sections) if file_format == "json" else _format_csv(sections)
        stream.write(encode(text))
        on_rows(1)


SUMMARY: Final = SummaryReport()


def read_sections(source: ReportSource) -> list[Listing | Totals]:
    """The five sections of one aggregation and domain."""
    summary = source.one_row("view_model_summary")
    rows = SUMMARY_ROWS | (EXTENDED_SUMMARY_ROWS if source.is_extended else {})
    report = _listing("Summary Report", rows, summary)
    if source.is_extended:
        efficiency = source.one_row("view_model_efficiency")
        report.values.update(_listing("", EFFICIENCY_ROWS, efficiency).values)
    sections: list[Listing | Totals] = [
        _system_section(source),
        report,
        _listing("Iterations", ITERATION_ROWS, summary),
        _totals("All Ops", "# Ops", OP_ROWS, summary),
        _totals("All Kernels", "# Kernels", KERNEL_ROWS, summary),
    ]
    return [*sections, _iterations(source)] if source.is_extended else sections


def _iterations(source: ReportSource) -> Totals:
    """What each iteration should cost and took."""
    columns = ["iter_value", *(column for column, _ in ITERATION_EFFICIENCY.values())]
    kinds = [_decimal if is_decimal else _number for _, is_decimal in ITERATION_EFFICIENCY.values()]
    chunks = source.iter_chunks("view_iteration_efficiency", columns, ("iter_value",))
    rows = {
        str(number): [kind(value) for kind, value in zip(kinds, values, strict=True)]
        for chunk in chunks
        for number, *values in chunk
    }
    return Totals("Iteration Efficiency", tuple(ITERATION_EFFICIENCY), rows)


def _system_section(source: ReportSource) -> Listing:
    config = source.one_row("view_system_config", per_aggregation=False)
    chunks = source.iter_chunks("view_gpu_names", ("gpu_name",), per_aggregation=False)
    config["gpu_names"] = ", ".join(str(name) for rows in chunks for (name,) in rows)
    texts = {title: _one_line(config.get(column)) for title, column in SYSTEM_ROWS.items()}
    return Listing(
        TITLE_SYSTEM,
        {
            title: Value(csv=text, json=json.dumps(text, ensure_ascii=False))
            for title, text in texts.items()
            if text or title not in OPTIONAL_SYSTEM_ROWS
        },
    )


def _one_line(value: object) -> str:
    """A text that cannot break the lines of the file."""
    return "" if value is None else " ".join(str(value).split())


def _listing(
    title: str, rows: Mapping[str, tuple[str, bool]], summary: Mapping[str, object]
) -> Listing:
    return Listing(
        title,
        {
            label: (_decimal if is_decimal else _number)(summary.get(column))
            for label, (column, is_decimal) in rows.items()
        },
    )


def _totals(
    title: str, count_column: str, rows: Mapping[str, str], summary: Mapping[str, object]
) -> Totals:
    return Totals(
        title,
        ("GPU Time (ns)", "CPU Time (ns)", count_column),
        {
            label: [
                _number(summary.get(f"{name}_{part}")) for part in ("gpu_time", "cpu_time", "count")
            ]
            for label, name in rows.items()
        },
    )


def _number(value: object) -> Value:
    return Value("", "null") if value is None else Value(str(value), json.dumps(value))


def _decimal(value: object) -> Value:
    return Value(csv_decimal(value), json_decimal(value))


def _format_csv(sections: Sequence[Listing | Totals]) -> str:
    return "\n".join(_csv_section(section) for section in sections)


def _csv_section(section: Listing | Totals) -> str:
    lines = [section.title]
    if isinstance(section, Listing):
        lines += [f"{key},{value.csv}" for key, value in section.values.items()]
    else:
        lines.append("," + ",".join(section.columns))
        lines += [
            ",".join([label, *(value.csv for value in values)])
            for label, values in section.rows.items()
        ]
    return "\n".join(lines) + "\n"


def _format_json(sections: Sequence[Listing | Totals]) -> str:
    """Keys sorted and spaced as DLProf's JSON library wrote them."""
    members = {section.title: _json_section(section) for section in sections}
    return _json_object(members, indent=0) + "\n"


def _json_section(section: Listing | Totals) -> str:
    if isinstance(section, Listing):
        members = {key: f"[ {value.json} ]" for key, value in section.values.items()}
    else:
        members = {
            label: _json_object(
                {column: value.json for column, value in zip(section.columns, values, strict=True)},
                indent=2,
            )
            for label, values in section.rows.items()
        }
    return _json_object(members, indent=1)


def _json_object(members: Mapping[str, str], indent: int) -> str:
    outer = " " * 3 * indent
    lines = ",\n".join(f"{outer}   {json.dumps(key)} : {members[key]}" for key in sorted(members))
    return f"{{\n{lines}\n{outer}}}"
