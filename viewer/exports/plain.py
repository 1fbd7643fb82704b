"""CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TextIO

from aggregator.plain_text import defused
from viewer.exports.formats import ExportHeader, Row, printable


def write_csv(header: ExportHeader, rows: Iterable[Row], file: IO[bytes]) -> None:
    """Comma-separated values: one line of names, then one line per row."""
    with _as_text(file) as text:
        writer = csv.writer(text)
        writer.writerow(header.columns)
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def write_json(header: ExportHeader, rows: Iterable[Row], file: IO[bytes]) -> None:
    """One JSON document: where it comes from, and the rows as objects."""
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
    return value if type(value) in _NUMBERS else defused(printable(value))


_NUMBERS = frozenset({int, float})


@contextmanager
def _as_text(file: IO[bytes]) -> Iterator[TextIO]:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    try:
        yield text
    finally:
        # The file is its owner's to close.
        text.flush()
        text.detach()
