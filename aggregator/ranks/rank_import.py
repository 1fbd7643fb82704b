"""Several rank files of one training job as one database.

Each file is imported into a database of its own, several at a time, and these are joined: raw
events on a common clock, then an aggregation. So no more captures are in memory than there are
workers, and they may be imported on several machines.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.import_writer import (
    ImportResult,
    WrittenEvents,
    aggregated_spans,
    with_steady,
    write_aggregations,
)
from aggregator.dldb.ownership import read_stored_ownership
from aggregator.dldb.reader import DB_VERSION, is_own_database
from aggregator.dldb.rows.collectives import read_collectives
from aggregator.dldb.rows.metadata import engine_version
from aggregator.dldb.rows.profile import WARNING_COLUMNS
from aggregator.dldb.secrets import masked_command
from aggregator.dldb.stored import load_rollup_inputs
from aggregator.dldb.writer import (
    BulkWriter,
    Table,
    attributes,
    bulk_writer,
    create_tables,
    insert_rows,
    new_database,
    write_errors,
)
from aggregator.errors import (
    AmbiguousKeyNodeError,
    KeyNodeNotFoundError,
    ProfileNotFoundError,
    UsageError,
)
from aggregator.metrics.model import RollupInput
from aggregator.metrics.rollup import Rollup, roll_up
from aggregator.metrics.window import report_iterations
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.profile.profile import ProfileWarning, require_domains
from aggregator.ranks.align import Capture
from aggregator.ranks.checks import (
    align_files,
    key_node_counts,
    warnings_of,
    without_collectives,
)
from aggregator.ranks.merge import count_events, merge_events
from aggregator.ranks.pool import import_files, rank_database
from aggregator.ranks.rank_database import (
    RankDatabase,
    damage_errors,
    open_rank_databases,
    require_own_layout,
)
from aggregator.ranks.small_tables import as_table, op_tables, shared_tables
from aggregator.system.progress import Progress
from aggregator.system.temporary_files import owner, remove_leftovers
from aggregator.texts import say


def import_ranks(
    options: ImportOptions,
    sources: Sequence[Path],
    progress: Progress,
    workers: int | None = None,
    on_states: Callable[[str], None] | None = None,
) -> ImportResult:
    """Read rank files of one job, join them, aggregate once and write the database.

    Args:
        options: As for one file; ``source`` is not read.
        sources: The rank files: exports, reports, or databases of this program.
        progress: Listener.
        workers: Files that are imported at the same time; None: as cores, memory and sizes allow.
        on_states: Called with the states of the rank files, a letter each, when one changes:
            ``w`` waiting, ``i`` being imported, ``d`` done, ``f`` failed.

    Raises:
        DlprofError: Reading, joining, the request or writing failed; no database is left behind.
    """
    require_files(sources)
    with _target(options) as partial, rank_folder(options.database) as folder:
        databases = import_files(options, sources, folder, progress, workers, on_states)
        return _join(databases, sources, partial, options, progress)


def join_ranks(
    options: ImportOptions, sources: Sequence[Path], folder: Path, progress: Progress
) -> ImportResult:
    """Join rank files that other processes have imported, and write the database.

    ``folder`` holds their databases, named by ``rank_database``; the rest is as in
    ``import_ranks``.
    """
    require_files(sources)
    databases = [
        source if is_own_database(source) else rank_database(folder, number)
        for number, source in enumerate(sources)
    ]
    with _target(options) as partial:
        return _join(databases, sources, partial, options, progress)


@contextmanager
def _target(options: ImportOptions) -> Iterator[Path]:
    with (
        write_errors(options.database),
        new_database(options.database, overwrite=options.overwrite) as partial,
    ):
        yield partial


def require_files(sources: Sequence[Path]) -> None:
    """Check that all files exist and are distinct, before any of them is read.

    Raises:
        ProfileNotFoundError: A file does not exist.
        UsageError: A file is listed twice.
    """
    seen: set[Path] = set()
    for path in sources:
        if not path.is_file():
            raise ProfileNotFoundError(say("The rank file '{path}' does not exist.", path=path))
        if path.resolve() in seen:
            raise UsageError(
                say("The rank file '{path}' was given twice.", path=path), hint=say("Give it once.")
            )
        seen.add(path.resolve())


@contextmanager
def rank_folder(database: Path) -> Iterator[Path]:
    """Create a folder beside the database for the rank databases; the block's end removes it."""
    folder = database.with_name(f".{database.name}.ranks.{owner()}.{uuid.uuid4().hex}")
    with write_errors(database):
        database.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(database.parent)
        folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _join(
    paths: Sequence[Path],
    sources: Sequence[Path],
    target: Path,
    options: ImportOptions,
    progress: Progress,
) -> ImportResult:
    """Join the databases of all ranks into ``target``, a new file, and aggregate it."""
    create_tables(target)
    with open_rank_databases(paths, [str(source) for source in sources]) as databases:
        for database in databases:
            if database.is_from_user:
                require_own_layout(database)
        with damage_errors(databases):
            warnings = _write_events(databases, target, options, progress)
        meta = databases[0].meta
        counts = {
            name: sum(database.last_id(name) for database in databases)
            for name in ("api_calls", "kernels")
        }
    with closing(sqlite3.connect(target)) as connection:
        domains = connection.execute("SELECT name FROM domains ORDER BY id").fetchall()
    require_domains([str(row[0]) for row in domains], options.domains)
    inputs, _ = load_rollup_inputs(target, progress)
    inputs, rollups = _roll_up(target, inputs, options.request, progress)
    report_iterations(rollups[0].window, progress)
    with closing(sqlite3.connect(target)) as connection, connection:
        uneven = key_node_counts(_key_node_counts(connection, rollups[0]))
        insert_rows(connection, _warning_table(uneven))
    events = WrittenEvents(
        inputs=inputs,
        mode=meta["mode"],
        mode_reason=meta["mode_reason"],
        counts=counts,
        warnings=(*warnings, *uneven),
    )
    done = with_steady(inputs, options.request, rollups)
    spans = aggregated_spans(done)
    return write_aggregations(
        target, events, done, lambda: read_stored_ownership(target, spans), options, progress
    )


