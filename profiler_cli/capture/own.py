"""Collect with dlprof's own library instead of Nsight Systems.

The library is loaded into every process of the application by CUDA (``CUDA_INJECTION64_PATH``) and
by NVTX (``NVTX_INJECTION64_PATH``). It writes one file for each process into a folder beside the
result; see ``dlprof_nvtx/native``.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import CollectorError, NotProfiledError, NsysNotFoundError
from profiler_cli.capture import processes
from profiler_cli.capture.collection import STARTED, Collection, has_bare_steps, make_folder
from profiler_cli.capture.native import build_library, find_compiler, find_cupti
from profiler_cli.capture.nsight import EXPORT_SUFFIX, Nsys, find_installed
from profiler_cli.outputs import display

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

AUTO, CUPTI = "auto", "cupti"
FOLDER_VARIABLE: Final = "DLPROF_COLLECT"
CUPTI_VARIABLE: Final = "DLPROF_COLLECT_CUPTI"
RANGE_VARIABLE: Final = "DLPROF_COLLECT_RANGE"
LIBRARY_VARIABLES: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
STOPPED: Final = "stopped"
RECORDS: Final = "*.records"
_COMPLETE_LIMIT_S: Final = 5.0
_DRIVER: Final = re.compile(r"Kernel Module.*?\s(\d+\.[\d.]+)\s")


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
    _start_s: float = field(default_factory=time.monotonic)
    _begin_s: float = 0.0  # When the collection began; 0: with the application.
    _stop_s: float = 0.0

    @property
    def title(self) -> str:
        """What collects, for messages."""
        return "dlprof's own collector"

    def command(self, options: Options, base: Path, *, show_output: bool) -> list[str]:
        """Return the command to run: the application itself."""
        return list(options.application)

    def environment(self, before: Mapping[str, str], bare_steps: int | None) -> dict[str, str]:
        """Return the environment of the application, which loads the library."""
        result = super().environment(before, bare_steps)
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
        if not self.is_stopped:
            self.is_stopped, self._stop_s = True, time.monotonic()
            (self.records / STOPPED).touch()
        if self._are_complete() or time.monotonic() - self._stop_s > _COMPLETE_LIMIT_S:
            processes.signal_tree(pid, signal.SIGTERM)

    def _start(self) -> None:
        self.is_started, self._begin_s = True, time.monotonic()
        for folder in filter(None, (self.records, self.folder)):
            with suppress(OSError):
                (folder / STARTED).touch()

    def read_steps(self) -> None:
        """Read what the processes measured; one may have begun and ended between two polls."""
        super().read_steps()
        # A process without markers says `began`: it began for itself alone.
        if self.folder is not None and (
            any(self.folder.glob("start.*")) or any(self.folder.glob("began.*"))
        ):
            self.is_started = True

    def _are_complete(self) -> bool:
        """Whether the processes have written all that they recorded."""
        return len(list(self.records.glob("complete.*"))) >= len(list(self.records.glob(RECORDS)))

    def __exit__(self, kind: object = None, *details: object) -> None:
        super().__exit__(kind, *details)
        # What was recorded is kept only if an error says where it is.
        is_ended = kind in {KeyboardInterrupt, SystemExit}
        if is_ended or not any(self.records.glob(RECORDS)):
            shutil.rmtree(self.records, ignore_errors=True)

    def write_export(self, base: Path, exit_code: int) -> Path | None:
        """Write the export of what the processes recorded.

        Raises:
            CollectorError: They recorded nothing, and why.
            NotProfiledError: The same, if the application failed.
        """
        try:
            return self._write_export(base)
        except CollectorError as error:
            if exit_code:
                raise NotProfiledError(
                    error.message, hint=error.hint, return_code=exit_code
                ) from error
            raise

    def _write_export(self, base: Path) -> Path:
        # Loaded now, because the threads of its libraries would receive the forwarded signals.
        from aggregator.sources.collector.export import write_export  # noqa: PLC0415

        files = sorted(self.records.glob(RECORDS))
        if not files:
            raise CollectorError(
                "Nothing was recorded: the application used neither CUDA nor NVTX.",
                hint="Does it use the GPU? Was its environment passed on to the process that does?",
            )
        self._check_problem()
        export = base.with_name(base.name + EXPORT_SUFFIX)
        try:
            kernels = write_export(files, export, _system())
        except OSError as error:
            raise CollectorError(
                f"The export could not be written: {error.strerror or error}.",
                hint=f"The records were kept in {shlex.quote(display(self.records))}.",
            ) from error
        if not kernels:
            self._check_notes(files, export)
        shutil.rmtree(self.records, ignore_errors=True)
        return export

    def _check_problem(self) -> None:
        """Check that the processes could write their files."""
        problem = next(iter(sorted(self.records.glob("problem.*"))), None)
        if problem is not None:
            with suppress(OSError):
                reason = problem.read_text(errors="replace").strip()
                raise CollectorError(
                    f"The collector failed: {reason}.", hint="Is the disk full or read-only?"
                )

    def _check_notes(self, files: Sequence[Path], export: Path) -> None:
        """Check that CUPTI could be used in some process, if any used CUDA."""
        from aggregator.sources.collector.records import read_records  # noqa: PLC0415

        found: dict[str, str] = {}
        for path in files:
            one = read_records(path)
            found |= {name: text for name in _REASONS for text in one.notes(name)}
        for name, (message, hint) in _REASONS.items():
            if name in found:
                export.unlink(missing_ok=True)
                shutil.rmtree(self.records, ignore_errors=True)
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
        "Turn off torch.profiler in the script, or other tools that set CUDA_INJECTION64_PATH.",
    ),
    "cupti_error": (
        "CUPTI could not record: {}.",
        "Another profiler may use the GPU, or the driver is older than CUPTI. Use --collector=nsys",
    ),
}
"""Notes of the library that say why nothing was recorded: the message and the hint."""


def choose_nsys(options: Options) -> Nsys | None:
    """Find the Nsight Systems that collects; None: dlprof's own collector does.

    Raises:
        NsysNotFoundError: It is not installed, and the own collector cannot be used either.
        NsysFailedError: It cannot be run.
    """
    if options.collector == CUPTI:
        return None
    try:
        return find_installed(options.nsys_path)
    except NsysNotFoundError as error:
        if options.collector == AUTO and not options.nsys_path:
            if find_compiler() is not None:
                return None
            error.hint += "\nOr install a C compiler, which dlprof's own collector needs."
        raise


def own_warnings(options: Options) -> list[str]:
    """What was asked for and only Nsight Systems can record."""
    found = []
    if options.nsys_opts != type(options)().nsys_opts:
        found.append("Warning: --nsys_opts has no effect with dlprof's own collector")
    if options.memory:
        found.append(
            "Warning: dlprof's own collector records no allocations of the CUDA driver; those of "
            "PyTorch are recorded"
        )
    return found


def plan_own(options: Options, base: Path) -> OwnCollection:
    """Prepare the library and the folder of its files.

    Raises:
        CollectorError: The library cannot be built.
    """
    library = build_library()
    try:
        records = Path(tempfile.mkdtemp(prefix=f"{base.name}.records-", dir=base.parent.absolute()))
    except OSError as error:
        raise CollectorError(
            f"The folder '{base.parent}' cannot be written: {error.strerror}."
        ) from error
    folder = make_folder() if has_bare_steps(options) else None
    return OwnCollection(
        Nsys(Path(), ()),
        folder=folder,
        is_started=folder is None and not options.delay,
        library=library,
        records=records,
        cupti=find_cupti(options.application[0]),
        delay_s=options.delay,
        duration_s=options.duration,
        is_range=options.nsys_profile_range,
    )


def _system() -> dict[str, str]:
    """Properties of the host, by the names that Nsight Systems gives them."""
    found = {"Hostname": platform.node(), "CpuCores": str(os.cpu_count() or "")}
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        model = next((line for line in lines if line.startswith("model name")), "")
        found["CpuDescription"] = model.partition(":")[2].strip()
    with suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(errors="replace")
        found["NvDriverVersion"] = driver_version(text)
    return {name: value for name, value in found.items() if value}


def driver_version(text: str) -> str:
    """The version of the driver in its own description; empty if it is not there."""
    match = _DRIVER.search(text)
    return match[1] if match else ""
