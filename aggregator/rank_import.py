"""Several rank files of one training job as one database.

Each file is imported into a database of its own, several at a time, and these are joined. So no
more captures are in memory than there are workers, and parts may as well be made on other machines.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from aggregator.advising.tables import write_advice
from aggregator.dldb.aggregation_rows import aggregation_tables
from aggregator.dldb.stored import load_rollup_inputs
from aggregator.dldb.writer import (
    bulk_writer,
    create_tables,
    finish,
    new_database,
    unwritable,
    write_errors,
)
from aggregator.efficiency.tables import read_costed_instances, write_efficiency
from aggregator.errors import (
    AmbiguousKeyNodeError,
    DatabaseWriteError,
    KeyNodeNotFoundError,
    ProfileNotFoundError,
    UsageError,
)
from aggregator.leftovers import remove_leftovers
from aggregator.metrics.rollup import Rollup, roll_up
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import require_domains
from aggregator.profile import ProfileWarning
from aggregator.progress import Progress
from aggregator.rank_helpers import local_helpers
from aggregator.rank_parts import RankParts, import_all, new_rank_folder, rank_folder
from aggregator.rank_workers import import_files
from aggregator.ranks.checks import key_node_counts
from aggregator.ranks.join import Joined, join_parts
from aggregator.ranks.parts import open_parts
from aggregator.ranks.tables import write_rank_tables
from aggregator.results import ImportResult, tell_iterations
from aggregator.texts import say


def import_ranks(
    options: ImportOptions,
    sources: Sequence[Path],
    progress: Progress,
    workers: int | None = None,
) -> ImportResult:
    """Read rank files of one job, join them, aggregate once and write the database.

    Args:
        options: As for one file; ``source`` is not read.
        sources: The rank files: exports, reports, or databases of ours.
        progress: Listener.
        workers: Files that are imported at the same time; None: as cores, memory and sizes allow.

    Raises:
        DlprofError: Any of the errors of reading, joining, of the request, or of writing; nothing
            is left half-written then.
    """
    require_files(sources)
    with (
        _as_errors_of(options.database),
        new_database(options.database, overwrite=options.overwrite) as partial,
        part_folder(options.database) as folder,
    ):
        parts = import_files(options, sources, folder, progress, workers)
        return join_databases(parts, [str(path) for path in sources], partial, options, progress)


def import_ranks_shared(
    options: ImportOptions,
    sources: Sequence[Path],
    progress: Progress,
    announce: Callable[[Path], None],
    workers: int = 1,
) -> ImportResult:
    """The same with workers elsewhere: whoever hears of the folder of parts imports some of them.

    Args:
        options: As for one file; ``source`` is not read.
        sources: The rank files, where all workers find them.
        progress: Listener.
        announce: Tells other workers of the folder.
        workers: Files that this machine imports at the same time.

    Raises:
        DlprofError: As ``import_ranks``.
    """
    require_files(sources)
    folder = rank_folder(options.database)
    try:
        with (
            _as_errors_of(options.database),
            new_database(options.database, overwrite=options.overwrite) as partial,
        ):
            shared = RankParts.create(folder, sources, options)
            with local_helpers(folder, workers - 1):
                parts = import_all(shared, progress, lambda: announce(folder))
            labels = [str(path) for path in sources]
            return join_databases(parts, labels, partial, options, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _as_errors_of(database: Path) -> Iterator[None]:
    """Have an error of writing name the database that was asked for, not a part of it."""
    try:
        with write_errors(database):
            yield
    except DatabaseWriteError as error:
        reason = error.details.get("reason")
        raise (unwritable(database, str(reason)) if reason else error) from error


def require_files(sources: Sequence[Path]) -> None:
    """Refuse what need not be read to be wrong, before hours are spent on the others.

    Raises:
        ProfileNotFoundError: A file is not there.
        UsageError: A file was given twice.
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
def part_folder(database: Path) -> Iterator[Path]:
    """A folder beside the database for the parts; it goes when the block ends."""
    with write_errors(database):
        database.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(database.parent)
        folder = new_rank_folder(database)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def join_databases(
    parts: Sequence[Path],
    labels: Sequence[str],
    target: Path,
    options: ImportOptions,
    progress: Progress,
) -> ImportResult:
    """Join the parts of all ranks into a new file and aggregate it.

    Args:
        parts: Their databases.
        labels: Names of the files that they were made from, for people.
        target: The file to write; it must not exist.
        options: What the database is to be called, and the first aggregation.
        progress: Listener.
    """
    with write_errors(options.database):
        create_tables(target)
        with open_parts(list(parts), list(labels)) as opened:
            joined = join_parts(opened, target, options, progress)
        domains = _domains(target)
        require_domains(domains, options.domains)
        rollup, warnings = _aggregate(target, options.request, progress)
        progress.phase("index")
        write_rank_tables(target, [1])
        _write_efficiency(target, options.request)
        finish(target, has_custom_domains=len(domains) > 1)
        write_advice(target, [1])
    return _result(options, joined, rollup, warnings)


