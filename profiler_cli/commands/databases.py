"""The database that a subcommand shows, and which of its aggregations."""

from __future__ import annotations

from contextlib import ExitStack

from aggregator.dldb.reader import Dldb, open_database
from aggregator.errors import DatabaseError, UsageError
from profiler_cli.options.parser import rank_files


def chosen_aggregation(known: list[int], wanted: int | None) -> int:
    """Return the wanted aggregation of a database; None: the last one.

    Raises:
        DatabaseError: There is no aggregation at all.
        UsageError: There is no such aggregation.
    """
    if not known:
        raise DatabaseError(
            "The database has no aggregation.",
            hint="Aggregate its profile again: dlprof --database=profile.sqlite",
        )
    chosen = [name for name in known if wanted in (None, name)]
    if not chosen:
        listed = ", ".join(str(name) for name in known)
        raise UsageError(f"The database has no aggregation {wanted}.", hint=f"There are: {listed}.")
    return chosen[-1]


def open_any(name: str, stack: ExitStack) -> Dldb:
    """Open a database, or import what the name stands for into a temporary one.

    Raises:
        DlprofError: There is no such file, or it cannot be read.
    """
    from aggregator.pipeline import open_or_import  # noqa: PLC0415 - slow to load

    sources = rank_files(name)
    if len(sources) == 1:
        return open_or_import(sources[0], stack)
    from aggregator.options import ImportOptions  # noqa: PLC0415
    from aggregator.ranks.rank_import import import_ranks  # noqa: PLC0415
    from aggregator.system.progress import NullProgress  # noqa: PLC0415
    from aggregator.system.temporary_files import temporary_folder  # noqa: PLC0415

    target = stack.enter_context(temporary_folder("dlprof-import")) / "dlprof_dldb.sqlite"
    import_ranks(ImportOptions(sources[0], target), sources, NullProgress(), None)
    return open_database(target)
