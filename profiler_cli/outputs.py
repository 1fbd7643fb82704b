"""Where files go: names, numbers instead of overwriting, all files of a run or none.

Without ``--force`` nothing is overwritten: database and reports of a run get the same number,
the first that none of them has in the folder (``dlprof_dldb_1.sqlite``,
``dlprof_summary_1.csv``, ...).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from aggregator.errors import DatabaseWriteError
from aggregator.leftovers import beside, remove_leftovers

DATABASE_STEM: Final = "dlprof_dldb"
DATABASE_EXTENSION: Final = "sqlite"
DEFAULT_DOMAIN: Final = "default-domain"
# What a file name cannot hold, or what a shell or another system trips over.
_UNSAFE: Final = re.compile(r"[\s/\\:*?\"<>|\x00-\x1f\x7f]")


def write_error(path: Path, error: OSError) -> DatabaseWriteError:
    """One sentence for a file that the system would not let us write."""
    hints = {
        errno.ENOSPC: "Free some space or choose another folder with --output_path.",
        errno.EDQUOT: "Free some space or choose another folder with --output_path.",
        errno.EACCES: "Choose a folder that you may write to with --output_path.",
        errno.EROFS: "Choose a folder that you may write to with --output_path.",
        errno.ENOTDIR: "A part of the path is a file; choose a folder with --output_path.",
        errno.EEXIST: "Another run wrote it meanwhile; run again, or use --force=true.",
    }
    return DatabaseWriteError(
        f"Cannot write {display(path)}: {error.strerror or error}.",
        hint=hints.get(error.errno or 0, "Choose another folder with --output_path."),
        path=str(path),
    )


def display(path: Path) -> str:
    """A path as DLProf shows it: a relative one begins with a dot."""
    if path == Path():
        return str(path.resolve())
    return str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"


def file_name_part(text: str) -> str:
    """A text of the user or of the profile as a part of a file name."""
    name = _UNSAFE.sub("_", text)
    # A leading dot would hide the file.
    return "_" + name.lstrip(".") if name.startswith(".") else name


@dataclass(frozen=True)
class OutputPlan:
    """The file names of one run.

    Attributes:
        folder: Where all files go.
        prefix: First part of report file names.
        number: 0: plain names; else the number that all names end with.
        force: Existing files are replaced.
    """

    folder: Path
    prefix: str
    number: int
    force: bool

    @property
    def database(self) -> Path:
        """The database to write."""
        return self._path([DATABASE_STEM], DATABASE_EXTENSION)

    def report(self, suffix: str, domain: str, file_format: str) -> Path:
        """The file of a report; the default domain has no part in its name."""
        parts = [self.prefix, suffix]
        if domain and domain != DEFAULT_DOMAIN:
            parts.append(file_name_part(domain))
        return self._path(parts, file_format)

    def _path(self, parts: list[str], extension: str) -> Path:
        number = [str(self.number)] if self.number else []
        return self.folder / f"{'_'.join(parts + number)}.{extension}"


def plan_outputs(
    folder: Path,
    prefix: str,
    reports: Sequence[tuple[str, str]],
    *,
    writes_database: bool,
    force: bool,
    sources: Sequence[Path],
) -> OutputPlan:
    """Choose the number of this run's files.

    Args:
        folder: Where files go; it exists.
        prefix: First part of report file names.
        reports: (suffix, format) of each report to write.
        writes_database: Whether a new database is written too.
        force: Existing files may be replaced.
        sources: The files that are read: they are never replaced, not even with ``force``.

    Raises:
        DatabaseWriteError: The folder cannot be listed.
    """
    patterns = [_numbered(f"{prefix}_{suffix}", extension) for suffix, extension in reports]
    if writes_database:
        patterns.append(_numbered(DATABASE_STEM, DATABASE_EXTENSION, with_domain=False))
    try:
        taken = _taken_numbers(folder, patterns, only=sources if force else None)
    except OSError as error:
        raise write_error(folder, error) from error
    number = next(number for number in range(len(taken) + 1) if number not in taken)
    return OutputPlan(folder, prefix, number, force)


def _numbered(stem: str, extension: str, *, with_domain: bool = True) -> re.Pattern[str]:
    """Matches the names of a file in any run, of any domain; the group is the run's number."""
    # Lazy twice, so that an ending _1 is the run's number rather than a domain of that name.
    domain = "(?:_.+?)??" if with_domain else ""
    return re.compile(rf"{re.escape(stem)}{domain}(?:_(\d{{1,9}}))?\.{re.escape(extension)}")


def _taken_numbers(
    folder: Path, patterns: Sequence[re.Pattern[str]], only: Sequence[Path] | None
) -> set[int]:
    """Numbers that files in the folder carry; of the files ``only``, if they are given."""
    taken = set()
    kept = None if only is None else {path.resolve() for path in only}
    for entry in folder.iterdir():
        if kept is not None and entry.resolve() not in kept:
            continue
        for pattern in patterns:
            if match := pattern.fullmatch(entry.name):
                taken.add(int(match[1] or 0))
    return taken


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Create the folder if missing and check that it can be written to, before long work.

    A folder that was created and is still empty when the work fails is removed again.

    Raises:
        DatabaseWriteError: It cannot be created, or nothing can be written into it.
    """
    missing = next((p for p in reversed([folder, *folder.parents]) if not p.exists()), None)
    if folder.exists() and not folder.is_dir():
        raise DatabaseWriteError(
            f"Cannot write into {display(folder)}: it is a file, not a folder.",
            hint="Choose a folder with --output_path.",
            path=str(folder),
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise write_error(folder, error) from error
    try:
        yield
    except BaseException:
        if missing is not None and not any(path.is_file() for path in missing.rglob("*")):
            shutil.rmtree(missing, ignore_errors=True)
        raise


class Batch:
    """Files that appear together, when all of them are complete.

    Each is written under a temporary name in its own folder. ``commit`` gives them their names;
    without it, leaving the block removes them.
    """

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._staged: list[tuple[Path, Path]] = []
        self._cleared: set[Path] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for temporary, _ in self._staged:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """A file to write; two files of one batch never share a name.

        Raises:
            DatabaseWriteError: The system would not let us write.
        """
        path = self._unique(path)
        temporary = beside(path, "tmp")
        if path.parent not in self._cleared:
            self._cleared.add(path.parent)
            remove_leftovers(path.parent)
        try:
            with temporary.open("xb", buffering=1 << 20) as stream:
                self._staged.append((temporary, path))
                yield stream
        except OSError as error:
            raise write_error(path, error) from error

    def commit(self) -> None:
        """Give all files their names.

        Raises:
            DatabaseWriteError: A name is taken and may not be replaced; none of the files stays.
        """
        published: list[Path] = []
        for temporary, path in self._staged:
            try:
                self._publish(temporary, path)
            except OSError as error:
                for earlier in published if not self._force else ():
                    earlier.unlink(missing_ok=True)
                raise write_error(path, error) from error
            published.append(path)

    def _publish(self, temporary: Path, path: Path) -> None:
        if self._force:
            temporary.replace(path)
            return
        try:
            # Unlike a rename, a link never replaces what another run wrote meanwhile.
            path.hardlink_to(temporary)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK}:
                raise
            # The file system knows no links.
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
            temporary.rename(path)

    def _unique(self, path: Path) -> Path:
        """Domains whose names differ only in what a file name cannot hold are told apart."""
        taken = {staged for _, staged in self._staged}
        candidate, number = path, 1
        while candidate in taken:
            number += 1
            candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
        return candidate
