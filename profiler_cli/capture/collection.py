"""Begin the collection after the steps that the application times without it.

Nsight Systems starts the application without collecting. The markers in the application time its
first steps, then ask for the collection through a folder (see ``dlprof_nvtx/reference.py``). If no
process asks to wait, the collection begins as soon as a process uses CUDA.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from aggregator.errors import NotProfiledError, NsysFailedError
from aggregator.options import Mode
from aggregator.sources.nsys.reference import BARE, COLUMNS, END, NOTE, PHASES, WORK
from aggregator.sources.nsys.schema import CAPTURE_NOTES, STEP_TIMES
from aggregator.system.untrusted_json import read_object
from profiler_cli.capture import processes
from profiler_cli.capture.nsight import Nsys, light_switches, profile_command, split_nsys_opts

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

FOLDER_VARIABLE: Final = "DLPROF_REFERENCE"
STEPS_VARIABLE: Final = "DLPROF_BARE_STEPS"
STARTED: Final = "started"
LATER_SWITCH: Final = "--start-later"
SESSION_SWITCH: Final = "--session-new"
MAX_STEPS: Final = 100_000
MAX_NS: Final = 1 << 53
"""Times of a step above it are no times."""
MAX_UTC_NS: Final = 1 << 63
_START_LIMIT_S: Final = 30
_PYTHON: Final = re.compile(r"(?:^|/)(?:python|pypy)[\d.]*$")
_RETRY_S: Final = 8.0
# Programs of Nsight Systems that use the driver themselves.
_HELPERS: Final = ("nsys", "CudaGpuInfoDumper", "Qdstrm")
_CUDA: Final = "/libcuda.so"
_DEVICE: Final = re.compile(r"/dev/(?:nvidia\d|nvidia-uvm|nvhost-|nvmap|dxg)")
# Switches of ``nsys profile`` that belong to ``nsys start`` if collection begins later.
_SAMPLING: Final = ("-s", "--sample", "--cpuctxsw")


@dataclass
class Collection:
    """The collection of one run, and what the application measured before it."""

    nsys: Nsys
    start_switches: tuple[str, ...] = ()  # Of ``nsys start``.
    folder: Path | None = None  # For messages with the application; None: not used.
    is_started: bool = True  # Whether the collection has begun.
    steps: list[dict[str, Any]] = field(default_factory=list)  # What the processes wrote.
    problem: str = ""  # Why the collection could not be started; empty if it could.
    cause: str = ""  # Why it was started when it was.
    _deadline_s: float = 0.0  # Until when it is tried; 0: not yet.

    @property
    def session(self) -> str:
        """Name of the session of Nsight Systems."""
        return f"dlprof-{os.getpid()}"

    @property
    def switches(self) -> list[str]:
        """Switches of ``nsys profile``."""
        if self.folder is None:
            return []
        return [f"{LATER_SWITCH}=true", f"{SESSION_SWITCH}={self.session}"]

    @property
    def title(self) -> str:
        """What collects, for messages."""
        return f"Nsight Systems {self.nsys.version_text}"

    def command(self, options: Options, base: Path, *, show_output: bool) -> list[str]:
        """Return the command to run."""
        more = self.switches
        return profile_command(self.nsys, options, base, show_output=show_output, more=more)

    def write_export(self, base: Path, exit_code: int) -> Path | None:
        """Write the export of the capture; None: the collector has written it itself."""
        return None

    def environment(self, before: Mapping[str, str], bare_steps: int | None) -> dict[str, str]:
        """Return the environment of the application, with the folder in it."""
        result = {k: v for k, v in before.items() if k not in {FOLDER_VARIABLE, STEPS_VARIABLE}}
        if self.folder is not None:
            result[FOLDER_VARIABLE] = str(self.folder)
            if bare_steps is not None:
                result[STEPS_VARIABLE] = str(bare_steps)
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def poll(self, pid: int) -> None:
        """Begin the collection if it is time; ``pid`` is the process of Nsight Systems."""
        if self.is_started or self.folder is None:
            return
        if not self._deadline_s and not self._is_time(pid, self.folder):
            return
        self._deadline_s = self._deadline_s or time.monotonic() + _RETRY_S
        self._start()
        # A session may not be ready yet, or wait for another one of this machine.
        if not self.problem or time.monotonic() > self._deadline_s:
            self.is_started = True
            with suppress(OSError):
                (self.folder / STARTED).touch()

    def _is_time(self, pid: int, folder: Path) -> bool:
        """Whether a process asks for the collection, or uses CUDA and none asks to wait."""
        if any(name.startswith("start.") for name in _names(folder)):
            self.cause = "asked"
            return True
        # Asked twice: a process may have begun to hold, and then used CUDA, meanwhile.
        if self._is_held() or not (user := _uses_cuda(pid)) or self._is_held():
            return False
        self.cause = f"CUDA used by {user}"
        return True

    def _is_held(self) -> bool:
        return self.folder is not None and any(
            name.startswith("hold.") for name in _names(self.folder)
        )

    def _start(self) -> None:
        words = [str(self.nsys.program), "start", f"--session={self.session}"]
        try:
            done = subprocess.run(
                [*words, *self.start_switches],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_START_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.problem = str(getattr(error, "strerror", None) or error)
        else:
            said = (done.stdout + done.stderr).strip().splitlines()
            self.problem = (said or ["unknown error"])[-1] if done.returncode else ""

    def read_steps(self) -> None:
        """Read what the processes of the application measured, after they have ended."""
        if self.folder is None:
            return
        for name in _names(self.folder):
            if name.startswith("steps.") and name.endswith(".json"):
                with suppress(OSError):
                    text = (self.folder / name).read_text(encoding="utf-8", errors="replace")
                    self.steps.append(read_object(text))

    def check_began(self, exit_code: int) -> None:
        """Check that there is a capture, if the application was to time steps before it.

        Args:
            exit_code: That of the application.

        Raises:
            NsysFailedError: Nsight Systems could not collect.
            NotProfiledError: The application ended first.
        """
        if self.problem:
            raise NsysFailedError(
                f"Nsight Systems could not begin to collect: {self.problem}.",
                hint="Run it again with --bare_steps=0.",
                return_code=exit_code,
            )
        if self.is_started:
            return
        measured = self.bare_median_ns()
        times = ""
        if measured is not None:
            median_ms, steps = measured[0] / 1e6, measured[1]
            times = f" Median of {steps} steps without profiling: {median_ms:.2f} ms."
        raise NotProfiledError(
            f"Nothing was profiled: the application ended before enough steps were timed.{times}",
            hint="Run it again with --bare_steps=0, which profiles from the start.",
            return_code=exit_code,
        )

    def bare_median_ns(self) -> tuple[int, int] | None:
        """Median and number of the bare steps of the first process that has any."""
        for content in self.steps:
            times = sorted(_times(content, "bare", "gpu_ns") or _times(content, "bare", "host_ns"))
            if times:
                return times[len(times) // 2], len(times)
        return None

    def add_to_export(self, export: Path) -> str:
        """Write the times of the steps into the export; returns the error, empty on success."""
        if self.folder is None:
            return ""
        rows = [row for content in self.steps for row in _rows(content)]
        reasons = {str(content.get("reason") or "") for content in self.steps} - {""}
        reason = self.problem or ",".join(sorted(reasons)) or ("" if rows else "no_torch")
        try:
            with closing(sqlite3.connect(export)) as connection, connection:
                columns = (*COLUMNS, WORK, END)
                _create(connection, STEP_TIMES, columns)
                marks = ", ".join("?" * len(columns))
                connection.executemany(f'INSERT INTO "{STEP_TIMES}" VALUES ({marks})', rows)  # noqa: S608 - fixed names
                query = f'CREATE TABLE IF NOT EXISTS "{CAPTURE_NOTES}" (name, value)'
                connection.execute(query)
                notes = [(NOTE, reason), ("collectionBegan", self.cause)]
                connection.executemany(f'INSERT INTO "{CAPTURE_NOTES}" VALUES (?, ?)', notes)  # noqa: S608 - fixed names
        except sqlite3.Error as error:
            return str(error)
        return ""


def plan_collection(nsys: Nsys, options: Options, base: Path) -> Collection:
    """Decide whether the first steps are timed without collection.

    They are if the application is a Python program that can have markers, and this version of nsys
    can begin later, and no option says when the collection begins.
    """
    given = split_nsys_opts(options.nsys_opts)
    can = LATER_SWITCH in nsys.switches and SESSION_SWITCH in nsys.switches
    if not can or not has_bare_steps(options):
        return Collection(nsys)
    folder = make_folder()
    output = ["-o", str(base).replace("%", "%%"), "--export=sqlite"]
    if options.force:
        output.append("--force-overwrite=true")
    words = (*_sampling([*given, *light_switches(nsys, options)]), *output)
    return Collection(nsys, words, folder, is_started=False)


def has_bare_steps(options: Options) -> bool:
    """Whether the application may time its first steps itself."""
    begins = processes.begins_late(options) or options.memory
    marked = options.mode in {Mode.AUTO, Mode.PYTORCH}
    marked = marked and os.environ.get(processes.ENABLE_VARIABLE) != "0"
    if options.bare_steps == 0 or begins or not marked:
        return False
    return _is_python(options.application[0])


def make_folder() -> Path:
    """Make the folder for messages with the application."""
    return Path(tempfile.mkdtemp(prefix="dlprof-steps-"))


def _is_python(program: str) -> bool:
    """Whether a program is Python or a script that Python runs, as ``torchrun`` is."""
    path = shutil.which(program)
    if path is None:
        return False
    if _PYTHON.search(program) or _PYTHON.search(path):
        return True
    with suppress(OSError), Path(path).open("rb") as file:
        first = file.readline(512)
        return first.startswith(b"#!") and b"python" in first
    return False


def _sampling(given: Sequence[str]) -> list[str]:
    """Return the switches for CPU samples, which ``nsys start`` has too."""
    found = []
    for position, word in enumerate(given):
        name = word.partition("=")[0]
        if name in _SAMPLING:
            has_value = "=" in word or position + 1 == len(given)
            found += [word] if has_value else [word, given[position + 1]]
    return found


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir())
    return []


def _uses_cuda(pid: int) -> str:
    """Name of a descendant of the process that uses the driver; empty: there is none.

    Nsight Systems may load the driver's library into a process at its start, and asks the driver
    about the GPUs itself: only a program that has also opened the driver's devices uses it.
    """
    for child in processes.descendants(pid):
        place = Path(f"/proc/{child}")
        with suppress(OSError):
            program = (place / "exe").readlink()
            if program.name.startswith(_HELPERS) or not _has_device(place / "fd"):
                continue
            if _CUDA in (place / "maps").read_text(errors="replace"):
                return program.name
    return ""


def _has_device(open_files: Path) -> bool:
    """Whether a process has opened a device of the driver."""
    for file in open_files.iterdir():
        with suppress(OSError):
            if _DEVICE.search(str(file.readlink())):
                return True
    return False


def _times(content: dict[str, Any], phase: str, clock: str, most_ns: int = MAX_NS) -> list[int]:
    """Return the times of a phase; empty if the file holds something else."""
    times = content.get(phase)
    values = times.get(clock) if isinstance(times, dict) else None
    if not isinstance(values, list):
        return []
    valid = all(type(value) is int and 0 <= value < most_ns for value in values)
    return values[:MAX_STEPS] if valid else []


def _rows(content: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of one process."""
    pid, rank = content.get("pid"), str(content.get("rank") or "")
    if not isinstance(pid, int):
        return []
    known = int(rank) if rank.isdecimal() else None
    rows: list[tuple[Any, ...]] = []
    for phase in PHASES:
        host, gpu = _times(content, phase, "host_ns"), _times(content, phase, "gpu_ns")
        both = gpu if len(gpu) == len(host) else [None] * len(host)
        clock = str(content.get("clock") or "")
        work = _phases(content, len(host)) if phase == BARE else [""] * len(host)
        ends = _times(content, phase, "end_utc_ns", MAX_UTC_NS)
        ends_or_none = ends if len(ends) == len(host) else [None] * len(host)
        rows += [
            (pid, known, clock, phase, number, *times)
            for number, times in enumerate(zip(host, both, work, ends_or_none, strict=True))
        ]
    return rows


def _phases(content: dict[str, Any], count: int) -> list[str]:
    """The phase of each bare step, prefill or decode; empty: it has none."""
    names = content.get("bare_phases")
    if not isinstance(names, list) or len(names) != count:
        return [""] * count
    return [name if isinstance(name, str) else "" for name in names]


def _create(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
    connection.execute(f'DROP TABLE IF EXISTS "{table}"')
    connection.execute(f'CREATE TABLE "{table}" ({", ".join(columns)})')
