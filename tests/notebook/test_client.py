"""The notebook client: the same from a viewer and from a file, without a web framework."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dlprof_client
from aggregator.errors import DlprofError, InvalidValueError
from dlprof_client.changes import compare
from dlprof_client.client import connect
from dlprof_client.run import ClientError, Run
from tests.conftest import DEMO_PROFILE, ProfileFactory

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOK = REPOSITORY / "docs/notebook.ipynb"
TABLES = (
    "ops",
    "kernels",
    "op-types",
    "group-ops",
    "gpus",
    "iterations",
    "iterations/3/ops",
    "iterations/3/kernels",
)
SUMMARIES = (
    "performance-summary",
    "resource-usage",
    "kernel-summary",
    "op-summary",
    "gpu-utilization",
    "tensor-core-efficiency",
)
FIGURES = (
    "iteration-summary",
    "resource-usage",
    "gpu-utilization",
    "kernel-gpu-time",
    "tensor-core-efficiency",
    "gpus",
    "ranks",
    "roofline",
)


@pytest.fixture(scope="module")
def database(imported: ProfileFactory) -> Path:
    """The database of the demo profile."""
    return imported(DEMO_PROFILE)


@pytest.fixture(scope="module")
def url(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A viewer on it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "profiler_cli.dlprofviewer", "--port", "0", str(database)],
        cwd=REPOSITORY,
        env=os.environ
        | {"DLPROF_STATE_DIR": str(tmp_path_factory.mktemp("state")), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"running at (\S+)", process.stdout.readline())
    assert found is not None
    yield found[1]
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def runs(url: str, database: Path) -> tuple[Run, Run]:
    """The same profile from a viewer and from the file."""
    return connect(url), connect(database)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_same_from_both(runs: tuple[Run, Run], name: str) -> None:
    served, read = (run.table(name) for run in runs)
    assert len(read) > 0
    pd.testing.assert_frame_equal(served, read, check_dtype=False)


def test_filters_and_order_mean_the_same(runs: tuple[Run, Run]) -> None:
    params = {"ordering": "-num_calls", "op_name__icontains": "conv", "gpu_time_ns__gte": "1000"}
    served, read = (run.table("ops", **params) for run in runs)
    assert read["op_name"].str.contains("conv").all()
    assert read["num_calls"].is_monotonic_decreasing
    pd.testing.assert_frame_equal(served, read, check_dtype=False)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_the_same_from_both(runs: tuple[Run, Run], name: str) -> None:
    served, read = runs
    assert served.summary(name) == read.summary(name)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_the_same_from_both(runs: tuple[Run, Run], name: str) -> None:
    served, read = runs
    assert json.loads(json.dumps(read.figure_data(name))) == served.figure_data(name)
    assert len(read.figure(name, "dark").data) > 0


def test_missing_objects_are_reported(runs: tuple[Run, Run], url: str, database: Path) -> None:
    for run in runs:
        with pytest.raises(ClientError):
            run.figure("nothing")
    for target in (url, database):
        with pytest.raises(ClientError, match="no aggregation 99"):
            connect(target, aggregation=99)
    with pytest.raises(ClientError, match="No viewer answers"):
        connect("http://localhost:9")


def test_no_web_framework_is_imported() -> None:
    script = (
        "import sys, dlprof_client.client; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert not {"django", "rest_framework", "celery", "plotly"} & set(done.stdout.split())


def _cells() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_the_example_runs_from_top_to_bottom(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLPROF_DATABASE", str(database))
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(None):
        for cell in _cells():
            exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    assert len(names["ops"]) > 100


def test_the_example_stores_no_outputs_that_become_stale() -> None:
    assert [cell["execution_count"] for cell in _cells()] == [None] * len(_cells())
    assert not any(cell["outputs"] for cell in _cells())


def test_one_op_and_one_kernel_are_the_same_from_both(runs: tuple[Run, Run]) -> None:
    served, read = runs
    op_id = str(read.table("ops").iloc[0]["op_id"])
    assert served.op_calls(op_id) == read.op_calls(op_id)
    kernel = str(read.table("kernels").iloc[0]["kernel_long_name"])
    assert served.kernel_launches(kernel) == read.kernel_launches(kernel)
    for run in runs:
        with pytest.raises(ClientError):
            run.op_calls("NO_SUCH_OP")
        with pytest.raises(ClientError):
            run.kernel_launches("no such kernel")


def test_two_parts_of_a_run_are_compared_as_tables(database: Path) -> None:
    changes = compare(f"{database}@2-9", [f"{database}@10-17"])
    assert changes.headline in repr(changes)
    step = float(changes.comparison.new.step_ns)
    for table in (changes.rows, changes.classes, changes.causes):
        assert table["new_ns"].sum() == pytest.approx(step)
    assert list(changes.setup.columns) == ["key", "base", "new"]
    assert {"class", "reason", "module", "op", "verdict"} <= set(changes.rows.columns)
    first, *parts, last = changes.figure("causes").data[0].customdata
    assert first + sum(parts) == pytest.approx(last) == pytest.approx(step)
    assert len(changes.figure("row", row=1).data) == 2
    with pytest.raises(InvalidValueError):
        changes.figure("row", row=10**6)


def test_the_replay_is_the_same_from_both(runs: tuple[Run, Run]) -> None:
    served, read = runs
    assert served.critical_path() == read.critical_path()
    assert served.op_sensitivity().equals(read.op_sensitivity())
    assert served.what_if(speedup="kernels=2x") == read.what_if(speedup="kernels=2x")
    for run in runs:
        with pytest.raises(DlprofError):
            run.stragglers()
        with pytest.raises(ClientError):
            run.what_if(slower="kernels=2x")


def test_recordings_of_memory_are_the_same_from_both(runs: tuple[Run, Run]) -> None:
    served, read = runs
    assert served.memory() == read.memory()
    assert read.memory()["recordings"] == []
    for run in runs:
        with pytest.raises(DlprofError, match="no recording 1"):
            run.memory_alive(0)


@pytest.mark.parametrize("name", ["ops", "iterations/3/kernels"])
def test_an_arrow_table_has_the_same_rows(runs: tuple[Run, Run], name: str) -> None:
    for run in runs:
        table = run.arrow(name)
        assert table.column_names == list(run.table(name).columns)
        assert table["gpu_time_ns"].to_pylist() == run.table(name)["gpu_time_ns"].tolist()
    assert runs[1].arrow(name, ordering="gpu_time_ns").num_rows == len(runs[1].table(name))


def test_a_cell_shows_the_verdict_and_escapes_the_names_of_a_profile(
    runs: tuple[Run, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    served, read = runs
    cell = read._repr_html_()
    assert cell == served._repr_html_()
    assert f"<strong>{read.verdict()['sentence']}</strong>" in cell
    assert "could save" in cell
    monkeypatch.setattr(read, "verdict", lambda: {"sentence": "<script>alert(1)</script>"})
    assert "<script" not in read._repr_html_()


def test_a_comparison_is_a_table_in_a_cell(database: Path) -> None:
    changes = compare(f"{database}@2-9", f"{database}@10-17")
    cell = changes._repr_html_()
    assert html.escape(changes.headline) in cell
    assert cell.count("<tr>") > 3


def test_the_page_is_shown_in_a_frame_that_reaches_nothing(runs: tuple[Run, Run]) -> None:
    for run in runs:
        page = run.show(height=500)
        assert "<title>" in page.text
        cell = page._repr_html_()
        assert 'sandbox="allow-scripts allow-downloads" srcdoc="&lt;!doctype html' in cell
        assert "height: 500px" in cell
        assert cell.count('"') == 6


def test_the_client_says_its_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", dlprof_client.__version__)
