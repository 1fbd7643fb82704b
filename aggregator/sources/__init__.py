"""One file per kind of input; ``open_profile`` looks at a file and picks the reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import ProfileError, ProfileNotFoundError, UnsupportedProfileError
from aggregator.sources import dlprof, kineto_files, nsys, nsys_report
from aggregator.sources.sqlite_files import is_sqlite, list_tables
from aggregator.texts import say

if TYPE_CHECKING:
    from aggregator.profile import Profile
    from aggregator.progress import Progress


def open_profile(path: Path, progress: Progress, nsys_path: str = "") -> Profile:
    """Read a profile of any kind known here.

    Args:
        path: The file.
        progress: Listener.
        nsys_path: The nsys that exports a report; empty: it is looked for.

    Raises:
        ProfileNotFoundError: No file at ``path``.
        UnsupportedProfileError: The file is of no known kind.
        CorruptProfileError: The file breaks off or is damaged.
        UnsupportedNsysSchemaError: An export that lacks what is needed.
        DldbVersionError: A DLProf database of a version that cannot be read.
        NotADldbError: A damaged DLProf database.
        NsysNotFoundError: A report, and no Nsight Systems to export it.
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
    if nsys_report.is_report(path) and not is_sqlite(path):
        return _open_report(path, progress, nsys_path)
    if kineto_files.is_trace(path):
        # Its reader decodes JSON with a library that nothing else here needs.
        from aggregator.sources import kineto  # noqa: PLC0415

        return kineto.read(path, progress)
    return _open_sqlite(path, progress)


def _open_report(path: Path, progress: Progress, nsys_path: str) -> Profile:
    with nsys_report.exported(path, progress, nsys_path) as export:
        try:
            profile = _open_sqlite(export, progress)
        except ProfileError as error:
            # The temporary export is gone when somebody reads this.
            error.message = error.message.replace(str(export), str(path))
            error.args = (error.message,)
            raise
    profile.source_name = path.name
    return profile


def _open_sqlite(path: Path, progress: Progress) -> Profile:
    tables = list_tables(path)
    if nsys.is_export(tables):
        progress.message("Initializing Nsight Systems database")
        return nsys.read(path, tables, progress)
    if dlprof.is_database(tables):
        progress.message("Initializing DLProf database")
        return dlprof.read(path, progress)
    if "dldb_meta" in tables:
        raise UnsupportedProfileError(
            say(
                "'{path}' is a database of open-dlprof already: there is nothing to import.",
                path=str(path),
            ),
            hint=say("Add an aggregation to it with: dlprof --database={path}", path=str(path)),
        )
    if "StringTable" in tables:
        raise UnsupportedProfileError(
            say(
                "'{path}' was written by nvprof or the Visual Profiler, which are not supported.",
                path=str(path),
            ),
            hint=say("Profile with Nsight Systems: nsys profile -t cuda,nvtx --export=sqlite ..."),
        )
    raise UnsupportedProfileError(
        say(
            "'{path}' is an SQLite file, but neither an Nsight Systems export nor a DLProf "
            "database.",
            path=str(path),
        ),
        hint=say("Make an export with: nsys export -t sqlite -o profile.sqlite profile.nsys-rep"),
        tables=list(sorted(tables)[:20]),
    )
