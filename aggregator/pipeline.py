"""The engine's table of contents: ``import_profile`` and ``aggregate``."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

from aggregator.advising.tables import add_advice, write_advice
from aggregator.conversion import conversion_notes, find_conversion
from aggregator.correlation import correlate
from aggregator.dldb.aggregation_rows import aggregation_tables, request_key
from aggregator.dldb.guarded import GLANCE_S, check_tables, limited
from aggregator.dldb.metadata import metadata_tables
from aggregator.dldb.profile_rows import profile_tables
from aggregator.dldb.reader import damaged, open_database
from aggregator.dldb.stored import (
    damage_errors,
    load_rollup_inputs,
    patiently,
    reading_errors,
)
from aggregator.dldb.versions import is_aggregable
from aggregator.dldb.writer import (
    BulkWriter,
    Table,
    aggregation_transaction,
    bulk_writer,
    copy_database,
    create_tables,
    finish,
    insert_rows,
    new_database,
    own_tables,
    write_errors,
)
from aggregator.efficiency.tables import (
    read_costed_instances,
    write_efficiency,
    write_import_efficiency,
)
from aggregator.errors import (
    DatabaseWriteError,
    DldbVersionError,
    DlprofError,
    KeyNodeNotFoundError,
    UsageError,
)
from aggregator.flops.peaks import parse_peaks
from aggregator.given import GivenProfile
from aggregator.given_import import GivenImport, correlate_given
from aggregator.imported import ImportedProfile
from aggregator.memory import spared_from_collection
from aggregator.metrics.model import RollupInput
from aggregator.metrics.rollup import Rollup, roll_up
from aggregator.metrics.window import open_window
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.parallel import ahead, both
from aggregator.progress import Level, NullProgress, Progress
from aggregator.ranks.metrics import write_rank_metrics
from aggregator.ranks.tables import write_rank_tables
from aggregator.results import AggregationResult, ImportResult, tell_iterations
from aggregator.sources import open_profile
from aggregator.texts import say

__all__ = ["AggregationResult", "ImportResult", "aggregate", "convert", "import_profile"]


def import_profile(options: ImportOptions, progress: Progress) -> ImportResult:
    """Read a profile, correlate it, aggregate it once and write its database.

    Raises:
        DlprofError: Any of the errors of reading, of the request, or of writing; nothing is left
            half-written then.
    """
    parse_peaks(options.request.gpu_peaks)
    with (
        spared_from_collection(),
        new_database(options.database, overwrite=options.overwrite) as partial,
    ):
        data, options = _read(options, progress)
        names = data.profile.domain_names
        custom = [names[domain.code] for domain in data.domains]
        require_domains([names[0], *custom], options.domains)
        rollup = _write_import(partial, data, (options.request,), options, progress)
    return _import_result(options, data, rollup)


def import_part(options: ImportOptions, progress: Progress) -> None:
    """Read and correlate a rank file and write its events, for them to be joined with others'.

    Raises:
        DlprofError: Any of the errors of reading or of writing.
    """
    with new_database(options.database, overwrite=options.overwrite) as partial:
        data, options = _read(options, progress)
        with write_errors(options.database):
            create_tables(partial)
            with bulk_writer(partial) as writer:
                _write_events(writer, data, options, progress)


def require_domains(present: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse custom domains that a profile does not have.

    Args:
        present: Its domains, the default one first.
        wanted: Those asked for.

    Raises:
        UsageError: One of them is not there.
    """
    custom = sorted(present[1:])
    for name in wanted:
        if name not in present:
            close = get_close_matches(name, custom, n=1)
            listed = (
                say("There are: {names}.", names=", ".join(custom))
                if custom
                else say("It has no custom domains.")
            )
            hint = (
                say("Did you mean {name}? {listed}", name=close[0], listed=listed)
                if close
                else listed
            )
            raise UsageError(say("The profile has no NVTX domain '{name}'.", name=name), hint=hint)


