"""Output files: their names, and writing all files of a run or none.

Without ``--force`` no file is overwritten: the database and the reports of a run get the first
number that is free for all of them (``dlprof_dldb_1.sqlite``, ``dlprof_summary_1.csv``, ...).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from aggregator.errors import DatabaseWriteError
from aggregator.system.temporary_files import publish, remove_leftovers, temporary_name

DATABASE_STEM: Final = "dlprof_dldb"
DATABASE_EXTENSION: Final = "sqlite"
DEFAULT_DOMAIN: Final = "default-domain"
# Characters that file names cannot contain, or that are special in shells or other systems.
_UNSAFE: Final = re.compile(r"[\s/\\:*?\"<>|\x00-\x1f\x7f]")


def write_error(path: Path, error: OSError) -> DatabaseWriteError:
    """Make the error for a file that could not be written."""
    full = "Free some space or choose another folder with --output_path."
    forbidden = "Choose a folder that you may write to with --output_path."
    hints = {
        errno.ENOSPC: full,
        errno.EDQUOT: full,
        errno.EACCES: forbidden,
        errno.EROFS: forbidden,
        errno.ENOTDIR: "A part of the path is a file; choose a folder with --output_path.",
        errno.EEXIST: "Another run wrote it meanwhile; run again, or use --force=true.",
    }
    return DatabaseWriteError(
        f"Cannot write {display(path)}: {error.strerror or error}.",
        hint=hints.get(error.errno or 0, "Choose another folder with --output_path."),
        path=str(path),
    )


def display(path: Path) -> str:
    """Format a path as DLProf does: a relative path begins with a dot."""
    if path == Path():
        return str(path.resolve())
    return str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"


def file_name_part(text: str) -> str:
    """Convert a text of the user or of the profile to a part of a file name."""
    name = _UNSAFE.sub("_", text)
    # A leading dot would hide the file.
    return "_" + name.lstrip(".") if name.startswith(".") else name


@dataclass(frozen=True)
class OutputPlan:
    """The file names of one run."""

    folder: Path  # Folder of all files.
    prefix: str  # First part of report file names.
    number: int  # Number at the end of all names; 0 for none.
    force: bool  # Whether existing files are replaced.

    @property
    def database(self) -> Path:
        """The database to write."""
        return self._path([DATABASE_STEM], DATABASE_EXTENSION)

    def report(self, suffix: str, domain: str, file_format: str) -> Path:
        """Return the path of a report; the default domain is not part of the name."""
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
    busy: frozenset[int] = frozenset(),
) -> OutputPlan:
    """Choose the number of the files of this run.

    Args:
        folder: Existing folder for the files.
        prefix: First part of report file names.
        reports: (suffix, format) of each report to write.
        writes_database: Whether a new database is written.
        force: Whether existing files may be replaced.
        sources: Input files, which are never replaced, not even with ``force``.
        busy: Numbers that other runs have claimed.

    Raises:
        DatabaseWriteError: The folder cannot be listed.
    """
    patterns = [_numbered(f"{prefix}_{suffix}", extension) for suffix, extension in reports]
    if writes_database:
        patterns.append(_numbered(DATABASE_STEM, DATABASE_EXTENSION, with_domain=False))
    try:
        taken = _taken_numbers(folder, patterns, only=sources if force else None) | busy
    except OSError as error:
        raise write_error(folder, error) from error
    number = next(number for number in range(len(taken) + 1) if number not in taken)
    return OutputPlan(folder, prefix, number, force)


@contextmanager
def claimed_outputs(choose: Callable[[frozenset[int]], OutputPlan]) -> Iterator[OutputPlan]:
    """Claim the number of a plan until the block ends, so that parallel runs take other numbers.

    With ``force`` nothing is claimed: the last run replaces the files of the others.

    Args:
        choose: Plans the outputs without the numbers that it is given.
    """
    busy: frozenset[int] = frozenset()
    while True:
        plan = choose(busy)
        if plan.force:
            yield plan
            return
        with _claim(plan) as is_claimed:
            # Another run may have written files of this number just before the claim.
            if is_claimed and choose(busy).number == plan.number:
                yield plan
                return
        busy |= {plan.number}


@contextmanager
def _claim(plan: OutputPlan) -> Iterator[bool]:
    """Lock a file that stands for the number; yields False if another run has locked it."""
    path = plan.folder / f".{DATABASE_STEM}_{plan.number}.claim"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            yield True
            return
        # The run that held it may have deleted the file since it was opened here.
        if not path.exists() or path.stat().st_ino != os.fstat(file.fileno()).st_ino:
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def _numbered(stem: str, extension: str, *, with_domain: bool = True) -> re.Pattern[str]:
    """Return the pattern of a file name in any run and domain; its group is the number."""
    # Lazy twice, so that _1 at the end is matched as a number, not as part of a domain.
    domain = "(?:_.+?)??" if with_domain else ""
    return re.compile(rf"{re.escape(stem)}{domain}(?:_(\d{{1,9}}))?\.{re.escape(extension)}")


def _taken_numbers(
    folder: Path, patterns: Sequence[re.Pattern[str]], only: Sequence[Path] | None
) -> set[int]:
    """Return the numbers used by the files of the folder, or only by the files ``only``."""
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
    """Create the folder if missing and check that it is writable, before long work.

    A folder that was created is removed again if the block fails and leaves no file in it.

    Raises:
        DatabaseWriteError: It cannot be created or is not writable.
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
    """Files that are published together, when all of them are complete.

    Each file is written to a temporary name in its folder. ``commit`` renames all of them; if it is
    not called, they are removed when the block is left.
    """

    def __init__(self, *, force: bool) -> None:
        self._force = force
        self._staged: list[tuple[Path, Path]] = []
        self._cleared: set[Path] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        for temporary, _ in self._staged:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """Open a file for writing, under a name that is unique in the batch.

        Raises:
            DatabaseWriteError: The file cannot be written.
        """
        path = self._unique(path)
        temporary = temporary_name(path, "tmp")
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
        """Rename all files to their final names.

        Raises:
            DatabaseWriteError: A file exists and must not be replaced; no file is published.
        """
        published: list[Path] = []
        for temporary, path in self._staged:
            try:
                publish(temporary, path, overwrite=self._force)
            except OSError as error:
                for earlier in published if not self._force else ():
                    earlier.unlink(missing_ok=True)
                raise write_error(path, error) from error
            published.append(path)

    def _unique(self, path: Path) -> Path:
        """Number files of domains whose names differ only in characters that are replaced."""
        taken = {staged for _, staged in self._staged}
        candidate, number = path, 1
        while candidate in taken:
            number += 1
            candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
        return candidate
