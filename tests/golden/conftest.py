"""Databases of the shared profiles: imported once for all test processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import Analysed, analyse_file

ProfileFactory = Callable[[str], Path]
Importer = Callable[[str], Path]


@pytest.fixture(scope="session")
def imported(profile: ProfileFactory, tmp_path_factory: pytest.TempPathFactory) -> Importer:
    """A function from a profile's name to a database made of it; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "imported"
    folder.mkdir(exist_ok=True)

    def database(name: str) -> Path:
        path = folder / f"{name}.dldb.sqlite"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                analyse_file(profile(name), path)
        return path

    return database


@pytest.fixture(scope="session")
def golden_import(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """What the engine makes of the export that NVIDIA's DLProf was run on."""
    database = tmp_path_factory.mktemp("golden") / "dlprof_dldb.sqlite"
    return analyse_file(golden_dir / "nsys_profile.sqlite", database)
