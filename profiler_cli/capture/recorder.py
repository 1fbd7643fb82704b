"""What records the application: chosen, and tried, before it runs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator.errors import CollectorError, NsysFailedError, ToolError
from profiler_cli.capture.native import build_library, find_cupti
from profiler_cli.capture.nsight import Nsys, find_installed, importer_problem

if TYPE_CHECKING:
    from profiler_cli.options.declared import Options

AUTO, CUPTI, NSYS = "auto", "cupti", "nsys"
_LIBRARIES_HINT: Final = (
    "Install what its importer needs (apt-get install libdw1 libelf1), or use --collector=cupti."
)
_NO_CUPTI: Final = "no CUPTI was found; the application has to bring it"


@dataclass(frozen=True)
class Recorder:
    """What records, and why."""

    nsys: Nsys | None  # None: dlprof's own collector.
    why: str = ""  # Why another one was not taken; empty if it needs no reason.
    library: Path = Path()  # That of the own collector.
    cupti: Path | None = None  # CUPTI for a program that has not loaded one.


def choose_recorder(options: Options) -> Recorder:
    """Choose what records, and check that it works on this machine.

    ``auto`` takes dlprof's own collector: the run ends sooner, and nothing is converted by another
    program. Nsight Systems is taken where an option of its own is used, or the own one cannot work.

    Raises:
        ToolError: Neither works, or the one that was asked for does not.
    """
    if options.collector == CUPTI:
        return _own(options)
    if options.collector == NSYS or options.nsys_path:
        return Recorder(_usable_nsys(options))
    if options.nsys_opts != type(options)().nsys_opts:
        return _first_of_nsys(options, "--nsys_opts is set")
    try:
        own = _own(options)
    except CollectorError as error:
        return _instead_of_own(options, error)
    return own if own.cupti is not None else _first_of_nsys(options, "no CUPTI was found", own)


def _own(options: Options) -> Recorder:
    library = build_library()
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise CollectorError(
            f"dlprof's own collector cannot be loaded: {error}.", hint="Use --collector=nsys."
        ) from error
    # A shell script may run the Python of this environment.
    programs = (options.application[0], "python3", "python")
    cupti = next(filter(None, map(find_cupti, programs)), None)
    return Recorder(None, "" if cupti is not None else _NO_CUPTI, library, cupti)


def _usable_nsys(options: Options) -> Nsys:
    nsys = find_installed(options.nsys_path)
    if problem := importer_problem(nsys):
        raise NsysFailedError(
            f"Nsight Systems cannot convert what it records: {problem}.", hint=_LIBRARIES_HINT
        )
    return nsys


def _first_of_nsys(options: Options, why: str, own: Recorder | None = None) -> Recorder:
    """Take Nsight Systems, or the own collector if that does not work."""
    try:
        return Recorder(_usable_nsys(options), why)
    except ToolError:
        return own or _own(options)


def _instead_of_own(options: Options, error: CollectorError) -> Recorder:
    """Take Nsight Systems because the own collector does not work."""
    try:
        return Recorder(_usable_nsys(options), error.message.rstrip("."))
    except ToolError as other:
        raise CollectorError(
            f"Nothing can record the application: {error.message}",
            hint=f"{error.hint}\nNsight Systems: {other.message} {other.hint}".strip(),
        ) from error
