"""The bytes of report files: order, quoting, decimals, JSON, and DLProf's own files."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from aggregator.options import Mode
from aggregator.tables.spec import Column, Kind
from profiler_cli.commands.analyze import format_feedback
from profiler_cli.reports.declared import (
    ADVICE,
    DETAIL,
    EXPERT_SYSTEMS,
    ITERATION,
    KERNEL,
    MODEL_DATA,
    OP_TYPE,
    REPORTS,
    TENSOR,
)
from profiler_cli.reports.source import CHUNK_ROWS, OF_AGGREGATION
from profiler_cli.reports.summary import SUMMARY
from profiler_cli.reports.table import TableReport
from tests.cli.scratch import (
    add_report_rows,
    add_view,
    blank_row,
    scratch_source,
    view_columns,
    written,
)

#: Those that DLProf had.
TABLES = [r for r in REPORTS.values() if isinstance(r, TableReport) and r is not ADVICE]


def parsed(text: str, column: Column) -> object:
    """The value of a field of DLProf's file."""
    match column.kind:
        case Kind.BOOLEAN:
            return int(text == "yes")
        case Kind.NUMBER:
            return int(text) if column.integer else float(text)
        case _:
            return text


@pytest.mark.parametrize("report", TABLES, ids=lambda report: report.name)
def test_the_values_of_dlprofs_file_give_dlprofs_bytes_in_any_order(
    report: TableReport, golden_dir: Path
) -> None:
    # GIVEN the rows of DLProf's own file, shuffled
    golden = (golden_dir / f"dlprof_{report.suffix}.csv").read_bytes()
    lines = list(csv.reader(io.StringIO(golden.decode(), newline="")))
    table = report.table
    standard = [column for column in table.columns if column.name not in table.hidden]
    more = [None] * len(table.hidden)
    rows = [
        [parsed(text, column) for text, column in zip(line, standard, strict=True)] + more
        for line in lines[2:]
    ]
    if report is not EXPERT_SYSTEMS:
        random.Random(1).shuffle(rows)
    source = scratch_source()
    add_report_rows(source, report, rows)
    # WHEN they are written
    # THEN the file is the same, byte for byte
    assert written(report, source) == golden


def fields(report: TableReport, mode: Mode = Mode.PYTORCH, **values: object) -> dict[str, str]:
    """The raw text of the fields of one row, by header; no value may hold a comma."""
    source = scratch_source(mode)
    add_report_rows(source, report, [blank_row(report, **values)])
    _, header, row = written(report, source).decode().splitlines()
    return dict(zip(header.split(","), row.split(","), strict=True))


def test_names_are_quoted_and_words_flags_and_numbers_are_not() -> None:
    row = fields(
        ITERATION, kernel_name="k", direction="fprop", uses_tc=1, grid_x=7, data_type="float16"
    )
    assert row["Kernel Name"] == '"k"'
    assert row["Input Shapes"] == '""'
    assert row["Direction"] == "fprop"
    assert row["Uses TC"] == "yes"
    assert row["Grid X"] == "7"
    assert row["Data Types"] == "float16"


def test_quotes_are_doubled_and_a_word_with_a_comma_is_quoted() -> None:
    source = scratch_source()
    row = blank_row(KERNEL, kernel_name='operator""_x<1, 2>', direction="a,b")
    add_report_rows(source, KERNEL, [row])
    line = written(KERNEL, source).decode().splitlines()[2]
    assert line.startswith('"operator""""_x<1, 2>","","","a,b",no,0,0.0,')


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_names_that_a_spreadsheet_would_run_are_made_harmless(start: str) -> None:
    row = fields(KERNEL, kernel_name=f"{start}HYPERLINK(1)", direction=f"{start}x")
    assert row["Kernel Name"] == f'"\'{start}HYPERLINK(1)"'
    assert row["Direction"] == f"'{start}x"


