"""Tables as files, written row by row: an export of any size needs the memory of a few rows."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_ROWS_PER_CHUNK = 500
#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ExportHeader:
    """What an export says about itself."""

    profile: str
    table: str
    title: str
    aggregation_id: int
    domain: str
    columns: tuple[str, ...]

    @property
    def file_stem(self) -> str:
        """Name of the file, without what a header or a file system would stumble over."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", self.profile).strip("._") or "profile"
        return f"{stem}_{self.table}_aggregation{self.aggregation_id}"


@dataclass(frozen=True)
class ExportFormat:
    """One kind of file."""

    suffix: str
    content_type: str
    write: Callable[[ExportHeader, Iterable[Row]], Iterator[bytes]]


def defuse(value: object) -> object:
    """Text that a spreadsheet would run, quoted; the names in a profile are anybody's input."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def write_csv(header: ExportHeader, rows: Iterable[Row]) -> Iterator[bytes]:
    """Comma-separated values: a header line, then one line per row."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(header.columns)
    for index, row in enumerate(rows, start=1):
        writer.writerow([_cell(value) for value in row])
        if index % _ROWS_PER_CHUNK == 0:
            yield _take(buffer)
    yield _take(buffer)


def write_json(header: ExportHeader, rows: Iterable[Row]) -> Iterator[bytes]:
    """One JSON document: where it comes from, and the rows as objects."""
    about = {
        "profile": header.profile,
        "table": header.table,
        "aggregation_id": header.aggregation_id,
        "domain": header.domain,
        "columns": list(header.columns),
    }
    buffer = io.StringIO()
    buffer.write(json.dumps(about, ensure_ascii=False)[:-1] + ', "results": [')
    for index, row in enumerate(rows):
        buffer.write(",\n" if index else "\n")
        record = dict(zip(header.columns, row, strict=True))
        buffer.write(json.dumps(record, ensure_ascii=False))
        if (index + 1) % _ROWS_PER_CHUNK == 0:
            yield _take(buffer)
    buffer.write("\n]}\n")
    yield _take(buffer)


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return defuse(value)


def _take(buffer: io.StringIO) -> bytes:
    data = buffer.getvalue().encode("utf-8", errors="replace")
    buffer.seek(0)
    buffer.truncate()
    return data


FORMATS: dict[str, ExportFormat] = {
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", write_csv),
    "json": ExportFormat("json", "application/json", write_json),
}
