"""The engine's entry points: import a profile into a database, aggregate a database again.

An import reads and correlates its source, writes the events, and then aggregates them. A rank file
is imported as events only; ``ranks`` joins those into one database and aggregates it with the same
functions.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from aggregator.advice.facts import Facts
from aggregator.costs.peaks import parse_peaks
from aggregator.dldb.aggregations import next_number
from aggregator.dldb.conversion import find_conversion
from aggregator.dldb.gpu_memory import memory_tables
from aggregator.dldb.guarded import GLANCE_S, limited
from aggregator.dldb.memory_owners import write_owners
from aggregator.dldb.ownership import (
    Ownership,
    Span,
    read_all_ownership,
    window_span,
    write_ownership,
)
from aggregator.dldb.ownership_columns import KeptTables
from aggregator.dldb.reader import Dldb, damaged, open_database
from aggregator.dldb.rows.aggregation import Aggregated, add_aggregation, find_aggregation
from aggregator.dldb.rows.collectives import read_collectives, write_collectives
from aggregator.dldb.rows.metadata import metadata_tables
from aggregator.dldb.rows.profile import profile_tables
from aggregator.dldb.stored import (
    damage_errors,
    load_rollup_inputs,
    reading_errors,
    require_aggregable,
)
from aggregator.dldb.writer import (
    Table,
    aggregation_transaction,
    aggregation_turn,
    bulk_writer,
    copy_database,
    create_tables,
    finish,
    new_database,
    write_errors,
)
from aggregator.errors import DatabaseWriteError, DlprofError, KeyNodeNotFoundError, UsageError
from aggregator.importing.correlation import correlate
from aggregator.importing.gpu_memory import find_recordings
from aggregator.importing.imported import ImportedProfile
from aggregator.importing.recorded import RecordedImport, correlate_recorded
from aggregator.metrics.loops import Candidate
from aggregator.metrics.memory.analysis import Recording
from aggregator.metrics.model import RollupInput
from aggregator.metrics.rollup import Rollup, roll_up, roll_up_part
from aggregator.metrics.steady import find_steady_range
from aggregator.metrics.window import open_window, report_iterations
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.profile.profile import ProfileWarning, require_domains
from aggregator.profile.recorded import RecordedProfile
from aggregator.sources import open_profile
from aggregator.system.progress import Level, NullProgress, Progress
from aggregator.system.resources import gc_frozen, prefetch, run_both
from aggregator.system.temporary_files import folder_prefix, remove_leftover_folders
from aggregator.texts import say

__all__ = [
    "AggregationResult",
    "ImportResult",
    "aggregate",
    "convert",
    "import_profile",
    "open_or_import",
]


@dataclass(frozen=True)
class ImportResult:
    """Result of an import."""

    database: Path  # The database written.
    aggr_id: int  # Its first aggregation.
    mode: str  # Mode in which ranges were read.
    mode_reason: str  # Why.
    key_node: str  # Key node; empty: none.
    key_node_reason: str  # Why.
    iteration_stops_ns: tuple[int, ...]  # Ends of all iterations. Unit: ns.
    counts: dict[str, int] = field(default_factory=dict)  # Rows per kind of event.
    # Notes on data that was not used, repaired or guessed.
    warnings: tuple[ProfileWarning, ...] = ()


@dataclass(frozen=True)
class AggregationResult:
    """One aggregation of a database."""

    aggr_id: int  # Its id.
    iter_start: int  # First aggregated iteration.
    iter_stop: int  # Last aggregated iteration.
    key_node: str  # Key node; empty: none.
    database: Path  # The database that holds it: for a database of NVIDIA's DLProf, its conversion.
    reused: bool = False  # Whether the same request had been aggregated before.


@dataclass(frozen=True)
class WrittenEvents:
    """The events of an import, already in its database."""

    inputs: tuple[RollupInput, ...]  # Columns that aggregations are computed from, per domain.
    mode: str  # Mode in which ranges were read.
    mode_reason: str  # Why.
    counts: dict[str, int]  # Rows per kind of event.
    warnings: tuple[ProfileWarning, ...]  # Notes on data that was not used, repaired or guessed.
    recordings: tuple[Recording, ...] = ()  # Recordings of GPU memory.


def import_profile(options: ImportOptions, progress: Progress) -> ImportResult:
    """Read and correlate a profile, write its database and aggregate it once.

    Raises:
        DlprofError: Reading, the request or writing failed; no database is left behind.
    """
    parse_peaks(options.request.gpu_peaks)
    with gc_frozen(), new_database(options.database, overwrite=options.overwrite) as partial:
        data, options = _read(options, progress)
        names = data.profile.domain_names
        custom = [names[domain.code] for domain in data.domains]
        require_domains([names[0], *custom], options.domains)
        return _write_import(partial, data, (options.request,), options, progress)


def import_events(options: ImportOptions, progress: Progress) -> None:
    """Read and correlate a rank file and write its events, without an aggregation.

    Raises:
        DlprofError: Reading or writing failed; no database is left behind.
    """
    with new_database(options.database, overwrite=options.overwrite) as partial:
        data, options = _read(options, progress)
        with write_errors(options.database):
            _write_events(partial, data, chain(*_event_tables(data, options)), progress)


def find_key_nodes(
    source: Path, mode: Mode, progress: Progress, nsys_path: str = ""
) -> tuple[tuple[Candidate, ...], str]:
    """The candidates for the key node of a profile, best first, and why one was chosen.

    Nothing is written.

    Raises:
        DlprofError: The profile cannot be read.
    """
    options = ImportOptions(source=source, database=source, mode=mode, nsys_path=nsys_path)
    data, _ = _read(options, progress)
    return data.candidates, data.key_node.reason


def convert(database: Path, progress: Progress) -> Path:
    """Convert a database of NVIDIA's DLProf: a new file beside it with the same aggregations.

    The original is not changed. Converting it again returns the existing conversion.

    Returns:
        The conversion: ``dlprof_dldb.open.sqlite`` for ``dlprof_dldb.sqlite``.

    Raises:
        DatabaseError: The original cannot be read, or its folder cannot be written.
    """
    target, exists = find_conversion(database)
    if exists:
        return target
    try:
        convert_into(database, target, progress, overwrite=False)
    except DatabaseWriteError:
        target, exists = find_conversion(database)
        if not exists:  # otherwise another process converted it at the same time
            raise
    return target


def convert_into(database: Path, target: Path, progress: Progress, *, overwrite: bool) -> None:
    """Convert a database of NVIDIA's DLProf: a new file with the same aggregations.

    Raises:
        DatabaseError: The original cannot be read, or the new file cannot be written.
    """
    with new_database(target, overwrite=overwrite) as partial:
        data, options = _read(ImportOptions(source=database, database=target), progress)
        requests = data.requests if isinstance(data, RecordedImport) else ()
        _write_import(partial, data, requests or (options.request,), options, progress)


def aggregate(database: Path, request: AggregationRequest, progress: Progress) -> AggregationResult:
    """Add one aggregation to an existing database; the source is not read again.

    The same request twice returns the existing aggregation. A database of NVIDIA's DLProf is
    converted first and not changed; the result names the database that holds the aggregation.

    Raises:
        DatabaseError: The database cannot be read or written.
        UsageError, IterationRangeError, KeyNodeNotFoundError, AmbiguousKeyNodeError: The request
            does not fit the profile.
        AggregationCancelledError: Raised by ``progress``.
    """
    parse_peaks(request.gpu_peaks)
    with open_database(database) as dldb:
        is_own = dldb.is_ours
    if not is_own:
        database = convert(database, progress)
    existing = _find_aggregation(database, request)
    if existing is not None:
        return existing
    require_aggregable(database)
    with aggregation_turn(database, progress):
        return _aggregate(database, request, progress)


def _aggregate(
    database: Path, request: AggregationRequest, progress: Progress
) -> AggregationResult:
    existing = _find_aggregation(database, request)
    if existing is not None:  # another process made it during the wait
        return existing
    inputs = load_rollup_inputs(database, progress)
    # A row that refers to a missing row is found only when the columns are combined.
    with reading_errors(database):
        rollups = roll_up(inputs, request, progress)
        report_iterations(rollups[0].window, progress)
    progress.phase("write", 1)
    with aggregation_transaction(database) as connection, damage_errors(database):
        if found := find_aggregation(connection, request):
            return AggregationResult(*found, database, reused=True)
        aggr = next_number(connection)
        add_aggregation(connection, aggr, inputs, Aggregated(request, rollups))
        progress.advance(1)
    window = rollups[0].window
    progress.message(f"Aggregation {aggr} written", Level.DETAILED)
    return AggregationResult(aggr, window.first, window.last, window.key_node.name, database)


def aggregate_copy(source: Path, options: ImportOptions, progress: Progress) -> AggregationResult:
    """Copy a database and add an aggregation to the copy; the source is not changed.

    Args:
        source: A database that this program wrote.
        options: ``database`` is the copy; ``mode`` must be the source's.
        progress: Listener.

    Raises:
        UsageError: ``mode`` is not the mode in which the ranges were read.
        DlprofError: As for ``aggregate``; no copy is left behind.
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


