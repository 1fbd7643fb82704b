"""Adding a profile: a file that was uploaded, or one that lies in an open folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from django.conf import settings

from aggregator.errors import DlprofError
from aggregator.texts import say
from viewer.environment import Environment
from viewer.errors import PathNotAllowedError
from viewer.jobs.models import Job, StoredProfile
from viewer.jobs.service import check_queue, submit_import
from viewer.profiles import storage, uploads
from viewer.profiles.admission import CHECK_LIMIT_S, Kind, inspect, suffix_of
from viewer.profiles.rank_paths import fixed_part, is_several, rank_paths
from viewer.profiles.registry import ServedProfile

#: An imported database is about as large as its export; a report becomes a larger export first.
_ROOM_FOR_IMPORT = 1.5
_SHOWN = 120


@dataclass(frozen=True)
class NewProfile:
    """What is to be added.

    Attributes:
        path: A file in an open folder; empty: an upload.
        upload: Id of a complete upload; empty: a path.
        paths: Rank files of one job in open folders, instead of a path or upload.
        uploads: Ids of complete uploads of rank files, instead.
        name: For the profile; empty: its own.
        mode: How the ranges of an import are read.
        ranks: Number of the first rank of each of several files; empty: the files tell.
    """

    path: str
    upload: str
    name: str
    mode: str
    paths: tuple[str, ...] = ()
    uploads: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


def add_profile(wanted: NewProfile, client: str) -> ServedProfile | Job:
    """Serve a database at once; queue the import of anything else.

    Raises:
        PathNotAllowedError: The path leads elsewhere.
        ProfileRefusedError: The file is no profile.
        ProfileTooLargeError, StorageFullError, TooManyJobsError, UploadIncompleteError: As named.
    """
    if wanted.paths:
        return _add_ranks(wanted, [_allowed(path) for path in wanted.paths], client)
    if wanted.uploads:
        return _add_uploaded_ranks(wanted, client)
    if wanted.upload:
        return _add_upload(wanted, client)
    if is_several(wanted.path):
        return _add_found(wanted, client)
    path = _allowed(wanted.path)
    uploads.check_size(path.stat().st_size)
    if inspect(path, path.name, _nsys_path()) is Kind.DATABASE:
        return _served(storage.add(path, name=wanted.name, folder=None, is_complete=True))
    storage.check_room(int(path.stat().st_size * _ROOM_FOR_IMPORT))
    with storage.new_folder() as folder:
        return _import(wanted, path, storage.safe_stem(path.name), folder, client)


def _add_upload(wanted: NewProfile, client: str) -> ServedProfile | Job:
    """Look at an upload where it is, and only then give it its place."""
    upload = uploads.find(wanted.upload)
    uploads.check_complete(upload)
    kind = inspect(uploads.content(upload), upload.file_name, _nsys_path())
    stem = storage.safe_stem(upload.file_name)
    if kind is not Kind.DATABASE:
        check_queue()
        storage.check_room(int(upload.size_bytes * _ROOM_FOR_IMPORT))
    with uploads.held(upload), storage.new_folder() as folder:
        if kind is Kind.DATABASE:
            target = folder / f"{stem}.sqlite"
            uploads.place(upload, target)
            return _served(storage.add(target, name=wanted.name, folder=folder, is_complete=True))
        suffix = suffix_of(kind, upload.file_name)
        source = folder / "source" / f"{stem}{suffix}"
        uploads.place(upload, source)
        return _import(wanted, source, stem, folder, client)


def _add_ranks(wanted: NewProfile, paths: list[Path], client: str) -> Job:
    """Rank files where they are become one database of the viewer's own."""
    sizes = [path.stat().st_size for path in paths]
    for path, size in zip(paths, sizes, strict=True):
        with _naming(path.name):
            uploads.check_size(size)
            inspect(path, path.name, _nsys_path(), CHECK_LIMIT_S / len(paths))
    # Each part lies beside the whole for a while.
    storage.check_room(int(2 * sum(sizes) * _ROOM_FOR_IMPORT))
    with storage.new_folder() as folder:
        return _import_all(wanted, paths, _stem_of_ranks(paths[0].name), folder, client)


