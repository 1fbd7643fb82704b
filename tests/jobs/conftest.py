"""Running viewers and workers, and a database for each test to aggregate anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import analyze_file
from tests.conftest import DEMO_PROFILE, ProfileFactory, made_once
from tests.fuzz.exports import small_export
from tests.jobs.workers import Redis


@pytest.fixture(scope="session")
def demo_database(imported: ProfileFactory) -> Path:
    return imported(DEMO_PROFILE)


@pytest.fixture(scope="session")
def small_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with as many steps as the demo, each of a few kernels: it is soon aggregated."""

    def make(folder: Path) -> None:
        folder.mkdir()
        small_export(steps=22).write(folder / "export.sqlite")
        analyze_file(folder / "export.sqlite", folder / "dlprof_dldb.sqlite")

    return made_once(tmp_path_factory, "small_database", make) / "dlprof_dldb.sqlite"


@pytest.fixture
def database(small_database: Path, tmp_path: Path) -> Path:
    """A copy that a test may add aggregations to."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(small_database, copy)
    return copy


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    """A Redis of the test's own, which keeps nothing."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with Redis(folder) as server:
        yield server
