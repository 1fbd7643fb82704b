"""The engine's entry points: import a profile into a database, aggregate a database again.

An import reads and correlates its source, writes the events, and then aggregates them. A rank file
is imported as events only; ``ranks`` joins those into one database and aggregates it with the same
functions.

Functions import what works with the columns of a profile: an import loads that while its source is
read.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.costs.peaks import parse_peaks
from aggregator.dldb.conversion import find_conversion
from aggregator.dldb.guarded import GLANCE_S, limited
from aggregator.dldb.reader import Dldb, damaged, open_database
from aggregator.dldb.writer import (
    COMMIT_WAIT_S,
    aggregation_lock,
    aggregation_transaction,
    copy_database,
    new_database,
    write_errors,
)
from aggregator.errors import DatabaseWriteError, DlprofError, UsageError
from aggregator.importing.gpu_memory import find_recordings
from aggregator.options import AggregationRequest, ImportOptions, Mode
from aggregator.profile.profile import require_domains
from aggregator.profile.recorded import RecordedProfile
from aggregator.sources import open_profile
from aggregator.system.progress import Level, NullProgress, Progress
from aggregator.system.resources import gc_frozen, gc_paused
from aggregator.system.temporary_files import temporary_folder
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.dldb.import_writer import ImportResult
    from aggregator.importing.imported import ImportedProfile
    from aggregator.metrics.loops import Candidate

_AFTER_READING: Final = ("aggregator.importing.correlation", "aggregator.dldb.import_writer")


@dataclass(frozen=True)
class AggregationResult:
    """One aggregation of a database."""

    aggr_id: int  # Its id.
    iter_start: int  # First aggregated iteration.
    iter_stop: int  # Last aggregated iteration.
    key_node: str  # Key node; empty: none.
    database: Path  # The database that holds it: for a database of NVIDIA's DLProf, its conversion.
    reused: bool = False  # Whether the same request had been aggregated before.


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
        from aggregator.dldb.import_writer import write_import

        return write_import(partial, data, (options.request,), options, progress)


def import_events(options: ImportOptions, progress: Progress) -> None:
    """Read and correlate a rank file and write its events, without an aggregation.

    Raises:
        DlprofError: Reading or writing failed; no database is left behind.
    """
    with new_database(options.database, overwrite=options.overwrite) as partial:
        data, options = _read(options, progress)
        from aggregator.dldb.import_writer import event_tables, write_events

        with write_errors(options.database):
            write_events(partial, data, event_tables(data, options), progress)


def find_key_nodes(
    source: Path, mode: Mode, progress: Progress, nsys_path: str = ""
) -> tuple[tuple[Candidate, ...], str]:
    """Return the candidates for the key node of a profile, best first, and why one was chosen.

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
    from aggregator.dldb.import_writer import write_import
    from aggregator.importing.recorded import RecordedImport

    with new_database(target, overwrite=overwrite) as partial:
        data, options = _read(ImportOptions(source=database, database=target), progress)
        requests = data.requests if isinstance(data, RecordedImport) else ()
        write_import(partial, data, requests or (options.request,), options, progress)


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
    from aggregator.dldb.stored import require_aggregable

    parse_peaks(request.gpu_peaks)
    with open_database(database) as dldb:
        is_own = dldb.is_ours
    if not is_own:
        database = convert(database, progress)
    existing = _find_aggregation(database, request)
    if existing is not None:
        return existing
    require_aggregable(database)
    with aggregation_lock(database, progress):
        return _aggregate(database, request, progress)


def _aggregate(
    database: Path, request: AggregationRequest, progress: Progress
) -> AggregationResult:
    from aggregator.dldb.aggregations import next_number
    from aggregator.dldb.event_reader import StoredTables
    from aggregator.dldb.rows.aggregation import Aggregated, add_aggregation, find_aggregation
    from aggregator.dldb.stored import damage_errors, load_rollup_inputs, reading_errors
    from aggregator.metrics.model import without_busy
    from aggregator.metrics.rollup import roll_up
    from aggregator.metrics.window import report_iterations

    existing = _find_aggregation(database, request)
    if existing is not None:  # another process made it during the wait
        return existing
    inputs, store = load_rollup_inputs(database, progress)
    # A row that refers to a missing row is found only when the columns are combined.
    with reading_errors(database):
        rollups = roll_up(inputs, request, progress)
        report_iterations(rollups[0].window, progress)
    inputs = without_busy(inputs)
    progress.phase("write", 1)
    transaction = aggregation_transaction(database, commit_wait_s=COMMIT_WAIT_S, progress=progress)
    with transaction as connection, damage_errors(database):
        if found := find_aggregation(connection, request):
            return AggregationResult(*found, database, reused=True)
        aggr = next_number(connection)
        store = store.on(StoredTables(connection))
        add_aggregation(connection, store, aggr, inputs, Aggregated(request, rollups))
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
    from aggregator.dldb.import_writer import shown_path
    from aggregator.dldb.stored import reading_errors

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
    progress.message(f"Copying {shown_path(source)} to {shown_path(options.database)}")
    with new_database(options.database, overwrite=options.overwrite) as partial:
        with write_errors(options.database):
            copy_database(source, partial, options.profile_name)
        return aggregate(partial, options.request, progress)


def _read(options: ImportOptions, progress: Progress) -> tuple[ImportedProfile, ImportOptions]:
    """Read and correlate the source; metadata from the source overrides unset options."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(_load_modules)
        profile = open_profile(options.source, progress, options.nsys_path)
    from aggregator.importing.correlation import correlate
    from aggregator.importing.recorded import correlate_recorded

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


def _load_modules() -> None:
    with gc_paused():
        for name in _AFTER_READING:
            import_module(name)


def _find_aggregation(database: Path, request: AggregationRequest) -> AggregationResult | None:
    from aggregator.dldb.rows.aggregation import find_aggregation

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
    target = stack.enter_context(temporary_folder("dlprof-import")) / "dlprof_dldb.sqlite"
    import_profile(ImportOptions(source=source, database=target), NullProgress())
    return open_database(target)