def _write_events(
    databases: list[RankDatabase], target: Path, options: ImportOptions, progress: Progress
) -> list[ProfileWarning]:
    """Write the events of all databases, which it sorts by rank, into one with empty tables."""
    progress.message(f"Aligning the clocks of {len(databases)} rank files")
    captures = align_files(
        databases,
        lambda database: read_collectives(stored_events(database.connection)),
        options.ranks,
    )
    warnings = [
        *warnings_of(databases),
        *without_collectives(_collective_counts(databases, captures)),
    ]
    progress.message(f"Joining {sum(len(database.ranks) for database in databases)} ranks")
    progress.phase("join", count_events(databases))
    with bulk_writer(target) as writer:
        _write_small_tables(databases, warnings, options, writer)
        merge_events(databases, writer, progress.advance)
    return warnings


def _collective_counts(databases: list[RankDatabase], captures: list[Capture]) -> dict[int, int]:
    counts = {number: 0 for database in databases for number in database.new_ranks}
    for database, capture in zip(databases, captures, strict=True):
        for stream in capture.streams:
            counts[database.new_ranks[stream.rank - 1]] += len(stream)
    return counts


def _write_small_tables(
    databases: list[RankDatabase],
    warnings: list[ProfileWarning],
    options: ImportOptions,
    writer: BulkWriter,
) -> None:
    writer.write(_meta(databases))
    for table in shared_tables(databases):
        if table.name == "devices":
            writer.write(_system_config(databases, options, num_gpus=len(table)))
        writer.write(table)
    writer.write(_warning_table(warnings))
    for table in op_tables(databases):
        writer.write(table)
    writer.write(_ranks(databases))
    writer.write(as_table("key_node_candidates", databases[0].rows("key_node_candidates")))


