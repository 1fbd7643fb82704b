"""``dlprof pyprof``: PyProf's two steps, parse and prof."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

from aggregator.errors import ProfileNotFoundError
from profiler_cli.pyprof_table import COLUMNS, DEFAULT_COLUMNS, TableForm, TooNarrowError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
LINES_AT_ONCE: Final = 256


def run_pyprof(words: Sequence[str]) -> int:
    """Run the words behind ``pyprof``; the exit code is returned.

    Raises:
        DlprofError: A file cannot be read.
    """
    try:
        options = _parser().parse_args(words)
    except SystemExit as stop:  # --help, or words that argparse refused with a sentence of its own
        return int(stop.code or 0)
    gc.disable()  # hundreds of thousands of rows and no cycles: looking for them takes a fifth
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
    from aggregator.pyprof.parse import parse_lines  # noqa: PLC0415

    count, lines = parse_lines(Path(options.file))
    if not count:
        print("Found 0 kernels. Exiting.", file=sys.stderr)
        return EXIT_DONE
    print(f"Found {count} kernels. Getting info for each kernel.", file=sys.stderr)
    _write(lines)
    return EXIT_DONE


def _prof(options: argparse.Namespace) -> int:
    from aggregator.pyprof.rows import rows  # noqa: PLC0415

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
    """The dictionaries of a file. PyProf's modules print to it too when they are loaded: told.

    Raises:
        CorruptProfileError: A dictionary is broken, or none is there.
    """
    from aggregator.pyprof.rows import read_record  # noqa: PLC0415

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
        text = f"Left out {len(others)} lines that are no dictionary, the first of them line"
        print(f"{text} {others[0][1]}.", file=sys.stderr)


def _write(lines: Iterator[str]) -> None:
    write = sys.stdout.write
    while some := list(islice(lines, LINES_AT_ONCE)):
        write("\n".join(some) + "\n")
    sys.stdout.flush()


@contextmanager
def _opened(name: str | None) -> Iterator[TextIO]:
    """A file for reading, or standard input.

    Raises:
        ProfileNotFoundError: It cannot be opened.
    """
    if name is None:
        yield sys.stdin
        return
    try:
        file = Path(name).open(encoding="utf-8", errors="replace")  # noqa: SIM115
    except OSError as error:
        raise ProfileNotFoundError(
            f"Error opening file {name}. Exiting.",
            hint="Give the output of: dlprof pyprof parse FILE",
        ) from error
    with file:
        yield file
