"""What to say to a user who names nothing to profile, or the wrong thing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import UsageError

if TYPE_CHECKING:
    from profiler_cli.options import Options


def check_request(options: Options) -> None:
    """Refuse what cannot be done, before anything is written.

    Raises:
        UsageError: There is nothing to profile or to aggregate.
    """
    if options.database:
        _check_one_file(options.database)
        return
    if not options.application:
        raise UsageError(
            "Nothing to profile: no application and no --database was given.",
            hint="Example: dlprof python train.py. See dlprof --help.",
        )
    first = options.application[0]
    if Path(first).suffix in {".sqlite", ".nsys-rep", ".qdrep"} and Path(first).is_file():
        raise UsageError(
            f"'{first}' is a file, not an application.",
            hint=f"Aggregate it with: dlprof --database={shlex.quote(first)}",
        )


def _check_one_file(database: str) -> None:
    """A list of files, as one for each rank, is told apart from a name that holds a comma."""
    names = database.split(",")
    if len(names) > 1 and not Path(database).exists() and Path(names[0]).is_file():
        raise UsageError(
            f"--database names {len(names)} files; this version aggregates one.",
            hint="Aggregate each into a folder of its own with --output_path.",
        )
