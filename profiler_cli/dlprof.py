"""The command ``dlprof``: parses its arguments, runs, and prints errors."""

from __future__ import annotations

import importlib
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from aggregator.errors import DlprofError, UsageError
from aggregator.system.process_end import skip_last_collections
from aggregator.system.resources import gc_paused
from profiler_cli.console import (
    BUG_HINT,
    EXIT_DONE,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    Console,
    Verbosity,
    discard_output,
    handling_signals,
    print_error,
    program_version,
)
from profiler_cli.options.parser import (
    check_request,
    format_help,
    named_by_environment,
    parse_options,
    rank_files,
)
from profiler_cli.reports.declared import HTML

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

SUBCOMMANDS: Final = {
    "advise": "profiler_cli.commands.advise:run_advise",
    "attach": "profiler_cli.standby.attach:run_attach",
    "compare": "profiler_cli.commands.compare:run_compare",
    "doctor": "profiler_cli.commands.doctor:run_doctor",
    "export": "profiler_cli.commands.export:run_export",
    "history": "profiler_cli.commands.history:run_history",
    "mcp": "profiler_cli.commands.mcp:run_mcp",
    "memory": "profiler_cli.commands.memory:run_memory",
    "pyprof": "profiler_cli.commands.pyprof:run_pyprof",
    "record": "profiler_cli.standby.record:run_record",
    "scrub": "profiler_cli.commands.scrub:run_scrub",
    "show": "profiler_cli.commands.show:run_show",
    "stragglers": "profiler_cli.commands.stragglers:run_stragglers",
    "summarize": "profiler_cli.commands.summarize:run_summarize",
    "trial": "profiler_cli.trial.command:run_trial_command",
    "whatif": "profiler_cli.commands.whatif:run_whatif",
}
"""Their functions by name; ``dlprof -- advise`` runs a program of that name.

Each takes the arguments after its name, returns the exit code, and raises a ``DlprofError`` if it
cannot do what was asked.
"""
_READS_URLS: Final = "summarize"
"""It copies files where it reads them, which may be another machine."""
_URL: Final = re.compile(r"(?:--\w+=)?\w+://")
_QUERY: Final = re.compile(r"(\w+://[^\s,?#]+)[?#][^\s,]*")
skip_last_collections()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    This is the only place that catches errors. A ``DlprofError`` is printed as a message and a hint
    to standard error; any other error is reported as a bug. With ``--debug`` both are raised.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with _stop_on_signals():
            return _run(words)
    except DlprofError as error:
        if "--debug" in words:
            raise
        print_error("dlprof", error.message, error.hint, error.code)
        return error.exit_code
    except KeyboardInterrupt:
        print_error("dlprof", "Interrupted; no incomplete files were left.", "")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        discard_output(sys.stdout)
        return EXIT_DONE
    except Exception as error:
        if "--debug" in words:
            raise
        print_error("dlprof", f"{type(error).__name__}: {error}", BUG_HINT)
        return EXIT_INTERNAL


def _run(words: Sequence[str]) -> int:
    if words and words[0] in SUBCOMMANDS:
        with ExitStack() as stack:
            own = words[1:]
            own = own if words[0] == _READS_URLS else _local_words(own, stack)
            return _run_subcommand(words[0], own)
    options = parse_options(words)
    if options.help:
        print(format_help(), end="")
        return EXIT_DONE
    if options.version:
        print(f"dlprof {program_version()}")
        return EXIT_DONE
    check_request(options)
    options = named_by_environment(options)
    if HTML.name in options.reports:
        # Fail before a long run, not after it.
        from aggregator.html_report.template import require_page  # noqa: PLC0415

        require_page()
    console = Console(Verbosity[options.verbosity.upper()])
    _report_unused_options(options, console)
    if options.list_key_nodes:
        if not options.database:
            raise UsageError("--list_key_nodes needs a profile.", hint="Give it with --database.")
        from profiler_cli.commands.key_nodes import run_list  # noqa: PLC0415

        with _local_database(options) as local:
            run_list(local, console)
        return EXIT_DONE
    if not options.database:
        return _run_application(options, ("dlprof", *words), console)
    # Loads the engine and its libraries, which --help and usage errors do not need.
    with gc_paused():
        from profiler_cli.commands.analyze import run_aggregation  # noqa: PLC0415

    with _local_database(_converted(options, console)) as local:
        # The database stores the command: the query of a URL may be a signature.
        command = ("dlprof", *(_QUERY.sub(r"\1", word) for word in words))
        run_aggregation(
            local, command if "://" in options.database else ("dlprof", *words), console
        )
    return EXIT_DONE


def _run_application(options: Options, command: Sequence[str], console: Console) -> int:
    if options.standby:
        from profiler_cli.standby.job import run_standby  # noqa: PLC0415

        return run_standby(options, console)
    # The engine is loaded while the application runs, in a thread that blocks signals.
    from profiler_cli.capture.capture import run_capture  # noqa: PLC0415

    return run_capture(options, command, console)


def _local_words(words: Sequence[str], stack: ExitStack) -> list[str]:
    """The arguments of a subcommand with local copies of the files at URLs."""
    if not any(_URL.match(word) for word in words):
        return list(words)
    from profiler_cli.options.urls import local_words  # noqa: PLC0415 - rare

    return local_words(words, stack)


@contextmanager
def _local_database(options: Options) -> Iterator[Options]:
    """The options with local copies of the files at URLs."""
    with ExitStack() as stack:
        if "://" in options.database:
            from profiler_cli.options.urls import local_database  # noqa: PLC0415 - rare

            options = replace(options, database=local_database(options.database, stack))
        yield options


def _converted(options: Options, console: Console) -> Options:
    """The options with exports of the folders of raw records that captures left."""
    if not any(Path(name).is_dir() for name in options.database.split(",")):
        return options
    from profiler_cli.capture.raw_records import convert  # noqa: PLC0415 - rare

    return convert(options, rank_files(options.database), console)


def _run_subcommand(name: str, words: Sequence[str]) -> int:
    """Run a subcommand, whose module loads what it needs of the engine."""
    module, function = SUBCOMMANDS[name].split(":")
    run: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), function)
    return run(words)


def _report_unused_options(options: Options, console: Console) -> None:
    if options.application and options.database:
        console.message("The application is ignored: --database was given")
    if options.unused and options.database:
        console.message(f"Unused with --database: {', '.join(options.unused)}")


@contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Clean up on SIGTERM, which batch systems and containers send, and on SIGHUP, as on Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signal_number)

    with handling_signals(stop, signal.SIGTERM, signal.SIGHUP):
        yield


if __name__ == "__main__":
    sys.exit(main())
