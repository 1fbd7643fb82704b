"""Reports that consist of one table, streamed as CSV or JSON.

JSON is ``{"<title>": [{"<column>": <value>, ...}, ...]}`` with the column titles of the CSV file
as keys, formatted as by DLProf's JSON library: keys are sorted, with a space on both sides of the
colon. Flags are "yes" and "no" as in CSV.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from profiler_cli.reports.columns import Column, Format, Renderer, csv_renderer, json_renderer

if TYPE_CHECKING:
    from profiler_cli.reports.source import ReportSource

RowsListener = Callable[[int], None]
"""Called with the number of rows just written."""


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """A report file."""

    name: str  # Its token in ``--reports``.
    suffix: str  # Its part of the file name.
    per_domain: bool = True  # Whether each domain has its own file.
    own_format: str = ""  # Its only format; empty if it has those of ``--formats``.
    is_addition: bool = False  # Whether DLProf did not have it.

    @abstractmethod
    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole report to a stream."""


@dataclass(frozen=True, kw_only=True)
class TableReport(Report):
    """A report that shows the rows of one view."""

    title: str  # First line of the file.
    view: str  # View of its rows.
    columns: tuple[Column, ...]  # Its columns, in order.
    # Columns of the view that sort the rows, in a total order; names sort as bytes.
    order_by: tuple[str, ...]
    extended_view: str = ""  # View of its rows with ``--extended=true``; empty if it is ``view``.

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole report to a stream."""
        columns = [column for column in self.columns if _is_shown(column, source)]
        view = self.extended_view if source.is_extended and self.extended_view else self.view
        chunks = source.iter_chunks(
            view, [column.source for column in columns], self.order_by, per_domain=self.per_domain
        )
        writer = _write_json if file_format == "json" else _write_csv
        writer(self.title, columns, chunks, stream, on_rows)


def _is_shown(column: Column, source: ReportSource) -> bool:
    if column.extended and not source.is_extended:
        return False
    if column.pytorch_only and not source.has_directions:
        return False
    return source.has_data_types or column.source != "data_type"


def _write_csv(
    title: str,
    columns: Sequence[Column],
    chunks: Iterator[list[tuple[object, ...]]],
    stream: BinaryIO,
    on_rows: RowsListener,
) -> None:
    header = ",".join(column.title for column in columns)
    stream.write(f"{title}\n{header}\n".encode())
    template = ",".join(["%s"] * len(columns)) + "\n"
    renderers = [csv_renderer(column.format) for column in columns]
    for rows in chunks:
        stream.write(encode("".join(_render(template, renderers, rows))))
        on_rows(len(rows))


def _write_json(
    title: str,
    columns: Sequence[Column],
    chunks: Iterator[list[tuple[object, ...]]],
    stream: BinaryIO,
    on_rows: RowsListener,
) -> None:
    stream.write(f"{{\n   {json.dumps(title)} : [".encode())
    write_json_rows([(c.title, c.format) for c in columns], chunks, stream, on_rows)
    stream.write(b"]\n}\n")


def write_json_rows(
    columns: Sequence[tuple[str, Format]],
    chunks: Iterator[list[tuple[object, ...]]],
    stream: BinaryIO,
    on_rows: RowsListener,
) -> None:
    """Write the rows of a JSON array, one object per line; the caller writes the brackets."""
    order = sorted(range(len(columns)), key=lambda index: columns[index][0])
    keys = [json.dumps(columns[index][0]).replace("%", "%%") for index in order]
    template = "{ " + ", ".join(f"{key} : %s" for key in keys) + " }"
    renderers = [json_renderer(columns[index][1]) for index in order]
    separator = "\n      "
    for rows in chunks:
        ordered = [tuple(row[index] for index in order) for row in rows]
        text = ",\n      ".join(_render(template, renderers, ordered))
        stream.write(encode(separator + text))
        separator = ",\n      "
        on_rows(len(rows))
    if separator.startswith(","):
        stream.write(b"\n   ")


def _render(
    template: str, renderers: Sequence[Renderer], rows: Sequence[tuple[object, ...]]
) -> Iterator[str]:
    """Return the text of each row; for speed, map and zip loop over the values."""
    rendered = [
        map(render, values)
        for render, values in zip(renderers, zip(*rows, strict=True), strict=True)
    ]
    return map(template.__mod__, zip(*rendered, strict=True))


def encode(text: str) -> bytes:
    """Encode as UTF-8; characters that cannot be encoded become question marks."""
    return text.encode("utf-8", "replace")
