"""The summary of the ranks that ``dlprof`` writes beside its database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from aggregator.dldb.guarded import DAMAGE, few_rows
from aggregator.dldb.reader import Dldb, damaged, open_database
from profiler_cli.options.declared import Options
from profiler_cli.outputs import Batch, OutputPlan, display

if TYPE_CHECKING:
    from profiler_cli.console import Console

RANKS_FILE: Final = ("ranks", "parquet")
"""Suffix and extension of its name."""
_RANK_VARIABLES: Final = (
    *("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "JOB_COMPLETION_INDEX",
)
"""Variables by which torchrun, Slurm, MPI and Kubernetes number a process of a job."""


def write_ranks(plan: OutputPlan, options: Options, console: Console, *, is_captured: bool) -> None:
    """Write the summary, if it is wanted or, after a capture, there are other ranks."""
    if options.summary == "auto" and not is_captured:
        return
    with open_database(plan.database) as database:
        try:
            rows = few_rows(database.connection.execute("SELECT key, value FROM dldb_meta"))
            meta = {str(key): str(value) for key, value in rows}
            is_one = meta.get("rank_count") == "1"
            rank = job_rank(os.environ) if is_captured and is_one else None
            if options.summary == "auto" and not _has_others(meta, rank):
                return
            _write(database, plan, rank, console)
        except (sqlite3.Error, *DAMAGE) as error:
            raise damaged(plan.database, error) from error


def job_rank(variables: Mapping[str, str]) -> int | None:
    """Return the number in its job of a process with these variables, or None if it has none."""
    found = [variables.get(name, "") for name in _RANK_VARIABLES]
    return next((int(text) for text in found if text.isdecimal() and len(text) < 10), None)


def _has_others(meta: Mapping[str, str], rank: int | None) -> bool:
    several = meta.get("rank_count", "0") not in {"0", "1"} and meta.get("are_ranks") == "1"
    is_part = meta.get("is_part_of_job") == "1" or rank is not None
    return several or (meta.get("rank_count") == "1" and is_part)


def _write(database: Dldb, plan: OutputPlan, rank: int | None, console: Console) -> None:
    from aggregator.ranks.summary import write_rank_summary  # noqa: PLC0415 - loads Parquet

    path = plan.report(RANKS_FILE[0], "", RANKS_FILE[1])
    console.message(f"Writing summary of the ranks to ({display(path)})")
    query = "SELECT max(id) FROM aggregations"
    ((last,),) = few_rows(database.connection.execute(query))
    with Batch(force=plan.force) as batch:
        with batch.open(path) as stream:
            source = str(plan.database.absolute())
            write_rank_summary(
                database.connection,
                plan.database,
                int(last),
                stream,
                source=source,
                first_rank=rank,
            )
        batch.commit()
