"""The summary report: five sections of totals, and one for iterations with --extended=true.

CSV: each section begins with its title, sections are separated by a blank line, values are not
quoted (in the first three sections the value begins after the first comma of a line).
JSON: section -> key -> array of one value; from All Ops on, row -> column -> value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from aggregator.profile.limits import OF_WARNING
from profiler_cli.reports.source import WHOLE_PROFILE
from profiler_cli.reports.table import Report, RowsListener, encode
from profiler_cli.reports.values import (
    csv_decimal,
    csv_renderer,
    json_decimal,
    json_renderer,
)

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
# Lines that DLProf omits if they have no value.
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
# With --extended=true, after those of DLProf, which averages over all visible GPUs.
EXTENDED_SUMMARY_ROWS: Final = {
    "GPU Utilization of Used GPUs %": ("used_gpu_utilization", True),
    "CUDA Graph Duration %": ("graph_duration_pct", True),
    "Communication Duration %": ("communication_pct", True),
    "Exposed Communication Duration %": ("exposed_communication_pct", True),
}
# Title -> column of view_typical_step; with --extended=true.
STEP_ROWS: Final = {
    "Typical Step As Profiled (ns)": ("typical_step", False),
    "Step Without Profiling As Given (ns)": ("given_step", False),
}
# Title -> column of view_step_reference; with --extended=true.
REFERENCE_ROWS: Final = {
    "Step Without Profiling (ns)": ("bare_step", False),
    "Step Without Profiling 10th Percentile (ns)": ("bare_step_p10", False),
    "Step Without Profiling 90th Percentile (ns)": ("bare_step_p90", False),
    "Profiled Step (ns)": ("profiled_step", False),
    "Profiling Overhead %": ("overhead_pct", True),
}
# Title -> column of view_recorded_part; with --extended=true.
RECORDED_ROWS: Final = {
    "Recorded Windows": ("recorded_windows", False),
    "Recorded Time (ns)": ("recorded_time", False),
    "Run Time (ns)": ("run_time", False),
    "Recorded Steps": ("recorded_steps", False),
    "Steps Of The Run": ("run_steps", False),
}
# Title -> column of view_corrected_step; with --extended=true.
CORRECTED_ROWS: Final = {
    "Corrected Step (ns)": ("corrected_step", False),
    "GPU Busy In The Corrected Step %": ("corrected_busy_pct", True),
    "Corrected Step Waiting For The CPU %": ("waits_for_cpu_pct", True),
}
# Title -> column of view_model_efficiency; with --extended=true.
EFFICIENCY_ROWS: Final = {
    "Model FLOPs Utilization %": ("mfu", True),
    "Model FLOPs Utilization Of A Median Step %": ("median_step_mfu", True),
    "TFLOP/s Per GPU": ("tflops_per_second_per_gpu", True),
    "GPU Time At The Peaks %": ("peak_pct", True),
    "GPU Time With Known Costs %": ("known_pct", True),
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


class Value(NamedTuple):
    """A value in the two file formats."""

    csv: str
    json: str


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    title: str  # Its title.
    rows: Mapping[str, Sequence[Value]]  # The values of each row, by label.
    # Titles of its columns; empty if each row has one value and there is no header.
    columns: Sequence[str] = ()


class SummaryReport(Report):
    """The summary report."""

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole report to a stream."""
        sections = _read_sections(source)
        if file_format == "json":
            # As DLProf's JSON library: sorted keys, with its spacing.
            members = {section.title: _json_section(section) for section in sections}
            text = _json_object(members, indent=0) + "\n"
        else:
            text = "\n".join(_csv_section(section) for section in sections)
        stream.write(encode(text))
        on_rows(1)


SUMMARY: Final = SummaryReport(name="summary", suffix="summary")


def _read_sections(source: ReportSource) -> list[Section]:
    summary = source.one_row("view_model_summary")
    report = _values(SUMMARY_ROWS, summary)
    if source.is_extended:
        report |= _values(STEP_ROWS, source.one_row("view_typical_step"))
        report |= _gpu_time(read_usage(source))
        report |= _values(REFERENCE_ROWS, source.one_row("view_step_reference"))
        report |= _values(RECORDED_ROWS, source.one_row("view_recorded_part"))
        report |= _values(CORRECTED_ROWS, source.one_row("view_corrected_step"))
        report |= _values(EXTENDED_SUMMARY_ROWS, summary)
        report |= _values(EFFICIENCY_ROWS, source.one_row("view_model_efficiency"))
    sections = [
        _system_section(source),
        Section("Summary Report", report),
        Section("Iterations", _values(ITERATION_ROWS, summary)),
        _totals("All Ops", "# Ops", OP_ROWS, summary),
        _totals("All Kernels", "# Kernels", KERNEL_ROWS, summary),
    ]
    if not source.is_extended:
        return sections
    limits = _limits(source)
    return [*sections, *([limits] if limits.rows else []), _iterations(source)]


