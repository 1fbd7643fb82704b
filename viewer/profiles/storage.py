"""Store what the viewer keeps of profiles: names, added and unlisted ones, and its own files."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import OperationalError
from django.db.models import Q
from django.utils import timezone

from aggregator.tables.declared.profile import profile_id
from aggregator.texts import say
from viewer.errors import ViewerError
from viewer.profiles.registry import Kept, ServedProfile
from viewer.state.models import ACTIVE_STATES, Job, StoredProfile

#: Folder of uploads; the name of an unfinished one has this suffix.
INCOMING = "incoming"
PART = ".~part"
#: An empty file of the size that an import is expected to need; counted until the import ends.
_PLACEHOLDER = ".reserved"
#: An imported database is about as large as its export; a report becomes a larger export first.
_ROOM_FOR_IMPORT = 1.5
#: The databases of the ranks exist beside the joined one for a while.
_ROOM_FOR_RANKS = 2 * _ROOM_FOR_IMPORT
_MAX_STEM = 80
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FOLDER_NAME = re.compile("[0-9a-f]{32}")
#: Left free on the disk, so that an upload does not starve jobs and the state of their last bytes.
RESERVE_BYTES = 64 * 2**20

logger = logging.getLogger(__name__)

#: Each request reads them. Django needs longer to make this statement than SQLite to answer it.
_KEPT_ROWS = f"SELECT * FROM {StoredProfile._meta.db_table} ORDER BY created_at, id"  # noqa: S608

_last_kept: dict[str, Kept] = {}


def kept_profiles() -> dict[str, Kept]:
    """Return what is stored about profiles, by their ids.

    While the state cannot be read, for example on a full disk, the values that were read last are
    used, so that profiles can still be viewed.
    """
    try:
        kept = _read_kept()
    except OperationalError as error:
        logger.warning("the state cannot be read: %s", error)
        return dict(_last_kept)
    _last_kept.clear()
    _last_kept.update(kept)
    return kept


def _read_kept() -> dict[str, Kept]:
    started = datetime.fromtimestamp(settings.ENVIRONMENT.started_at, tz=UTC)
    named = set(settings.ENVIRONMENT.databases)
    kept = {}
    for row in StoredProfile.objects.raw(_KEPT_ROWS):
        path = Path(row.path)
        # A file that is named at the start is listed, even if it was removed from the list before.
        listed_again = path in named and row.hidden_at is not None and row.hidden_at < started
        kept[row.id] = Kept(
            path=path,
            name=row.name,
            is_added=row.is_added,
            is_stored=bool(row.folder),
            is_hidden=row.hidden_at is not None and not listed_again,
        )
    return kept


@contextmanager
def new_folder() -> Iterator[Path]:
    """Create an empty folder for one profile; it is deleted if the block fails."""
    folder = _upload_dir() / uuid.uuid4().hex
    try:
        folder.mkdir(parents=True, mode=0o750)
        yield folder
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise storage_error(error) from error
        raise


def storage_error(error: OSError) -> ViewerError:
    """Return the error of a disk or folder that cannot be written to."""
    if error.errno in _FULL:
        message, hint = say("The disk of the viewer is full."), say("Make room on it.")
    else:
        message = say("The viewer cannot store profiles: {reason}.", reason=error.strerror)
        hint = say("Let the viewer's user write to the folder of DLPROF_UPLOAD_DIR.")
    return ViewerError(message, "STORAGE_FULL", hint=hint)


def safe_stem(file_name: str) -> str:
    """Return a file's name without its suffix, in characters that are safe in a path."""
    stem = re.sub(
        r"((\.pt)?(\.trace)?\.json(\.gz)?|\.sqlite|\.nsys-rep|\.qdrep)$",
        "",
        file_name,
        flags=re.IGNORECASE,
    )
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("._-")[:_MAX_STEM]
    return plain or "profile"


def is_stored(path: Path) -> bool:
    """Return whether the viewer itself stores a file: a profile or an upload."""
    folder = _upload_dir().resolve()
    if not path.is_relative_to(folder) or path == folder:
        return False
    first = path.relative_to(folder).parts[0]
    return first == INCOMING or _FOLDER_NAME.fullmatch(first) is not None


def remove_abandoned_folders(oldest: float) -> None:
    """Remove folders without a profile, which a server that was killed left behind.

    Args:
        oldest: Folders changed after this time (seconds since 1970) are kept.
    """
    known = set(StoredProfile.objects.exclude(folder="").values_list("folder", flat=True))
    for folder in _upload_dir().iterdir():
        if str(folder) not in known and _FOLDER_NAME.fullmatch(folder.name):
            with suppress(FileNotFoundError):
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder, ignore_errors=True)


def add(path: Path, *, name: str, folder: Path | None, is_complete: bool) -> StoredProfile:
    """Store the row of a profile; it is served once it is complete, and listed again if hidden."""
    values: dict[str, object] = {
        "path": str(path),
        "is_added": is_complete,
        "folder": str(folder) if folder else "",
        "hidden_at": None,
    }
    if name:
        values["name"] = name
    row, _ = StoredProfile.objects.update_or_create(id=profile_id(path), defaults=values)
    return row


def publish(database: Path) -> None:
    """Serve a database that an import has finished, and delete the copy that it was made from.

    Raises:
        ViewerError: The database is larger than was expected and exceeds the quota. It is
            deleted; the uploaded file stays, so that the import can be tried again.
    """
    row = StoredProfile.objects.filter(path=str(database)).first()
    if row is None:
        return
    if row.folder:
        folder = Path(row.folder)
        with room_lock():
            release(folder)
            source_bytes = sum(_sizes(folder / "source"))
            try:
                check_quota(-source_bytes)
            except ViewerError:
                database.unlink(missing_ok=True)
                raise
        shutil.rmtree(folder / "source", ignore_errors=True)
    StoredProfile.objects.filter(pk=row.id).update(is_added=True)


