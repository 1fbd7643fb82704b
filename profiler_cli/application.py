"""What to say to a user who names nothing to profile, or the wrong thing."""

from __future__ import annotations

import glob
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import UsageError
from aggregator.rank_names import natural_order

if TYPE_CHECKING:
    from profiler_cli.options import Options


def check_request(options: Options) -> None:
    """Refuse what cannot be done, before anything is written.

    Raises:
        UsageError: There is nothing to profile or to aggregate.
    """
    if options.database:
        rank_files(options.database)
        return
    if not options.application:
        raise UsageError(
            "Nothing to profile: no application and no --database was given.",
            hint="Example: dlprof python train.py. See dlprof --help.",
        )
    first = options.application[0]
    if Path(first).suffix in _PROFILE_SUFFIXES and Path(first).is_file():
        raise UsageError(
            f"'{first}' is a file, not an application.",
            hint=f"Aggregate it with: dlprof --database={shlex.quote(first)}",
        )


def named_by_environment(options: Options) -> Options:
    """Put environment variables in place of ``%q{NAME}`` in the names of what is written.

    A launcher starts one command for every rank; ``--output_path='rank%q{RANK}'`` keeps them apart,
    as Nsight Systems does it.

    Raises:
        UsageError: A variable is not set.
    """
    return replace(
        options,
        output_path=Path(_filled(str(options.output_path), "--output_path")),
        nsys_base_name=_filled(options.nsys_base_name, "--nsys_base_name"),
        profile_name=_filled(options.profile_name, "--profile_name"),
    )


_PROFILE_SUFFIXES = frozenset({".sqlite", ".nsys-rep", ".qdrep", ".json", ".gz"})
_VARIABLE = re.compile(r"%q\{(\w+)\}")


def _filled(text: str, option: str) -> str:
    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise UsageError(
                f"{option} names the environment variable {found[1]}, which is not set.",
                hint="Launchers set it for each rank: torchrun RANK, Slurm SLURM_PROCID.",
            )
        return value

    return _VARIABLE.sub(value_of, text)


def rank_files(database: str) -> list[Path]:
    """Files that ``--database`` names: one, several with commas between, or a pattern.

    A name that holds a comma or an asterisk is told apart by its being there.

    Raises:
        UsageError: A pattern that fits no file, a file given twice, or an empty name.
    """
    if Path(database).exists():
        return [Path(database)]
    found: list[Path] = []
    for name in database.split(","):
        if not name.strip():
            raise UsageError(
                f"--database has an empty name in '{database}'.",
                hint="Example: --database=rank0.sqlite,rank1.sqlite",
            )
        found += _matching(name.strip())
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            raise UsageError(f"--database names '{path}' twice.", hint="Give each file once.")
        seen.add(path.resolve())
    return found


def _matching(name: str) -> list[Path]:
    """Files that a pattern fits, ``rank2`` before ``rank10``; any other name as it is."""
    if not _PATTERN.search(name) or Path(name).exists():
        return [Path(name)]
    paths = [Path(found) for found in glob.glob(name)]  # noqa: PTH207 - may begin with /
    if not paths:
        raise UsageError(f"No file fits '{name}' of --database.", hint="Check the folder.")
    return sorted(paths, key=natural_order)


_PATTERN = re.compile(r"[*?\[]")
