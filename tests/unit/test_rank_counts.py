"""One machine imports as many rank files at the same time as it has room for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aggregator.ranks import pool
from aggregator.ranks.pool import free_memory_bytes, worker_count

GIB = 2**30
MIB = 2**20


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Eight files of 100 MiB on a machine of eight cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    made = [tmp_path / f"rank{number}.sqlite" for number in range(8)]
    for path in made:
        with path.open("wb") as file:
            file.truncate(100 * MIB)
    return made


def test_cores_bound_it(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_count(files, {}, free_bytes=64 * GIB) == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert worker_count(files, {}, free_bytes=64 * GIB) == 2


def test_free_memory_bounds_it(files: list[Path]) -> None:
    # Each needs 200 MiB and twice its size: 400 MiB; four fifths of what is free may be taken.
    assert worker_count(files, {}, free_bytes=1500 * MIB) == 3
    assert worker_count(files, {}, free_bytes=100 * MIB) == 1


def test_small_files_are_read_by_one(tmp_path: Path) -> None:
    made = [tmp_path / f"rank{number}.sqlite" for number in range(4)]
    for path in made:
        path.write_bytes(b"x" * 1000)
    assert worker_count(made, {}, free_bytes=64 * GIB) == 1


@pytest.mark.parametrize(
    ("wanted", "count"), [("1", 1), ("3", 3), ("99", 8), ("0", 1), ("many", 1)]
)
def test_a_variable_says_it(files: list[Path], wanted: str, count: int) -> None:
    variables = {"DLPROF_RANK_WORKERS": wanted}
    assert worker_count(files, variables, free_bytes=1) == count


def test_a_container_has_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   4194304 kB\n")
    (tmp_path / "max").write_text(f"{GIB}\n")
    (tmp_path / "current").write_text(f"{GIB // 4}\n")
    monkeypatch.setattr(pool, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(pool, "_CGROUPS", ((tmp_path / "max", tmp_path / "current"),))
    assert free_memory_bytes() == GIB * 3 // 4
    (tmp_path / "max").write_text("max\n")
    assert free_memory_bytes() == 4 * GIB
    monkeypatch.setattr(pool, "_MEMINFO", tmp_path / "none")
    assert free_memory_bytes() is None
