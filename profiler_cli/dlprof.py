"""The command ``dlprof``: reads its words, does the work, turns errors into sentences."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from aggregator.errors import DlprofError
from aggregator.plain_text import shown
from profiler_cli.application import check_request, named_by_environment
from profiler_cli.console import Console, Verbosity, discard_output
from profiler_cli.option_help import format_help
from profiler_cli.option_parser import parse_options
from profiler_cli.options import HTML_REPORT
from profiler_cli.version import program_version

if TYPE_CHECKING:
    from profiler_cli.options import Options

ADVISE: Final = "advise"
"""A first word that is a subcommand; ``dlprof -- advise`` runs a program of that name."""
EXIT_DONE: Final = 0
EXIT_INTERNAL: Final = 1
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
BUG_HINT: Final = "This is a fault of dlprof. Run again with --debug for the traceback."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned.

    This is the only place that catches: an error of ours becomes one sentence and perhaps a hint
    on standard error, anything else is reported as a fault of ours. ``--debug`` lets both
    through.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with _stop_on_sigterm():
            return _run(words)
    except DlprofError as error:
        if "--debug" in words:
            raise
        _print_error(error.message, error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        _print_error("Interrupted; nothing half-written was left behind.", "")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        discard_output(sys.stdout)
        return EXIT_DONE
    except Exception as error:
        if "--debug" in words:
            raise
        _print_error(f"{type(error).__name__}: {error}", BUG_HINT)
        return EXIT_INTERNAL


def _run(words: Sequence[str]) -> int:
    if words[:1] == ["pyprof"]:
        from profiler_cli.pyprof import run_pyprof  # noqa: PLC0415

        return run_pyprof(words[1:])
    if words and words[0] == ADVISE:
        from profiler_cli.advise import run_advise  # noqa: PLC0415

        return run_advise(words[1:])
    options = parse_options(words)
    if options.help:
        print(format_help(), end="")
        return EXIT_DONE
    if options.version:
        print(f"dlprof {program_version()}")
        return EXIT_DONE
    check_request(options)
    options = named_by_environment(options)
    if HTML_REPORT in options.reports:
        # Before a long run rather than after it.
        from aggregator.html_report.template import require_page  # noqa: PLC0415

        require_page()
    console = Console(Verbosity[options.verbosity.upper()])
    _say_what_is_ignored(options, console)
    if not options.database:
        # Loads what only a capture needs, and not yet the engine: its threads come after it.
        from profiler_cli.capture_run import run_capture  # noqa: PLC0415

        return run_capture(options, ("dlprof", *words), console)
    # Loads the engine and its libraries, which --help and usage errors need not wait for.
    from profiler_cli.workflow import run_aggregation  # noqa: PLC0415

    run_aggregation(options, ("dlprof", *words), console)
    return EXIT_DONE


def _say_what_is_ignored(options: Options, console: Console) -> None:
    if options.application and options.database:
        console.message("The application is ignored: --database was given")
    if options.unused and options.database:
        console.message(f"Unused with --database: {', '.join(options.unused)}")


def _print_error(message: str, hint: str) -> None:
    print(shown(f"dlprof: error: {message}"), file=sys.stderr)
    if hint:
        print(shown(hint), file=sys.stderr)


@contextmanager
def _stop_on_sigterm() -> Iterator[None]:
    """Let a request to end (a batch system's, a container's) clean up as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise SystemExit(EXIT_TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