def test_unknown_values_are_empty_in_csv_and_null_in_json() -> None:
    unknown: dict[str, Any] = {
        "uses_tc": None,
        "gpu_time_sum": None,
        "gpu_time_avg": None,
        "direction": None,
    }
    row = fields(KERNEL, **unknown)
    assert row["Uses TC"] == row["Total GPU Time (ns)"] == row["Avg GPU Time (ns)"] == ""
    source = scratch_source()
    add_report_rows(source, KERNEL, [blank_row(KERNEL, **unknown)])
    (record,) = json.loads(written(KERNEL, source, "json"))["Kernel Report"]
    assert record["Uses TC"] is record["Total GPU Time (ns)"] is record["Direction"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (2306368.0, "2306368.0"),
        (2240161963 / 11, "203651087.5"),
        (32833 / 3, "10944.3"),
        (818103 / 4, "204525.8"),
        (10**17 + 0.0, "100000000000000000.0"),
    ],
)
def test_averages_have_one_decimal(value: float, text: str) -> None:
    assert fields(OP_TYPE, gpu_time_avg=value)["Avg. GPU Time (ns)"] == text


def test_a_line_break_in_a_name_stays_inside_its_quotes() -> None:
    source = scratch_source()
    add_report_rows(source, DETAIL, [blank_row(DETAIL, stack_trace="a.py:1\nb.py:2")])
    assert written(DETAIL, source).decode().endswith(',"a.py:1\nb.py:2"\n')


def test_text_that_is_not_ascii_is_utf8() -> None:
    assert fields(KERNEL, kernel_name="ядро\U0001f525")["Kernel Name"] == '"ядро\U0001f525"'


def test_op_ids_sort_as_text_and_iterations_as_numbers() -> None:
    source = scratch_source()
    ids = ["CUDA_2", "CUDA_10", "CUDA_1"]
    add_report_rows(source, DETAIL, [blank_row(DETAIL, op_node_id=op_id) for op_id in ids])
    rows = [blank_row(ITERATION, iter_value=value, kernel_timestamp=-value) for value in (10, 9, 2)]
    add_report_rows(source, ITERATION, rows)
    starts = [line.split(",")[0] for line in written(DETAIL, source).decode().splitlines()[2:]]
    assert starts == ['"CUDA_1"', '"CUDA_10"', '"CUDA_2"']
    starts = [line.split(",")[0] for line in written(ITERATION, source).decode().splitlines()[2:]]
    assert starts == ["2", "9", "10"]


def test_rows_of_other_aggregations_and_domains_are_left_out() -> None:
    source = scratch_source()
    columns = ["aggr_id", "domain_name", *view_columns(OP_TYPE)]
    keys = [(1, "default-domain", "mine"), (2, "default-domain", "later"), (1, "other", "theirs")]
    zeros = [0] * (len(columns) - 3)
    add_view(source, OP_TYPE.table.source.view, columns, [[*key, *zeros] for key in keys])
    assert [line.split(",")[0] for line in written(OP_TYPE, source).decode().splitlines()[2:]] == [
        '"mine"'
    ]


@pytest.mark.parametrize("report", TABLES, ids=lambda report: report.name)
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_report_without_rows_is_a_whole_file(report: TableReport, file_format: str) -> None:
    source = scratch_source()
    add_report_rows(source, report, [])
    text = written(report, source, file_format).decode()
    if file_format == "json":
        assert json.loads(text) == {report.table.title: []}
    else:
        assert text.splitlines()[0] == report.table.title
        assert len(text.splitlines()) == 2


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_report_longer_than_a_chunk_is_whole(file_format: str) -> None:
    source = scratch_source()
    count = 2 * CHUNK_ROWS + 1
    rows = [blank_row(ITERATION, kernel_timestamp=index) for index in range(count)]
    add_report_rows(source, ITERATION, rows)
    reported: list[int] = []
    stream = io.BytesIO()
    ITERATION.write(source, file_format, stream, reported.append)
    assert reported == [CHUNK_ROWS, CHUNK_ROWS, 1]
    if file_format == "json":
        records = json.loads(stream.getvalue())["Iteration Report"]
    else:
        records = list(csv.DictReader(stream.getvalue().decode().splitlines()[1:]))
    assert [int(row["GPU Start Time (ns)"]) for row in records] == list(range(count))


