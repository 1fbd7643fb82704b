"""The table that ``dlprof pyprof prof`` prints: PyProf's columns, widths and three forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aggregator.plain_text import defused, on_one_line

DEFAULT_COLUMNS: Final = ("idx", "dir", "sub", "mod", "op", "kernel", "params", "sil")


class ColumnForm(NamedTuple):
    """A column.

    Attributes:
        title: Its header.
        width: Least width in the columnated form; 0: it takes what is left.
        is_number: Whether its values are right-aligned numbers.
        meaning: For the help.
    """

    title: str
    width: int
    is_number: bool
    meaning: str


def _number(title: str, width: int, meaning: str) -> ColumnForm:
    return ColumnForm(title, width, is_number=True, meaning=meaning)


def _text(title: str, width: int, meaning: str) -> ColumnForm:
    return ColumnForm(title, width, is_number=False, meaning=meaning)


COLUMNS: Final = {
    "idx": _number("Idx", 7, "Index"),
    "seq": _text("SeqId", 7, "PyTorch Sequence Id"),
    "altseq": _text("AltSeqId", 7, "PyTorch Alternate Sequence Id"),
    "tid": _number("TId", 12, "Thread Id"),
    "layer": _text("Layer", 10, "User annotated NVTX string (can be nested)"),
    "trace": _text("Trace", 25, "Function Call Trace"),
    "dir": _text("Direction", 5, "Direction"),
    "sub": _number("Sub", 3, "Sub Sequence Id"),
    "mod": _text("Module", 15, "Module"),
    "op": _text("Op", 15, "Operation"),
    "kernel": _text("Kernel", 0, "Kernel Name"),
    "params": _text("Params", 0, "Parameters"),
    "sil": _number("Sil(ns)", 10, "Silicon Time (in ns)"),
    "tc": _text("TC", 2, "Tensor Core Usage"),
    "device": _number("Device", 3, "GPU Device Id"),
    "stream": _number("Stream", 3, "Stream Id"),
    "grid": _text("Grid", 12, "Grid Dimensions"),
    "block": _text("Block", 12, "Block Dimensions"),
    "flops": _number("FLOPs", 12, "Floating point ops (FMA = 2 FLOPs)"),
    "bytes": _number("Bytes", 12, "Number of bytes in and out of DRAM"),
}


class TooNarrowError(ValueError):
    """The columns do not fit the width."""


@dataclass(frozen=True)
class TableForm:
    """Which columns, and how they are written.

    Attributes:
        columns: Their names, in order.
        csv: Every field in quotes.
        width: Characters of a line; 0: fields separated by spaces.
    """

    columns: tuple[str, ...]
    csv: bool = False
    width: int = 0

    def widths(self) -> list[int]:
        """Width of each column; kernel and parameters share what is left.

        Raises:
            TooNarrowError: The rest does not fit.
        """
        least = sum(COLUMNS[name].width for name in self.columns)
        if least > self.width:
            listed = ",".join(self.columns)
            raise TooNarrowError(f"Minimum width required to print {listed} = {least}. Exiting.")
        open_ended = [name for name in self.columns if not COLUMNS[name].width]
        share = (self.width - least) // max(len(open_ended), 1)
        return [COLUMNS[name].width or share for name in self.columns]

    def lines(self, rows: Iterator[dict[str, Any]]) -> Iterator[str]:
        """Header and rows as text.

        Raises:
            TooNarrowError: The columns do not fit the width.
        """
        widths = self.widths() if self.width else [0] * len(self.columns)
        titles = [COLUMNS[name].title for name in self.columns]
        yield self._line(titles, widths, is_header=True)
        for row in rows:
            line = self._line([self._field(name, row) for name in self.columns], widths)
            # Names come from the profiled program: no field may end its line, or steer a terminal.
            plain = line if line.isprintable() else line.replace("\n", " ").replace("\r", " ")
            yield on_one_line(plain)

    def _field(self, name: str, row: dict[str, Any]) -> Any:
        value = row[name]
        if name != "trace":
            return value
        if self.width and not self.csv and value:
            return value[-1].split("/")[-1]
        return ",".join(value) or "-"

    def _line(self, values: list[Any], widths: list[int], *, is_header: bool = False) -> str:
        if self.csv:
            return _quoted([value if value == "-" else defused(str(value)) for value in values])
        if not self.width:
            return " ".join(map(str, values))
        parts = []
        for name, value, width in zip(self.columns, values, widths, strict=True):
            if COLUMNS[name].is_number and not is_header:
                parts.append(f"{value!s:>{width}} ")
            else:
                parts.append(f"{str(value)[:width]:<{width}} ")
        return "".join(parts)


def _quoted(fields: list[str]) -> str:
    line = '"' + '","'.join(fields) + '"'
    if line.count('"') == 2 * len(fields):
        return line
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)
