"""``--dump_model_data``: the totals are the database's."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from profiler_cli.dlprof import main


@pytest.fixture(scope="module")
def folder(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of the golden export and its model data."""
    folder = tmp_path_factory.mktemp("model_data")
    source = golden_dir / "nsys_profile.sqlite"
    words = [f"--database={source}", "--dump_model_data=true", f"--output_path={folder}"]
    assert main([*words, "-v=quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The file's content."""
    content: dict[str, list[dict[str, Any]]] = json.loads(
        (folder / "dlprof_model_data.json").read_text()
    )
    return content


def test_every_section_has_the_rows_of_its_view(
    folder: Path, data: dict[str, list[dict[str, Any]]]
) -> None:
    views = {
        "Iterations": "view_iterations_all",
        "Ops": "view_op_nodes",
        "Op Instances": "op_instances",
        "Kernels": "view_iteration_kernels",
        "API Calls": "api_calls",
        "Memory Ops": "memory_ops",
    }
    assert set(data) == set(views)
    with sqlite3.connect(folder / "dlprof_dldb.sqlite") as database:
        for section, view in views.items():
            (count,) = database.execute(f"SELECT count(*) FROM {view}").fetchone()
            assert len(data[section]) == count > 0


def test_instances_and_kernels_add_up_to_the_ops(data: dict[str, list[dict[str, Any]]]) -> None:
    calls = Counter(row["op_node_id"] for row in data["Op Instances"])
    cpu: Counter[str] = Counter()
    gpu: Counter[str] = Counter()
    for row in data["Op Instances"]:
        cpu[row["op_node_id"]] += row["cpu_time"]
        gpu[row["op_node_id"]] += row["gpu_time"]
    kernels: Counter[str] = Counter()
    for row in data["Kernels"]:
        kernels[row["op_node_id"]] += row["kernel_duration"]
    for op in data["Ops"]:
        name = op["op_node_id"]
        assert op["num_calls"] == calls[name]
        assert op["cpu_time_sum"] == cpu[name]
        assert op["gpu_time_sum"] == gpu[name]
        assert op["kernel_time"] == kernels[name]


def test_no_internal_column_leaks(data: dict[str, list[dict[str, Any]]]) -> None:
    assert "last_long_kernel_name" not in data["Kernels"][0]