def write_aggregations(
    path: Path,
    events: WrittenEvents,
    done: Sequence[Aggregated],
    read_owners: Callable[[], Sequence[Ownership | None]],
    options: ImportOptions,
    progress: Progress,
) -> ImportResult:
    """Complete the database of an import: indexes, views, collectives and aggregations.

    ``path`` holds all events; the first aggregation is the result of the import. ``read_owners``
    returns the ownership of each aggregation, or waits for it.
    """
    progress.phase("index")
    finish(path, has_custom_domains=len(events.inputs) > 1)
    collectives = read_collectives(path)

    def write(connection: sqlite3.Connection) -> None:
        write_collectives(connection, collectives)
        write_owners(connection, events.recordings)
        facts: Facts | None = None
        for aggr, aggregated in enumerate(done, start=1):
            known = facts if aggregated.is_steady else None
            facts = add_aggregation(connection, aggr, events.inputs, aggregated, known)

    with aggregation_transaction(path) as connection:
        _, owned = run_both(lambda: write(connection), read_owners)
        for aggr, ownership in enumerate(owned, start=1):
            if ownership is not None:
                write_ownership(connection, aggr, ownership)
    window = done[0].rollups[0].window
    return ImportResult(
        database=options.database,
        aggr_id=1,
        mode=events.mode,
        mode_reason=events.mode_reason,
        key_node=window.key_node.name,
        key_node_reason=window.key_node.reason,
        iteration_stops_ns=tuple(window.iterations.stop_ns.tolist()),
        counts=events.counts,
        warnings=events.warnings,
    )


