"""Rank files imported by several workers at once, wherever they are: a folder that they share.

The job that wants the files makes a folder and says how many there are; any worker that hears of it
claims one after another. Everything is in files, so that nothing has to be remembered anywhere:

* ``tasks.json``: what is to be imported;
* ``3.claim``: somebody imports file 3; its time of change is renewed as long as they live;
* ``3.lost-...``: a claim whose owner fell silent;
* ``3.sqlite``: the finished part, which appears whole; ``3.error``: why there is none.

The job does parts itself while any are free, so it needs no other worker, and a worker that dies
costs the part it was at.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aggregator.dldb.writer import write_errors
from aggregator.errors import AggregationCancelledError, DlprofError, ProfileError
from aggregator.jobs import WORDS, stored_error
from aggregator.leftovers import owner, remove_leftovers
from aggregator.options import ImportOptions, Mode
from aggregator.progress import Level, Progress
from aggregator.rank_workers import import_rank_file
from aggregator.texts import from_json, say

BEAT_S = 1.0
SILENT_S = 20.0
"""A claim that was not renewed for so long belongs to nobody."""
MAX_ATTEMPTS = 2
_WAIT_S = 0.1
_TASKS = "tasks.json"
_STATES = (("f", ("error",)), ("d", ("sqlite", "path")), ("i", ("claim",)))
"""Letter of a part's state, by the files that tell; ``w``: none is there."""

logger = logging.getLogger(__name__)


def rank_folder(database: Path) -> Path:
    """A new folder for the parts of a database; what a dead job left for it goes."""
    remove_leftovers(database.parent, database.name)
    with write_errors(database):
        database.parent.mkdir(parents=True, exist_ok=True)
        return new_rank_folder(database)


def new_rank_folder(database: Path) -> Path:
    """A folder beside the database that only this process and those it tells know."""
    folder = database.with_name(f".{database.name}.ranks.{owner()}.{uuid.uuid4().hex}")
    folder.mkdir(mode=0o700)
    return folder


@dataclass(frozen=True)
class PartTask:
    """One file to import.

    Attributes:
        number: Its place among the files.
        options: What to read, and the part to write.
        claim: The file that says that somebody does.
    """

    number: int
    options: ImportOptions
    claim: Path


