"""The engine's table of contents: ``import_profile`` and ``aggregate``."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.correlation import correlate
from aggregator.dldb.aggregation_rows import aggregation_tables, request_key
from aggregator.dldb.metadata import metadata_tables
from aggregator.dldb.profile_rows import profile_tables
from aggregator.dldb.reader import open_database
from aggregator.dldb.stored import load_rollup_inputs
from aggregator.dldb.writer import (
    aggregation_transaction,
    bulk_writer,
    create_tables,
    finish,
    insert_rows,
    new_database,
    write_errors,
)
from aggregator.errors import DatabaseError
from aggregator.imported import ImportedProfile
from aggregator.metrics.rollup import Rollup, roll_up
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.profile import ProfileWarning
from aggregator.progress import Level, Progress
from aggregator.sources import open_profile


@dataclass(frozen=True)
class ImportResult:
    """What an import found.

    Attributes:
        database: The database written.
        aggr_id: Its first aggregation.
        mode: Mode in which ranges were read.
        mode_reason: Why.
        key_node: Key node; empty: none.
        key_node_reason: Why.
        iteration_stops_ns: Ends of all iterations. Unit: ns.
        iter_start: First aggregated iteration.
        iter_stop: Last aggregated iteration.
        iter_start_ns: Start of the aggregated range. Unit: ns.
        iter_stop_ns: End of the aggregated range. Unit: ns.
        counts: Rows per kind of event.
        warnings: What was not used, repaired or guessed.
        wall_time_ns: Unit: ns.
        gpu_time_ns: Sum of kernel and memory durations. Unit: ns.
        tc_gpu_time_ns: Sum of Tensor Core kernel durations. Unit: ns.
    """

    database: Path
    aggr_id: int
    mode: str
    mode_reason: str
    key_node: str
    key_node_reason: str
    iteration_stops_ns: tuple[int, ...]
    iter_start: int
    iter_stop: int
    iter_start_ns: int
    iter_stop_ns: int
    counts: dict[str, int] = field(default_factory=dict)
    warnings: tuple[ProfileWarning, ...] = ()
    wall_time_ns: int = 0
    gpu_time_ns: int = 0
    tc_gpu_time_ns: int = 0


@dataclass(frozen=True)
class AggregationResult:
    """One aggregation of a database.

    Attributes:
        aggr_id: Its id.
        reused: Whether the same request had been aggregated before.
        iter_start: First aggregated iteration.
        iter_stop: Last aggregated iteration.
        key_node: Key node; empty: none.
    """

    aggr_id: int
    reused: bool
    iter_start: int
    iter_stop: int
    key_node: str


def import_profile(options: ImportOptions, progress: Progress) -> ImportResult:
    """Read a profile, correlate it, aggregate it once and write its database.

    Raises:
        DlprofError: Any of the errors of reading, of the request, or of writing; nothing is left
            half-written then.
    """
    with new_database(options.database, overwrite=options.overwrite) as partial:
        progress.message("Initializing Nsight Systems database")
        profile = open_profile(options.source, progress)
        data = correlate(profile, options.mode, progress)
        progress.message("Aggregating profile data")
        rollups = roll_up(data.rollups, options.request, progress)
        rollup = rollups[0]
        _tell_iterations(rollup, progress)
        progress.message(f"Creating dlprof database at {_shown(options.database)}")
        with write_errors(options.database):
            _write_import(partial, data, rollups, options, progress)
    return _import_result(options, data, rollup)


def _write_import(
    path: Path,
    data: ImportedProfile,
    rollups: list[Rollup],
    options: ImportOptions,
    progress: Progress,
) -> None:
    create_tables(path)
    progress.message("Writing profile data to dlprof database")
    progress.phase("write", sum(data.profile.counts().values()))
    with bulk_writer(path) as writer:
        for table in (*metadata_tables(data, options), *profile_tables(data)):
            writer.write(table)
            progress.advance(len(table))
        progress.message("Writing aggregated data to dlprof database")
        for table in aggregation_tables(data.rollups, rollups, options.request, aggr=1):
            writer.write(table)
    progress.phase("index")
    finish(path, has_custom_domains=bool(data.domains))


def _shown(path: Path) -> str:
    """A path as DLProf shows it: one in the working directory begins with ``./``."""
    return str(path) if path.is_absolute() or path.parent != Path() else f"./{path}"


def _tell_iterations(rollup: Rollup, progress: Progress) -> None:
    window = rollup.window
    count = len(window.iterations)
    stops = ", ".join(str(stop) for stop in window.iterations.stop_ns[:50].tolist())
    more = ", ..." if count > 50 else ""
    progress.message(f'Found {count} {_plural(count)} using key_node "{window.key_node.name}"')
    if window.key_node.reason:
        progress.message(f"Key node: {window.key_node.reason}")
    progress.message(f"Iterations: [{stops}{more}]")
    progress.message(
        f"Aggregating data over {window.count} {_plural(window.count)}: iteration {window.first} "
        f"start ({window.start_ns} ns) to iteration {window.last} end ({window.stop_ns} ns)"
    )


def _plural(count: int) -> str:
    return "iteration" if count == 1 else "iterations"


def _import_result(options: ImportOptions, data: ImportedProfile, rollup: Rollup) -> ImportResult:
    window, totals = rollup.window, rollup.totals
    return ImportResult(
        database=options.database,
        aggr_id=1,
        mode=data.mode,
        mode_reason=data.mode_reason,
        key_node=window.key_node.name,
        key_node_reason=window.key_node.reason,
        iteration_stops_ns=tuple(window.iterations.stop_ns.tolist()),
        iter_start=window.first,
        iter_stop=window.last,
        iter_start_ns=window.start_ns,
        iter_stop_ns=window.stop_ns,
        counts=data.profile.counts() | {"ops": len(data.ops.ops)},
        warnings=tuple(data.profile.warnings),
        wall_time_ns=int(totals["wall_time"]),
        gpu_time_ns=int(totals["kernels_all_gpu_time"]),
        tc_gpu_time_ns=int(totals["kernels_tc_gpu_time"]),
    )


def aggregate(database: Path, request: AggregationRequest, progress: Progress) -> AggregationResult:
    """Add one aggregation to a database of ours; reads no source again.

    The same request twice gives the existing aggregation.

    Raises:
        DatabaseError: The database is not one of ours, or cannot be read or written.
        UsageError, IterationRangeError, KeyNodeNotFoundError, AmbiguousKeyNodeError: The request
            does not fit the profile.
        AggregationCancelledError: Raised by ``progress``.
    """
    _require_ours(database)
    existing = _find_aggregation(database, request)
    if existing is not None:
        return existing
    inputs = load_rollup_inputs(database, progress)
    rollups = roll_up(inputs, request, progress)
    progress.phase("write", 1)
    with aggregation_transaction(database) as connection:
        existing = _existing_in(connection, request)
        if existing is not None:
            return existing
        row = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM aggregations").fetchone()
        aggr = int(row[0])
        for table in aggregation_tables(inputs, rollups, request, aggr):
            insert_rows(connection, table)
        progress.advance(1)
    window = rollups[0].window
    progress.message(f"Aggregation {aggr} written", Level.DETAILED)
    return _result(aggr, window.first, window.last, window.key_node.name, reused=False)


def _require_ours(database: Path) -> None:
    with open_database(database) as dldb:
        if not dldb.is_ours:
            raise DatabaseError(
                f"'{database}' was written by NVIDIA's DLProf {dldb.version}; it can be viewed but "
                "not aggregated again in this version.",
                hint="Aggregate the Nsight Systems export that it was made from.",
            )


def _find_aggregation(database: Path, request: AggregationRequest) -> AggregationResult | None:
    with open_database(database) as dldb:
        return _existing_in(dldb.connection, request)


def _existing_in(
    connection: sqlite3.Connection, request: AggregationRequest
) -> AggregationResult | None:
    query = "SELECT id, iter_start, iter_stop, key_node FROM aggregations WHERE request = ?"
    with closing(connection.execute(query, (request_key(request),))) as cursor:
        row = cursor.fetchone()
    if row is None:
        return None
    return _result(int(row[0]), int(row[1]), int(row[2]), str(row[3]), reused=True)


def _result(aggr: int, first: int, last: int, key_node: str, *, reused: bool) -> AggregationResult:
    return AggregationResult(aggr, reused, first, last, key_node)
