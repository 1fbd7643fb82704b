"""The whole command on the golden run's export: DLProf's own files, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiler_cli.dlprof import main

# Who made the file is not a number of the profile.
MAKER_LINES = ("DLProf Version,", "DLProf Build,")
SUFFIXES = [
    "summary",
    "detailed",
    "kernel",
    "iteration",
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
