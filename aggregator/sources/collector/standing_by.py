"""Jobs of this machine that stand by, and windows that are asked of them.

A job is a private folder in the machine's temporary folder, made by the ``dlprof --standby`` that
runs it. Its processes look there for a request at the ends of their steps; see
``dlprof_nvtx/standby.py``.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.errors import CollectorError, UsageError
from aggregator.sources.collector.folder import export_records, forget_problems, problems
from aggregator.sources.collector.step_times import read_steps, write_steps
from aggregator.system.plain_text import escape_control_characters
from aggregator.system.progress import NullProgress, Progress
from aggregator.system.temporary_files import folder_prefix, is_alive
from aggregator.system.untrusted_json import read_object
from aggregator.texts import say

PREFIX: Final = "dlprof-standby"
JOB: Final = "job.json"
REQUEST: Final = "request.json"
RECORDS: Final = "records"
"""Folder in that of a job that has none beside its results."""
ANSWER_S: Final = 60.0
"""A job whose steps do not end for so long cannot begin a window."""
_POLL_S: Final = 0.05


@dataclass(frozen=True)
class Job:
    """A job that stands by."""

    folder: Path
    pid: int  # That of the ``dlprof`` that started it, or of the process that was attached to.
    command: tuple[str, ...]
    records: Path  # Where its processes write what they record.
    started_utc_s: int
    ranks: dict[int, str]  # Rank by process, empty if it has none; those that have ended a step.

    @property
    def name(self) -> str:
        """The command, for people."""
        return " ".join(self.command)


@dataclass(frozen=True)
class Window:
    """What the processes of a job recorded."""

    folder: Path  # Records and step times, which are the caller's now.
    pids: tuple[int, ...]
    losses: tuple[str, ...]  # Sentences about what is missing.


def make_job(command: Sequence[str], records: Path | None, pid: int | None = None) -> Path:
    """Make the folder of a job, which only its user can read.

    Args:
        command: What runs.
        records: Where its processes write what they record; None: in a folder in it.
        pid: The process with which the folder becomes useless; None: this one.
    """
    folder = Path(tempfile.mkdtemp(prefix=folder_prefix(PREFIX, pid)))
    records = folder / RECORDS if records is None else records
    _write(
        folder / JOB,
        {
            "pid": os.getpid() if pid is None else pid,
            "command": list(command),
            "records": str(records.absolute()),
            "started_utc_s": int(time.time()),
        },
    )
    return folder


def list_jobs() -> list[Job]:
    """Return the jobs of this user on this machine, the newest first."""
    folders = sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}-*"))
    found = [job for job in map(read_job, folders) if job is not None]
    return sorted(found, key=lambda job: -job.started_utc_s)


def read_job(folder: Path) -> Job | None:
    """Read a job, or return None if it is another user's, has ended or cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return _read_job(folder)
    return None


def _read_job(folder: Path) -> Job | None:
    found = folder.lstat()
    is_own = found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode)
    if not is_own or stat.S_IMODE(found.st_mode) & 0o077:
        return None
    content = read_object((folder / JOB).read_text(encoding="utf-8", errors="replace"))
    pid = int(content["pid"])
    ranks: dict[int, str] = {}
    for path in folder.glob("ready.*"):
        number = path.name.partition(".")[2]
        if number.isdecimal() and is_alive(int(number)):
            ranks[int(number)] = str(read_object(path.read_text()).get("rank") or "")
    if not is_alive(pid) and not ranks:
        return None
    return Job(
        folder,
        pid,
        tuple(str(word) for word in content["command"]),
        Path(str(content["records"])),
        int(content["started_utc_s"]),
        ranks,
    )


def find_job(text: str) -> tuple[Job, int | None]:
    """Return the job that a text names, and the process if it names one of a job.

    Args:
        text: Number of a process of the job or of its ``dlprof``, or a part of its command; empty
            if there is only one job.

    Raises:
        UsageError: No job is meant, or several.
    """
    jobs = list_jobs()
    if text.isdecimal():
        pid = int(text)
        for job in jobs:
            if pid == job.pid or pid in job.ranks:
                return job, (pid if pid in job.ranks else None)
        raise UsageError(
            say("Process {pid} does not stand by.", pid=pid),
            hint=say(
                "Start the job with dlprof --standby; dlprof record --list names those that do."
            ),
        )
    found = [job for job in jobs if text in job.name]
    if len(found) == 1:
        return found[0], None
    hint = say("Start it with dlprof --standby python train.py.")
    if not jobs:
        raise UsageError(say("No job stands by."), hint=hint)
    if not found:
        problem = say("No job whose command contains '{text}' stands by.", text=text)
        raise UsageError(problem, hint=hint)
    listed = "\n".join(f"{job.pid}: {job.name}" for job in found)
    raise UsageError(
        say("Several jobs stand by."), hint=say("Name one by its number:\n{listed}", listed=listed)
    )


