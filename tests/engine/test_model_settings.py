"""The script's settings, the versions and the GPU's memory from a capture."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.profile.settings import KNOWN, cudnn_version_text, read_settings
from tests.builders import Analyzed, alter, analyze_file, one_gpu, query

OURS = {"framework": "PyTorch 2.11.0", "cuda_version": "13.0", "cudnn_version": 91900}
UUID = "691f54c1-06f1-2088-4355-2732a7269da4"


def marker(**config: Any) -> str:
    return json.dumps({"model_config": config})


def values(*texts: str) -> dict[str, Any]:
    return {key: found.value for key, found in read_settings(texts).items() if found.is_recorded}


def test_settings_of_both_packages_have_the_same_names() -> None:
    ours = values(
        marker(**OURS, markers="dlprof_nvtx"),
        marker(DataLoader={"num_workers": 4, "pin_memory": True}),
        marker(autocast={"amp_enabled": True, "dtype": "float16"}),
        marker(cudnn_benchmark=False),
    )
    theirs = values(
        marker(num_workers=4, pin_memory=1, cudnn_benchmark_disabled=True),
        marker(amp_enabled=True),
    )
    common = {"num_workers": 4, "pin_memory": True, "cudnn_benchmark": False, "amp_enabled": True}
    assert common.items() <= ours.items()
    assert theirs == common
    assert ours["amp_dtype"] == "float16"


def test_of_two_data_loaders_the_first_counts_and_of_two_flags_the_last() -> None:
    found = values(
        marker(DataLoader={"num_workers": 8}),
        marker(cudnn_benchmark=False, amp_enabled=True),
        marker(DataLoader={"num_workers": 0}),
        marker(cudnn_benchmark=True, amp_enabled=False),
    )
    assert found == {"num_workers": 8, "cudnn_benchmark": True, "amp_enabled": True}


@pytest.mark.parametrize(
    "text", ['{"model_config"', '{"model_config": 3}', '{"model_config": {"a": [1]}}', "[]"]
)
def test_damaged_markers_are_ignored(text: str) -> None:
    assert values(text) == {}


@pytest.mark.parametrize(
    ("number", "text"),
    [(91002, "9.10.2"), (8902, "8.9.2"), (90100, "9.1.0"), (None, ""), ("x", "x")],
)
def test_a_cudnn_version_is_written_as_people_do(number: object, text: str) -> None:
    assert cudnn_version_text(number) == text


def export(tmp_path: Path, *texts: str, uuid: str = UUID) -> Path:
    trace, thread = one_gpu()
    for number, text in enumerate(texts):
        thread.range(text, number, number)
    thread.op("conv2d", 100, 900, seq=1)
    thread.launch("conv", 110)
    path = trace.write(tmp_path / "profile.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE TARGET_INFO_GPU ADD COLUMN uuid TEXT")
        connection.execute("UPDATE TARGET_INFO_GPU SET uuid = ?", (uuid,))
        connection.commit()
    return path


def add_samples(path: Path, *rows: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE DLPROF_GPU_SAMPLES (utcNs INTEGER, gpu INTEGER, uuid TEXT, "
            "memoryTotal INTEGER, memoryUsed INTEGER, gpuUtilization INTEGER, isBefore INTEGER)"
        )
        connection.executemany("INSERT INTO DLPROF_GPU_SAMPLES VALUES (?,?,?,?,?,?,?)", rows)
        connection.commit()


def add_allocations(path: Path, *rows: tuple[Any, ...]) -> None:
    """(start, process id, device, bytes, kind of memory, 1 if freed)."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER,"
            " deviceId INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER)"
        )
        connection.executemany(
            "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?,? << 24,?,?,?,?)", rows
        )
        connection.commit()


def analyzed(path: Path) -> Analyzed:
    return analyze_file(path, path.with_name("dlprof_dldb.sqlite"))


def test_versions_and_settings_reach_the_database_and_the_unknown_has_a_reason(
    tmp_path: Path,
) -> None:
    found = analyzed(export(tmp_path, marker(**OURS, markers="dlprof_nvtx"), marker(num_workers=2)))
    config = found.query("SELECT framework, cuda_version, cudnn_version FROM view_system_config")
    assert config == [("PyTorch 2.11.0", "13.0", "9.19.0")]
    rows = found.query("SELECT key, value, source, reason FROM view_model_settings ORDER BY row_id")
    by_key = {key: rest for key, *rest in rows}
    assert [key for key, *_ in rows][: len(KNOWN)] == list(KNOWN)
    assert by_key["num_workers"] == ["2", "dlprof_nvtx", ""]
    value, source, reason = by_key["pin_memory"]
    assert (value, source) == (None, "")
    assert "dlprof_nvtx" in reason


