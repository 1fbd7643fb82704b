"""``dlprof pyprof``: PyProf's two steps, parse and prof."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from profiler_cli.pyprof_table import COLUMNS, DEFAULT_COLUMNS, TableForm, TooNarrowError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1


def run_pyprof(words: Sequence[str]) -> int:
    """Run the words behind ``pyprof``; the exit code is returned.

    Raises:
        DlprofError: A file cannot be read.
    """
    try:
        options = _parser().parse_args(words)
    except SystemExit as stop:  # --help, or words that argparse refused with a sentence of its own
        return int(stop.code or 0)
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
    # Loads NumPy and SQLite's drivers, which --help and wrong words need not wait for.
    from aggregator.pyprof.parse import parse_file  # noqa: PLC0415

    count, records = parse_file(Path(options.file))
    if not count:
        print("Found 0 kernels. Exiting.", file=sys.stderr)
        return EXIT_DONE
    print(f"Found {count} kernels. Getting info for each kernel.", file=sys.stderr)
    _write(repr(record) for record in records)
    return EXIT_DONE


def _prof(options: argparse.Namespace) -> int:
    from aggregator.pyprof.rows import read_record, rows  # noqa: PLC0415

    form = TableForm(options.c, csv=options.csv, width=max(options.w, 0))
    try:
        if form.width:
            form.widths()
    except TooNarrowError as error:
        print(error)
        return EXIT_FAILED
    with _opened(options.file) as file:
        if file is None:
            print(f"Error opening file {options.file}. Exiting.", file=sys.stderr)
            return EXIT_FAILED
        lines = enumerate(file, start=1)
        records = (read_record(line, number) for number, line in lines if line.strip())
        _write(form.lines(_safe(rows(records))))
    return EXIT_DONE


def _safe(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Names come from the profiled program: no field may end its line."""
    for row in rows:
        yield {
            key: value.replace("\n", " ").replace("\r", " ") if isinstance(value, str) else value
            for key, value in row.items()
        }


def _write(lines: Iterator[str]) -> None:
    write = sys.stdout.write
    for line in lines:
        write(line + "\n")
    sys.stdout.flush()


@contextmanager
def _opened(name: str | None) -> Iterator[TextIO | None]:
    """A file for reading, or standard input; None: it cannot be opened."""
    if name is None:
        yield sys.stdin
        return
    try:
        file = Path(name).open(encoding="utf-8", errors="replace")  # noqa: SIM115
    except OSError:
        yield None
        return
    with file:
        yield file
