"""Reports that consist of one table, streamed as CSV or JSON.

JSON is ``{"<title>": [{"<column>": <value>, ...}, ...]}`` with the column titles of the CSV file
as keys, formatted as by DLProf's JSON library: keys are sorted, with a space on both sides of the
colon. Flags are "yes" and "no" as in CSV.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from profiler_cli.reports.values import Renderer, csv_renderer, json_renderer

if TYPE_CHECKING:
    from aggregator.tables.spec import Column, TableSpec
    from profiler_cli.reports.source import ReportSource

# Ops of other modes have neither; the extended iteration report shows stack traces in every mode.
_PYTORCH_ONLY: Final = frozenset({"direction", "stack_trace"})

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


class TableReport(Report):
    """A report that shows the rows of one view, declared in ``tables.py``."""

    @property
    def table(self) -> TableSpec:
        """Its columns, and where its rows come from."""
        from profiler_cli.reports.tables import TABLES  # noqa: PLC0415 - a tenth of ``--help``

        return TABLES[self.name]

    def write(
        self, source: ReportSource, file_format: str, stream: BinaryIO, on_rows: RowsListener
    ) -> None:
        """Write the whole report to a stream."""
        table = self.table
        columns = [column for column in table.columns if _is_shown(column, table, source)]
        chunks = source.iter_table(table, columns)
        writer = _write_json if file_format == "json" else _write_csv
        writer(table.title, columns, chunks, stream, on_rows)


def _is_shown(column: Column, table: TableSpec, source: ReportSource) -> bool:
    if column.name in table.hidden:
        return source.is_extended
    if column.name in _PYTORCH_ONLY:
        return source.has_directions
    return source.has_data_types or column.name != "data_type"


def _write_csv(
    title: str,
    columns: Sequence[Column],
    chunks: Iterator[list[tuple[object, ...]]],
    stream: BinaryIO,
    on_rows: RowsListener,
) -> None:
    header = ",".join(column.heading for column in columns)
    stream.write(f"{title}\n{header}\n".encode())
    template = ",".join(["%s"] * len(columns)) + "\n"
    renderers = [csv_renderer(column) for column in columns]
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
    renderers = {column.heading: json_renderer(column) for column in columns}
    write_json_rows(renderers, chunks, stream, on_rows)
    stream.write(b"]\n}\n")


def write_json_rows(
    renderers: Mapping[str, Renderer],
    chunks: Iterator[list[tuple[object, ...]]],
    stream: BinaryIO,
    on_rows: RowsListener,
) -> None:
    """Write the rows of a JSON array, one object per line; the caller writes the brackets."""
    titles = list(renderers)
    order = sorted(range(len(titles)), key=titles.__getitem__)
    keys = [json.dumps(titles[index]).replace("%", "%%") for index in order]
    template = "{ " + ", ".join(f"{key} : %s" for key in keys) + " }"
    sorted_renderers = [renderers[titles[index]] for index in order]
    separator = "\n      "
    for rows in chunks:
        ordered = [tuple(row[index] for index in order) for row in rows]
        text = ",\n      ".join(_render(template, sorted_renderers, ordered))
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
