"""What the viewer keeps of profiles: names, what was added or unlisted, and the files it stores."""

from __future__ import annotations

import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import OperationalError
from django.db.models import Q
from django.utils import timezone

from aggregator.texts import say
from viewer.environment import Environment
from viewer.errors import ProfileBusyError, ProfileNotServedError, StorageFullError
from viewer.jobs.models import ACTIVE_STATES, Job, StoredProfile
from viewer.profiles.registry import Kept, ServedProfile, profile_id

INCOMING = "incoming"
_MAX_STEM = 80
_FOLDER_NAME = re.compile("[0-9a-f]{32}")
#: Left free on the disk, so that an upload does not starve jobs and the state of their last bytes.
RESERVE_BYTES = 64 * 2**20

logger = logging.getLogger(__name__)

_last_kept: dict[str, Kept] = {}


def kept_profiles() -> dict[str, Kept]:
    """What is kept, by the profile's id.

    While the state cannot be read, for a full disk say, what was kept last still counts: looking
    at profiles does not depend on it.
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
    environment: Environment = settings.ENVIRONMENT
    started = datetime.fromtimestamp(environment.started_at, tz=UTC)
    named = set(environment.databases)
    kept = {}
    for row in StoredProfile.objects.order_by("created_at", "id"):
        path = Path(row.path)
        # Whoever names a file at the start wants to see it, whatever was done before.
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
    """An empty folder for one profile; it goes if the block fails."""
    folder = _upload_dir() / uuid.uuid4().hex
    folder.mkdir(parents=True, mode=0o750)
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def safe_stem(file_name: str) -> str:
    """A file's name without its suffix, as harmless as a name can be."""
    stem = re.sub(
        r"((\.pt)?(\.trace)?\.json(\.gz)?|\.sqlite|\.nsys-rep|\.qdrep)$",
        "",
        file_name,
        flags=re.IGNORECASE,
    )
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("._-")[:_MAX_STEM]
    return plain or "profile"


def is_ours(path: Path) -> bool:
    """Whether the viewer itself stores a file, complete or on its way here."""
    folder = _upload_dir().resolve()
    if not path.is_relative_to(folder) or path == folder:
        return False
    first = path.relative_to(folder).parts[0]
    return first == INCOMING or _FOLDER_NAME.fullmatch(first) is not None


def remove_ownerless(before: datetime) -> None:
    """Remove folders that a server began to fill and was killed over: no profile is in them."""
    known = set(StoredProfile.objects.exclude(folder="").values_list("folder", flat=True))
    for folder in _upload_dir().iterdir():
        with suppress(FileNotFoundError):
            is_old = folder.stat().st_mtime < before.timestamp()
            if is_old and _FOLDER_NAME.fullmatch(folder.name) and str(folder) not in known:
                shutil.rmtree(folder, ignore_errors=True)


def add(path: Path, *, name: str, folder: Path | None, is_complete: bool) -> StoredProfile:
    """Keep a profile; it is served once it is complete. Adding an unlisted one lists it again."""
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
    """Serve a database that an import has finished, and drop the copy that it was made from."""
    row = StoredProfile.objects.filter(path=str(database)).first()
    if row is None:
        return
    StoredProfile.objects.filter(pk=row.id).update(is_added=True)
    if row.folder:
        shutil.rmtree(Path(row.folder) / "source", ignore_errors=True)


def rename(served: ServedProfile, name: str) -> None:
    """Give a profile a name of the user's; an empty one brings its own back."""
    row, _ = StoredProfile.objects.get_or_create(id=served.id, defaults={"path": str(served.path)})
    StoredProfile.objects.filter(pk=row.id).update(name=name)


def remove(wanted: str, served: ServedProfile | None) -> tuple[list[str], bool]:
    """Delete what the viewer stored itself; a user's own file is only listed no more.

    Args:
        wanted: The profile's id.
        served: The profile, if it is served; one whose import failed is not.

    Returns:
        Names of the files deleted, and whether the profile was only unlisted.

    Raises:
        ProfileNotServedError: There is no such profile.
        ProfileBusyError: A job works on it, or waits to.
    """
    row = StoredProfile.objects.filter(pk=wanted).first()
    if served is None and (row is None or row.hidden_at is not None):
        raise ProfileNotServedError(
            say("No profile {wanted!r} is served here.", wanted=wanted), profile=wanted
        )
    if Job.objects.filter(profile_id=wanted, state__in=ACTIVE_STATES).exists():
        raise ProfileBusyError(
            say("Jobs work on this profile, or wait to."),
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


def check_room(size_bytes: int) -> None:
    """Refuse a file for which there is no room.

    Raises:
        StorageFullError: The disk, or what profiles may take of it, is full.
    """
    environment: Environment = settings.ENVIRONMENT
    folder = _upload_dir()
    if shutil.disk_usage(folder).free < size_bytes + RESERVE_BYTES:
        raise StorageFullError(
            say("The disk of the viewer has no room for this file."),
            hint=say("Delete profiles first."),
        )
    quota = environment.upload_quota_bytes
    if quota and used_bytes() + size_bytes > quota:
        raise StorageFullError(
            say(
                "Stored profiles may take {quota:,} bytes; with this file they would take more.",
                quota=quota,
            ),
            hint=say("Delete profiles first, or raise DLPROF_UPLOAD_QUOTA_BYTES."),
            quota_bytes=quota,
        )


def free_bytes() -> int:
    """What the disk of stored profiles has left."""
    return shutil.disk_usage(_upload_dir()).free


def used_bytes() -> int:
    """What all stored profiles and unfinished uploads take."""
    return sum(_sizes(_upload_dir()))


def _sizes(folder: str | Path) -> Iterator[int]:
    """Sizes of the files in a folder and below it, while others come and go."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(entry.path)
                continue
            with suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False).st_size


def _upload_dir() -> Path:
    environment: Environment = settings.ENVIRONMENT
    environment.upload_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
    return environment.upload_dir


def _is_named(path: Path) -> bool:
    environment: Environment = settings.ENVIRONMENT
    return any(entry in {path, path.parent} for entry in environment.databases)


def _delete(folder: Path) -> list[str]:
    """Delete a folder of ours with the rows of all that lies in it."""
    if folder.resolve().parent != _upload_dir().resolve():
        # A row says where; only what lies where we store things is ours to delete.
        raise ProfileNotServedError(say("{name!r} is not stored by this viewer.", name=folder.name))
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    inside = Q(folder=str(folder)) | Q(path__startswith=f"{folder}/")
    StoredProfile.objects.filter(inside).delete()
    shutil.rmtree(folder, ignore_errors=True)
    return names
