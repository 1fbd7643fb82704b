"""PDF exports: landscape pages in small print; long texts are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, Any

from viewer.exports.header import ExportHeader, Row, printable

#: More rows are left out, with a note on the last page.
MAX_ROWS = 5_000
_PAGE = (842.0, 595.0)  # A4, in points
_MARGIN = 28.0
_FONT, _BOLD_FONT = "Helvetica", "Helvetica-Bold"
_SIZE = 6.0
_LEADING = 8.5
_GAP = 4.0
#: Width of an average letter in the font, as a share of its size.
_LETTER = 0.5
#: Longer texts get no wider column than this many letters.
_WIDEST = 60
_ROWS_PER_PAGE = int((_PAGE[1] - 2 * _MARGIN) / _LEADING) - 4


def write_pdf(header: ExportHeader, rows: Iterable[Row], file: IO[bytes]) -> None:
    """Write pages with the heading, the names and the rows, at most ``MAX_ROWS`` of them."""
    from reportlab.pdfgen.canvas import Canvas  # noqa: PLC0415 - loaded by the first such export

    taken = [[_latin(printable(value)) for value in row] for row in islice(rows, MAX_ROWS + 1)]
    shown = taken[:MAX_ROWS]
    widths = _widths(header.columns, shown)
    canvas = Canvas(file, pagesize=_PAGE, pageCompression=1)
    canvas.setTitle(_latin(header.heading))
    for number, page in enumerate(_pages(shown), start=1):
        y = _draw_head(canvas, header, widths, number)
        for row in page:
            y -= _LEADING
            _draw_row(canvas, row, widths, y)
        canvas.showPage()
    if len(taken) > MAX_ROWS:
        canvas.setFont(_BOLD_FONT, 10)
        note = f"The table has more rows; a PDF contains the first {MAX_ROWS:,}. Export it as CSV."
        canvas.drawString(_MARGIN, _PAGE[1] - _MARGIN - 10, note)
    canvas.save()


def _pages(rows: list[list[str]]) -> Iterator[list[list[str]]]:
    for place in range(0, max(1, len(rows)), _ROWS_PER_PAGE):
        yield rows[place : place + _ROWS_PER_PAGE]


def _draw_head(canvas: Any, header: ExportHeader, widths: Sequence[float], number: int) -> float:
    y = _PAGE[1] - _MARGIN - 10
    canvas.setFont(_BOLD_FONT, 10)
    canvas.drawString(_MARGIN, y, _latin(header.heading))
    canvas.setFont(_FONT, _SIZE)
    canvas.drawRightString(_PAGE[0] - _MARGIN, y, f"Page {number}")
    y -= 2 * _LEADING
    canvas.setFont(_BOLD_FONT, _SIZE)
    _draw_row(canvas, header.columns, widths, y)
    canvas.line(_MARGIN, y - 2, _PAGE[0] - _MARGIN, y - 2)
    canvas.setFont(_FONT, _SIZE)
    return y


def _draw_row(canvas: Any, cells: Sequence[str], widths: Sequence[float], y: float) -> None:
    x = _MARGIN
    for cell, width in zip(cells, widths, strict=True):
        canvas.drawString(x, y, _fit(cell, width - _GAP))
        x += width


def _widths(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[float]:
    """Share room out to the columns by the length of their texts."""
    lengths = [len(name) for name in names]
    for row in rows:
        lengths = [max(old, len(cell)) for old, cell in zip(lengths, row, strict=True)]
    wanted = [min(length, _WIDEST) for length in lengths]
    room = _PAGE[0] - 2 * _MARGIN
    return [room * length / sum(wanted) for length in wanted]


def _fit(cell: str, width: float) -> str:
    """Return a text cut in the middle, where the names of ops and kernels differ least."""
    line = " ".join(cell.split())
    letters = max(3, int(width / (_SIZE * _LETTER)))
    if len(line) <= letters:
        return line
    head = (letters - 2) // 2
    return f"{line[:head]}..{line[len(line) - (letters - 2 - head) :]}"


def _latin(value: str) -> str:
    """Return a text in the characters of the standard PDF fonts."""
    return value.encode("latin-1", errors="replace").decode("latin-1")