def _read(options: ImportOptions, progress: Progress) -> tuple[ImportedProfile, ImportOptions]:
    """Read and correlate the source; metadata from the source overrides unset options."""
    profile = open_profile(options.source, progress, options.nsys_path)
    if not isinstance(profile, RecordedProfile):
        recordings = find_recordings(options.source, profile)
        data = correlate(profile, options.mode, progress)
        data.recordings = recordings
        return data, options
    recorded = profile.recorded
    return correlate_recorded(profile, options.mode, progress), replace(
        options,
        profile_name=options.profile_name or recorded.profile_name,
        original_command=options.original_command or (recorded.original_command,),
    )


def _write_import(
    path: Path,
    data: ImportedProfile,
    requests: tuple[AggregationRequest, ...],
    options: ImportOptions,
    progress: Progress,
) -> ImportResult:
    """Write the events and one aggregation per request, while one is written the other computed."""
    # A request that does not fit the profile raises here, before anything is written.
    report_iterations(open_window(data.rollups, requests[0]), progress)
    progress.phase("aggregate")
    progress.message("Aggregating profile data")
    progress.message(f"Creating dlprof database at {_shown(options.database)}")
    kept = KeptTables()
    with write_errors(options.database), ThreadPoolExecutor(max_workers=1) as pool:
        rolled = pool.submit(copy_context().run, _roll_up_all, data, requests)
        owned: list[Future[list[Ownership | None]]] = []

        def own() -> list[Ownership | None]:
            return read_all_ownership(kept, aggregated_spans(rolled.result()[0]))

        def tables() -> Iterator[Table]:
            """The tables; once all are made, and while they are written, their owners are found."""
            yield from kept.keep(chain(*_event_tables(data, options)))
            owned.append(pool.submit(copy_context().run, own))

        events = _write_events(path, data, tables(), progress)
        done, left_out = rolled.result()
        for error in left_out:
            progress.message(f"An aggregation of the source was left out: {error.message}")
        progress.message("Writing aggregated data to dlprof database")
        return write_aggregations(path, events, done, owned[0].result, options, progress)