def convert(database: Path, progress: Progress) -> Path:
    """Make a database of ours beside one of NVIDIA's, with the same aggregations.

    The original is not changed. Converting it again gives the existing conversion.

    Returns:
        The conversion: ``dlprof_dldb.open.sqlite`` for ``dlprof_dldb.sqlite``.

    Raises:
        DatabaseError: The original cannot be read, or its folder cannot be written.
    """
    target, exists = find_conversion(database)
    if exists:
        return target
    try:
        with new_database(target, overwrite=False) as partial:
            data, options = _read(ImportOptions(source=database, database=target), progress)
            requests = data.requests if isinstance(data, GivenImport) else ()
            _write_import(partial, data, requests or (options.request,), options, progress)
    except DatabaseWriteError:
        target, exists = find_conversion(database)
        if not exists:  # nobody else converted it meanwhile
            raise
    return target


def _read(options: ImportOptions, progress: Progress) -> tuple[ImportedProfile, ImportOptions]:
    """Read and correlate the source; what it tells fills in what the caller left open."""
    profile = open_profile(options.source, progress, options.nsys_path)
    if not isinstance(profile, GivenProfile):
        return correlate(profile, options.mode, progress), options
    data = correlate_given(profile, options.mode, progress)
    given = profile.given
    return data, replace(
        options,
        profile_name=options.profile_name or given.profile_name,
        original_command=options.original_command or (given.original_command,),
    )


_WRITTEN_KINDS = ("api_calls", "kernels", "copies", "sets", "graphs", "marks")


def _write_import(
    path: Path,
    data: ImportedProfile,
    requests: tuple[AggregationRequest, ...],
    options: ImportOptions,
    progress: Progress,
) -> Rollup:
    """Aggregate once per request and write everything; returns the first rollup."""
    # A request that does not fit the profile shows before anything is written.
    tell_iterations(open_window(data.rollups, requests[0]), progress)
    progress.phase("aggregate")
    progress.message("Aggregating profile data")
    progress.message(f"Creating dlprof database at {_shown(options.database)}")
    with write_errors(options.database):
        create_tables(path)
        with bulk_writer(path) as writer:
            _, (done, left_out) = both(
                lambda: _write_events(writer, data, options, progress),
                lambda: _roll_up_all(data.rollups, requests),
            )
            for error in left_out:
                progress.message(f"An aggregation of the source was left out: {error.message}")
            progress.message("Writing aggregated data to dlprof database")
            for aggr, (request, rollups) in enumerate(done, start=1):
                for table in aggregation_tables(data.rollups, rollups, request, aggr):
                    writer.write(table)
        progress.phase("index")
        write_rank_tables(path, range(1, len(done) + 1))
        write_import_efficiency(path, data, [request for request, _ in done])
        finish(path, has_custom_domains=bool(data.domains))
        write_advice(path, range(1, len(done) + 1))
    return done[0][1][0]


def _roll_up_all(
    inputs: tuple[RollupInput, ...], requests: tuple[AggregationRequest, ...]
) -> tuple[list[tuple[AggregationRequest, list[Rollup]]], list[DlprofError]]:
    """Aggregate once per request; a later one that does not fit the profile is left out."""
    done = [(requests[0], roll_up(inputs, requests[0], NullProgress()))]
    left_out: list[DlprofError] = []
    for request in requests[1:]:
        try:
            done.append((request, roll_up(inputs, request, NullProgress())))
        except (UsageError, KeyNodeNotFoundError) as error:
            left_out.append(error)
    return done, left_out


def _write_events(
    writer: BulkWriter, data: ImportedProfile, options: ImportOptions, progress: Progress
) -> None:
    """Write what does not depend on an aggregation."""
    progress.message("Writing profile data to dlprof database")
    counts = data.profile.counts()
    total = sum(counts[kind] for kind in _WRITTEN_KINDS) + len(data.work.instances)
    progress.phase("write", total)
    for table in ahead(chain(_metadata(data, options), profile_tables(data))):
        writer.write(table)
        progress.advance(len(table))


def _metadata(data: ImportedProfile, options: ImportOptions) -> list[Table]:
    tables = metadata_tables(data, options)
    if isinstance(data.profile, GivenProfile):
        notes = conversion_notes(options.source, data.profile.given.version)
        tables.append(Table("dldb_meta", {"key": list(notes), "value": list(notes.values())}))
    return tables


