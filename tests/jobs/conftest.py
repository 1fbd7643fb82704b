"""Running viewers and workers, and a database for each test to aggregate anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DEMO_PROFILE, ProfileFactory
from tests.jobs.workers import Redis


@pytest.fixture(scope="session")
def demo_database(imported: ProfileFactory) -> Path:
    return imported(DEMO_PROFILE)


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy that a test may add aggregations to."""
    copy = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(demo_database, copy)
    return copy


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    """A Redis of the test's own, which keeps nothing."""
    folder = tmp_path / "redis"
    folder.mkdir()
    with Redis(folder) as server:
        yield server
