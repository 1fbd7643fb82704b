"""``dlprof scrub``: copy an export without the environments of processes, before it is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from aggregator.errors import DatabaseWriteError
from aggregator.sources.nsys.scrub import scrub
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.remote_files import output_path
from profiler_cli.console import EXIT_DONE
from profiler_cli.options.parser import SubcommandParser
from profiler_cli.outputs import display, output_folder, write_error

_DESCRIPTION: Final = (
    "Copy an Nsight Systems export (SQLite) without the environment variables, command lines and "
    "output of all processes that it contains. Events and their names stay: an analysis of the "
    "copy has the same results."
)


def run_scrub(words: Sequence[str]) -> int:
    """Run ``dlprof scrub`` as one of ``SUBCOMMANDS``."""
    options = _parser().parse_args(list(words))
    source: Path = options.file
    target: Path = options.output or output_path(source, f"{source.stem}_scrubbed{source.suffix}")
    with _writing(target):
        done = scrub(source, target, keep_commands=options.keep_commands, overwrite=options.force)
    print(
        escape_control_characters(
            f"Wrote {display(target)}: {done.texts:,} texts and {done.settings:,} settings were "
            "removed. Names of ops, ranges and kernels are still in it."
        )
    )
    return EXIT_DONE


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Name the option of this command in errors of writing."""
    try:
        with output_folder(target.parent):
            yield
    except (OSError, DatabaseWriteError) as error:
        failed = error if isinstance(error, DatabaseWriteError) else write_error(target, error)
        failed.hint = failed.hint.replace("--output_path", "--output")
        raise failed from error


def _parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="dlprof scrub",
        description=_DESCRIPTION,
        epilog="Exit codes: 0 done; 2 usage; 4 it is no export; 5 the copy cannot be written.",
    )
    parser.add("file FILE", "the export, which stays as it is", type=Path)
    parser.add("--output FILE", "the copy (default: FILE with _scrubbed)", type=Path)
    parser.add(
        "--keep_commands",
        "keep the command line, working directory and user name of the application",
    )
    parser.add("-f, --force", "replace an existing copy")
    return parser