def _add_uploaded_ranks(wanted: NewProfile, client: str) -> Job:
    """The same with uploads; none is taken before all have been looked at."""
    found = [uploads.find(upload) for upload in wanted.uploads]
    kinds = []
    for upload in found:
        with _naming(upload.file_name):
            uploads.check_complete(upload)
            content, limit_s = uploads.content(upload), CHECK_LIMIT_S / len(found)
            kinds.append(inspect(content, upload.file_name, _nsys_path(), limit_s))
    check_queue()
    storage.check_room(int(2 * sum(upload.size_bytes for upload in found) * _ROOM_FOR_IMPORT))
    with ExitStack() as stack:
        for upload in found:
            stack.enter_context(uploads.held(upload))
        folder = stack.enter_context(storage.new_folder())
        sources = []
        for number, (upload, kind) in enumerate(zip(found, kinds, strict=True)):
            suffix = suffix_of(kind, upload.file_name)
            # Names may be equal; the rank is read from the name, so it stays.
            name = f"{storage.safe_stem(upload.file_name)}{suffix}"
            sources.append(folder / "source" / str(number) / name)
            uploads.place(upload, sources[-1])
        return _import_all(wanted, sources, _stem_of_ranks(found[0].file_name), folder, client)


@contextmanager
def _naming(file_name: str) -> Iterator[None]:
    """Say of which of several files an error is."""
    try:
        yield
    except DlprofError as error:
        error.message = say("{file}: {error}", file=file_name[:_SHOWN], error=error.message)
        raise


def _stem_of_ranks(file_name: str) -> str:
    """``resnet_rank0.sqlite`` -> ``resnet``; ``rank0.sqlite`` -> ``ranks``."""
    stem = re.sub(r"[_.-]*rank[_.=-]?\d+$", "", storage.safe_stem(file_name), flags=re.IGNORECASE)
    return stem or "ranks"


def _import(wanted: NewProfile, source: Path, stem: str, folder: Path, client: str) -> Job:
    return _import_all(wanted, [source], stem, folder, client)


def _import_all(
    wanted: NewProfile, sources: list[Path], stem: str, folder: Path, client: str
) -> Job:
    stored = storage.add(
        folder / f"{stem}.dldb.sqlite", name=wanted.name, folder=folder, is_complete=False
    )
    try:
        paths = [str(source) for source in sources]
        return submit_import(stored, paths, wanted.mode, client, wanted.ranks)
    except Exception:
        # Not queued: nothing would ever be made of it.
        stored.delete()
        raise


def _add_found(wanted: NewProfile, client: str) -> ServedProfile | Job:
    """What a folder or a pattern stands for: rank files, or the one profile that is there."""
    _require_open(fixed_part(wanted.path))
    if ".." in Path(wanted.path).parts:
        raise _not_allowed()
    paths = rank_paths(wanted.path)
    if len(paths) == 1:
        return add_profile(replace(wanted, path=paths[0]), client)
    return add_profile(replace(wanted, path="", paths=tuple(paths)), client)


def _require_open(folder: Path) -> None:
    """Refuse a folder that no file may be registered from, and say not even whether it is there."""
    environment: Environment = settings.ENVIRONMENT
    try:
        resolved = folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        resolved = None
    folders = [open_folder.resolve() for open_folder in environment.open_folders]
    if resolved is None or not any(resolved.is_relative_to(place) for place in folders):
        raise _not_allowed()


def _not_allowed() -> PathNotAllowedError:
    return PathNotAllowedError(
        say("There is no file of that path in the folders that may be registered from."),
        hint=say("Serve its folder, name it in DLPROF_PROFILE_FOLDERS, or upload the file."),
    )


def _served(row: StoredProfile) -> ServedProfile:
    return ServedProfile(row.id, Path(row.path), row.name, bool(row.folder))


def _allowed(raw: str) -> Path:
    """The file of a path, if it lies in an open folder, wherever links lead.

    Raises:
        PathNotAllowedError: It does not. Whether there is such a file elsewhere is not said.
    """
    environment: Environment = settings.ENVIRONMENT
    folders = [folder.resolve() for folder in environment.open_folders]
    try:
        path = Path(raw).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        path = None
    is_open = path is not None and (
        path in environment.databases or any(path.is_relative_to(folder) for folder in folders)
    )
    if path is None or not is_open or not path.is_file() or storage.is_ours(path):
        raise _not_allowed()
    return path


def _nsys_path() -> str:
    return os.environ.get("DLPROF_NSYS_PATH", "")
