"""``dlprof export``: write a profile in the format of another tool."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from aggregator.compare.sides import Source, read_source
from aggregator.compare.summary import SUFFIX, write_summary
from aggregator.dldb.reader import Dldb
from aggregator.errors import DatabaseWriteError, UsageError
from aggregator.pipeline import open_or_import
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.remote_files import output_path
from aggregator.tables.timeline.events import Events, Window, iteration_window
from aggregator.tables.timeline.perfetto import write_trace
from profiler_cli.commands.databases import read_aggregation, reading
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser
from profiler_cli.outputs import Batch, display, output_folder

SUFFIXES: Final = {
    "perfetto": ".pftrace",
    "csv": "_csv",
    "parquet": "_parquet",
    "prometheus": ".prom",
    "otlp": ".otlp.json",
    "tensorboard": "_tensorboard",
    "summary": SUFFIX,
}
"""Formats, and how the names of their files or folders end."""
_FOLDERS: Final = ("csv", "parquet", "tensorboard")
_DESCRIPTION: Final = (
    "Write a profile for another tool. perfetto: its events as a trace for "
    "https://ui.perfetto.dev. csv, parquet: a folder with every table of an aggregation. "
    "prometheus, otlp: its key figures for monitoring. tensorboard: a folder with the times of "
    "each iteration as scalars. summary: a small file that dlprof compare and dlprof history take "
    "in place of the database."
)


def run_export(words: Sequence[str]) -> int:
    """Run ``dlprof export`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    source: Path = options.file
    if options.format != "perfetto" and (options.iter_start, options.iter_stop) != (None, None):
        raise UsageError(
            "--iter_start and --iter_stop are for perfetto; other formats show an aggregation.",
            hint="Aggregate the iterations, and name the aggregation with --aggregation.",
        )
    target: Path = options.output or output_path(source, source.stem + SUFFIXES[options.format])
    if target.exists() and (not options.force or (source.exists() and target.samefile(source))):
        raise UsageError(
            f"'{display(target)}' exists already.", hint="Give another --output, or --force."
        )
    with ExitStack() as stack:
        stack.enter_context(_writing(target, is_folder=options.format in _FOLDERS))
        database = open_or_import(source, stack)
        stack.callback(database.close)
        batch = stack.enter_context(Batch(force=options.force))
        written = _write(database, options, target, batch)
        batch.commit()
    print(escape_control_characters(f"Wrote {display(target)}: {written}."))
    return EXIT_DONE


def _write(database: Dldb, options: argparse.Namespace, target: Path, batch: Batch) -> str:
    """Write the format into the batch, and return what was written."""
    if options.format == "summary":
        source = Source(str(options.file), database.path, aggr=options.aggregation)
        data = read_source(source, database.path)
        with batch.open(target) as stream:
            write_summary(data, stream)
        return f"iterations {data.capture.first} to {data.capture.last}"
    aggregation = read_aggregation(database, options.aggregation)
    with reading(database):
        window = _window(database, aggregation, options.iter_start, options.iter_stop)
        if options.format == "perfetto":
            with batch.open(target) as stream:
                slices = write_trace(Events(database.connection, window), aggregation, stream)
            return f"{slices:,} slices. Open it in https://ui.perfetto.dev"
    from profiler_cli.exports.writers import write_format  # noqa: PLC0415

    return write_format(options.format, database.path, options.file, target, aggregation, batch)


@contextmanager
def _writing(target: Path, *, is_folder: bool) -> Iterator[None]:
    """Name the option of this command in errors of writing."""
    try:
        with output_folder(target if is_folder else target.parent):
            yield
    except DatabaseWriteError as error:
        error.hint = error.hint.replace("--output_path", "--output")
        raise


def _window(database: Dldb, aggregation: int, first: int | None, last: int | None) -> Window:
    """Return the time of some iterations; of all events if none are named."""
    window = iteration_window(database.connection, aggregation, first, last)
    if window is None:
        raise UsageError(
            "The aggregation has none of these iterations.",
            hint="The iteration report lists them: --reports=iteration.",
        )
    return window


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof export",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 4 the profile and 5 the database cannot be used, or "
        "the file cannot be written.",
    )
    parser.add(
        "file FILE",
        "a DLProf database, or an Nsight Systems export or a Kineto trace to import first",
        type=Path,
    )
    parser.add("--format", "the format", choices=tuple(SUFFIXES), required=True)
    parser.add("-o, --output FILE", "the file or folder (default: by FILE)", type=Path)
    parser.add(
        "--aggregation N",
        "aggregation that is shown (default: last; of a summary: the steady range)",
    )
    parser.add("--iter_start N", "perfetto: first iteration (default: all)")
    parser.add("--iter_stop N", "perfetto: last iteration")
    parser.add("-f, --force", "replace an existing file")
    return parser
