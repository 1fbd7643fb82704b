"""Nsight Systems: find the program and build the command line for its version."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import DlprofError, NsysFailedError, NsysNotFoundError, UsageError
from aggregator.sources.formats import REPORT_SUFFIXES
from aggregator.sources.nsys.report import find_nsys
from aggregator.sources.nsys.scrub import scrub
from aggregator.system.temporary_files import temporary_name
from profiler_cli.outputs import display

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

# Nsight Compute includes the nsys program; it is used if there is no other.
COMPUTE_PATTERNS: Final = (
    "opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
    "usr/local/cuda*/nsight-compute-*/host/target-linux-*/nsys",
)
TRACE_TOKENS: Final = (
    *("cuda", "cuda-hw", "nvtx", "osrt", "cublas", "cublas-verbose", "cudnn", "cusparse"),
    *("cusparse-verbose", "cusolver", "cusolver-verbose", "mpi", "ucx", "oshmem", "nccl", "opengl"),
    *("vulkan", "openmp", "openacc", "nvvideo", "python-gil", "gds", "syscall"),
    *("tegra-accelerators", "none"),
)
LOST_WITHOUT: Final = {
    "cuda": "kernels, copies and every time on the GPU",
    "nvtx": "ops, iterations and the data loader",
}
STREAM_SUFFIX: Final = ".qdstrm"
EXPORT_SUFFIX: Final = ".sqlite"
_SUFFIXES: Final = (*REPORT_SUFFIXES, STREAM_SUFFIX, EXPORT_SUFFIX)
# Switches of nsys that dlprof sets, and the options of dlprof for them.
OWN_SWITCHES: Final = {
    "-o": "--nsys_base_name and --output_path",
    "--output": "--nsys_base_name and --output_path",
    "-f": "--force",
    "--force-overwrite": "--force",
    "-y": "--delay",
    "--delay": "--delay",
    "-d": "--duration",
    "--duration": "--duration",
}
# How often nsys saves what the GPU did. By default it does so when a buffer is full or the program
# ends, and loses everything if the program crashes.
FLUSH_SWITCH: Final = "--cuda-flush-interval"
FLUSH_INTERVAL_MS: Final = 1_000
IMPORTER: Final = "QdstrmImporter"
MEMORY_SWITCH: Final = "--cuda-memory-usage"
GRAPH_SWITCH: Final = "--cuda-graph-trace"
# What a detail leaves out: its switch, and the details.
LIGHT_SWITCHES: Final = {
    "--cpuctxsw=none": ("low", "normal"),
    "--cuda-event-trace=false": ("low",),
}
# Switches that say when the collection begins.
TAKES_OVER: Final = (
    *("--start-later", "-Y", "--session", "--session-new", "-c", "--capture-range"),
    *("-p", "--nvtx-capture", "--hotkey-capture", "-x", "--stop-on-exit"),
)
_FIRST_WITH_EXPORT_LIST: Final = (2020, 3)
_VERSION_TIMEOUT_S: Final = 60
_OLDEST: Final = (2019, 6)


@dataclass(frozen=True)
class Nsys:
    """An installed Nsight Systems."""

    program: Path  # Path of ``nsys``.
    version: tuple[int, ...]  # Its version, year first; empty if unknown.
    switches: str = ""  # Its description of the switches of ``nsys profile``.

    @property
    def version_text(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version)) or "of unknown version"


def find_installed(given: str, root: Path = Path("/")) -> Nsys:
    """Find the ``nsys`` program to run.

    Args:
        given: Value of ``--nsys_path``; empty if not set.
        root: Root folder of the installations.

    Raises:
        NsysNotFoundError: It was not found.
        NsysFailedError: It cannot be run.
    """
    try:
        program = find_nsys(given, root)
    except NsysNotFoundError as error:
        found = _in_nsight_compute(root)
        if error.details.get("path") or found is None:
            hint = "" if error.details.get("path") else _INSTALL_HINT
            raise NsysNotFoundError(error.message, hint=hint or error.hint) from error
        program = found
    version = _read_version(program)
    return Nsys(program, version, _ask(program, "profile", "--help").stdout)


_INSTALL_HINT: Final = (
    "Install it (https://developer.nvidia.com/nsight-systems) or set its path with --nsys_path.\n"
    "To aggregate an existing profile, nsys is not needed: dlprof --database=nsys_profile.sqlite"
)


def _in_nsight_compute(root: Path) -> Path | None:
    found = sorted(path for pattern in COMPUTE_PATTERNS for path in root.glob(pattern))
    return next((path for path in reversed(found) if os.access(path, os.X_OK)), None)


def run_tool(
    *words: str, limit_s: float | None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input, whatever its exit code; its output is text."""
    return subprocess.run(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        check=False,
    )


