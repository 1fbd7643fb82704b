"""Imports rank files, several at a time, each in its own process and into its own database."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from aggregator.dldb.reader import is_own_database
from aggregator.errors import DlprofError, ProfileError
from aggregator.options import ImportOptions
from aggregator.pipeline import import_events
from aggregator.system.process_end import skip_last_collections
from aggregator.system.progress import NullProgress, Progress
from aggregator.texts import say

MAX_ATTEMPTS = 2
"""How often the import of a file is started before the end of its process fails the job."""
WORKERS_VARIABLE = "DLPROF_RANK_WORKERS"
"""Environment variable: rank files that one machine imports at the same time."""
_BYTES_PER_PROCESS = 48 * 2**20
"""Starting a process takes about a second: reading less than this is faster without it."""
_BASE_BYTES = 200 * 2**20
_BYTES_PER_FILE_BYTE = 2
"""Memory of an import: a base plus this multiple of the file's size (measured, rounded up)."""
_MEMORY_SHARE = 0.8
"""Share of the free memory that all processes may use together."""
_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)
"""Memory limit and usage of this container, in the two versions of control groups."""
_POLL_S = 0.1
_END_LIMIT_S = 5.0
_states: Any = None
"""In a process of the pool: the letter of each file's state, shared with the parent."""


def rank_database(folder: Path, number: int) -> Path:
    """Return the path of the database of the rank file with an index."""
    return folder / f"rank{number}.sqlite"


def import_rank_file(options: ImportOptions, progress: Progress) -> Path:
    """Import one rank file; a database of this program needs no import.

    Returns:
        The rank database: ``options.database``, or the source itself.
    """
    if is_own_database(options.source):
        return options.source
    import_events(options, progress)
    return options.database


def import_files(
    options: ImportOptions,
    sources: Sequence[Path],
    folder: Path,
    progress: Progress,
    workers: int | None,
    on_states: Callable[[str], None] | None = None,
) -> list[Path]:
    """Import rank files into a folder and return their databases, in the order of the files.

    ``workers`` and ``on_states`` are as in ``import_ranks``.
    """
    tasks = [
        replace(options, source=source, database=rank_database(folder, number), overwrite=False)
        for number, source in enumerate(sources)
    ]
    count = min(workers or worker_count(sources), len(tasks))
    progress.phase("import", len(tasks))
    noun = "worker" if count == 1 else "workers"
    progress.message(f"Importing {len(tasks)} rank files with {count} {noun}")
    return _Imports(tasks, progress, on_states or _ignore).run(count)


def _ignore(states: str) -> None:
    """Ignore a change of states."""


