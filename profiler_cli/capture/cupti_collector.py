"""Collect with dlprof's own library instead of Nsight Systems.

The library is loaded into every process of the application by CUDA (``CUDA_INJECTION64_PATH``) and
by NVTX (``NVTX_INJECTION64_PATH``). It writes one file for each process into a folder beside the
result; see ``dlprof_nvtx/native``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from aggregator.errors import CollectorError
from aggregator.sources.collector.folder import export_records, files_of, problems
from profiler_cli.capture import processes, raw_records
from profiler_cli.capture.capture_session import (
    STARTED,
    Collection,
    Ending,
    has_unprofiled_steps,
    make_folder,
)
from profiler_cli.capture.nsight import EXPORT_SUFFIX, Nsys

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

FOLDER_VARIABLE: Final = "DLPROF_COLLECT"
CUPTI_VARIABLE: Final = "DLPROF_COLLECT_CUPTI"
RANGE_VARIABLE: Final = "DLPROF_COLLECT_RANGE"
LIBRARY_VARIABLES: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
STOPPED: Final = "stopped"
COMPLETE_LIMIT_S: Final = 2.0
"""How long a process that lives on may take to complete its file."""
_PAUSE_S: Final = 0.02


@dataclass
class OwnCollection(Collection):
    """The collection of one run by dlprof's own library."""

    library: Path = Path()
    records: Path = Path()  # Folder of the files of the processes.
    cupti: Path | None = None  # For programs that have not loaded one.
    delay_s: float = 0.0
    duration_s: float | None = None
    is_range: bool = False  # Whether the script says when to collect.
    is_stopped: bool = False
    is_asked_to_end: bool = False  # Whether the application was, after the duration.
    export: Path | None = None  # What was written; None: nothing yet.
    _start_s: float = field(default_factory=time.monotonic)
    _begin_s: float = 0.0  # When the collection began; 0: with the application.
    _stop_s: float = 0.0
    is_nsys: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """What collects, for messages."""
        return "dlprof's own collector"

    def command(self, options: Options, base: Path, *, show_output: bool) -> list[str]:
        """Return the command to run: the application itself."""
        return list(options.application)

    def environment(self, before: Mapping[str, str], options: Options) -> dict[str, str]:
        """Return the environment of the application, which loads the library."""
        result = super().environment(before, options)
        result |= dict.fromkeys(LIBRARY_VARIABLES, str(self.library))
        result[FOLDER_VARIABLE] = str(self.records)
        if self.cupti is not None:
            result[CUPTI_VARIABLE] = str(self.cupti)
        if self.is_range:
            result[RANGE_VARIABLE] = "1"
        if self.is_started:
            (self.records / STARTED).touch()
        self._start_s = time.monotonic()
        return result

    def poll(self, pid: int) -> None:
        """Begin or end the collection if it is time."""
        seconds = time.monotonic() - self._start_s
        if not self.is_started and self.folder is None:
            if seconds >= self.delay_s:
                self._start()
        else:
            super().poll(pid)
        # From its begin, which may be late on a busy machine.
        collected_s = time.monotonic() - (self._begin_s or self._start_s)
        if self.duration_s is None or not self.is_started or collected_s < self.duration_s:
            return
        self.stop()
        if not self.is_asked_to_end and (self._are_complete() or self._is_late()):
            self.is_asked_to_end = True
            processes.send(processes.application_processes(pid, is_helper=False), signal.SIGTERM)

    def _is_time(self, pid: int, folder: Path) -> bool:
        """Whether a process asks; one without markers begins by itself when it uses CUDA."""
        self.cause = "asked" if any(folder.glob("start.*")) else ""
        return bool(self.cause)

    def _start(self) -> None:
        self.is_started, self._begin_s = True, time.monotonic()
        for folder in filter(None, (self.records, self.folder)):
            with suppress(OSError):
                (folder / STARTED).touch()

    def stop(self) -> None:
        """Let the processes complete their files and record no more."""
        if not self.is_stopped:
            self.is_stopped, self._stop_s = True, time.monotonic()
            with suppress(OSError):
                (self.records / STOPPED).touch()

    def _is_late(self) -> bool:
        return time.monotonic() - self._stop_s > COMPLETE_LIMIT_S

    def _are_complete(self) -> bool:
        """Whether no process will write more records."""
        return not any(map(self._is_writing, files_of(self.records)))

    def _is_writing(self, path: Path) -> bool:
        pid = path.name.partition("-")[0]
        is_ended = (self.records / f"complete.{pid}").exists()
        if is_ended or any(self.records.glob(f"problem.{pid}.*")) or not pid.isdecimal():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # It runs as another user, as under sudo.
        return True

    def kept(self) -> str:
        """Return where the raw records are if there is no export; empty: there are none."""
        if self.export is not None or not files_of(self.records):
            return ""
        return raw_records.how_to_convert(self.records)

    def __exit__(self, *details: object) -> None:
        if self.export is None and files_of(self.records):
            raw_records.keep(self.records, self.folder)
        else:
            raw_records.remove(self.records)
        super().__exit__(*details)

    def check_began(self, ending: Ending, options: Options) -> None:
        """Check that there are records.

        Raises:
            NotProfiledError: No process recorded anything.
        """
        if not files_of(self.records):
            raise self.nothing_profiled(ending, options)

    def save(self, base: Path) -> Path:
        """Write the export of what the processes recorded; the first call does.

        Raises:
            CollectorError: They recorded nothing, and why.
        """
        if self.export is None:
            self.stop()
            while not self._are_complete() and not self._is_late():
                time.sleep(_PAUSE_S)
            export = base.with_name(base.name + EXPORT_SUFFIX)
            if not export_records(self.records, export):
                self._check_notes(export)
            self.export = export
            self.warnings += problems(self.records)
        return self.export

    def _check_notes(self, export: Path) -> None:
        """Check that CUPTI could be used in some process, if any used CUDA."""
        from aggregator.sources.collector.records import read_records  # noqa: PLC0415

        found: dict[str, str] = {}
        for path in files_of(self.records):
            one = read_records(path)
            found |= {name: text for name in _REASONS for text in one.notes(name)}
        for name, (message, hint) in _REASONS.items():
            if name in found:
                export.unlink(missing_ok=True)
                raw_records.remove(self.records)
                raise CollectorError(message.format(found[name]), hint=hint)


