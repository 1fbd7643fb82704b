"""Every value of every view of a real DLProf 1.8.0 run, made again from its profile."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import Analyzed, query

# Columns that describe who ran what and when, and that differ between any two runs of any tool.
ALLOWED_TO_DIFFER = {
    "view_aggregations": {"user_name", "host_name", "aggr_start"},
    "view_db_version": {"current_version", "original_version"},
    "view_system_config": {"dlprof_version", "dlprof_build", "original_command"},
}
VIEWS = (
    "view_aggregations",
    "view_db_version",
    "view_domain_model_gpu_utilization",
    "view_domains",
    "view_expert_systems",
    "view_gpu_devices",
    "view_gpu_names",
    "view_group_ops",
    "view_iteration_kernels",
    "view_iteration_op_kernels",
    "view_iteration_ops",
    "view_iterations_all",
    "view_iterations_profiled",
    "view_kernel_summaries",
    "view_kernel_summary",
    "view_key_op_name",
    "view_op_nodes",
    "view_op_summary",
    "view_op_type_summary",
    "view_performance_summary",
    "view_resource_usage_breakdown",
    "view_system_config",
    "view_tc_utilization",
)


@pytest.fixture(scope="session")
def nvidia(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's database; a copy, for SQLite may want to write beside the file."""
    copy = tmp_path_factory.mktemp("nvidia") / "dlprof_dldb.sqlite"
    shutil.copyfile(golden_dir / "dlprof_dldb.sqlite", copy)
    return copy


def _columns(database: Path, view: str) -> list[str]:
    return [row[1] for row in query(database, f"PRAGMA table_info({view})")]


def test_these_are_all_views_of_nvidias_database(nvidia: Path) -> None:
    views = query(nvidia, "SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name")
    assert [name for (name,) in views] == sorted(VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_columns_are_nvidias_with_ours_behind_them(
    golden_import: Analyzed, nvidia: Path, view: str
) -> None:
    theirs = _columns(nvidia, view)
    assert _columns(golden_import.path, view)[: len(theirs)] == theirs


@pytest.mark.parametrize("view", VIEWS)
def test_rows_are_nvidias(golden_import: Analyzed, nvidia: Path, view: str) -> None:
    kept = [c for c in _columns(nvidia, view) if c not in ALLOWED_TO_DIFFER.get(view, set())]
    if not kept:
        assert len(query(golden_import.path, f"SELECT * FROM {view}")) == 1
        return
    sql = f"SELECT {', '.join(kept)} FROM {view}"
    # Types as well: a reader of 0 and 0.0 prints different reports.
    theirs, ours = (
        Counter(tuple((type(value), value) for value in row) for row in query(database, sql))
        for database in (nvidia, golden_import.path)
    )
    assert ours == theirs


def test_no_environment_variable_of_the_profile_is_copied(golden_import: Analyzed) -> None:
    # The export holds the environment of the profiled process, passwords and all.
    content = golden_import.path.read_bytes()
    for word in (b"LD_LIBRARY_PATH", b"SSH_", b"XDG_SESSION"):
        assert word not in content
