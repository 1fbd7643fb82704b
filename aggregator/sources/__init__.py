"""Readers of profile files, one package per format; ``open_profile`` picks the reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import ProfileError, ProfileNotFoundError
from aggregator.sources.formats import (
    Format,
    detect_file,
    detect_tables,
    list_tables,
    not_readable,
    unsupported,
)
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.profile.profile import Profile
    from aggregator.system.progress import Progress


def open_profile(path: Path, progress: Progress, nsys_path: str = "") -> Profile:
    """Read a profile of any supported format.

    Args:
        path: The file.
        progress: Listener.
        nsys_path: The nsys program that exports a report; empty: searched for.

    Raises:
        ProfileNotFoundError: No file at ``path``.
        UnsupportedProfileError: The format is not supported.
        CorruptProfileError: The file is incomplete or damaged.
        UnsupportedNsysSchemaError: An export without the tables that are needed.
        DldbVersionError: A DLProf database of a version that cannot be read.
        NotADldbError: A damaged DLProf database.
        NsysNotFoundError: A report, and Nsight Systems is not installed.
        NsysFailedError: Nsight Systems could not export the report.
    """
    if not path.is_file():
        raise ProfileNotFoundError(
            say("The profile '{path}' is a folder, not a file.", path=path)
            if path.is_dir()
            else say("The profile '{path}' does not exist.", path=path),
            hint=say("Give the path of an Nsight Systems export (nsys export -t sqlite)."),
            path=str(path),
        )
    try:
        found = detect_file(path, path.name)
    except OSError as error:
        raise not_readable(path, error) from error
    if found is Format.REPORT:
        return _read_report(path, progress, nsys_path)
    if found is Format.TRACE:
        return _read_trace(path, progress)
    if found is Format.XPLANE and path.stat().st_size:
        from aggregator.sources.xplane import reader as xplane  # noqa: PLC0415

        return xplane.read(path, progress)
    if found is Format.SQLITE:
        return _read_sqlite(path, progress)
    raise unsupported(path, found, None)


def check_start(path: Path, found: Format, nsys_path: str = "") -> bool:
    """Check the start of a file that is no SQLite: the rest is checked while it is read.

    Returns:
        Whether files of this format are profiles.

    Raises:
        CorruptProfileError: It does not begin as its format does.
        NsysNotFoundError: A report, and Nsight Systems is not installed.
    """
    if found is Format.TRACE:
        from aggregator.sources.kineto.trace_json import TraceText  # noqa: PLC0415

        TraceText(path).check_head()
        return True
    if found is Format.XPLANE:
        return path.stat().st_size > 0
    if found is Format.REPORT and path.stat().st_size:
        from aggregator.sources.nsys.report import find_nsys  # noqa: PLC0415

        find_nsys(nsys_path)
        return True
    return False


def _read_report(path: Path, progress: Progress, nsys_path: str) -> Profile:
    # A reader and its libraries are loaded for files of its format only.
    from aggregator.sources.nsys import report  # noqa: PLC0415

    with report.exported(path, progress, nsys_path) as export:
        try:
            profile = _read_sqlite(export, progress)
        except ProfileError as error:
            # The message is shown after the temporary export was deleted.
            error.message = error.message.replace(str(export), str(path))
            error.args = (error.message,)
            raise
    profile.source_name = path.name
    return profile


def _read_trace(path: Path, progress: Progress) -> Profile:
    from aggregator.sources.kineto import reader  # noqa: PLC0415

    return reader.read(path, progress)


def _read_sqlite(path: Path, progress: Progress) -> Profile:
    tables = list_tables(path)
    found = detect_tables(tables)
    if found is Format.EXPORT:
        from aggregator.sources.nsys import reader as nsys  # noqa: PLC0415

        progress.message("Initializing Nsight Systems database")
        return nsys.read(path, tables, progress)
    if found is Format.DLPROF:
        from aggregator.sources.dlprof import reader as dlprof  # noqa: PLC0415

        progress.message("Initializing DLProf database")
        return dlprof.read(path, progress)
    raise unsupported(path, found, tables)
