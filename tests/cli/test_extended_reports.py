"""``--extended=true``: our own columns stand behind DLProf's, with the numbers of the export."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import pytest

from profiler_cli.dlprof import main


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


def test_the_summary_names_both_averages_of_gpu_utilisation(
    golden_dir: Path, tmp_path: Path
) -> None:
    words = [f"--database={golden_dir / 'nsys_profile.sqlite'}", "--reports=summary", "-v=quiet"]
    assert main([*words, "--extended=true", f"--output_path={tmp_path}"]) == 0
    lines = (tmp_path / "dlprof_summary.csv").read_text().splitlines()
    # THEN one GPU, used: both averages agree, and nothing communicates
    assert "GPU Utilization %,0.0" in lines
    assert "GPU Utilization of Used GPUs %,0.0" in lines
    assert "Communication Duration %,0.0" in lines
