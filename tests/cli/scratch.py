"""A database that has just the views a report reads, as plain tables."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from aggregator.options import Mode
from aggregator.tables.spec import Kind
from profiler_cli.reports.source import ReportSource
from profiler_cli.reports.values import is_number

if TYPE_CHECKING:
    from profiler_cli.reports.table import Report, TableReport

DOMAIN = "default-domain"


def scratch_source(mode: Mode = Mode.PYTORCH, domain: str = DOMAIN) -> ReportSource:
    """A source on an empty database; fill it with ``add_view``."""
    return ReportSource(sqlite3.connect(":memory:"), 1, domain, mode)


def add_view(
    source: ReportSource, view: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """One view and its rows."""
    source.connection.execute(f"CREATE TABLE {view} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    source.connection.executemany(f"INSERT INTO {view} VALUES ({marks})", rows)


def add_report_rows(
    source: ReportSource, report: TableReport, rows: Iterable[Sequence[object]]
) -> None:
    """The view of a report with rows in the order of the report's columns."""
    keys = ["aggr_id", "domain_name", "row_id"]
    columns = keys + view_columns(report)
    keyed = [(source.aggr_id, source.domain, index, *row) for index, row in enumerate(rows)]
    add_view(source, report.table.source.view, columns, keyed)


def view_columns(report: TableReport) -> list[str]:
    """The columns of its view that a report reads, in the order of its own."""
    return [column.references[0][1] for column in report.table.columns]


def blank_row(report: TableReport, **values: object) -> list[object]:
    """A row with 0 or an empty text in every column of the view that ``values`` does not name."""
    return [
        values.get(name, 0 if is_number(column) or column.kind is Kind.BOOLEAN else "")
        for name, column in zip(view_columns(report), report.table.columns, strict=True)
    ]


def written(report: Report, source: ReportSource, file_format: str = "csv") -> bytes:
    """The file of a report."""
    stream = io.BytesIO()
    report.write(source, file_format, stream, lambda rows: None)
    return stream.getvalue()