def request_window(
    job: Job,
    target: Path,
    *,
    steps: int,
    pid: int | None = None,
    all_ranks: bool = False,
    answer_s: float = ANSWER_S,
    progress: Progress | None = None,
) -> Window:
    """Let the processes of a job record some steps, and wait for them.

    Args:
        job: The job.
        target: An empty folder for the records and step times.
        steps: Steps of the window.
        pid: The process; None for the first rank, or all.
        all_ranks: Whether all processes record.
        answer_s: How long to wait for a step to end. Unit: s.
        progress: May end the wait by an error; the request is withdrawn then.

    Raises:
        CollectorError: They did not answer, or recorded nothing.
        UsageError: The job is being recorded already, or it has no steps yet.
    """
    pids = _chosen(job, pid, all_ranks=all_ranks)
    progress = progress or NullProgress()
    content: dict[str, Any] = {"steps": steps, "pids": None if all_ranks else pids}
    progress.phase("record")
    with _request(job, content) as name:
        _wait_for_steps(job, name, pids, answer_s, progress)
        text = say("Recording {steps} steps of {name}", steps=steps, name=job.name)
        progress.message(escape_control_characters(text))
        reasons = _wait_for_end(job, name, pids, answer_s, progress)
        gone = [number for number in pids if not is_alive(number)]
        for number in pids:
            _take(job, number, target)
    if not any(target.glob("*.records")):
        raise _nothing_recorded(reasons[0] if reasons else say("the job has ended"))
    ended = [
        say("Process {pid} ended before the window was complete.", pid=number) for number in gone
    ]
    return Window(target, tuple(pids), (*ended, *reasons))


def export_window(window: Window, export: Path) -> list[str]:
    """Write the export of a window; returns sentences about what is missing in it.

    Raises:
        CollectorError: It has no work of the GPU, or cannot be written.
    """
    if not export_records(window.folder, export):
        export.unlink(missing_ok=True)
        problem = window.losses[0] if window.losses else say("The window has no work of the GPU.")
        hint = say("Did the job use the GPU in these steps, and is there room on the disk?")
        raise CollectorError(problem, hint=hint)
    losses = list(window.losses)
    if problem := write_steps(export, read_steps(window.folder), "", "asked"):
        text = say("The times of the steps could not be recorded: {problem}.", problem=problem)
        losses.append(text)
    return losses


def _chosen(job: Job, pid: int | None, *, all_ranks: bool) -> list[int]:
    if not job.ranks:
        raise UsageError(
            say("The job has not ended a step of a PyTorch loop yet."),
            hint=say("Try again when its training runs. Only PyTorch loops can be recorded so."),
        )
    by_rank = sorted(job.ranks, key=lambda number: (_rank(job.ranks[number]), number))
    if all_ranks:
        return by_rank
    return [pid if pid is not None else by_rank[0]]


def _rank(text: str) -> int:
    return int(text) if text.isdecimal() else 0


@contextmanager
def _request(job: Job, content: dict[str, Any]) -> Iterator[str]:
    """Make a request, and withdraw it at the end."""
    name = secrets.token_hex(6)
    path = job.folder / REQUEST
    if path.exists() and not _is_asked(job.folder):
        path.unlink(missing_ok=True)  # Of a dlprof record that was killed.
    part = job.folder / f"request.{name}.part"
    _write(part, {"id": name, "by": os.getpid(), **content})
    try:
        path.hardlink_to(part)
    except FileExistsError:
        raise UsageError(
            say("This job is being recorded already."),
            hint=say("Try again when that window has ended."),
        ) from None
    finally:
        part.unlink(missing_ok=True)
    try:
        yield name
    finally:
        path.unlink(missing_ok=True)
        for left in job.folder.glob(f"*.{name}.*"):
            left.unlink(missing_ok=True)