MEMORY = "SELECT total, used, used_before, nvml_utilization, source, reason FROM view_gpu_memories"


def test_memory_is_the_peak_of_what_the_processes_had_allocated(tmp_path: Path) -> None:
    path = export(tmp_path)
    add_allocations(
        path,
        (40, 100, 0, 500, 2, 0),
        (10, 100, 0, 3000, 2, 0),
        (20, 200, 0, 2000, 3, 0),  # another process on the same GPU
        (30, 100, 0, 3000, 2, 1),
        (15, 100, 0, 70000, 1, 0),  # pinned memory of the host
        (25, 100, 1, 9000, 2, 0),  # another GPU
        (50, 100, 0, 600, 5, 1),  # allocated before the capture began
        (60, 100, 0, 4000, None, 0),
    )
    found = analyzed(path)
    assert found.query(MEMORY)[0] == (1 << 34, 2000 + 500 - 600 + 4000, None, None, "cuda", "")


def test_what_was_freed_was_allocated_before(tmp_path: Path) -> None:
    path = export(tmp_path)
    add_allocations(path, (10, 100, 0, 700, 2, 1), (20, 100, 0, 100, 2, 0))
    assert analyzed(path).query("SELECT used, source FROM view_gpu_memories") == [(700, "cuda")]


def test_memory_is_the_peak_over_the_samples_of_the_gpu_with_that_uuid(tmp_path: Path) -> None:
    path = export(tmp_path)
    # NVML numbers GPUs otherwise than the export here: the UUID decides.
    add_samples(
        path,
        (1, 5, f"GPU-{UUID}", 1 << 37, 1000, 90, 1),
        (2, 5, f"GPU-{UUID}", 1 << 37, 9000, 40, 0),
        (3, 5, f"GPU-{UUID}", 1 << 37, 7000, 60, 0),
        (3, 0, "GPU-other", 1 << 37, 99000, 100, 0),
    )
    found = analyzed(path)
    assert found.query(MEMORY) == [(1 << 34, 9000, 1000, 50.0, "nvml", "")]
    used = found.query("SELECT memory_total, memory_used FROM view_gpu_devices")
    assert used == [(1 << 34, 9000)]


def test_without_samples_the_allocators_of_all_processes_count(tmp_path: Path) -> None:
    def memory_marker(pid: int, peak: int) -> str:
        return json.dumps(
            {"gpu_memory": {"device": 0, "uuid": UUID, "pid": pid, "peak_reserved_bytes": peak}}
        )

    found = analyzed(
        export(tmp_path, memory_marker(1, 500), memory_marker(1, 800), memory_marker(2, 300))
    )
    assert found.query(MEMORY) == [(1 << 34, 1100, None, None, "pytorch", "")]


def test_memory_that_was_not_recorded_is_unknown_with_the_reason(tmp_path: Path) -> None:
    path = export(tmp_path)
    found = analyzed(path)
    ((total, used, before, busy, source, reason),) = found.query(MEMORY)
    assert (total, used, before, busy, source) == (1 << 34, None, None, None, "")
    assert "dlprof" in reason
    alter(
        path,
        "CREATE TABLE DLPROF_CAPTURE_NOTES (name TEXT, value TEXT)",
        "INSERT INTO DLPROF_CAPTURE_NOTES VALUES ('nvmlError', 'libnvidia-ml is missing')",
    )
    found.path.unlink()
    assert "libnvidia-ml is missing" in analyzed(path).query(MEMORY)[0][5]


def test_samples_that_cannot_be_read_do_not_stop_the_import(tmp_path: Path) -> None:
    path = export(tmp_path)
    alter(path, "CREATE TABLE DLPROF_GPU_SAMPLES (something TEXT)")
    assert analyzed(path).query(MEMORY)[0][1] is None


def test_nvidias_golden_database_has_its_settings_under_our_names(shared_dir: Path) -> None:
    source = shared_dir / "golden" / "dlprof-1.8.0-pytorch" / "dlprof_dldb.sqlite"
    if not source.is_file():
        pytest.skip("the golden database is not there")
    enabled = query(source, "SELECT amp_enabled FROM read_only_model_config")[0][0]
    found = values(json.dumps({"model_config": {"amp_enabled": enabled}}))
    assert found["amp_enabled"] is bool(enabled)
