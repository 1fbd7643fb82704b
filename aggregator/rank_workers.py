"""Imports rank files, several at a time, each in its own process and into a part of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from aggregator.dldb.reader import open_database
from aggregator.errors import DlprofError, JSONValue, NotADldbError, ProfileError
from aggregator.options import ImportOptions
from aggregator.pipeline import import_part
from aggregator.progress import NullProgress, Progress
from aggregator.rank_counts import worker_count
from aggregator.texts import say


def import_rank_file(options: ImportOptions, progress: Progress) -> Path:
    """Make the part of one rank file; a database of ours is a part already.

    Returns:
        The part: ``options.database``, or the source itself.
    """
    if _is_own_database(options.source):
        return options.source
    import_part(options, progress)
    return options.database


def _is_own_database(source: Path) -> bool:
    if not source.is_file() or not os.access(source, os.R_OK):
        return False
    try:
        with open_database(source) as database:
            return database.is_ours
    except NotADldbError:
        return False


def import_files(
    options: ImportOptions,
    sources: Sequence[Path],
    folder: Path,
    progress: Progress,
    workers: int | None,
) -> list[Path]:
    """Part of every source, in their order."""
    tasks = [
        replace(options, source=source, database=folder / f"rank{number}.sqlite", overwrite=False)
        for number, source in enumerate(sources)
    ]
    count = min(workers or worker_count(sources, {}), len(tasks))
    progress.phase("import", len(tasks))
    noun = "worker" if count == 1 else "workers"
    progress.message(f"Importing {len(tasks)} rank files with {count} {noun}")
    if count == 1:
        return [_import_one(task, progress) for task in tasks]
    return _in_processes(tasks, count, progress)


def _import_one(task: ImportOptions, progress: Progress) -> Path:
    part = import_rank_file(task, NullProgress())
    progress.message(f"Imported {task.source}")
    progress.advance(1)
    return part


@dataclass(frozen=True)
class _Failure:
    """An error of another process: exceptions with keyword arguments do not travel as they are."""

    kind: type[DlprofError]
    message: str
    hint: str
    details: dict[str, JSONValue]

    def error(self) -> DlprofError:
        """The error as it was raised."""
        return self.kind(self.message, hint=self.hint, **self.details)


def _work(task: ImportOptions) -> Path | _Failure:
    try:
        return import_rank_file(task, NullProgress())
    except DlprofError as error:
        return _Failure(type(error), error.message, error.hint, error.details)


def _begin_worker() -> None:
    """Workers leave Ctrl-C to the process that started them, and end when it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _in_processes(tasks: list[ImportOptions], count: int, progress: Progress) -> list[Path]:
    """Import in processes of their own: fresh ones, as a fork would copy the engine's threads."""
    parts: dict[int, Path] = {}
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker)
    try:
        futures: dict[Future[Path | _Failure], int] = {
            pool.submit(_work, task): number for number, task in enumerate(tasks)
        }
        for future in as_completed(futures):
            number = futures[future]
            parts[number] = _part_of(future, tasks[number])
            progress.message(f"Imported {tasks[number].source}")
            progress.advance(1)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    pool.shutdown()
    return [parts[number] for number in range(len(tasks))]


def _part_of(future: Future[Path | _Failure], task: ImportOptions) -> Path:
    try:
        result = future.result()
    except BrokenProcessPool as error:
        raise ProfileError(
            say(
                "A process that imported rank files ended; '{path}' was not imported.",
                path=str(task.source),
            ),
            hint=say("The machine may be short of memory: try with --workers=1."),
        ) from error
    if isinstance(result, _Failure):
        raise result.error()
    return result
