"""Columns of SQLite files, read through ADBC into Arrow and NumPy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import adbc_driver_manager
import pyarrow as pa

from aggregator.sources.formats import corrupt, list_tables
from aggregator.system.arrow_arrays import to_numpy
from aggregator.system.sqlite_arrow import ArrowConnection, raise_interrupt
from aggregator.system.sqlite_uri import read_only_uri

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.profile.arrays import Int64


@contextmanager
def arrow_connection(path: Path) -> Iterator[ArrowConnection]:
    """Open a read-only ADBC connection; its errors become ``CorruptProfileError``.

    ADBC's SQLite has no limits, so the file is looked at by Python's first.
    """
    list_tables(path)
    try:
        with ArrowConnection(read_only_uri(path)) as connection:
            yield connection
    except adbc_driver_manager.Error as error:
        raise_interrupt(error)
        raise corrupt(path, error) from error


def integers(column: pa.Array) -> Int64:
    """Return the numbers of a column without NULL.

    They are copied: a view would keep the whole batch in memory, texts included.
    """
    numbers: Int64 = to_numpy(column if column.type == pa.int64() else column.cast(pa.int64()))
    return numbers.copy()


def as_bytes(texts: pa.Array) -> pa.Array:
    """Return the view texts as byte strings."""
    is_same = pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)
    return texts.view(pa.binary()) if is_same else texts.cast(pa.binary())


def decoded(column: pa.Array) -> list[str]:
    """Return the texts of a column; bytes that are not UTF-8 become the replacement character."""
    raw = as_bytes(column).to_pylist()
    return ["" if value is None else value.decode("utf-8", "replace") for value in raw]
