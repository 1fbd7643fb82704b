"""Databases of earlier versions are compared too: what they lack is read or computed otherwise."""

from __future__ import annotations

import lzma
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.compare.sides import Source, compare_files
from aggregator.system.progress import NullProgress

OLDER = sorted((Path(__file__).parents[1] / "data/older").glob("dldb_*.sqlite.xz"))


@pytest.mark.parametrize("packed", OLDER, ids=lambda path: path.name)
def test_a_database_of_an_earlier_version_is_compared(packed: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("before.sqlite", "after.sqlite")]
    for path in files:
        path.write_bytes(lzma.decompress(packed.read_bytes()))
    sources = [[Source.parse(f"{path}@1")] for path in files]
    found = compare_files(sources[0], sources[1], NullProgress())
    assert found.difference_ns == 0
    assert found.rows
    assert sum((row.new_ns for row in found.rows), Fraction()) == found.new.step_ns
