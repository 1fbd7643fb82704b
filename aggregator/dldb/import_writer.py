"""Writes the database of an import: the events, and meanwhile the aggregations are computed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.advice.facts import Facts
from aggregator.dldb.event_reader import KeptTables, stored_events
from aggregator.dldb.ownership import write_ownership
from aggregator.dldb.rows.aggregation import Aggregated, add_aggregation
from aggregator.dldb.rows.collectives import read_collectives, write_collectives
from aggregator.dldb.rows.metadata import metadata_tables
from aggregator.dldb.rows.profile import profile_tables
from aggregator.dldb.writer import (
    Table,
    aggregation_transaction,
    bulk_writer,
    create_tables,
    finish,
    write_errors,
)
from aggregator.errors import DlprofError, KeyNodeNotFoundError, UsageError
from aggregator.events.store import EventStore
from aggregator.importing.imported import ImportedProfile
from aggregator.importing.recorded import RecordedImport
from aggregator.metrics.model import RollupInput, without_busy
from aggregator.metrics.owners import Ownership, Span, read_all_ownership, window_span
from aggregator.metrics.rollup import Rollup, roll_up, roll_up_part
from aggregator.metrics.steady import find_steady_range
from aggregator.metrics.window import open_window, report_iterations
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.profile.profile import ProfileWarning
from aggregator.system.progress import NullProgress, Progress
from aggregator.system.resources import prefetch, release_memory, run_both

if TYPE_CHECKING:
    from aggregator.metrics.memory.analysis import Recording


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
class WrittenEvents:
    """The events of an import, already in its database."""

    inputs: tuple[RollupInput, ...]  # Columns that aggregations are computed from, per domain.
    mode: str  # Mode in which ranges were read.
    mode_reason: str  # Why.
    counts: dict[str, int]  # Rows per kind of event.
    warnings: tuple[ProfileWarning, ...]  # Notes on data that was not used, repaired or guessed.
    recordings: tuple[Recording, ...] = ()  # Recordings of GPU memory.


def write_import(
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
    progress.message(f"Creating dlprof database at {shown_path(options.database)}")
    kept = KeptTables()
    with write_errors(options.database), ThreadPoolExecutor(max_workers=1) as pool:
        rolled = pool.submit(copy_context().run, _roll_up_all, data, requests)
        owned: list[Future[list[Ownership | None]]] = []

        def own() -> list[Ownership | None]:
            store = EventStore(kept, keeps_columns=False)
            found = read_all_ownership(store, aggregated_spans(rolled.result()[0]))
            release_memory()
            return found

        def tables() -> Iterator[Table]:
            """The tables; once all are made, and while they are written, their owners are found."""
            yield from kept.keep(event_tables(data, options))
            # From here on the tables have them: 100 MB of two million ranges.
            data.release_events()
            release_memory()
            owned.append(pool.submit(copy_context().run, own))

        events = write_events(path, data, tables(), progress)
        done, left_out = rolled.result()
        data.rollups = without_busy(data.rollups)
        events = replace(events, inputs=data.rollups)
        for error in left_out:
            progress.message(f"An aggregation of the source was left out: {error.message}")
        progress.message("Writing aggregated data to dlprof database")
        return write_aggregations(path, events, done, owned[0].result, options, progress)


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

    def write(connection: sqlite3.Connection) -> None:
        store = stored_events(connection)
        write_collectives(connection, read_collectives(store))
        if events.recordings:
            from aggregator.dldb.gpu_memory import write_owners  # noqa: PLC0415 - rare

            write_owners(connection, store, events.recordings)
        facts: Facts | None = None
        for aggr, aggregated in enumerate(done, start=1):
            known = facts if aggregated.is_steady else None
            facts = add_aggregation(connection, store, aggr, events.inputs, aggregated, known)

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
        iteration_stops_ns=tuple(window.iterations.end_ns.tolist()),
        counts=events.counts,
        warnings=events.warnings,
    )


def aggregated_spans(done: Sequence[Aggregated]) -> list[Span]:
    """Return the iterations of each aggregation."""
    return [window_span(aggregated.rollups[0].window) for aggregated in done]


def with_steady(
    inputs: tuple[RollupInput, ...], request: AggregationRequest, rollups: list[Rollup]
) -> list[Aggregated]:
    """Return the aggregation of a request, followed by that of the steady range if there is one.

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


def write_events(
    path: Path, data: ImportedProfile, tables: Iterable[Table], progress: Progress
) -> WrittenEvents:
    """Write the tables that do not depend on an aggregation into a new file."""
    create_tables(path)
    progress.message("Writing profile data to dlprof database")
    counts = data.profile.counts()
    total = sum(counts[kind] for kind in _WRITTEN_KINDS) + len(data.work.instances)
    progress.phase("write", total)
    written = WrittenEvents(
        inputs=data.rollups,
        mode=data.mode,
        mode_reason=data.mode_reason,
        counts=counts | {"ops": len(data.ops.ops)},
        warnings=tuple(data.profile.warnings),
        recordings=data.recordings,
    )
    with bulk_writer(path) as writer:
        for table in prefetch(tables):
            writer.write(table)
            progress.advance(len(table))
    return written


def event_tables(data: ImportedProfile, options: ImportOptions) -> Iterator[Table]:
    """Yield the tables that do not depend on an aggregation."""
    yield from metadata_tables(data, options)
    yield from profile_tables(data)
    if data.recordings:
        from aggregator.dldb.gpu_memory import memory_tables  # noqa: PLC0415 - rare

        yield from memory_tables(data.recordings)


def shown_path(path: Path) -> str:
    """Return a path as DLProf shows it: one in the working directory begins with ``./``."""
    return str(path) if path.is_absolute() or path.parent != Path() else f"./{path}"
