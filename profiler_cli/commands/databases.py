"""The database that a subcommand shows, and which of its aggregations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.dldb.guarded import DAMAGE, few_rows, limited, time_limit_s
from aggregator.dldb.reader import Dldb, damaged, open_database
from aggregator.errors import DatabaseError, UsageError
from profiler_cli.options.parser import rank_files

if TYPE_CHECKING:
    from aggregator.tables.aggregation_data import AggregationData


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


@contextmanager
def reading(database: Dldb) -> Iterator[None]:
    """Read a database, which may be damaged or contain other values, with a time limit."""
    path = database.path
    try:
        with limited(database.connection, path, time_limit_s(path)):
            yield
    except (sqlite3.Error, MemoryError, AttributeError, *DAMAGE) as error:
        raise damaged(path, error) from error


def read_aggregation(database: Dldb, wanted: int | None) -> int:
    """Return the number of the wanted aggregation; None: the last one.

    Raises:
        DatabaseError: There is no aggregation at all, or the database is damaged.
        UsageError: There is no such aggregation.
    """
    with reading(database):
        query = "SELECT aggr_id FROM view_aggregations ORDER BY 1"
        known = [int(row[0]) for row in few_rows(database.connection.execute(query))]
    return chosen_aggregation(known, wanted)


@contextmanager
def opened_aggregation(
    database: Dldb, wanted: int | None, **params: str
) -> Iterator[AggregationData]:
    """Open an aggregation in its first domain, in place of ``database``, which is closed.

    Raises:
        DatabaseError: There is no aggregation at all, or the database is damaged.
        UsageError: There is no such aggregation.
    """
    from aggregator.tables.aggregation_data import AggregationData  # noqa: PLC0415 - slow to load
    from aggregator.tables.connection import opened  # noqa: PLC0415
    from aggregator.tables.declared.profile import domains  # noqa: PLC0415

    path: Path = database.path
    aggr = read_aggregation(database, wanted)
    database.close()
    with opened(path, time_limit_s=time_limit_s(path)) as shown:
        named: dict[str, str | int] = {"aggr_id": aggr, "domain": domains(shown)[0]}
        try:
            yield AggregationData(shown, {**named, **params})
        except sqlite3.Error as error:
            raise damaged(path, error) from error


def open_any(name: str, stack: ExitStack) -> Dldb:
    """Open a database, or import what the name stands for into a temporary one.

    Raises:
        DlprofError: There is no such file, or it cannot be read.
    """
    from aggregator.pipeline import open_or_import  # noqa: PLC0415 - slow to load

    sources = rank_files(name)
    if len(sources) == 1:
        return open_or_import(sources[0], stack)
    return join_ranks(sources, stack)


def join_ranks(sources: Sequence[Path], stack: ExitStack) -> Dldb:
    """Import the files of the ranks of a job into a temporary database.

    Raises:
        DlprofError: One cannot be read.
    """
    from aggregator.options import ImportOptions  # noqa: PLC0415 - slow to load
    from aggregator.ranks.rank_import import import_ranks  # noqa: PLC0415
    from aggregator.system.progress import NullProgress  # noqa: PLC0415
    from aggregator.system.temporary_files import temporary_folder  # noqa: PLC0415

    target = stack.enter_context(temporary_folder("dlprof-import")) / "dlprof_dldb.sqlite"
    import_ranks(ImportOptions(sources[0], target), sources, NullProgress(), None)
    return open_database(target)