class _Imports:
    def __init__(
        self, tasks: list[ImportOptions], progress: Progress, on_states: Callable[[str], None]
    ) -> None:
        self._tasks = tasks
        self._progress = progress
        self._on_states = on_states
        self._context = multiprocessing.get_context("spawn")
        self._states: Any = self._context.Array("c", b"w" * len(tasks))
        self._made: dict[int, Path] = {}

    def run(self, count: int) -> list[Path]:
        """Import all files with ``count`` processes; one file at a time needs no other process."""
        if count == 1:
            for number, task in enumerate(self._tasks):
                self._set(number, b"i")
                try:
                    self._add(number, import_rank_file(task, _Quiet(self._progress)))
                except DlprofError:
                    self._set(number, b"f")
                    raise
        else:
            self._run_in_processes(count)
        return [self._made[number] for number in range(len(self._tasks))]

    def _run_in_processes(self, count: int) -> None:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                with self._pool(count) as pool:
                    self._collect(pool)
                return
            except BrokenProcessPool as error:
                missing = [n for n in range(len(self._tasks)) if n not in self._made]
                if attempt == MAX_ATTEMPTS:
                    raise _process_ended(self._tasks[missing[0]].source) from error
                for number in missing:
                    self._states[number] = b"w"
                    # Written, but the process ended before it could report it.
                    self._tasks[number].database.unlink(missing_ok=True)

    @contextmanager
    def _pool(self, count: int) -> Iterator[ProcessPoolExecutor]:
        """Start processes: fresh ones, as a fork would copy the engine's threads."""
        before = set(multiprocessing.active_children())
        pool = ProcessPoolExecutor(
            count, mp_context=self._context, initializer=_begin_worker, initargs=(self._states,)
        )
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(set(multiprocessing.active_children()) - before)
            raise
        pool.shutdown()

    def _collect(self, pool: ProcessPoolExecutor) -> None:
        waiting: dict[Future[Path], int] = {
            pool.submit(_import_in_process, number, task): number
            for number, task in enumerate(self._tasks)
            if number not in self._made
        }
        while waiting:
            done, _ = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            self._on_states(self._letters())
            self._progress.advance(0)  # raises if the job is cancelled
            for future in done:
                number = waiting.pop(future)
                try:
                    self._add(number, future.result())
                except DlprofError:
                    self._set(number, b"f")
                    raise

    def _add(self, number: int, made: Path) -> None:
        self._made[number] = made
        self._set(number, b"d")
        self._progress.message(f"Imported {self._tasks[number].source}")
        self._progress.advance(1)

    def _set(self, number: int, letter: bytes) -> None:
        self._states[number] = letter
        self._on_states(self._letters())

    def _letters(self) -> str:
        letters: bytes = self._states.raw
        return letters.decode()


class _Quiet(NullProgress):
    """The progress of one rank file: it reports nothing, but stops with its job."""

    def __init__(self, job: Progress) -> None:
        self._job = job

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """Raise if the job is cancelled."""
        self._job.advance(0)

    def advance(self, rows: int) -> None:
        """Raise if the job is cancelled."""
        self._job.advance(0)


def _begin_worker(states: Any) -> None:
    """Leave Ctrl-C to the process that started this one, and end when that ends."""
    global _states  # noqa: PLW0603 - one per process
    _states = states
    skip_last_collections()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _import_in_process(number: int, task: ImportOptions) -> Path:
    _states[number] = b"i"
    return import_rank_file(task, NullProgress())


def _end(processes: set[Any]) -> None:
    """End processes and wait for them, so that they write no more."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_END_LIMIT_S)
        if process.is_alive():
            process.kill()
            process.join()


def _process_ended(source: Path) -> ProfileError:
    return ProfileError(
        say(
            "A process that imported rank files ended; '{path}' was not imported.", path=str(source)
        ),
        hint=say("The machine may be short of memory: try with --workers=1."),
    )


def worker_count(
    sources: Sequence[Path],
    variables: Mapping[str, str] = os.environ,
    free_bytes: int | None = None,
) -> int:
    """Return how many rank files this machine imports at the same time, at least 1.

    ``DLPROF_RANK_WORKERS`` sets the number; otherwise it is as large as cores, free memory (None:
    as read from the system) and the size of the files allow. A file that does not exist counts as
    empty: reading it fails later.
    """
    if wanted := variables.get(WORKERS_VARIABLE, ""):
        return max(1, min(int(wanted), len(sources))) if wanted.isdigit() else 1
    sizes = [path.stat().st_size if path.is_file() else 0 for path in sources]
    each = _BASE_BYTES + _BYTES_PER_FILE_BYTE * max(sizes)
    free = free_memory_bytes() if free_bytes is None else free_bytes
    room = len(sources) if free is None else int(_MEMORY_SHARE * free) // each
    worth = 1 + sum(sizes) // _BYTES_PER_PROCESS
    return max(1, min(len(os.sched_getaffinity(0)), len(sources), room, worth))


def free_memory_bytes() -> int | None:
    """Return the memory free on this machine and in this container. Unit: bytes; None: unknown."""
    found = []
    with suppress(OSError, ValueError, IndexError):
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    for limit, used in _CGROUPS:
        with suppress(OSError, ValueError):
            found.append(int(limit.read_text()) - int(used.read_text()))
    return max(0, min(found)) if found else None
