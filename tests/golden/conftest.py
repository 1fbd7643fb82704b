"""The golden run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Analyzed, analyze_file


@pytest.fixture(scope="session")
def golden_import(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    """What the engine makes of the export that NVIDIA's DLProf was run on."""
    database = tmp_path_factory.mktemp("golden") / "dlprof_dldb.sqlite"
    return analyze_file(golden_dir / "nsys_profile.sqlite", database)
