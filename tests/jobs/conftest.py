"""Running viewers and workers, and a database of ours for each test to aggregate anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.options import ImportOptions
from aggregator.progress import NullProgress
from tests.jobs.workers import Redis


@pytest.fixture(scope="session")
def imported(demo_profile: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from aggregator.pipeline import import_profile

    database = tmp_path_factory.mktemp("imported") / "dlprof_dldb.sqlite"
    import_profile(ImportOptions(demo_profile, database), NullProgress())
    return database


@pytest.fixture
def database(imported: Path, tmp_path: Path) -> Path:
    """A copy that a test may add aggregations to."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(imported, copy)
    return copy


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    """A Redis of the test's own, which keeps nothing."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with Redis(folder) as server:
        yield server