@pytest.mark.parametrize("mode", [Mode.SIMPLE, Mode.TENSORFLOW1, Mode.TENSORRT, Mode.JAX])
@pytest.mark.parametrize("report", [DETAIL, KERNEL, ITERATION, TENSOR], ids=lambda r: r.name)
def test_only_pytorch_has_directions_and_stack_traces(report: TableReport, mode: Mode) -> None:
    assert not {"Direction", "Stack Trace"} & set(fields(report, mode))
    assert "Direction" in fields(report, Mode.PYTORCH)


def test_json_rows_have_csv_titles_sorted_and_unrounded_numbers() -> None:
    source = scratch_source()
    row = blank_row(KERNEL, kernel_name='say "hi"', uses_tc=1, gpu_time_avg=1 / 3)
    add_report_rows(source, KERNEL, [row, row])
    text = written(KERNEL, source, "json").decode()
    assert text.startswith(
        '{\n   "Kernel Report" : [\n      { "Avg API Time (ns)" : 0.0, "Avg GPU Time (ns)" : 0.333'
    )
    records: list[dict[str, Any]] = json.loads(text)["Kernel Report"]
    assert len(records) == 2
    assert list(records[0]) == sorted(column.heading for column in KERNEL.table.columns)
    assert records[0]["Kernel Name"] == 'say "hi"'
    assert records[0]["Uses TC"] == "yes"
    assert records[0]["Avg GPU Time (ns)"] == 1 / 3


# --- expert systems --------------------------------------------------------------------------


def test_the_feedback_names_each_problem_and_change() -> None:
    source = scratch_source()
    add_report_rows(source, EXPERT_SYSTEMS, [("No A", "Use A"), ("Key op  not B", "Use B")])
    assert format_feedback(source) == (
        "Expert Systems Feedback: 2 issues detected. "
        "Note that expert systems is still experimental as are all recommended changes\n"
        "\nProblem detected: \n  No A\nRecommended change: \n  Use A\n"
        "\nProblem detected: \n  Key op not B\nRecommended change: \n  Use B\n"
    )


@pytest.mark.parametrize(("count", "words"), [(0, "0 issues"), (1, "1 issue"), (2, "2 issues")])
def test_the_feedback_counts(count: int, words: str) -> None:
    source = scratch_source()
    add_report_rows(source, EXPERT_SYSTEMS, [("No A", "Use A")] * count)
    assert format_feedback(source).startswith(f"Expert Systems Feedback: {words} detected.")


# --- summary ---------------------------------------------------------------------------------

# The golden run's numbers, as the views hold them.
SYSTEM = {
    "num_gpus": "1",
    "cpu_model": "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz",
    "driver_version": "515.43.04",
    "framework": "PyTorch 1.10.1+cu102",
    "cuda_version": "11.7",
    "cudnn_version": "",
    "nsys_version": "2022.1.3.3-1c7b5f7",
    "dlprof_version": "v1.8.0",
    "dlprof_build": "29839685",
    "profile_name": "",
}
MODEL = {
    "wall_time": 2840562182,
    "tc_utilization": 0.0,
    "gpu_utilization": 0.020359,
    "tc_duration_pct": 0.0,
    "non_tc_duration_pct": 0.020359,
    "memory_duration_pct": 0.002348,
    "dataloader_duration_pct": 0.0,
    "io_duration_pct": 0.0,
    "cpu_duration_pct": 79.069358,
    "other_duration_pct": 20.907935,
    "total_iterations": 1,
    "profiled_iterations": 1,
    "iter_start": 0,
    "iter_stop": 0,
    "iter_avg": 2840562182.0,
    "iter_std_dev": 0.0,
}
TOTALS = {
    "ops_all": (644990, 2246654907, 36),
    "ops_tc": (0, 0, 0),
    "ops_eligible": (572668, 3943178, 5),
    "ops_other": (72322, 2242711729, 31),
    "kernels_all": (655837, 507975, 30),
    "kernels_tc": (0, 0, 0),
    "kernels_memory": (66690, 166853, 3),
    "kernels_other": (589147, 341122, 27),
}


