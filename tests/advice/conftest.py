"""Databases of the small captures, each made once per test process."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures" / "advice"
Query = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture(scope="session")
def database_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function from a capture's name to its database, which must not be changed."""
    folder = tmp_path_factory.mktemp("advice")

    def database(name: str, first: int | None = None, last: int | None = None) -> Path:
        path = folder / f"{name}.{first}.{last}.dldb.sqlite"
        if not path.exists():
            source = folder / f"{name}.sqlite"
            source.write_bytes(lzma.decompress((CAPTURES / f"{name}.sqlite.xz").read_bytes()))
            request = AggregationRequest("", first, last)
            recordings = CAPTURES.glob(f"{name}_memory_*.pickle.xz")
            for recording in recordings:
                (folder / recording.stem).write_bytes(lzma.decompress(recording.read_bytes()))
            import_profile(ImportOptions(source, path, request=request), NullProgress())
            source.unlink()
        return path

    return database


@pytest.fixture
def capture(database_of: Callable[..., Path]) -> Iterator[Callable[..., sqlite3.Connection]]:
    """A function that opens the database of a capture for reading."""
    opened: list[sqlite3.Connection] = []

    def connect(name: str, first: int | None = None, last: int | None = None) -> sqlite3.Connection:
        path = database_of(name, first, last)
        opened.append(sqlite3.connect(f"file:{path}?mode=ro", uri=True))
        return opened[-1]

    yield connect
    for connection in opened:
        with closing(connection):
            pass