def _ask(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return run_tool(str(program), *words, limit_s=_VERSION_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or error
        raise NsysFailedError(
            f"'{program}' cannot be run: {reason}.", hint="Check the installation of nsys."
        ) from error


def _read_version(program: Path) -> tuple[int, ...]:
    done = _ask(program, "--version")
    match = re.search(r"\b(20\d\d(?:\.\d+)+)", done.stdout + done.stderr)
    if match is None:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-3:]
        if done.returncode:
            raise NsysFailedError(
                f"'{program} --version' ended with exit code {done.returncode}.",
                hint="\n".join(last) or "Check the installation of nsys.",
            )
        return ()
    version = tuple(int(part) for part in match[1].split("."))
    if version < _OLDEST:
        raise NsysFailedError(
            f"Nsight Systems {match[1]} at '{program}' is too old.",
            hint="Install 2020.1 or newer, or select another one with --nsys_path.",
        )
    return version


def importer_problem(nsys: Nsys) -> str:
    """Return why Nsight Systems cannot convert what it records; empty if it can.

    Its importer is another program, and needs libraries that small containers lack.
    """
    for importer in importers(nsys):
        try:
            done = _ask(importer, "--version")
        except NsysFailedError as error:
            return error.message
        said = (done.stdout + done.stderr).splitlines()
        if missing := next((line for line in said if "shared libraries" in line), ""):
            return missing.strip()
    return ""


def importers(nsys: Nsys) -> list[Path]:
    """Return the importers beside Nsight Systems, usually one."""
    return sorted(nsys.program.resolve().parent.parent.glob(f"*/{IMPORTER}"))


def free_base(options: Options) -> Path:
    """Return the path of the files of a capture without extension, numbered if files exist."""
    base = options.output_path / options.nsys_base_name
    if options.force:
        return base
    candidate, number = base, 0
    while present(candidate):
        number += 1
        candidate = base.with_name(f"{base.name}_{number}")
    return candidate


def present(base: Path) -> dict[Path, int]:
    """Return the existing files of a capture, with their modification times."""
    paths = [base.with_name(base.name + suffix) for suffix in _SUFFIXES]
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def check_nsys_opts(nsys_opts: str) -> list[str]:
    """Check ``--nsys_opts``.

    Returns:
        Warnings about data that the profile will lack.

    Raises:
        UsageError: An option is not valid.
    """
    words = split_nsys_opts(nsys_opts)
    for word in words:
        switch = word.partition("=")[0]
        if switch in OWN_SWITCHES:
            raise UsageError(
                f"--nsys_opts must not contain {switch}: dlprof sets it.",
                hint=f"Use {OWN_SWITCHES[switch]}.",
            )
    traced = _traced(words)
    if traced is None:
        return []
    for token in traced:
        near = difflib.get_close_matches(token, TRACE_TOKENS, n=1, cutoff=0.7)
        if token not in TRACE_TOKENS and near:
            raise UsageError(
                f"--nsys_opts: nsys has no trace '{token}'.", hint=f"Did you mean {near[0]}?"
            )
    return [
        f"Warning: --nsys_opts does not trace {token}: {lost} will be missing"
        for token, lost in LOST_WITHOUT.items()
        if not any(name.partition("-")[0] == token for name in traced)
    ]


def split_nsys_opts(nsys_opts: str) -> list[str]:
    """Split ``--nsys_opts`` into words.

    Raises:
        UsageError: A quotation mark is missing.
    """
    try:
        return shlex.split(nsys_opts)
    except ValueError as error:
        raise UsageError(
            "--nsys_opts has an opening quotation mark but no closing one.",
            hint="Example: --nsys_opts='-t cuda,nvtx,osrt -s cpu'",
        ) from error


def _traced(words: list[str]) -> list[str] | None:
    """Return the tokens of the last ``-t``; None if nsys chooses."""
    value: str | None = None
    for position, word in enumerate(words):
        if word in {"-t", "--trace"} and position + 1 < len(words):
            value = words[position + 1]
        elif word.startswith("--trace="):
            value = word.removeprefix("--trace=")
        elif word.startswith("-t") and not word.startswith("--") and len(word) > 2:
            value = word.removeprefix("-t").removeprefix("=")
    return None if value is None else [token for token in value.split(",") if token]


def profile_command(
    nsys: Nsys, options: Options, base: Path, *, show_output: bool, more: Sequence[str] = ()
) -> list[str]:
    """Build the command that profiles the application."""
    given = split_nsys_opts(options.nsys_opts)
    words = [str(nsys.program), "profile", *given]
    if FLUSH_SWITCH in nsys.switches and not any(word.startswith(FLUSH_SWITCH) for word in given):
        words.append(f"{FLUSH_SWITCH}={FLUSH_INTERVAL_MS}")
    if options.memory and not any(word.startswith(MEMORY_SWITCH) for word in given):
        words.append(f"{MEMORY_SWITCH}=true")
    if options.graph_nodes and not any(word.startswith(GRAPH_SWITCH) for word in given):
        words.append(f"{GRAPH_SWITCH}=node")
    words += light_switches(nsys, options)
    words.append(f"--show-output={'true' if show_output else 'false'}")
    if not nsys.version or nsys.version[:2] >= _FIRST_WITH_EXPORT_LIST:
        words.append("--export=sqlite")
    else:
        words.append("--export-sqlite")
    if options.delay:
        words.append(f"--delay={options.delay:g}")
    if options.duration:
        words.append(f"--duration={options.duration:g}")
    if options.nsys_profile_range:
        words += _range_switches(nsys)
    if options.force:
        words.append("--force-overwrite=true")
    words += more
    # A % begins a placeholder of nsys.
    return [*words, "-o", str(base).replace("%", "%%"), *options.application]


def light_switches(nsys: Nsys, options: Options) -> list[str]:
    """Return the switches for what ``--detail`` leaves out, if nsys has them and none is given."""
    given = {word.partition("=")[0] for word in split_nsys_opts(options.nsys_opts)}
    return [
        switch
        for switch, details in LIGHT_SWITCHES.items()
        if options.detail in details
        and (name := switch.partition("=")[0]) in nsys.switches
        and name not in given
    ]


def _range_switches(nsys: Nsys) -> list[str]:
    """Return the switches for a profiled range whose end does not end the program."""
    # Newer versions end the program at a stop by default; older ones lack the switch.
    if not nsys.version or nsys.version[:2] >= (2021, 3):
        return ["--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--kill=none"]
    return ["--capture-range=cudaProfilerApi", "--stop-on-range-end=true", "--kill=none"]


def remove_environments(export: Path) -> str:
    """Remove what an export holds of the machine's processes; returns what to say about it."""
    clean, name = temporary_name(export, "tmp"), display(export)
    try:
        scrub(export, clean, overwrite=True)
        clean.replace(export)
    except (DlprofError, OSError, sqlite3.Error) as error:
        clean.unlink(missing_ok=True)
        return (
            f"Warning: {name} contains the environment variables of this machine's processes, "
            f"which could not be removed: {error}"
        )
    return (
        f"Environment variables and command lines of processes were removed from {name}, but not "
        "from the report of Nsight Systems: do not share the latter"
    )
