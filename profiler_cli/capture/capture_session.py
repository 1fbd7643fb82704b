"""Begin the collection after the steps that the application times without it.

Nsight Systems starts the application without collecting. The markers in the application time its
first steps, then ask for the collection through a folder (see
``dlprof_nvtx/baseline_timing.py``). If no process asks to wait, the collection begins as soon as a
process uses CUDA.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from aggregator.errors import NotProfiledError, NsysFailedError
from aggregator.options import Mode
from aggregator.sources.collector.step_times import (
    Steps,
    read_steps,
    unprofiled_median_ns,
    write_notes,
    write_steps,
)
from aggregator.sources.nsys.windows import RUN_NOTE
from aggregator.system.temporary_files import folder_prefix, remove_leftover_folders
from profiler_cli.capture import processes
from profiler_cli.capture.full_memory import ADVICE, has_run_out
from profiler_cli.capture.nsight import (
    Nsys,
    light_switches,
    profile_command,
    run_tool,
    split_nsys_opts,
)

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

FOLDER_VARIABLE: Final = "DLPROF_REFERENCE"
STEPS_VARIABLE: Final = "DLPROF_BARE_STEPS"
WINDOW_VARIABLE: Final = "DLPROF_PROFILE_STEPS"
"""How many steps of a loop are recorded: a number, or all; not set: about 40."""
STARTED: Final = "started"
RANGE_HINT: Final = (
    "Call torch.cuda.profiler.start() and stop() around it, or leave out --nsys_profile_range."
)
NO_CUDA_HINT: Final = (
    "Does it use the GPU? Was its environment passed on to the process that does (ssh, env -i, a "
    "container)? A process that uses the GPU for an instant only is seen with --bare_steps=0."
)
LATER_SWITCH: Final = "--start-later"
SESSION_SWITCH: Final = "--session-new"
_START_LIMIT_S: Final = 30
_PYTHON: Final = re.compile(r"(?:^|/)(?:python|pypy)[\d.]*$")
_RETRY_S: Final = 8.0
_CUDA: Final = "/libcuda.so"
_DEVICE: Final = re.compile(r"/dev/(?:nvidia\d|nvidia-uvm|nvhost-|nvmap|dxg)")
# Switches of ``nsys profile`` that belong to ``nsys start`` if collection begins later.
_SAMPLING: Final = ("-s", "--sample", "--cpuctxsw")


@dataclass
class Ending:
    """How the run of the application ended, as far as it has."""

    code: int = 0  # Exit code of the process that dlprof started: that of the application.
    pid: int = 0  # That process; 0: not started yet.
    signals: list[int] = field(default_factory=list)  # Signals that dlprof received meanwhile.
    seconds: float = 0.0  # Duration of the run.
    last_lines: list[str] = field(default_factory=list)  # What Nsight Systems said last.
    is_timed_out: bool = False  # Whether the application was ended after ``--duration``.

    @property
    def exit_code(self) -> int:
        """Exit code of dlprof, unless that could not do its part."""
        return 0 if self.is_timed_out else self.code

    @property
    def words(self) -> str:
        """What the application did, after "the application"."""
        if self.is_timed_out:
            return "was ended after --duration"
        if self.signals and self.code != 128 + self.signals[0]:
            # A program may handle the signal and go on.
            name = signal.Signals(self.signals[0]).name
            return f"ended after {name} with exit code {self.code}"
        if not self.code:
            return "ended"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(self.code - 128).name}"
        return f"failed with exit code {self.code}"


@dataclass
class Collection:
    """The collection of one run, and what the application measured before it."""

    nsys: Nsys
    start_switches: tuple[str, ...] = ()  # Of ``nsys start``.
    folder: Path | None = None  # For messages with the application; None: not used.
    is_started: bool = True  # Whether the collection has begun.
    steps: Steps = field(default_factory=list)  # What the processes wrote.
    problem: str = ""  # Why the collection could not be started; empty if it could.
    cause: str = ""  # Why it was started when it was.
    warnings: list[str] = field(default_factory=list)  # What is missing in the export.
    was_held: bool = False  # Whether a process waited with the collection to time steps.
    _deadline_s: float = 0.0  # Until when it is tried; 0: not yet.

    is_nsys: ClassVar[bool] = True
    is_recording: ClassVar[bool] = True  # Whether the application is recorded as it runs.

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

    def kept(self) -> str:
        """Return where the raw records are if there is no export; empty: there are none."""
        return ""

    def stop(self) -> None:
        """Record no more: the application was asked to end."""

    def save(self, base: Path) -> Path | None:
        """Write the export of the capture; None: the collector writes it itself."""
        return None

    def environment(self, before: Mapping[str, str], options: Options) -> dict[str, str]:
        """Return the environment of the application, with the folder in it."""
        own = {FOLDER_VARIABLE, STEPS_VARIABLE, WINDOW_VARIABLE}
        result = {name: value for name, value in before.items() if name not in own}
        if self.folder is not None:
            result[FOLDER_VARIABLE] = str(self.folder)
            if options.bare_steps is not None:
                result[STEPS_VARIABLE] = str(options.bare_steps)
        # Nsight Systems cannot detach; neither does a run whose part another option names.
        steps = "all" if self.is_nsys or self.folder is None else options.profile_steps
        return result | ({WINDOW_VARIABLE: steps} if steps else {})

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
        if any(name.startswith("start.") for name in file_names(folder)):
            self.cause = "asked"
            return True
        # Asked twice: a process may have begun to hold, and then used CUDA, meanwhile.
        if self._is_held() or not (user := _uses_cuda(pid)) or self._is_held():
            return False
        self.cause = f"CUDA used by {user}"
        return True

    def _is_held(self) -> bool:
        return self.folder is not None and any(
            name.startswith("hold.") for name in file_names(self.folder)
        )

    def _start(self) -> None:
        words = [str(self.nsys.program), "start", f"--session={self.session}"]
        try:
            done = run_tool(*words, *self.start_switches, limit_s=_START_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.problem = str(getattr(error, "strerror", None) or error)
        else:
            said = (done.stdout + done.stderr).strip().splitlines()
            self.problem = (said or ["unknown error"])[-1] if done.returncode else ""

    def read_steps(self) -> None:
        """Read what the processes of the application measured, after they have ended."""
        if self.folder is not None:
            self.steps = read_steps(self.folder)
            self.was_held = self._is_held()

    def check_began(self, ending: Ending, options: Options) -> None:
        """Check that the collection has begun, if it was to begin later than the application.

        Raises:
            NsysFailedError: Nsight Systems could not collect.
            NotProfiledError: The application ended first.
        """
        if self.problem:
            raise NsysFailedError(
                f"Nsight Systems could not begin to collect: {self.problem}.",
                hint="Run it again with --bare_steps=0.",
            )
        if not self.is_started:
            raise self.nothing_profiled(ending, options)

    def nothing_profiled(self, ending: Ending, options: Options) -> NotProfiledError:
        """Make the error that says why nothing was recorded."""
        measured = unprofiled_median_ns(self.steps)
        hint = "Run it again with --bare_steps=0, which profiles from the start."
        if options.delay and ending.seconds < options.delay:
            hint = ""
            when = f"after {ending.seconds:.1f} s, before --delay={options.delay:g} had passed."
        elif options.nsys_profile_range and not ending.code:
            when = "without starting the profiled range."
            hint = RANGE_HINT
        elif measured is not None:
            when = (
                f"before enough steps were timed. Median of {measured[1]} steps without "
                f"profiling: {measured[0] / 1e6:.2f} ms."
            )
        elif self.was_held:
            when = "before a loop of PyTorch had repeated a step."
        else:
            when = "and no process of it was seen to use CUDA."
            hint = NO_CUDA_HINT
        if ending.code and measured is None:
            hint = ""
        if ending.code and has_run_out(self.steps):
            hint = f"{ADVICE}."
        return NotProfiledError(
            f"Nothing was profiled: the application {ending.words} {when}", hint=hint
        )

    def add_to_export(self, export: Path, run_s: float) -> str:
        """Write the times of the steps, and of the run, into the export.

        Returns:
            The error; empty on success.
        """
        notes = {RUN_NOTE: str(round(run_s * 1e9))}
        if self.folder is None:
            return write_notes(export, notes)
        return write_steps(export, self.steps, self.problem, self.cause, notes)


def plan_collection(nsys: Nsys, options: Options, base: Path) -> Collection:
    """Decide whether the first steps are timed without collection.

    They are if the application is a Python program that can have markers, and this version of nsys
    can begin later, and no option says when the collection begins.
    """
    given = split_nsys_opts(options.nsys_opts)
    can = LATER_SWITCH in nsys.switches and SESSION_SWITCH in nsys.switches
    if not can or not has_unprofiled_steps(options):
        return Collection(nsys)
    folder = make_folder()
    output = ["-o", str(base).replace("%", "%%"), "--export=sqlite"]
    if options.force:
        output.append("--force-overwrite=true")
    words = (*_sampling([*given, *light_switches(nsys, options)]), *output)
    return Collection(nsys, words, folder, is_started=False)


def has_unprofiled_steps(options: Options) -> bool:
    """Whether the application may time its first steps itself."""
    begins = processes.begins_late(options) or options.memory
    marked = options.mode in {Mode.AUTO, Mode.PYTORCH}
    marked = marked and os.environ.get(processes.ENABLE_VARIABLE) != "0"
    if options.bare_steps == 0 or begins or not marked:
        return False
    return _is_python(options.application[0])


def make_folder() -> Path:
    """Make the folder for messages with the application; those of killed captures are removed."""
    remove_leftover_folders()
    return Path(tempfile.mkdtemp(prefix=folder_prefix("dlprof-steps")))


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


def file_names(folder: Path) -> list[str]:
    """Return the names of the files in a folder; none if it cannot be read."""
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208 - names only, many times a second
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
            # Those of Nsight Systems use the driver themselves.
            if processes.is_profiler(child) or not _has_device(place / "fd"):
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