def _is_asked(folder: Path) -> bool:
    """Whether a request of a process that lives is there."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return is_alive(int(read_object((folder / REQUEST).read_text())["by"]))
    return False


def wait_until_taken(folder: Path, limit_s: float) -> None:
    """Wait, when a job has ended, until who asked for a window has taken what was recorded."""
    deadline = time.monotonic() + limit_s
    while _is_asked(folder) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _wait_for_steps(
    job: Job, name: str, pids: Sequence[int], answer_s: float, progress: Progress
) -> None:
    """Wait until each process has seen the request, which it does where a step ends."""
    deadline = time.monotonic() + answer_s
    while True:
        waiting = [
            number
            for number in pids
            if not (job.folder / f"seen.{name}.{number}").exists() and is_alive(number)
        ]
        if not waiting:
            break
        if time.monotonic() > deadline:
            listed = ", ".join(map(str, waiting))
            raise CollectorError(
                say(
                    "No step of process {pids} has ended for {seconds:g} s, so nothing was "
                    "recorded.",
                    pids=listed,
                    seconds=answer_s,
                ),
                hint=say(
                    "It may be in an evaluation, a checkpoint or a very long step: try again, or "
                    "wait longer with --limit."
                ),
            )
        progress.advance(0)
        time.sleep(_POLL_S)
    if not any(map(is_alive, pids)):
        raise CollectorError(say("The job has ended; nothing was recorded."))


def _wait_for_end(
    job: Job, name: str, pids: Sequence[int], answer_s: float, progress: Progress
) -> list[str]:
    """Wait until the window of each process is complete; returns what went wrong."""
    reasons: list[str] = []
    waiting = set(pids)
    size_before, deadline = 0, time.monotonic() + answer_s
    while waiting:
        for number in list(waiting):
            done = job.folder / f"done.{name}.{number}"
            if done.exists():
                waiting.discard(number)
                with suppress(OSError, ValueError, KeyError):
                    answer = read_object(done.read_text())
                    reason = str(answer["problem"])
                    if answer.get("is_late"):
                        raise _nothing_recorded(reason)
                    reasons += [reason] if reason else []
            elif not is_alive(number):
                waiting.discard(number)
        size = sum(path.stat().st_size for path in _records(job, pids))
        if size != size_before:  # A window of long steps writes as it goes.
            size_before, deadline = size, time.monotonic() + answer_s
        if waiting and time.monotonic() > deadline:
            break
        progress.advance(0)
        time.sleep(_POLL_S)
    reasons += problems(job.records)
    forget_problems(job.records)  # The next window begins anew.
    return reasons


def _nothing_recorded(reason: str) -> CollectorError:
    return CollectorError(say("Nothing was recorded: {reason}.", reason=reason.rstrip(".")))


def _records(job: Job, pids: Sequence[int]) -> list[Path]:
    return [path for pid in pids for path in sorted(job.records.glob(f"{pid}-*.records"))]


def _take(job: Job, pid: int, target: Path) -> None:
    """Move the records of a process, and copy its step times."""
    for path in _records(job, [pid])[-1:]:
        shutil.move(path, target / path.name)
    for path in _records(job, [pid]):
        path.unlink(missing_ok=True)  # Of windows whose request was withdrawn.
    with suppress(OSError):
        shutil.copyfile(job.folder / f"steps.{pid}.json", target / f"steps.{pid}.json")


def read_minutes(job: Job) -> dict[int, list[dict[str, Any]]]:
    """Return what the processes noted of their steps, a line a minute, by process."""
    found: dict[int, list[dict[str, Any]]] = {}
    for pid in job.ranks:
        lines: list[dict[str, Any]] = []
        for suffix in ("older", "jsonl"):
            with suppress(OSError):
                text = (job.folder / f"minutes.{pid}.{suffix}").read_text(errors="replace")
                for line in text.splitlines():
                    with suppress(ValueError):
                        lines.append(read_object(line))
        found[pid] = lines
    return found


def minutes_changed_ns(job: Job) -> int:
    """Return when a process last noted a minute, by the clock of files; 0: none has."""
    return max((path.stat().st_mtime_ns for path in job.folder.glob("minutes.*.jsonl")), default=0)


def _write(path: Path, content: dict[str, Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)


def to_document(job: Job) -> dict[str, Any]:
    """Return a job as plain data."""
    document = asdict(job)
    document.update(folder=str(job.folder), records=str(job.records), command=list(job.command))
    return document
