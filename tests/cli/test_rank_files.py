"""Rank files on the command line: several files, patterns, names made of the environment."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from aggregator.errors import UsageError
from profiler_cli.dlprof import main
from profiler_cli.options.declared import Options
from profiler_cli.options.parser import named_by_environment, rank_files
from tests.cli.forking import LIMIT_S
from tests.cli.test_capture import REPOSITORY, Bench, bench, export
from tests.cli.test_command import PAUSED
from tests.rank_files import make_ranks

__all__ = ["bench", "export"]


@pytest.fixture(scope="module")
def files(profile: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return make_ranks([profile("simple_no_nvtx")], 3, tmp_path_factory.mktemp("ranks"))


def rows(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql).fetchall()


def test_files_by_comma_become_one_database(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = ",".join(map(str, files))
    words = [f"--database={listed}", f"--output_path={tmp_path}", "--workers=1", "--reports=kernel"]
    assert main(words) == 0
    database = tmp_path / "dlprof_dldb.sqlite"
    assert rows(database, "SELECT DISTINCT rank FROM view_ranks ORDER BY 1") == [(0,), (1,), (2,)]
    assert {path.name for path in tmp_path.iterdir()} == {database.name, "dlprof_kernel.csv"}
    out = capsys.readouterr()
    assert "Importing 3 rank files with 1 worker" in out.out + out.err
    (command,) = rows(database, "SELECT original_command FROM view_system_config")[0]
    assert command.startswith("dlprof --database=")


def test_a_pattern_is_put_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        (tmp_path / f"rank{number}.sqlite").touch()
    found = rank_files(f"{tmp_path}/rank*.sqlite")
    assert [path.name for path in found] == ["rank1.sqlite", "rank2.sqlite", "rank10.sqlite"]


def test_a_name_that_looks_like_a_list_or_pattern_is_a_name_if_it_is_there(tmp_path: Path) -> None:
    for name in ("a,b.sqlite", "c*.sqlite"):
        (tmp_path / name).touch()
        assert rank_files(f"{tmp_path}/{name}") == [tmp_path / name]


def test_one_file_of_a_pattern_is_no_job_of_ranks(files: list[Path], tmp_path: Path) -> None:
    words = [f"--database={files[0].parent}/rank0*", f"--output_path={tmp_path}"]
    assert main(words) == 0
    info = dict(rows(tmp_path / "dlprof_dldb.sqlite", "SELECT key, value FROM view_profile_info"))
    assert info["rank_count"] == "1"
    assert "rank_files" not in info


def test_a_rank_file_is_never_replaced(files: list[Path], tmp_path: Path) -> None:
    """Not even with --force: a database of a rank may lie where the joined one would go."""
    words = [f"--database={files[0]}", f"--output_path={tmp_path}"]
    assert main(words) == 0
    first = tmp_path / "dlprof_dldb.sqlite"
    before = first.read_bytes()
    listed = f"{first},{files[1]}"
    assert (
        main([f"--database={listed}", f"--output_path={tmp_path}", "--force", "--workers=1"]) == 0
    )
    assert first.read_bytes() == before
    joined = tmp_path / "dlprof_dldb_1.sqlite"
    assert rows(joined, "SELECT count(DISTINCT rank) FROM view_ranks") == [(2,)]


def test_names_of_outputs_take_variables_of_the_launcher(bench: Bench) -> None:
    bench.environment["RANK"] = "3"
    done = bench.run(
        "--output_path=rank%q{RANK}", "--nsys_base_name=run%q{RANK}", sys.executable, "-c", "pass"
    )
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (bench.folder / "rank3").iterdir()}
    assert {"run3.sqlite", "dlprof_dldb.sqlite"} <= made


def test_a_variable_that_is_not_set_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(UsageError, match="RANK, which is not set"):
        named_by_environment(Options(output_path=Path("rank%q{RANK}")))
    assert named_by_environment(Options(nsys_base_name="50%")).nsys_base_name == "50%"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_join_that_is_stopped_leaves_no_file_and_no_process(
    profile: Callable[[str], Path], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    jobs = tmp_path / "job"
    jobs.mkdir()
    make_ranks([profile("pytorch_resnet50_fp32")], 12, jobs)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [
            *(sys.executable, PAUSED, "message", "Imported", tmp_path / "mark"),
            *(f"--database={jobs}/rank*.sqlite", "--workers=2", f"--output_path={out}"),
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = next(line for line in process.stdout if "Imported" in line or "error" in line)
    assert "Imported" in said
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(number)
    process.stdout.read()
    assert process.wait(timeout=LIMIT_S) == code
    _, alive = psutil.wait_procs(workers, timeout=LIMIT_S)
    assert not alive
    assert not out.exists() or list(out.iterdir()) == []
