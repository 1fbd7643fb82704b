"""Writes the summary of the ranks of a file."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from aggregator.dldb.aggregations import aggregation_not_found
from aggregator.dldb.guarded import DAMAGE, few_rows
from aggregator.dldb.reader import damaged
from aggregator.dldb.stored import require_aggregable
from aggregator.errors import DatabaseWriteError
from aggregator.pipeline import open_or_import
from aggregator.ranks.summary import write_rank_summary
from aggregator.system.temporary_files import publish, temporary_name
from aggregator.texts import say


@dataclass(frozen=True)
class Written:
    """A summary that was written."""

    rows: int  # Ranks times steps.
    bytes: int  # Size of the file.


def summarize_file(
    source: Path,
    target: Path,
    *,
    shown_source: str = "",
    aggregation: int | None = None,
    first_rank: int | None = None,
    overwrite: bool = False,
) -> Written:
    """Write the summary of a database, or of a profile that is imported first.

    Args:
        source: A database of this program, or a profile.
        target: The file to write.
        shown_source: Where the full database is, for people; empty: not stored.
        aggregation: Its steps are summarized; None: the last one.
        first_rank: Number of the first rank in the job; None: as recorded, else by file names.
        overwrite: Whether an existing file is replaced.

    Raises:
        DlprofError: The source cannot be read, or the file cannot be written.
    """
    with ExitStack() as stack:
        database = open_or_import(source, stack)
        stack.callback(database.close)
        require_aggregable(database.path)
        query = "SELECT id FROM aggregations ORDER BY 1"
        try:
            known = [int(row[0]) for row in few_rows(database.connection.execute(query))]
            if not known or aggregation not in (None, *known):
                raise aggregation_not_found(aggregation or 0, known)
            summary = BytesIO()
            table = write_rank_summary(
                database.connection,
                database.path,
                known[-1] if aggregation is None else aggregation,
                summary,
                source=shown_source,
                first_rank=first_rank,
            )
        except (sqlite3.Error, MemoryError, *DAMAGE) as error:
            raise damaged(database.path, error) from error
    _publish(summary.getvalue(), target, overwrite=overwrite)
    return Written(rows=table.num_rows, bytes=len(summary.getvalue()))


def _publish(content: bytes, target: Path, *, overwrite: bool) -> None:
    temporary = temporary_name(target, "tmp")
    try:
        try:
            temporary.write_bytes(content)
            publish(temporary, target, overwrite=overwrite)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DatabaseWriteError(
            say(
                "The summary '{path}' cannot be written: {error}.",
                path=target,
                error=error.strerror or type(error).__name__,
            ),
            hint=say("Check that the folder can be written and the disk is not full (--output)."),
        ) from error
