"""The recipes of docs/clusters.md: a process for each rank, as Slurm and Kubernetes start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiler_cli.commands.rank_summary import job_rank
from profiler_cli.dlprof import main
from tests.cli.test_capture import FAKE, PROGRAM, REPOSITORY
from tests.cluster.job import rank_exports

LIMIT_S = 180


def start(folder: Path, export: Path, variables: dict[str, str], output: str) -> subprocess.Popen:
    """One task of the job: ``dlprof ... python train.py`` with a stand-in for nsys."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    nsys = programs / "nsys"
    nsys.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    nsys.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "FAKE_LOG": str(folder / f"{export.stem}.log"),
        "FAKE_EXPORT": str(export),
        **variables,
    }
    words = [*PROGRAM, f"--output_path={output}", "-v", "minimal", sys.executable, "-c", "pass"]
    return subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("variable", ["SLURM_PROCID", "JOB_COMPLETION_INDEX"])
def test_each_rank_writes_its_summary_and_one_command_joins_them(
    tmp_path: Path, variable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exports = rank_exports(tmp_path, slow=1, share=0.2)
    tasks = [
        start(tmp_path, export, {variable: str(rank)}, f"shared/task%q{{{variable}}}")
        for rank, export in enumerate(exports)
    ]
    assert [task.wait(timeout=LIMIT_S) for task in tasks] == [0] * len(tasks)
    # Copies of the summaries are enough, whatever their names.
    for rank in range(len(exports)):
        made = tmp_path / f"shared/task{rank}"
        assert {path.name for path in made.glob("dlprof_*")} == {
            "dlprof_dldb.sqlite",
            "dlprof_ranks.parquet",
        }
        (tmp_path / "sums").mkdir(exist_ok=True)
        (made / "dlprof_ranks.parquet").rename(tmp_path / f"sums/{9 - rank}.parquet")
    assert main(["stragglers", str(tmp_path / "sums"), "--format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["slow_rank"] == 1
    assert [one["rank"] for one in document["rank_times"]] == [0, 1, 2]
    assert document["rank_times"][1]["database"].endswith("task1/dlprof_dldb.sqlite")


def test_the_rank_of_a_process_is_what_its_launcher_says() -> None:
    assert job_rank({"RANK": "3", "SLURM_PROCID": "0"}) == 3
    assert job_rank({"RANK": "", "OMPI_COMM_WORLD_RANK": "12"}) == 12
    assert job_rank({"RANK": "x"}) is None
    assert job_rank({}) is None