def _write_efficiency(target: Path, request: AggregationRequest) -> None:
    costed = read_costed_instances(target)
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        write_efficiency(connection, 1, costed, request.gpu_peaks)
        connection.commit()


def _domains(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [str(row[0]) for row in connection.execute("SELECT name FROM domains ORDER BY id")]


def _aggregate(
    target: Path, request: AggregationRequest, progress: Progress
) -> tuple[Rollup, list[ProfileWarning]]:
    inputs = load_rollup_inputs(target, progress)
    try:
        rollups = roll_up(inputs, request, progress)
    except (KeyNodeNotFoundError, AmbiguousKeyNodeError):
        if request.key_node:
            raise
        reason = say("the key nodes of the ranks cannot be found in all of them")
        inputs = tuple(replace(data, default_key=("", reason)) for data in inputs)
        _forget_key_node(target, reason)
        rollups = roll_up(inputs, request, progress)
    tell_iterations(rollups[0].window, progress)
    warnings = key_node_counts(_key_node_counts(target, rollups[0]))
    with bulk_writer(target) as writer:
        for table in aggregation_tables(inputs, rollups, request, 1):
            writer.write(table)
    with closing(sqlite3.connect(target)) as connection:
        rows = [(warning.code, warning.message, warning.count) for warning in warnings]
        connection.executemany("INSERT INTO warnings VALUES (?, ?, ?)", rows)
        connection.commit()
    return rollups[0], warnings


def _forget_key_node(target: Path, reason: str) -> None:
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("UPDATE dldb_meta SET value = '' WHERE key = 'key_node'")
        query = "UPDATE dldb_meta SET value = ? WHERE key = 'key_node_reason'"
        connection.execute(query, (reason,))
        connection.commit()


def _key_node_counts(target: Path, rollup: Rollup) -> dict[int, int]:
    """Instances of the key node by rank."""
    key_node = rollup.window.key_node
    if not key_node.name:
        return {}
    with closing(sqlite3.connect(target)) as connection:
        ranks = connection.execute("SELECT process - 1, rank FROM ranks").fetchall()
    stops = dict(zip(key_node.processes, map(len, key_node.stops_ns), strict=True))
    return {int(rank): stops.get(process, 0) for process, rank in ranks}


def _result(
    options: ImportOptions, joined: Joined, rollup: Rollup, warnings: list[ProfileWarning]
) -> ImportResult:
    window, totals = rollup.window, rollup.totals
    return ImportResult(
        database=options.database,
        aggr_id=1,
        mode=joined.mode,
        mode_reason=joined.mode_reason,
        key_node=window.key_node.name,
        key_node_reason=window.key_node.reason,
        iteration_stops_ns=tuple(window.iterations.stop_ns.tolist()),
        iter_start=window.first,
        iter_stop=window.last,
        iter_start_ns=window.start_ns,
        iter_stop_ns=window.stop_ns,
        counts=joined.counts,
        warnings=(*joined.warnings, *warnings),
        wall_time_ns=int(totals["wall_time"]),
        gpu_time_ns=int(totals["kernels_all_gpu_time"]),
        tc_gpu_time_ns=int(totals["kernels_tc_gpu_time"]),
    )