def _shown(path: Path) -> str:
    """A path as DLProf shows it: one in the working directory begins with ``./``."""
    return str(path) if path.is_absolute() or path.parent != Path() else f"./{path}"


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

    The same request twice gives the existing aggregation. A database of NVIDIA's is converted
    first and stays as it is: the result tells where the aggregation is.

    Raises:
        DatabaseError: The database cannot be read or written.
        UsageError, IterationRangeError, KeyNodeNotFoundError, AmbiguousKeyNodeError: The request
            does not fit the profile.
        AggregationCancelledError: Raised by ``progress``.
    """
    parse_peaks(request.gpu_peaks)
    version = _own_version(database)
    if version is None:
        database = convert(database, progress)
    existing = _find_aggregation(database, request)
    if existing is not None:
        return existing
    if version is not None and not is_aggregable(version):
        raise DldbVersionError(
            say(
                "'{database}' was written by version {version}, whose tables differ from today's.",
                database=database,
                version=version,
            ),
            hint=say("Aggregate the Nsight Systems export again: dlprof --database=profile.sqlite"),
            version=version,
        )
    with open_database(database) as dldb, reading_errors(database):
        check_tables(dldb.connection, database, own_tables())
    inputs, costed = both(
        lambda: load_rollup_inputs(database, progress),
        lambda: patiently(lambda: read_costed_instances(database)),
    )
    # Rows that lead nowhere show when they are put together.
    with reading_errors(database):
        rollups = roll_up(inputs, request, progress)
        tell_iterations(rollups[0].window, progress)
    progress.phase("write", 1)
    with aggregation_transaction(database) as connection, damage_errors(database):
        existing = _existing_in(connection, database, request)
        if existing is not None:
            return existing
        row = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM aggregations").fetchone()
        aggr = int(row[0])
        for table in aggregation_tables(inputs, rollups, request, aggr):
            insert_rows(connection, table)
        write_rank_metrics(connection, aggr)
        write_efficiency(connection, aggr, costed, request.gpu_peaks)
        add_advice(connection, aggr)
        progress.advance(1)
    window = rollups[0].window
    progress.message(f"Aggregation {aggr} written", Level.DETAILED)
    key_node = window.key_node.name
    return _result((aggr, window.first, window.last, key_node), database, reused=False)


def aggregate_copy(source: Path, options: ImportOptions, progress: Progress) -> AggregationResult:
    """Copy a database of ours and add an aggregation to the copy; the source is not changed.

    Args:
        source: A database of ours.
        options: ``database`` is the copy; ``mode`` must be the source's.
        progress: Listener.

    Raises:
        UsageError: Another mode than the one in which the ranges were read.
        DlprofError: As ``aggregate``; the copy does not exist then.
    """
    with (
        open_database(source) as dldb,
        reading_errors(source),
        limited(dldb.connection, source, GLANCE_S),
    ):
        query = "SELECT value FROM view_profile_info WHERE key = 'mode'"
        stored = str(dldb.connection.execute(query).fetchone()[0])
    if options.mode not in (Mode.AUTO, stored):
        raise UsageError(
            say(
                "The ranges of '{source}' were read in mode {stored}, which a database keeps.",
                source=source,
                stored=stored,
            ),
            hint=say(
                "Aggregate the profile that it was made from with --mode={mode}.", mode=options.mode
            ),
        )
    progress.message(f"Copying {_shown(source)} to {_shown(options.database)}")
    with new_database(options.database, overwrite=options.overwrite) as partial:
        with write_errors(options.database):
            copy_database(source, partial, options.profile_name)
        return aggregate(partial, options.request, progress)


def _own_version(database: Path) -> str | None:
    """Version of a database of ours; None for NVIDIA's."""
    with open_database(database) as dldb:
        return dldb.version if dldb.is_ours else None


def _find_aggregation(database: Path, request: AggregationRequest) -> AggregationResult | None:
    with open_database(database) as dldb:
        try:
            with limited(dldb.connection, database, GLANCE_S):
                return _existing_in(dldb.connection, database, request)
        except sqlite3.DatabaseError as error:
            raise damaged(database, error) from error


def _existing_in(
    connection: sqlite3.Connection, database: Path, request: AggregationRequest
) -> AggregationResult | None:
    query = "SELECT id, iter_start, iter_stop, key_node FROM aggregations WHERE request = ?"
    with closing(connection.execute(query, (request_key(request),))) as cursor:
        row = cursor.fetchone()
    if row is None:
        return None
    return _result(tuple(row), database, reused=True)


def _result(
    values: tuple[int, int, int, str], database: Path, *, reused: bool
) -> AggregationResult:
    aggr, first, last, key_node = values
    return AggregationResult(aggr, reused, first, last, key_node, database)