class RankParts:
    """The parts of one job, as any worker sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tasks: list[dict[str, Any]] = json.loads((folder / _TASKS).read_text())
        self._last_states = ""

    @staticmethod
    def create(folder: Path, sources: Sequence[Path], options: ImportOptions) -> RankParts:
        """Say what is to be imported."""
        tasks = [
            {"source": str(source), "mode": str(options.mode), "nsys_path": options.nsys_path}
            for source in sources
        ]
        draft = folder / f"{_TASKS}.part"
        draft.write_text(json.dumps(tasks))
        draft.rename(folder / _TASKS)
        return RankParts(folder)

    def __len__(self) -> int:
        return len(self._tasks)

    def claim_next(self) -> PartTask | None:
        """A part that nobody does and nobody did; None: there is none now.

        Raises:
            ProfileError: Workers died at one part again and again.
        """
        now = self._now()
        for number in range(len(self)):
            if self._is_done(number):
                continue
            claim = self._folder / f"{number}.claim"
            self._free_if_silent(number, claim, now)
            try:
                os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                continue
            if self._is_done(number):  # between the look and the claim
                claim.unlink(missing_ok=True)
                continue
            return PartTask(number, self._options(number), claim)
        return None

    def done(self) -> int:
        """How many parts are there, or failed."""
        return sum(self._is_done(number) for number in range(len(self)))

    def states(self) -> str:
        """A letter for each part: waiting, being imported, done, or failed."""
        try:
            names = {entry.name for entry in os.scandir(self._folder)}
        except FileNotFoundError:  # the job has ended
            return self._last_states
        self._last_states = "".join(_state(number, names) for number in range(len(self)))
        return self._last_states

    def results(self) -> list[Path]:
        """The parts, in the order of the files.

        Raises:
            DlprofError: That of the first file that could not be imported.
        """
        self.require_no_error()
        return [self._part(number) for number in range(len(self))]

    def require_no_error(self) -> None:
        """Go on only if no part has failed so far.

        Raises:
            DlprofError: That of the first file that could not be imported.
        """
        for number in range(len(self)):
            with suppress(FileNotFoundError):
                raise _error_of(json.loads((self._folder / f"{number}.error").read_text()))

    def fail(self, task: PartTask, error: DlprofError) -> None:
        """Say why a part cannot be made."""
        draft = self._folder / f"{task.number}.error.part"
        draft.write_text(json.dumps(stored_error(error.to_dict())))
        draft.rename(self._folder / f"{task.number}.error")

    def use(self, task: PartTask, part: Path) -> None:
        """Say that a part is a file elsewhere: a rank that was given as a database."""
        draft = self._folder / f"{task.number}.path.part"
        draft.write_text(str(part))
        draft.rename(self._folder / f"{task.number}.path")

    def _part(self, number: int) -> Path:
        with suppress(FileNotFoundError):
            return Path((self._folder / f"{number}.path").read_text())
        return self._folder / f"{number}.sqlite"

    def _is_done(self, number: int) -> bool:
        return any(
            (self._folder / f"{number}.{suffix}").exists() for suffix in ("sqlite", "path", "error")
        )

    def _options(self, number: int) -> ImportOptions:
        task = self._tasks[number]
        return ImportOptions(
            source=Path(task["source"]),
            database=self._folder / f"{number}.sqlite",
            mode=Mode(task["mode"]),
            nsys_path=task["nsys_path"],
        )

    def _now(self) -> float:
        """Time by the clock of the file system: machines that share it may disagree."""
        probe = self._folder / f".now-{uuid.uuid4().hex}"
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def _free_if_silent(self, number: int, claim: Path, now: float) -> None:
        with suppress(FileNotFoundError):
            if now - claim.stat().st_mtime < SILENT_S:
                return
            # Only one of those who see it can move it away.
            claim.rename(self._folder / f"{number}.lost-{uuid.uuid4().hex}")
        if len(list(self._folder.glob(f"{number}.lost-*"))) >= MAX_ATTEMPTS:
            raise ProfileError(
                say(
                    "Workers ended {attempts} times while they imported '{path}'.",
                    attempts=MAX_ATTEMPTS,
                    path=self._tasks[number]["source"],
                ),
                hint=say("They may have run out of memory."),
            )


def _state(number: int, names: set[str]) -> str:
    for letter, suffixes in _STATES:
        if any(f"{number}.{suffix}" in names for suffix in suffixes):
            return letter
    return "w"


def import_part_of(folder: Path, progress: Progress) -> bool:
    """Import one free part of a job; whether there was one.

    A folder that is gone belongs to a job that has ended: there is nothing to do.
    """
    try:
        parts = RankParts(folder)
        task = parts.claim_next()
    except FileNotFoundError:
        return False
    if task is None:
        return False
    _do(parts, task, _Watching(progress, folder))
    logger.info("rank file %d of %d imported for another worker", task.number + 1, len(parts))
    return True


def import_all(parts: RankParts, progress: Progress, announce: Callable[[], None]) -> list[Path]:
    """Import all parts together with whoever else does; returns them in the order of the files.

    Args:
        parts: Those of this job.
        progress: Listener.
        announce: Tells other workers of the parts.
    """
    announce()
    progress.phase("import", len(parts))
    told = 0
    while (done := parts.done()) < len(parts):
        progress.advance(done - told)
        told = done
        parts.require_no_error()
        task = parts.claim_next()
        if task is None:
            time.sleep(_WAIT_S)
            continue
        progress.message(f"Importing rank file {task.number + 1} of {len(parts)}")
        _do(parts, task, _Watching(progress, task.claim.parent))
    progress.advance(len(parts) - told)
    return parts.results()


def _do(parts: RankParts, task: PartTask, progress: Progress) -> None:
    """Make a part; an error is written down, a cancel gives the claim back."""
    with _beating(task.claim):
        try:
            # Under a name of this attempt: a worker that was taken for dead may still write.
            attempt = task.options.database.with_name(f"{task.number}.{uuid.uuid4().hex}.attempt")
            with write_errors(task.options.database):
                made = import_rank_file(replace(task.options, database=attempt), progress)
                if made == attempt:
                    attempt.rename(task.options.database)
                else:
                    parts.use(task, made)
        except AggregationCancelledError:
            task.claim.unlink(missing_ok=True)
            raise
        except DlprofError as error:
            parts.fail(task, error)
        except MemoryError:
            parts.fail(task, _out_of_memory(task))
        except Exception as error:
            parts.fail(task, _mistake(error))
            raise


def _out_of_memory(task: PartTask) -> DlprofError:
    path = task.options.source
    return ProfileError(say("There was too little memory to import '{path}'.", path=path))


def _mistake(error: Exception) -> DlprofError:
    return DlprofError(
        say("The job failed by a mistake of ours: {kind}.", kind=type(error).__name__),
        hint=say("The worker's log has the details; please report them."),
    )


@contextmanager
def _beating(claim: Path) -> Iterator[None]:
    """Renew a claim for as long as the block runs."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with suppress(OSError):
                os.utime(claim)

    thread = threading.Thread(target=beat, name="part-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _Watching:
    """Lets one part of many stop with its job, and says nothing of its own phases."""

    def __init__(self, job: Progress, folder: Path) -> None:
        self._job = job
        self._folder = folder

    def phase(self, name: str, total_rows: int | None = None) -> None:
        """Only a look whether to go on."""
        self.advance(0)

    def advance(self, rows: int) -> None:
        """Only a look whether to go on."""
        self._job.advance(0)
        if not self._folder.exists():
            raise AggregationCancelledError(say("The job was cancelled."))

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        """Nobody listens."""


def _error_of(stored: dict[str, Any]) -> DlprofError:
    """An error that another process wrote down, as its class."""
    words = stored.get(WORDS, {})
    message, hint = (
        from_json(words[name], stored[name]) if name in words else stored[name]
        for name in ("message", "hint")
    )
    kind = next((kind for kind in _kinds(DlprofError) if kind.code == stored["code"]), DlprofError)
    return kind(message, hint=hint, **stored["details"])


def _kinds(kind: type[DlprofError]) -> Iterator[type[DlprofError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)