def _meta(databases: list[RankDatabase]) -> Table:
    common = Counter(database.meta["key_node"] for database in databases).most_common(1)[0][0]
    first = next(database for database in databases if database.meta["key_node"] == common)
    hosts = {database.meta.get("host_name", "") for database in databases}
    started = [
        database.start_utc_ns - database.offset_ns
        for database in databases
        if database.start_utc_ns is not None and database.clock.is_known
    ]
    names = [database.short_label for database in databases]
    if len(names) > 4:
        names = [f"{names[0]} ... {names[-1]} ({len(names)} files)"]
    values = first.meta | {
        "db_version": DB_VERSION,
        "engine_version": engine_version(),
        "source_file": ", ".join(names),
        "last_ns": str(max(database.last_ns + database.offset_ns for database in databases)),
        "session_start_utc_ns": str(min(started)) if started else "",
        "host_name": hosts.pop() if len(hosts) == 1 else "",
        "rank_count": str(sum(len(database.ranks) for database in databases)),
        "rank_files": str(len(databases)),
        "job_rank": "",
        "first_ns": _first_ns(databases),
        "marked_until_ns": _marked_until_ns(databases),
        "are_ranks": "1",
        "is_part_of_job": "0",
    }
    return Table("dldb_meta", {"key": list(values), "value": list(values.values())})


def _marked_until_ns(databases: list[RankDatabase]) -> str:
    """When the last rank ended its markers; 0: none did."""
    ends = [(int(file.meta.get("marked_until_ns", "0")), file.offset_ns) for file in databases]
    return str(max((end + offset for end, offset in ends if end), default=0))


def _first_ns(databases: list[RankDatabase]) -> str:
    """Start of the first iteration: where events begin, if they begin late in every file."""
    starts = [(int(file.meta.get("first_ns", "0")), file.offset_ns) for file in databases]
    return (
        str(min(start + offset for start, offset in starts)) if all(s for s, _ in starts) else "0"
    )


def _system_config(
    databases: list[RankDatabase], options: ImportOptions, *, num_gpus: int
) -> Table:
    row = databases[0].rows("system_config")[0] | {
        "num_gpus": str(num_gpus),
        "dlprof_version": f"v{engine_version()}",
        "profile_name": options.profile_name,
        "original_command": masked_command(options.original_command),
    }
    return as_table("system_config", [row])


def _warning_table(warnings: list[ProfileWarning]) -> Table:
    return Table("warnings", attributes(warnings, *WARNING_COLUMNS))


def _ranks(databases: list[RankDatabase]) -> Table:
    rows: list[dict[str, Any]] = []
    for database in databases:
        clock = database.clock
        for number, row in zip(database.new_ranks, database.rows("ranks"), strict=True):
            device = row["device"]
            moved = {
                "id": len(rows) + 1,
                "rank": number,
                "process": int(database.maps["processes"][row["process"]]),
                "device": None if device is None else int(database.maps["devices"][device]),
                "source_file": database.short_label,
                "clock_offset": clock.offset_ns if clock.is_known else None,
                "clock_correction": clock.correction_ns if clock.is_known else None,
                "clock_residual": clock.residual_ns,
                "aligned_by": clock.aligned_by,
            }
            rows.append(row | moved)
    return as_table("ranks", rows)


def _roll_up(
    target: Path, inputs: tuple[RollupInput, ...], request: AggregationRequest, progress: Progress
) -> tuple[tuple[RollupInput, ...], list[Rollup]]:
    """Aggregate at the key node that was found, or without one if some ranks lack it."""
    try:
        return inputs, roll_up(inputs, request, progress)
    except (KeyNodeNotFoundError, AmbiguousKeyNodeError):
        if request.key_node:
            raise
    reason = say("the key nodes of the ranks cannot be found in all of them")
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("UPDATE dldb_meta SET value = '' WHERE key = 'key_node'")
        query = "UPDATE dldb_meta SET value = ? WHERE key = 'key_node_reason'"
        connection.execute(query, (reason,))
    inputs = tuple(replace(data, default_key=("", reason)) for data in inputs)
    return inputs, roll_up(inputs, request, progress)


def _key_node_counts(connection: sqlite3.Connection, rollup: Rollup) -> dict[int, int]:
    """Instances of the key node by rank; empty without a key node."""
    key_node = rollup.window.key_node
    if not key_node.name:
        return {}
    stops = dict(zip(key_node.processes, map(len, key_node.stops_ns), strict=True))
    ranks = connection.execute("SELECT process - 1, rank FROM ranks")
    return {int(rank): stops.get(process, 0) for process, rank in ranks}
