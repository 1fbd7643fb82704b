"""Executors: the same parts in this process, in other ones, and on clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import CorruptProfileError, DldbNotFoundError, ExecutorError, UsageError
from aggregator.jobs.executors import (
    CeleryExecutor,
    DaskExecutor,
    Executor,
    LocalExecutor,
    open_executor,
    run_parts,
)
from aggregator.jobs.parts import raise_error, run_part
from profiler_cli.dlprof import main
from tests.cluster.job import rank_exports


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return rank_exports(tmp_path_factory.mktemp("job"), slow=2, share=0.2)


def requests_for(sources: list[Path], folder: Path) -> list[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    return [
        {
            "source": str(source),
            "target": str(folder / f"{source.stem}.ranks.parquet"),
            "aggregation": None,
            "first_rank": rank,
            "overwrite": False,
        }
        for rank, source in enumerate(sources)
    ]


def check(executor: Executor, exports: list[Path], folder: Path) -> None:
    """Its results come in order and are those of this process; the first error is raised."""
    requests = requests_for(exports, folder)
    results = list(run_parts(executor, "summarize", requests))
    assert [result["target"] for result in results] == [one["target"] for one in requests]
    here = exports[0].parent / "here"
    if not here.exists():
        for one in requests_for(exports, here):
            assert "error" not in run_part("summarize", one)
    for one in requests:
        made = Path(one["target"])
        assert made.read_bytes() == (here / made.name).read_bytes()
    missing = requests_for([exports[0], exports[0].with_name("none.sqlite")], folder / "again")
    with pytest.raises(DldbNotFoundError, match=r"none\.sqlite"):
        list(run_parts(executor, "summarize", missing))


def test_this_process_does_parts(exports: list[Path], tmp_path: Path) -> None:
    check(LocalExecutor(1), exports, tmp_path)


def test_processes_do_parts(exports: list[Path], tmp_path: Path) -> None:
    check(LocalExecutor(2), exports[:2], tmp_path)


@pytest.fixture
def dask() -> Iterator[DaskExecutor]:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield DaskExecutor(client)


def test_a_dask_cluster_does_parts(dask: DaskExecutor, exports: list[Path], tmp_path: Path) -> None:
    check(dask, exports, tmp_path)


def test_a_dask_cluster_is_found_by_its_address(
    exports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way: rank files are imported on the cluster, joined here."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address=None,
        protocol="tcp",
        host="127.0.0.1",
    ) as cluster:
        name = f"dask:{cluster.scheduler_address}"
        words = [f"--database={','.join(map(str, exports))}", f"--output_path={tmp_path}"]
        assert main([*words, f"--executor={name}", "-v", "quiet"]) == 0
    capsys.readouterr()
    assert main(["stragglers", str(tmp_path / "dlprof_dldb.sqlite"), "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["slow_rank"] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"dlprof_dldb.sqlite"}


def test_celery_does_parts_as_a_group(exports: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("celery", reason="Celery is not installed")
    from aggregator.jobs.celery_app import app
    from aggregator.jobs.tasks import do_part

    before = app.conf.task_always_eager
    app.conf.task_always_eager = True
    try:
        check(CeleryExecutor(do_part), exports, tmp_path)
    finally:
        app.conf.task_always_eager = before


@pytest.mark.parametrize("name", ["", "slurm", "ray", "local:x", "celery:redis://x"])
def test_an_unknown_executor_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="no executor"), open_executor(name):
        pass


def test_a_cluster_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "100ms"}),
        pytest.raises(ExecutorError, match=r"cannot be used: 127\.0\.0\.1:9"),
        open_executor("dask:tcp://user:secret@127.0.0.1:9"),
    ):
        pass


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ExecutorError) as found, open_executor("dask"):
        pass
    assert "pip install distributed" in found.value.hint


def test_an_error_of_a_part_has_its_class_back() -> None:
    error = CorruptProfileError("It is damaged.", hint="Copy it again.", path="/x")
    result = {"error": {**error.to_dict(), "class": "CorruptProfileError"}}
    with pytest.raises(CorruptProfileError) as found:
        raise_error(json.loads(json.dumps(result)))
    assert found.value.to_dict() == error.to_dict()
    with pytest.raises(Exception, match="x") as other:
        raise_error({"error": {"class": "JSONValue", "message": "x", "hint": "", "details": {}}})
    assert type(other.value).__name__ == "DlprofError"
