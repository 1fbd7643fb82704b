"""``--extended=true``: our own columns stand behind DLProf's, with the numbers of the export."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pytest

from profiler_cli.dlprof import main
from tests.conftest import ProfileFactory


@pytest.fixture(scope="module")
def reports(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the extended reports on the golden export."""
    folder = tmp_path_factory.mktemp("extended")
    source = golden_dir / "nsys_profile.sqlite"
    words = [f"--database={source}", "--reports=detail,iteration", "--extended=true", "-v=quiet"]
    assert main([*words, f"--output_path={folder}"]) == 0
    return folder


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.parametrize("name", ["dlprof_detailed.csv", "dlprof_iteration.csv"])
def test_the_standard_columns_are_untouched(reports: Path, golden_dir: Path, name: str) -> None:
    theirs, ours = read(golden_dir / name), read(reports / name)
    width = len(theirs[1])
    assert [row[:width] for row in ours[1:]] == theirs[1:]
    assert all(len(row) > width for row in ours[1:])


def test_the_launched_name_is_that_of_the_launch(reports: Path, golden_dir: Path) -> None:
    header, *rows = read(reports / "dlprof_iteration.csv")[1:]
    query = (
        "SELECT k.start, value FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
        " JOIN StringIds ON id = k.demangledName"
    )
    uri = f"file:{golden_dir / 'nsys_profile.sqlite'}?mode=ro&immutable=1"
    with sqlite3.connect(uri, uri=True) as connection:
        names = {str(start): name for start, name in connection.execute(query)}
    start, name = header.index("GPU Start Time (ns)"), header.index("Launched Kernel Name")
    assert len(rows) == 59
    assert {row[start]: row[name] for row in rows} == names


def test_mapped_gpu_time_is_gpu_time_and_idle_time(reports: Path) -> None:
    header, *rows = read(reports / "dlprof_detailed.csv")[1:]
    columns = ("Mapped GPU Time (ns)", "Total GPU Time (ns)", "Total GPU Idle (ns)")
    mapped, busy, idle = (header.index(column) for column in columns)
    assert len(rows) == 36
    for row in rows:
        assert int(row[mapped]) == int(row[busy]) + int(row[idle])


def test_the_summary_names_both_averages_of_gpu_utilization(
    golden_dir: Path, tmp_path: Path
) -> None:
    words = [f"--database={golden_dir / 'nsys_profile.sqlite'}", "--reports=summary", "-v=quiet"]
    assert main([*words, "--extended=true", f"--output_path={tmp_path}"]) == 0
    lines = (tmp_path / "dlprof_summary.csv").read_text().splitlines()
    # THEN one GPU, used: both averages agree, and nothing communicates
    assert "GPU Utilization %,0.0" in lines
    assert "GPU Utilization of Used GPUs %,0.0" in lines
    assert "Communication Duration %,0.0" in lines


def test_groups_and_the_summary_show_the_achieved_rates(golden_dir: Path, tmp_path: Path) -> None:
    source = golden_dir / "nsys_profile.sqlite"
    words = [f"--database={source}", "--reports=group_node,summary", "--extended=true", "-v=quiet"]
    assert main([*words, f"--output_path={tmp_path}"]) == 0
    with sqlite3.connect(tmp_path / "dlprof_dldb.sqlite") as connection:
        groups = {
            row[0]: list(map(str, row[1:]))
            for row in connection.execute(
                "SELECT group_name, flops, bytes, ideal_time FROM view_group_efficiency"
            )
        }
        known = connection.execute("SELECT known_pct FROM view_model_efficiency").fetchone()[0]
    # DLProf's own columns are untouched, and ours stand behind them
    theirs, ours = read(golden_dir / "dlprof_group_op.csv"), read(tmp_path / "dlprof_group_op.csv")
    header, width = ours[1], len(theirs[1])
    assert [row[:width] for row in ours[1:]] == theirs[1:]
    assert header[width] == "FLOPs"
    columns = [header.index(name) for name in ("FLOPs", "Bytes", "Ideal Time (ns)")]
    found = {row[0]: [row[column] for column in columns] for row in ours[2:] if row[width]}
    assert found == groups
    assert len(groups) >= 2
    lines = (tmp_path / "dlprof_summary.csv").read_text().splitlines()
    assert f"GPU Time With Known Costs %,{known:.1f}" in lines
    assert any(line.startswith("Model FLOPs Utilization %,") for line in lines)


def test_every_iteration_shows_its_ideal_and_actual_time(
    profile: ProfileFactory, tmp_path: Path
) -> None:
    # WHEN the extended reports of a training run are written
    source = profile("pytorch_resnet50_fp32")
    words = [f"--database={source}", "--reports=summary,op_type", "--formats=csv,json"]
    assert main([*words, "--extended=true", "-v=quiet", f"--output_path={tmp_path}"]) == 0
    # THEN the last section has a row for each aggregated iteration
    lines = (tmp_path / "dlprof_summary.csv").read_text().splitlines()
    header, *rows = csv.reader(lines[lines.index("Iteration Efficiency") + 1 :])
    found = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
    iterations = dict(csv.reader(lines[lines.index("Iterations") + 1 :][:4]))
    assert len(found) == int(iterations["Aggregated Iterations"]) > 1
    # AND their operations and ideal times add up to those of the op types
    types = [
        dict(zip(header, row, strict=True))
        for header, *all_rows in [read(tmp_path / "dlprof_op_type.csv")[1:]]
        for row in all_rows
    ]
    for column in ("FLOPs", "Bytes", "Ideal Time (ns)", "Left To Win (ns)"):
        total = sum(int(row[column] or 0) for row in found.values())
        assert total == sum(int(row[column] or 0) for row in types) > 0
    assert {row["Bound"] for row in types} <= {"", "compute", "memory", "link"}
    sections = json.loads((tmp_path / "dlprof_summary.json").read_text())
    step = sections["Iteration Efficiency"][max(found, key=int)]
    assert step["Bound"] in {"compute", "memory"}
    # It is that of the work whose operations and time are known, which is nearly all.
    assert step["Arithmetic Intensity"] == pytest.approx(step["FLOPs"] / step["Bytes"], rel=1e-2)
    assert step["GPU Time (ns)"] <= step["Duration (ns)"]
    assert 0 < step["Model FLOPs Utilization %"] < 100


def test_gpus_without_a_name_leave_no_separators(profile: ProfileFactory, tmp_path: Path) -> None:
    words = [f"--database={profile('ginda_h100_2gpu_1s')}", "--reports=summary", "-v=quiet"]
    assert main([*words, f"--output_path={tmp_path}"]) == 0
    lines = (tmp_path / "dlprof_summary.csv").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("GPU Name(s)")] == ["GPU Name(s),"]