_REASONS: Final = {
    "no_cupti": (
        "CUPTI was not found in the environment of the application.",
        "Install it there (pip install nvidia-cuda-cupti), or use --collector=nsys.",
    ),
    "old_cupti": (
        "CUPTI of the application is too old (API version {}).",
        "The collector needs that of CUDA 11.8 or newer. Update it, or use --collector=nsys.",
    ),
    "missing_function": (
        "CUPTI of the application has no function {}.",
        "Use --collector=nsys.",
    ),
    "other_subscriber": (
        "Another profiler of the application uses CUPTI, which serves one only ({}).",
        (
            "PyTorch keeps it after torch.profiler has recorded. Leave that out of the script, let "
            "it begin after dlprof has recorded some steps, or turn off other tools that set "
            "CUDA_INJECTION64_PATH."
        ),
    ),
    "cupti_error": (
        "CUPTI could not record: {}.",
        "Another profiler may use the GPU, or the driver is older than CUPTI. Use --collector=nsys",
    ),
}
"""Notes of the library that say why nothing was recorded: the message and the hint."""


def own_warnings(options: Options) -> list[str]:
    """What was asked for and only Nsight Systems can record."""
    found = []
    if options.nsys_opts != type(options)().nsys_opts:
        found.append("Warning: --nsys_opts has no effect with dlprof's own collector")
    if options.memory:
        found.append(
            "Warning: dlprof's own collector records no allocations of the CUDA driver; those of "
            "PyTorch are recorded (--collector=nsys records both)"
        )
    return found


def plan_own(options: Options, base: Path, library: Path, cupti: Path | None) -> OwnCollection:
    """Prepare the folder of the library's files.

    Raises:
        CollectorError: The folder cannot be written.
    """
    folder = make_folder() if has_unprofiled_steps(options) else None
    return OwnCollection(
        Nsys(Path(), ()),
        folder=folder,
        is_started=folder is None and not options.delay,
        library=library,
        records=raw_records.make_folder(base, folder),
        cupti=cupti,
        delay_s=options.delay,
        duration_s=options.duration,
        is_range=options.nsys_profile_range,
    )
