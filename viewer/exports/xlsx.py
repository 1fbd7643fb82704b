"""Excel workbooks."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import IO, Any

from aggregator.system.plain_text import escape_formula
from aggregator.system.temporary_files import temporary_folder
from viewer.exports.header import ExportHeader, Row, printable

#: Limit of a sheet; more rows continue on another sheet.
MAX_ROWS = 1_048_576
_MAX_TEXT = 32_767
_HEADING_ROWS = 3
_COLUMN_WIDTH = 18
_OPTIONS = {
    # Rows are written to disk as they come.
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}


def write_xlsx(header: ExportHeader, rows: Iterable[Row], file: IO[bytes]) -> None:
    """Write a workbook: the heading, a line of names that stays in view, the rows.

    Raises:
        OSError: The temporary folder is full.
    """
    import xlsxwriter  # noqa: PLC0415 - loaded by the first such export only
    from xlsxwriter.exceptions import XlsxFileError  # noqa: PLC0415

    with temporary_folder("dlprof-xlsx") as folder:
        book = xlsxwriter.Workbook(file, _OPTIONS | {"tmpdir": str(folder)})
        try:
            _write_rows(book, header, rows)
            book.close()
        except XlsxFileError as error:
            raise OSError(errno.ENOSPC, str(error)) from error


def _write_rows(book: Any, header: ExportHeader, rows: Iterable[Row]) -> None:
    bold = book.add_format({"bold": True})
    sheet, place = _add_sheet(book, header, bold), _HEADING_ROWS
    for row in rows:
        if place >= MAX_ROWS:
            sheet, place = _add_sheet(book, header, bold), _HEADING_ROWS
        for column, value in enumerate(row):
            _write(sheet, place, column, value)
        place += 1


def _add_sheet(book: Any, header: ExportHeader, bold: Any) -> Any:
    sheet = book.add_worksheet()
    sheet.set_column(0, len(header.columns) - 1, _COLUMN_WIDTH)
    sheet.freeze_panes(_HEADING_ROWS, 0)
    sheet.write_string(0, 0, escape_formula(printable(header.heading))[:_MAX_TEXT], bold)
    for column, name in enumerate(header.columns):
        sheet.write_string(_HEADING_ROWS - 1, column, name, bold)
    return sheet


def _write(sheet: Any, place: int, column: int, value: object) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        sheet.write_number(place, column, value)
    elif value is not None:
        sheet.write_string(place, column, escape_formula(printable(value))[:_MAX_TEXT])
