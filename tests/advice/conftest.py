"""Databases of the small captures, each made once for all test processes."""

from __future__ import annotations

import lzma
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from tests.conftest import made_once

CAPTURES = Path(__file__).resolve().parents[1] / "data" / "captures" / "advice"
Query = Callable[[str], list[tuple[object, ...]]]


def captured(
    factory: pytest.TempPathFactory,
    name: str,
    first: int | None = None,
    last: int | None = None,
    bare_ms: float = 0.0,
) -> Path:
    """The database of a capture, which must not be changed."""
    request = AggregationRequest("", first, last, bare_step_ns=round(bare_ms * 1e6))

    def make(path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            source = Path(folder) / f"{name}.sqlite"
            recordings = CAPTURES.glob(f"{name}_memory_*.pickle.xz")
            for packed in (CAPTURES / f"{name}.sqlite.xz", *recordings):
                (Path(folder) / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
            import_profile(ImportOptions(source, path, request=request), NullProgress())

    return made_once(factory, f"advice/{name}.{first}.{last}.{bare_ms}.dldb.sqlite", make)


@pytest.fixture(scope="session")
def database_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The same as a function of the capture's name."""
    return partial(captured, tmp_path_factory)


@pytest.fixture
def capture(database_of: Callable[..., Path]) -> Iterator[Callable[..., sqlite3.Connection]]:
    """A function that opens the database of a capture for reading."""
    opened: list[sqlite3.Connection] = []

    def connect(
        name: str, first: int | None = None, last: int | None = None, bare_ms: float = 0.0
    ) -> sqlite3.Connection:
        path = database_of(name, first, last, bare_ms)
        opened.append(sqlite3.connect(f"file:{path}?mode=ro", uri=True))
        return opened[-1]

    yield connect
    for connection in opened:
        with closing(connection):
            pass
