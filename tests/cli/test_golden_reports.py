"""The whole command on the golden run's export: DLProf's own files, byte for byte."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import pytest

from profiler_cli.dlprof import main

# Who made the file is not a number of the profile.
MAKER_LINES = ("DLProf Version,", "DLProf Build,")
SUFFIXES = [
    "summary",
    "detailed",
    "kernel",
    "tensor_core",
    "op_type",
    "group_op",
    "expert_systems",
]


@pytest.fixture(scope="module")
def reports(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all reports on the golden export."""
    folder = tmp_path_factory.mktemp("golden")
    source = golden_dir / "nsys_profile.sqlite"
    words = [f"--database={source}", "--reports=all", f"--output_path={folder}", "-v=quiet"]
    assert main(words) == 0
    return folder


def comparable(path: Path) -> list[str]:
    lines = path.read_bytes().decode().split("\n")
    return [line for line in lines if not line.startswith(MAKER_LINES)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_report_is_dlprofs(reports: Path, golden_dir: Path, suffix: str) -> None:
    name = f"dlprof_{suffix}.csv"
    assert comparable(reports / name) == comparable(golden_dir / name)


def test_the_iteration_report_is_dlprofs_but_for_long_names_that_were_wrong(
    reports: Path, golden_dir: Path
) -> None:
    # DLProf gives all launches of one short name inside an op the long name of the last of them.
    # Ours is the one that the export has for the launch.
    ours = read_rows(reports / "dlprof_iteration.csv")
    theirs = read_rows(golden_dir / "dlprof_iteration.csv")
    assert [row[:-1] for row in ours] == [row[:-1] for row in theirs]
    different = [(row[5], row[-1]) for row, their in zip(ours, theirs, strict=True) if row != their]
    assert {short for short, _ in different} == {"fft2d_r2c_32x32"}
    assert len(different) == 3
    assert {row[-1] for row in ours[2:]} == true_long_names(golden_dir / "nsys_profile.sqlite")


def read_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def true_long_names(export: Path) -> set[str]:
    connection = sqlite3.connect(f"file:{export}?mode=ro&immutable=1", uri=True)
    query = (
        "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
    )
    found = {str(value) for (value,) in connection.execute(query)}
    connection.close()
    return found