def add_summary(source: Any, system: dict[str, str], gpu_names: list[str]) -> None:
    totals = {
        f"{name}_{part}": value
        for name, values in TOTALS.items()
        for part, value in zip(("gpu_time", "cpu_time", "count"), values, strict=True)
    }
    model = {"aggr_id": 1, "domain_name": source.domain, **MODEL, **totals}
    add_view(source, "view_model_summary", list(model), [list(model.values())])
    add_view(source, "view_system_config", list(system), [list(system.values())])
    add_view(source, "view_gpu_names", ["gpu_name"], [[name] for name in gpu_names])


def test_the_golden_numbers_give_dlprofs_summary(golden_dir: Path) -> None:
    source = scratch_source()
    add_summary(source, SYSTEM, ["NVIDIA GeForce RTX 2070 SUPER"])
    assert written(SUMMARY, source) == (golden_dir / "dlprof_summary.csv").read_bytes()


def test_names_of_several_gpus_stand_in_one_line_and_a_profile_name_comes_first() -> None:
    source = scratch_source()
    add_summary(source, {**SYSTEM, "profile_name": "my\nrun", "cudnn_version": "8"}, ["A", "B"])
    lines = written(SUMMARY, source).decode().splitlines()
    assert lines[1] == "Profile Name,my run"
    assert "GPU Name(s),A, B" in lines
    assert "cuDNN Version,8" in lines


def test_the_summary_as_json_has_sections_of_one_element_arrays_and_tables() -> None:
    source = scratch_source()
    add_summary(source, SYSTEM, ["A"])
    text = written(SUMMARY, source, "json").decode()
    assert '      "Wall Clock Time (ns)" : [ 2840562182 ]\n' in text
    summary = json.loads(text)
    assert list(summary) == sorted(summary)
    assert all(list(section) == sorted(section) for section in summary.values())
    assert summary["System Config"]["GPU Count"] == ["1"]
    assert "cuDNN Version" not in summary["System Config"]
    assert summary["Summary Report"]["CPU Duration %"] == [79.069358]
    assert summary["Iterations"]["Average Iteration Time (ns)"] == [2840562182.0]
    assert summary["All Kernels"]["Memory"] == {
        "# Kernels": 3,
        "CPU Time (ns)": 166853,
        "GPU Time (ns)": 66690,
    }


# --- the raw data ----------------------------------------------------------------------------


def test_the_raw_data_are_the_rows_of_the_views() -> None:
    source = scratch_source()
    for view, where in MODEL_DATA.SECTIONS.values():
        key = ["aggr_id"] if where == OF_AGGREGATION else []
        rows: list[list[object]] = [[1, "a%s", 2.5, None], [2, "b", 0.0, 1]]
        add_view(
            source, view, [*key, "name", "share", "other"], [row[1 - len(key) :] for row in rows]
        )
    stream = io.BytesIO()
    MODEL_DATA.write(source, "json", stream, lambda rows: None)
    data = json.loads(stream.getvalue())
    assert list(data) == list(MODEL_DATA.SECTIONS)
    assert data["Kernels"] == [{"aggr_id": 1, "name": "a%s", "other": None, "share": 2.5}]
    assert len(data["API Calls"]) == 2
