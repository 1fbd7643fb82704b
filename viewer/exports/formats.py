"""The formats that a table can be exported in; CSV and JSON are written here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TextIO

from aggregator.system.plain_text import escape_formula
from viewer.exports.header import ExportHeader, Row, printable
from viewer.exports.pdf import write_pdf
from viewer.exports.xlsx import write_xlsx

_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@dataclass(frozen=True)
class ExportFormat:
    """One kind of file."""

    suffix: str  # Of the file's name, without the dot.
    content_type: str  # For the reply.
    # Writes all rows to a file; they come one by one and are not kept.
    write: Callable[[ExportHeader, Iterable[Row], IO[bytes]], None]


def write_csv(header: ExportHeader, rows: Iterable[Row], file: IO[bytes]) -> None:
    """Write comma-separated values: one line of names, then one line per row."""
    with _as_text(file) as text:
        writer = csv.writer(text)
        writer.writerow(header.columns)
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def write_json(header: ExportHeader, rows: Iterable[Row], file: IO[bytes]) -> None:
    """Write one JSON document: where it comes from, and the rows as objects."""
    about = {
        "profile": header.profile,
        "table": header.table,
        "aggregation_id": header.aggregation_id,
        "domain": header.domain,
        "columns": list(header.columns),
    }
    with _as_text(file) as text:
        text.write(json.dumps(about, ensure_ascii=False)[:-1] + ', "results": [')
        for index, row in enumerate(rows):
            text.write(",\n" if index else "\n")
            record = dict(zip(header.columns, row, strict=True))
            text.write(json.dumps(record, ensure_ascii=False))
        text.write("\n]}\n")


def _cell(value: object) -> object:
    # A number stays as it is: it may be negative.
    return value if type(value) in _NUMBERS else escape_formula(printable(value))


_NUMBERS = frozenset({int, float})


@contextmanager
def _as_text(file: IO[bytes]) -> Iterator[TextIO]:
    """Wrap a file that its owner closes; a full disk does not hide what ended the block."""
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    try:
        yield text
        text.flush()
    finally:
        with suppress(OSError):
            text.detach()


FORMATS: dict[str, ExportFormat] = {
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", write_csv),
    "json": ExportFormat("json", "application/json", write_json),
    "xlsx": ExportFormat("xlsx", _XLSX, write_xlsx),
    "pdf": ExportFormat("pdf", "application/pdf", write_pdf),
}
