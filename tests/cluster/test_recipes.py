"""The recipes of docs/clusters.md, run as they stand there: a process for each rank.

The programs of the cluster (``srun``, ``scontrol``) and nsys are stand-ins, which set the variables
that the real ones set, and write the export of each rank.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiler_cli.commands.rank_summary import job_rank
from profiler_cli.dlprof import main
from tests.cli.test_capture import FAKE, PROGRAM, REPOSITORY
from tests.cluster.job import rank_exports

LIMIT_S = 300
RANKS = 3
PAGE = (REPOSITORY / "docs/clusters.md").read_text()
SRUN = """#!/bin/sh
for rank in 0 1 2; do
    SLURM_PROCID=$rank SLURM_NODEID=$rank SLURM_LOCALID=0 SLURM_NTASKS=3 \\
    FAKE_EXPORT=$EXPORTS/export$rank.sqlite FAKE_LOG=$EXPORTS/log$rank "$@" &
done
wait
"""


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine of the cluster; ``tmp_path`` is the working directory."""
    programs = tmp_path / "bin"
    programs.mkdir()
    rank_exports(tmp_path, slow=1, share=0.2)
    (tmp_path / "train.py").write_text("")
    dlprof = shlex.join(PROGRAM)
    for name, text in {
        "nsys": f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n',
        "dlprof": f'#!/bin/sh\nexec {dlprof} "$@"\n',
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "scontrol": "#!/bin/sh\necho node0\n",
        "srun": SRUN,
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "EXPORTS": str(tmp_path),
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NODELIST": "node[0-2]",
    }


def document_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["stragglers", str(folder), "--format=json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_batch_script_of_slurm_finds_the_slow_rank(
    tmp_path: Path, cluster: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    part = '" python train.py'
    script = block("bash")
    assert part in script
    done = subprocess.run(
        # The programs of this test end at once, and the recorder is a stand-in for nsys.
        ["bash", "-c", script.replace(part, f'" --collector=nsys --bare_steps=0{part[1:]}')],
        cwd=tmp_path,
        env=cluster,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Without rank 1 the step takes" in done.stdout
    made = tmp_path / "profile-77"
    assert {path.name for path in (made / "rank2").glob("dlprof_*")} == {
        "dlprof_dldb.sqlite",
        "dlprof_ranks.parquet",
    }
    # Copies of the summaries are enough, whatever their names.
    sums = tmp_path / "sums"
    sums.mkdir()
    for rank in range(RANKS):
        (made / f"rank{rank}/dlprof_ranks.parquet").rename(sums / f"{9 - rank}.parquet")
    document = document_of(sums, capsys)
    assert document["slow_rank"] == 1
    assert [one["rank"] for one in document["rank_times"]] == [0, 1, 2]
    assert document["rank_times"][1]["database"] == str(made / "rank1/dlprof_dldb.sqlite")


def test_the_rank_of_a_process_is_what_its_launcher_says() -> None:
    assert job_rank({"RANK": "3", "SLURM_PROCID": "0"}) == 3
    assert job_rank({"RANK": "", "OMPI_COMM_WORLD_RANK": "12"}) == 12
    assert job_rank({"JOB_COMPLETION_INDEX": "4"}) == 4
    assert job_rank({"RANK": "x"}) is None
    assert job_rank({}) is None