def aggregated_spans(done: Sequence[Aggregated]) -> list[Span]:
    """The iterations of each aggregation."""
    return [window_span(aggregated.rollups[0].window) for aggregated in done]


def with_steady(
    inputs: tuple[RollupInput, ...], request: AggregationRequest, rollups: list[Rollup]
) -> list[Aggregated]:
    """The aggregation of a request, followed by that of the steady range if there is one.

    A request that names a range of iterations gets no other one.
    """
    if request.iter_start is not None or request.iter_stop is not None:
        return [Aggregated(request, rollups)]
    steady = find_steady_range(inputs[0], rollups[0].window)
    done = [Aggregated(request, rollups, steady.note)]
    if steady.exists:
        part = replace(request, iter_start=steady.first, iter_stop=steady.last)
        steady_rollups = roll_up_part(inputs, rollups, steady.first, steady.last)
        done.append(Aggregated(part, steady_rollups, steady.note, is_steady=True))
    return done


def _roll_up_all(
    data: ImportedProfile, requests: tuple[AggregationRequest, ...]
) -> tuple[list[Aggregated], list[DlprofError]]:
    """Aggregate once per request; a later one that does not fit the profile is left out.

    The aggregations of a DLProf database are taken over without the steady range.
    """
    inputs, rollups = data.rollups, roll_up(data.rollups, requests[0], NullProgress())
    if not isinstance(data, RecordedImport):
        return with_steady(inputs, requests[0], rollups), []
    done = [Aggregated(requests[0], rollups)]
    left_out: list[DlprofError] = []
    for request in requests[1:]:
        try:
            done.append(Aggregated(request, roll_up(inputs, request, NullProgress())))
        except (UsageError, KeyNodeNotFoundError) as error:
            left_out.append(error)
    return done, left_out


_WRITTEN_KINDS = ("api_calls", "kernels", "copies", "sets", "graphs", "marks")


def _write_events(
    path: Path, data: ImportedProfile, tables: Iterable[Table], progress: Progress
) -> WrittenEvents:
    """Write the tables that do not depend on an aggregation into a new file."""
    create_tables(path)
    progress.message("Writing profile data to dlprof database")
    counts = data.profile.counts()
    total = sum(counts[kind] for kind in _WRITTEN_KINDS) + len(data.work.instances)
    progress.phase("write", total)
    with bulk_writer(path) as writer:
        for table in prefetch(tables):
            writer.write(table)
            progress.advance(len(table))
    return WrittenEvents(
        inputs=data.rollups,
        mode=data.mode,
        mode_reason=data.mode_reason,
        counts=counts | {"ops": len(data.ops.ops)},
        warnings=tuple(data.profile.warnings),
        recordings=data.recordings,
    )


def _event_tables(data: ImportedProfile, options: ImportOptions) -> Iterator[Iterable[Table]]:
    yield metadata_tables(data, options)
    yield profile_tables(data)
    yield memory_tables(data.recordings)


def _shown(path: Path) -> str:
    """A path as DLProf shows it: one in the working directory begins with ``./``."""
    return str(path) if path.is_absolute() or path.parent != Path() else f"./{path}"


def _find_aggregation(database: Path, request: AggregationRequest) -> AggregationResult | None:
    with open_database(database) as dldb:
        try:
            with limited(dldb.connection, database, GLANCE_S):
                found = find_aggregation(dldb.connection, request)
        except sqlite3.DatabaseError as error:
            raise damaged(database, error) from error
    return None if found is None else AggregationResult(*found, database, reused=True)


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