def rename(served: ServedProfile, name: str) -> None:
    """Set the name of a profile; an empty name restores the profile's own."""
    row, _ = StoredProfile.objects.get_or_create(id=served.id, defaults={"path": str(served.path)})
    StoredProfile.objects.filter(pk=row.id).update(name=name)


def remove(wanted: str, served: ServedProfile | None) -> tuple[list[str], bool]:
    """Delete a file that the viewer stored; a user's own file is only removed from the list.

    Args:
        wanted: The profile's id.
        served: The profile, if it is served; one whose import failed is not.

    Returns:
        Names of the deleted files, and whether the profile was only removed from the list.

    Raises:
        ViewerError: There is no such profile, or a job for it is queued or running.
    """
    row = StoredProfile.objects.filter(pk=wanted).first()
    if served is None and (row is None or row.hidden_at is not None):
        raise ViewerError(
            say("No profile {wanted!r} is served here.", wanted=wanted),
            "PROFILE_NOT_SERVED",
            profile=wanted,
        )
    if Job.objects.filter(profile_id=wanted, state__in=ACTIVE_STATES).exists():
        raise ViewerError(
            say("Jobs for this profile are queued or running."),
            "PROFILE_BUSY",
            hint=say("Cancel them first."),
            profile=wanted,
        )
    if row is not None and row.folder:
        return _delete(Path(row.folder)), False
    if row is not None and row.is_added and not _is_named(Path(row.path)):
        row.delete()
        return [], True
    path = served.path if served else Path(row.path) if row else Path()
    StoredProfile.objects.update_or_create(
        id=wanted, defaults={"path": str(path), "hidden_at": timezone.now(), "is_added": False}
    )
    return [], True


@contextmanager
def room_lock() -> Iterator[None]:
    """Check the room and reserve it as one step, among all requests of all web processes."""
    with (settings.ENVIRONMENT.state_dir / "storage.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def reserve(folder: Path, sources: Sequence[Path]) -> None:
    """Reserve room in a folder for the import of some files, until ``release``.

    Refused if there is not as much.
    """
    factor = _ROOM_FOR_RANKS if len(sources) > 1 else _ROOM_FOR_IMPORT
    size_bytes = int(factor * sum(source.stat().st_size for source in sources))
    with room_lock():
        check_room(size_bytes)
        with (folder / _PLACEHOLDER).open("wb") as file:
            file.truncate(size_bytes)


def release(folder: Path) -> None:
    """Give back the room that was reserved in the folder of an import."""
    (folder / _PLACEHOLDER).unlink(missing_ok=True)


def check_room(size_bytes: int) -> None:
    """Refuse a file for which there is no room on the disk or in the quota."""
    folder = _upload_dir()
    if shutil.disk_usage(folder).free - _unwritten_bytes() < size_bytes + RESERVE_BYTES:
        raise ViewerError(
            say("The disk of the viewer has no room for this file."),
            "STORAGE_FULL",
            hint=say("Delete profiles first."),
        )
    check_quota(size_bytes)


def check_quota(size_bytes: int) -> None:
    """Refuse a file that exceeds the quota of stored profiles."""
    quota = settings.ENVIRONMENT.upload_quota_bytes
    if quota and used_bytes() + size_bytes > quota:
        raise ViewerError(
            say(
                "Stored profiles may take {quota:,} bytes; with this file they would take more.",
                quota=quota,
            ),
            "STORAGE_FULL",
            hint=say("Delete profiles first, or raise DLPROF_UPLOAD_QUOTA_BYTES."),
            quota_bytes=quota,
        )


def _unwritten_bytes() -> int:
    """Return the bytes that are reserved by files of full length and not yet on the disk."""
    folder = _upload_dir()
    reserved = [*folder.glob(f"*/{_PLACEHOLDER}"), *folder.glob(f"{INCOMING}/*{PART}")]
    unwritten = 0
    for path in reserved:
        with suppress(FileNotFoundError):
            status = path.stat()
            unwritten += max(0, status.st_size - status.st_blocks * 512)
    return unwritten


def free_bytes() -> int:
    """Free bytes on the disk of stored profiles."""
    return shutil.disk_usage(_upload_dir()).free


def used_bytes() -> int:
    """Bytes that stored profiles and uploads take, with what is reserved for unfinished ones."""
    return sum(_sizes(_upload_dir()))


def _sizes(folder: str | Path) -> Iterator[int]:
    """Yield the sizes of the files in a folder and below it, while others come and go."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(entry.path)
                continue
            with suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False).st_size


def _upload_dir() -> Path:
    try:
        settings.ENVIRONMENT.upload_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
    except OSError as error:
        raise storage_error(error) from error
    return settings.ENVIRONMENT.upload_dir


def _is_named(path: Path) -> bool:
    return any(entry in {path, path.parent} for entry in settings.ENVIRONMENT.databases)


def _delete(folder: Path) -> list[str]:
    if folder.resolve().parent != _upload_dir().resolve():
        # The path comes from a row; only folders in the viewer's own storage are deleted.
        raise ViewerError(
            say("{name!r} is not stored by this viewer.", name=folder.name), "PROFILE_NOT_SERVED"
        )
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != _PLACEHOLDER]
    inside = Q(folder=str(folder)) | Q(path__startswith=f"{folder}/")
    StoredProfile.objects.filter(inside).delete()
    shutil.rmtree(folder, ignore_errors=True)
    return sorted(path.name for path in files)
