"""The database that a subcommand reads: the given one, or one made from the given profile."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from aggregator.dldb.reader import Dldb, open_database
from aggregator.errors import DatabaseError, DlprofError, UsageError
from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from aggregator.system.temporary_files import folder_prefix, remove_leftover_folders


def open_or_import(source: Path, stack: ExitStack) -> Dldb:
    """Open a database of this program, or import a profile into one in a temporary folder.

    Args:
        source: A database of this program, an Nsight Systems export, a Kineto trace, or a database
            of NVIDIA's DLProf.
        stack: Removes the temporary folder. The caller closes the database.

    Raises:
        DlprofError: There is no such file, or it cannot be read.
    """
    try:
        database = open_database(source)
    except DlprofError:
        if not source.exists():
            raise
        database = None
    if database is not None and database.is_ours:
        return database
    if database is not None:
        database.close()
    remove_leftover_folders()
    folder = Path(tempfile.mkdtemp(prefix=folder_prefix("dlprof-import")))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    target = folder / "dlprof_dldb.sqlite"
    import_profile(ImportOptions(source=source, database=target), NullProgress())
    return open_database(target)


def chosen_aggregation(known: list[int], wanted: int | None) -> int:
    """The wanted aggregation of a database; None: the last one.

    Raises:
        DatabaseError: There is no aggregation at all.
        UsageError: There is no such aggregation.
    """
    if not known:
        raise DatabaseError(
            "The database has no aggregation.",
            hint="Aggregate its profile again: dlprof --database=profile.sqlite",
        )
    chosen = [one for one in known if wanted in (None, one)]
    if not chosen:
        listed = ", ".join(str(one) for one in known)
        raise UsageError(f"The database has no aggregation {wanted}.", hint=f"There are: {listed}.")
    return chosen[-1]
