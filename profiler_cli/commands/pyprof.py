"""``dlprof pyprof``: the two steps of PyProf, parse and prof, with PyProf's columns and widths."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from aggregator.errors import NoGpuActivityError, ProfileNotFoundError
from aggregator.system.plain_text import escape_formula, on_one_line
from profiler_cli.console import EXIT_DONE

EXIT_FAILED: Final = 1
LINES_AT_ONCE: Final = 256


DEFAULT_COLUMNS: Final = ("idx", "dir", "sub", "mod", "op", "kernel", "params", "sil")


class ColumnForm(NamedTuple):
    """A column."""

    title: str  # Its header.
    width: int  # Minimum width in the columnated form; 0 for a share of the remaining width.
    meaning: str  # Description for the help.
    is_number: bool = False  # Whether its values are right-aligned numbers.


COLUMNS: Final = {
    "idx": ColumnForm("Idx", 7, "Index", is_number=True),
    "seq": ColumnForm("SeqId", 7, "PyTorch Sequence Id"),
    "altseq": ColumnForm("AltSeqId", 7, "PyTorch Alternate Sequence Id"),
    "tid": ColumnForm("TId", 12, "Thread Id", is_number=True),
    "layer": ColumnForm("Layer", 10, "User annotated NVTX string (can be nested)"),
    "trace": ColumnForm("Trace", 25, "Function Call Trace"),
    "dir": ColumnForm("Direction", 5, "Direction"),
    "sub": ColumnForm("Sub", 3, "Sub Sequence Id", is_number=True),
    "mod": ColumnForm("Module", 15, "Module"),
    "op": ColumnForm("Op", 15, "Operation"),
    "kernel": ColumnForm("Kernel", 0, "Kernel Name"),
    "params": ColumnForm("Params", 0, "Parameters"),
    "sil": ColumnForm("Sil(ns)", 10, "Silicon Time (in ns)", is_number=True),
    "tc": ColumnForm("TC", 2, "Tensor Core Usage"),
    "device": ColumnForm("Device", 3, "GPU Device Id", is_number=True),
    "stream": ColumnForm("Stream", 3, "Stream Id", is_number=True),
    "grid": ColumnForm("Grid", 12, "Grid Dimensions"),
    "block": ColumnForm("Block", 12, "Block Dimensions"),
    "flops": ColumnForm("FLOPs", 12, "Floating point ops (FMA = 2 FLOPs)", is_number=True),
    "bytes": ColumnForm("Bytes", 12, "Number of bytes in and out of DRAM", is_number=True),
}


class TooNarrowError(ValueError):
    """The columns do not fit the width."""


@dataclass(frozen=True)
class TableForm:
    """The columns of the table and its format."""

    columns: tuple[str, ...]  # Their names, in order.
    csv: bool = False  # Whether to write CSV, with every field in quotes.
    width: int = 0  # Characters per line; 0 for fields separated by spaces.

    def widths(self) -> list[int]:
        """Return the width of each column; kernel and parameters share the remaining width.

        Raises:
            TooNarrowError: The columns do not fit the width.
        """
        least = sum(COLUMNS[name].width for name in self.columns)
        if least > self.width:
            listed = ",".join(self.columns)
            raise TooNarrowError(f"Minimum width required to print {listed} = {least}. Exiting.")
        open_ended = [name for name in self.columns if not COLUMNS[name].width]
        share = (self.width - least) // max(len(open_ended), 1)
        return [COLUMNS[name].width or share for name in self.columns]

    def lines(self, rows: Iterator[dict[str, Any]]) -> Iterator[str]:
        """Format the header and the rows.

        Raises:
            TooNarrowError: The columns do not fit the width.
        """
        widths = self.widths() if self.width else [0] * len(self.columns)
        titles = [COLUMNS[name].title for name in self.columns]
        yield self._line(titles, widths, is_header=True)
        for row in rows:
            line = self._line([self._field(name, row) for name in self.columns], widths)
            # Names come from the profiled program: they must not break lines or control a terminal.
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
            return _quoted(
                [value if value == "-" else escape_formula(str(value)) for value in values]
            )
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


def run_pyprof(words: Sequence[str]) -> int:
    """Run ``dlprof pyprof`` as one of ``SUBCOMMANDS``."""
    try:
        options = _parser().parse_args(words)
    except SystemExit as stop:  # --help, or an error that argparse has printed
        return int(stop.code or 0)
    gc.disable()  # many rows without reference cycles: the collector takes a fifth of the time
    return _parse(options) if options.step == "parse" else _prof(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dlprof pyprof",
        description="PyProf's two steps: kernels with the ranges around them, and their costs.",
    )
    steps = parser.add_subparsers(dest="step", required=True, metavar="parse|prof")
    parse = steps.add_parser(
        "parse",
        help="Print a dictionary for every kernel of a profile.",
        description="Parse an Nsight Systems export or nvprof file; print a dictionary per kernel.",
    )
    parse.add_argument("file", help="Nsight Systems export (SQLite), nvprof file or trace.")
    listed = "\n".join(f"{f'{name}:':<10}{form.meaning}" for name, form in COLUMNS.items())
    prof = steps.add_parser(
        "prof",
        help="Print a table of the kernels that parse printed.",
        description="PyTorch Profiler",
        formatter_class=argparse.RawTextHelpFormatter,
    )
    prof.add_argument("file", nargs="?", help="Output of dlprof pyprof parse; omitted: stdin.")
    prof.add_argument(
        "-c",
        type=_columns,
        default=DEFAULT_COLUMNS,
        help=f"Comma separated names of columns to print.\n{listed}\ne.g. -c idx,kernel,sil",
    )
    form = prof.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="Print a CSV output.")
    form.add_argument("-w", type=int, default=0, help="Width of columnated output.")
    return parser


def _columns(text: str) -> tuple[str, ...]:
    names = text.split(",")
    if names == ["all"]:
        return tuple(COLUMNS)
    for name in names:
        if name not in COLUMNS:
            raise argparse.ArgumentTypeError(
                f"{name} is not a valid column name. Valid column names are {','.join(COLUMNS)}."
            )
    return tuple(names)


def _parse(options: argparse.Namespace) -> int:
    # Loads NumPy and the SQLite drivers, which --help and usage errors do not need.
    from profiler_cli.pyprof.parse import parse_file  # noqa: PLC0415

    count = 0
    try:
        count, records = parse_file(Path(options.file))
    except NoGpuActivityError as error:
        print(f"dlprof: warning: {error}", file=sys.stderr)
    if not count:
        print("Found 0 kernels. Exiting.", file=sys.stderr)
        return EXIT_DONE
    print(f"Found {count} kernels. Getting info for each kernel.", file=sys.stderr)
    _write(map(repr, records))
    return EXIT_DONE


def _prof(options: argparse.Namespace) -> int:
    from profiler_cli.pyprof.rows import rows  # noqa: PLC0415

    form = TableForm(options.c, csv=options.csv, width=max(options.w, 0))
    try:
        if form.width:
            form.widths()
    except TooNarrowError as error:
        print(error)
        return EXIT_FAILED
    with _opened(options.file) as file:
        records = _records(file)
        _write(form.lines(rows(records)))
    return EXIT_DONE


def _records(file: TextIO) -> Iterator[dict[str, Any]]:
    """Read the dictionaries of a file; skip and report the lines that modules of PyProf print."""
    from profiler_cli.pyprof.rows import read_record  # noqa: PLC0415

    others: list[tuple[str, int]] = []
    count = 0
    for number, line in enumerate(file, start=1):
        if line.lstrip().startswith("{"):
            count += 1
            yield read_record(line, number)
        elif line.strip():
            others.append((line, number))
    if others and not count:
        read_record(*others[0])
    if others:
        text = f"Skipped {len(others)} lines that are not dictionaries; the first is line"
        print(f"{text} {others[0][1]}.", file=sys.stderr)


def _write(lines: Iterator[str]) -> None:
    write = sys.stdout.write
    while some := list(islice(lines, LINES_AT_ONCE)):
        write("\n".join(some) + "\n")
    sys.stdout.flush()


@contextmanager
def _opened(name: str | None) -> Iterator[TextIO]:
    """Open a file for reading, or standard input."""
    if name is None:
        yield sys.stdin
        return
    try:
        file = Path(name).open(encoding="utf-8", errors="replace")  # noqa: SIM115
    except OSError as error:
        raise ProfileNotFoundError(
            f"Error opening file {name}. Exiting.",
            hint="Use the output of: dlprof pyprof parse FILE",
        ) from error
    with file:
        yield file
