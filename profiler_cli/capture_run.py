"""One call of ``dlprof`` with an application: profile it, then aggregate what was captured."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aggregator.errors import DlprofError, NoGpuActivityError
from profiler_cli.capture import Captured, capture
from profiler_cli.outputs import display, output_folder

if TYPE_CHECKING:
    from profiler_cli.console import Console
    from profiler_cli.options import Options


def run_capture(options: Options, command: Sequence[str], console: Console) -> int:
    """Profile the application and aggregate.

    Args:
        options: What the user asked for.
        command: The whole command line, to be kept in the database.
        console: Where messages and results go.

    Returns:
        The application's own exit code.

    Raises:
        DlprofError: The capture or the aggregation failed; its hint names the capture.
    """
    with output_folder(options.output_path):
        captured = capture(options, console)
        # After the application has ended: the engine's threads would get its signals.
        from profiler_cli.workflow import run_aggregation  # noqa: PLC0415

        try:
            run_aggregation(replace(options, database=str(captured.export)), command, console)
        except DlprofError as error:
            if captured.exit_code:
                return _application_failed(error, captured, console)
            error.hint = _hint(error, captured)
            raise
    return captured.exit_code


def _application_failed(error: DlprofError, captured: Captured, console: Console) -> int:
    """What the application left is no profile: its own failure is the news."""
    console.error(_why(captured), error.message)
    return captured.exit_code


def _why(captured: Captured) -> str:
    if captured.interrupted:
        return "The application was interrupted before there was anything to aggregate."
    return f"The application failed with exit code {captured.exit_code}; nothing was aggregated."


def _hint(error: DlprofError, captured: Captured) -> str:
    if isinstance(error, NoGpuActivityError):
        return (
            "The application ran to its end and launched no work on a GPU that nsys could see. "
            "Does it use the GPU?"
        )
    name = shlex.quote(display(captured.export))
    kept = f"The capture is kept: dlprof --database={name} aggregates it again."
    return f"{error.hint}\n{kept}".strip()