def _limits(source: ReportSource) -> Section:
    """The limits of the capture: count and share of each, and what it is."""
    has_share = "share" in source.columns("view_warnings")
    columns = ("code", "count", "share" if has_share else "NULL", "message")
    chunks = source.iter_chunks("view_warnings", columns, where=WHOLE_PROFILE)
    rows = {
        f"{OF_WARNING[str(code)]} {number}": [
            _rendered(count),
            _rendered(100.0 * share if isinstance(share, float) else None, is_decimal=True),
            _quoted(" ".join(str(message).split())),
        ]
        for number, (code, count, share, message) in enumerate(
            (row for chunk in chunks for row in chunk if row[0] in OF_WARNING), start=1
        )
    }
    return Section("Limits of the Capture", rows, ("Count", "Share %", "Limit"))


def _quoted(text: str) -> Value:
    return Value(csv=f'"{text.replace(chr(34), chr(34) * 2)}"', json=json.dumps(text))


def _iterations(source: ReportSource) -> Section:
    """Return the last section with --extended=true, with a row for each aggregated iteration."""
    from profiler_cli.reports.tables import ITERATION_EFFICIENCY  # noqa: PLC0415 - slow to load

    iteration, *columns = ITERATION_EFFICIENCY.columns
    renderers = [(csv_renderer(column), json_renderer(column)) for column in columns]
    rows = {
        str(number): [
            Value(csv(value), json(value))
            for value, (csv, json) in zip(values, renderers, strict=True)
        ]
        for chunk in source.iter_table(ITERATION_EFFICIENCY, (iteration, *columns))
        for number, *values in chunk
    }
    return Section("Iteration Efficiency", rows, tuple(column.heading for column in columns))


def _system_section(source: ReportSource) -> Section:
    config = source.one_row("view_system_config", where=WHOLE_PROFILE)
    chunks = source.iter_chunks("view_gpu_names", ("gpu_name",), where=WHOLE_PROFILE)
    config["gpu_names"] = ", ".join(str(name) for rows in chunks for (name,) in rows if name)
    rows = {}
    for title, column in SYSTEM_ROWS.items():
        value = config.get(column)
        # A text must not break the lines of the file.
        text = "" if value is None else " ".join(str(value).split())
        if text or title not in OPTIONAL_SYSTEM_ROWS:
            rows[title] = [Value(csv=text, json=json.dumps(text, ensure_ascii=False))]
    return Section(TITLE_SYSTEM, rows)


def _values(
    rows: Mapping[str, tuple[str, bool]], summary: Mapping[str, object]
) -> dict[str, list[Value]]:
    return {
        label: [_rendered(summary.get(column), is_decimal)]
        for label, (column, is_decimal) in rows.items()
    }


def read_usage(source: ReportSource) -> dict[str, object]:
    """Read the shares of a step as ``split_the_step`` takes them."""
    from aggregator.tables.gpu_time import BUSY, IDLE, read_unmarked_usage  # noqa: PLC0415 - slow

    summary = source.one_row("view_model_summary")
    return {
        **{f"{part}_pct": summary.get(f"{part}_duration_pct") for part in (*BUSY, *IDLE)},
        "communication_pct": summary.get("exposed_communication_pct"),
        **source.one_row("view_corrected_breakdown"),
        **read_unmarked_usage(source.connection, source.aggr_id),
    }


def _gpu_time(usage: Mapping[str, object]) -> dict[str, list[Value]]:
    from aggregator.tables.gpu_time import busy_pct, idle_pct  # noqa: PLC0415 - slow to load

    values = {"GPU Busy %": busy_pct(usage), "GPU Idle %": idle_pct(usage)}
    return {title: [_rendered(value, is_decimal=True)] for title, value in values.items()}


def _totals(
    title: str, count_column: str, rows: Mapping[str, str], summary: Mapping[str, object]
) -> Section:
    values = {
        label: [
            _rendered(summary.get(f"{name}_{end}")) for end in ("gpu_time", "cpu_time", "count")
        ]
        for label, name in rows.items()
    }
    return Section(title, values, ("GPU Time (ns)", "CPU Time (ns)", count_column))


def _rendered(value: object, is_decimal: bool = False) -> Value:  # noqa: FBT001, FBT002
    if is_decimal:
        return Value(csv_decimal(value), json_decimal(value))
    return Value("", "null") if value is None else Value(str(value), json.dumps(value))


def _csv_section(section: Section) -> str:
    lines = [section.title]
    if section.columns:
        lines.append("," + ",".join(section.columns))
    for label, values in section.rows.items():
        lines.append(",".join([label, *(value.csv for value in values)]))
    return "\n".join(lines) + "\n"


def _json_section(section: Section) -> str:
    members = {}
    for label, values in section.rows.items():
        texts = [value.json for value in values]
        if section.columns:
            cells = dict(zip(section.columns, texts, strict=True))
            members[label] = _json_object(cells, indent=2)
        else:
            members[label] = f"[ {texts[0]} ]"
    return _json_object(members, indent=1)


def _json_object(members: Mapping[str, str], indent: int) -> str:
    outer = " " * 3 * indent
    lines = ",\n".join(f"{outer}   {json.dumps(key)} : {members[key]}" for key in sorted(members))
    return f"{{\n{lines}\n{outer}}}"
