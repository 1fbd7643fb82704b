"""Add profiles: uploaded files, or files in an open folder, also by a pattern."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from django.conf import settings

from aggregator.errors import DlprofError, InvalidValueError
from aggregator.options import Mode
from aggregator.ranks.file_names import natural_order, ranks_in_name
from aggregator.sources.collector.standing_by import find_job
from aggregator.sources.formats import PROFILE_SUFFIXES, Format, suffix_of
from aggregator.system.plain_text import escape_control_characters
from aggregator.texts import say
from viewer.errors import ViewerError
from viewer.jobs.service import check_queue, submit_import
from viewer.profiles import storage, uploads
from viewer.profiles.admission import CHECK_LIMIT_S, inspect
from viewer.profiles.registry import ServedProfile
from viewer.state.models import Job

_SHOWN = 120


@dataclass(frozen=True)
class NewProfile:
    """A request to add a profile."""

    mode: str = Mode.AUTO.value  # How the ranges of an import are read.
    path: str = ""  # A file in an open folder; empty: an upload.
    upload: str = ""  # Id of a complete upload; empty: a path.
    name: str = ""  # For the profile; empty: its own.
    # Rank files of one job in open folders, instead of a path or upload.
    paths: Sequence[str] = ()
    uploads: Sequence[str] = ()  # Ids of complete uploads of rank files, instead.
    # Number of the first rank of each of several files; empty: read from the files.
    ranks: Sequence[int] = ()


def add_profile(wanted: NewProfile, client: str) -> ServedProfile | Job:
    """Serve a database at once; queue an import of any other file.

    Raises:
        ViewerError: The path is not in an open folder, the file is not a profile or is too large,
            there is no room for it, or the queue is full.
    """
    if wanted.upload or wanted.uploads:
        return _add_uploads(wanted, client)
    if is_several(wanted.path):
        return _add_found(wanted, client)
    paths = [_allowed(path) for path in wanted.paths or [wanted.path]]
    if _inspect([(path, path.name) for path in paths]) == [Format.DATABASE]:
        return _serve(wanted, paths[0], None)
    with storage.new_folder() as folder:
        storage.reserve(folder, paths)
        return _import(wanted, paths, paths[0].name, folder, client)


def add_window(process: int, steps: int, client: str, *, all_ranks: bool) -> Job:
    """Queue a job that records a window of a job that stands by, and makes a profile of it.

    Raises:
        ViewerError: There is no room for it, or the queue is full.
        UsageError: The process does not stand by.
    """
    job, _ = find_job(str(process))
    check_queue()
    now = time.strftime("%Y%m%d-%H%M%S")
    name = f"{escape_control_characters(job.name)[-_SHOWN:]} ({time.strftime('%H:%M:%S')})"
    with storage.new_folder() as folder:
        storage.reserve(folder, [])
        database = folder / f"window-{now}.dldb.sqlite"
        stored = storage.add(database, name=name, folder=folder, is_complete=False)
        try:
            window = {"process": process, "steps": steps, "all_ranks": all_ranks}
            return submit_import(stored, [], Mode.AUTO.value, client, window=window)
        except Exception:
            stored.delete()
            raise


def _add_uploads(wanted: NewProfile, client: str) -> ServedProfile | Job:
    """Inspect uploads where they are; all are inspected before one is moved to its place."""
    found = [uploads.find(upload) for upload in wanted.uploads or [wanted.upload]]
    kinds = _inspect([(upload.path, upload.file_name) for upload in found])
    is_database = kinds == [Format.DATABASE]
    if not is_database:
        check_queue()
    with ExitStack() as stack:
        for upload in found:
            stack.enter_context(uploads.lock_upload(upload))
        folder = stack.enter_context(storage.new_folder())
        if is_database:
            target = folder / f"{storage.safe_stem(found[0].file_name)}.sqlite"
            uploads.link_into_place(found[0], target)
            return _serve(wanted, target, folder)
        storage.reserve(folder, [upload.path for upload in found])
        sources = []
        for number, (upload, kind) in enumerate(zip(found, kinds, strict=True)):
            # The rank is read from the name, so it is kept; the names of two ranks may be equal.
            name = f"{storage.safe_stem(upload.file_name)}{suffix_of(kind, upload.file_name)}"
            sources.append(folder / "source" / str(number) / name)
            uploads.link_into_place(upload, sources[-1])
        return _import(wanted, sources, found[0].file_name, folder, client)


def _inspect(files: Sequence[tuple[Path, str]]) -> list[Format]:
    """Return what files are, by path and name; an error about one of several names it."""
    kinds = []
    for path, name in files:
        try:
            uploads.check_size(path.stat().st_size)
            kinds.append(inspect(path, name, CHECK_LIMIT_S / len(files)))
        except DlprofError as error:
            if len(files) > 1:
                error.message = say("{file}: {error}", file=name[:_SHOWN], error=error.message)
            raise
    return kinds


def _serve(wanted: NewProfile, database: Path, folder: Path | None) -> ServedProfile:
    row = storage.add(database, name=wanted.name, folder=folder, is_complete=True)
    return ServedProfile(row.id, Path(row.path), row.name, bool(row.folder))


def _stem_of_ranks(file_name: str) -> str:
    """Return ``resnet`` for ``resnet_rank0.sqlite``, and ``ranks`` for ``rank0.sqlite``."""
    stem = re.sub(r"[_.-]*rank[_.=-]?\d+$", "", storage.safe_stem(file_name), flags=re.IGNORECASE)
    return stem or "ranks"


def _import(wanted: NewProfile, sources: list[Path], name: str, folder: Path, client: str) -> Job:
    """Queue the import of files into a database of the folder; it is named like the first file."""
    stem = _stem_of_ranks(name) if len(sources) > 1 else storage.safe_stem(name)
    stored = storage.add(
        folder / f"{stem}.dldb.sqlite", name=wanted.name, folder=folder, is_complete=False
    )
    try:
        paths = [str(source) for source in sources]
        return submit_import(stored, paths, wanted.mode, client, wanted.ranks)
    except Exception:
        # Without a job the row would never become a profile.
        stored.delete()
        raise


def _add_found(wanted: NewProfile, client: str) -> ServedProfile | Job:
    """Add the files of a folder or pattern: the ranks of a job, or a single profile."""
    # The error is the same whether or not the folder exists.
    if not _is_open(_resolved(fixed_part(wanted.path))) or ".." in Path(wanted.path).parts:
        raise _not_allowed()
    paths = rank_paths(wanted.path)
    if len(paths) == 1:
        return add_profile(replace(wanted, path=paths[0]), client)
    return add_profile(replace(wanted, path="", paths=paths), client)


def _resolved(path: Path | str) -> Path | None:
    """Return a path with links resolved; None if it does not exist."""
    try:
        return Path(path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def _is_open(path: Path | None) -> bool:
    """Return whether a path is in a folder that files may be registered from."""
    folders = [folder.resolve() for folder in settings.ENVIRONMENT.open_folders]
    return path is not None and any(path.is_relative_to(folder) for folder in folders)


def _not_allowed() -> ViewerError:
    return ViewerError(
        say("There is no file of that path in the folders that may be registered from."),
        "PATH_NOT_ALLOWED",
        hint=say("Serve its folder, name it in DLPROF_PROFILE_FOLDERS, or upload the file."),
    )


def _allowed(raw: str) -> Path:
    """Return the file of a path, with links resolved, if it is in an open folder.

    Raises:
        ViewerError: It is not, or does not exist; the error does not reveal which.
    """
    path = _resolved(raw)
    if path is None or not path.is_file() or storage.is_stored(path):
        raise _not_allowed()
    if not _is_open(path) and path not in settings.ENVIRONMENT.databases:
        raise _not_allowed()
    return path


MAX_RANK_FILES = 1024
_MAGIC = re.compile(r"[*?\[]")


def is_several(raw: str) -> bool:
    """Return whether a path is a folder, or a pattern and no file of that name."""
    # A name that is too long raises with pathlib.
    is_folder, is_there = os.path.isdir(raw), os.path.exists(raw)  # noqa: PTH110, PTH112
    return is_folder or (_MAGIC.search(raw) is not None and not is_there)


def fixed_part(raw: str) -> Path:
    """Return the part of a pattern before its first wildcard; a folder itself."""
    parts = Path(raw).parts
    fixed = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    return Path(*parts[:fixed])


def rank_paths(raw: str) -> list[str]:
    """Return the files of a folder or pattern, ``rank2`` before ``rank10``.

    Of a folder these are its profiles; if some have a rank in their names, only those.

    Raises:
        ViewerError: None is there.
        InvalidValueError: More than a job can have.
    """
    found = [Path(path) for path in islice(_found(raw), MAX_RANK_FILES + 1)]
    if len(found) > MAX_RANK_FILES:
        raise InvalidValueError(
            say("More than {limit} files match the path.", limit=MAX_RANK_FILES),
            hint=say("Use a pattern that matches the rank files of one job only."),
            parameter="path",
        )
    if not found:
        raise ViewerError(
            say("No profile matches that path."),
            "PATH_NOT_ALLOWED",
            hint=say("Check the folder and the pattern."),
        )
    return [str(path) for path in sorted(found, key=natural_order)]


def _found(raw: str) -> Iterator[str]:
    if not Path(raw).is_dir():
        # Lazily, and from the root on: neither can be done with pathlib.
        yield from (path for path in glob.iglob(raw) if Path(path).is_file())  # noqa: PTH207
        return
    with os.scandir(raw) as entries:
        paths = [
            Path(entry.path)
            for entry in entries
            if entry.is_file()
            and entry.name.lower().endswith(PROFILE_SUFFIXES)
            and entry.name[0] != "."
        ]
    named = [path for path in paths if ranks_in_name(Path(path.name))]
    yield from map(str, named or paths)
