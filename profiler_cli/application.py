"""What to say to a user who names an application: this version only reads what nsys recorded."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import UsageError

if TYPE_CHECKING:
    from profiler_cli.options import Options


def check_request(options: Options) -> None:
    """Refuse what this version does not do, before anything is written.

    Raises:
        UsageError: There is nothing to aggregate.
    """
    if options.database:
        _check_one_file(options.database)
        return
    if not options.application:
        raise UsageError(
            "Nothing to aggregate: no --database was given.", hint="See dlprof --help."
        )
    first = options.application[0]
    if Path(first).suffix in {".sqlite", ".nsys-rep"} and Path(first).is_file():
        raise UsageError(
            f"'{first}' is a file, not an application.",
            hint=f"Aggregate it with: dlprof --database={shlex.quote(first)}",
        )
    name = f"{options.nsys_base_name}.sqlite"
    raise UsageError(
        "This version does not run applications; it aggregates an existing Nsight Systems export "
        "given with --database.",
        hint=f"Make one with: {_nsys_command(options)}\n"
        f"Then run: dlprof --database={shlex.quote(name)}",
    )


def _nsys_command(options: Options) -> str:
    """The command that profiles the application as the switches ask for."""
    words = [options.nsys_path or "nsys", "profile", *shlex.split(options.nsys_opts)]
    if options.delay:
        words += ["-y", f"{options.delay:g}"]
    if options.duration:
        words += ["-d", f"{options.duration:g}"]
    if options.nsys_profile_range:
        words += ["-c", "cudaProfilerApi"]
    words += ["--export=sqlite", "-o", options.nsys_base_name, *options.application]
    return shlex.join(words)


def _check_one_file(database: str) -> None:
    """A list of files, as one for each rank, is told apart from a name that holds a comma."""
    names = database.split(",")
    if len(names) > 1 and not Path(database).exists() and Path(names[0]).is_file():
        raise UsageError(
            f"--database names {len(names)} files; this version aggregates one.",
            hint="Aggregate each into a folder of its own with --output_path.",
        )
