"""Uploaded files, from the request that sends one until a profile is made of it or it expires."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from django.conf import settings

from aggregator.system.temporary_files import remove_leftovers
from aggregator.texts import say
from viewer.errors import ViewerError
from viewer.profiles import storage
from viewer.profiles.storage import INCOMING, PART, room_lock, storage_error
from viewer.state.models import StoredProfile

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_BLOCK_BYTES = 1 << 20
_MAX_NAME = 100
_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Upload:
    """A complete upload."""

    id: str  # Names it in requests.
    path: Path  # The file, ``<id>-<file name>`` in the folder of uploads.

    @property
    def file_name(self) -> str:
        """The name it was sent with, reduced to characters that are safe in a path."""
        return self.path.name.removeprefix(f"{self.id}-")

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        return self.path.stat().st_size


def receive(file_name: str, size_bytes: int, body: SupportsRead[bytes]) -> Upload:
    """Write the body of a request to a file.

    Raises:
        ViewerError: The file is larger than ``DLPROF_MAX_PROFILE_BYTES``, there is no room for it,
            or the body ended early; nothing of it is kept.
    """
    check_size(size_bytes)
    remove_stale()
    upload_id = uuid.uuid4().hex
    upload = Upload(upload_id, _incoming() / f"{upload_id}-{_safe_name(file_name)}")
    part = upload.path.with_name(f"{upload.path.name}{PART}")
    try:
        with _reserved(part, size_bytes) as file:
            _copy(body, file, size_bytes)
            os.fsync(file.fileno())
            part.rename(upload.path)
    except OSError as error:
        raise storage_error(error) from error
    return upload


@contextmanager
def _reserved(part: Path, size_bytes: int) -> Iterator[BinaryIO]:
    """Open a file that has its full length from the start, so that parallel uploads see it.

    It is locked while it is written: ``remove_stale`` recognizes one whose writer was killed.
    """
    with room_lock():
        storage.check_room(size_bytes)
        part.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        file = part.open("xb", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(size_bytes)
    with file:
        try:
            yield file
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _copy(body: SupportsRead[bytes], file: BinaryIO, size_bytes: int) -> None:
    left = size_bytes
    while left:
        try:
            block = body.read(min(_BLOCK_BYTES, left))
        except OSError:  # the client is gone, or too slow
            block = b""
        if not block:
            raise ViewerError(
                say(
                    "Only {received:,} of {size:,} bytes arrived.",
                    received=size_bytes - left,
                    size=size_bytes,
                ),
                "UPLOAD_INCOMPLETE",
                hint=say("Send the file again."),
            )
        left -= len(block)
        view = memoryview(block)
        while view:
            view = view[file.write(view) :]


def check_size(size_bytes: int) -> None:
    """Refuse a file that is too large."""
    limit: int = settings.ENVIRONMENT.max_profile_bytes
    if size_bytes > limit:
        raise ViewerError(
            say(
                "The file has {size:,} bytes, and {limit:,} are taken at most.",
                size=size_bytes,
                limit=limit,
            ),
            "PROFILE_TOO_LARGE",
            hint=say("Aggregate it with dlprof --database, or raise DLPROF_MAX_PROFILE_BYTES."),
            limit_bytes=limit,
        )


def find(upload_id: str) -> Upload:
    """Return the upload of an id, or raise ``UPLOAD_NOT_FOUND``."""
    if _ID.fullmatch(upload_id):
        for path in _incoming().glob(f"{upload_id}-*"):
            if not path.name.endswith(PART):
                return Upload(upload_id, path)
    raise _not_found(upload_id)


@contextmanager
def lock_upload(upload: Upload) -> Iterator[None]:
    """Use an upload exclusively; it is removed when the block succeeds.

    Raises:
        ViewerError: Another request uses it, or has used it.
    """
    try:
        file = upload.path.open("rb")
    except FileNotFoundError as error:
        raise _not_found(upload.id) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _not_found(upload.id) from error
        if not upload.path.exists():
            raise _not_found(upload.id)
        yield
        upload.path.unlink(missing_ok=True)


def link_into_place(upload: Upload, target: Path) -> None:
    """Link or copy the file of an upload to its place; it stays there until the lock ends."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    try:
        target.hardlink_to(upload.path)
    except OSError:  # a file system without hard links
        shutil.copyfile(upload.path, target)


def remove_stale() -> None:
    """Remove expired uploads, and what requests that were killed left behind."""
    oldest = time.time() - settings.ENVIRONMENT.upload_expiry_s
    with room_lock():
        for path in _incoming().glob("*"):
            with suppress(FileNotFoundError):
                is_old = path.stat().st_mtime < oldest
                if (path.name.endswith(PART) and not _is_locked(path)) or is_old:
                    path.unlink()
    storage.remove_abandoned_folders(oldest)
    for stored in StoredProfile.objects.exclude(folder="").values_list("folder", flat=True):
        remove_leftovers(Path(stored))


def _is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _not_found(upload_id: str) -> ViewerError:
    return ViewerError(
        say("There is no upload {upload_id!r}.", upload_id=upload_id),
        "UPLOAD_NOT_FOUND",
        hint=say("It may have expired: send the file again."),
    )


def _incoming() -> Path:
    return settings.ENVIRONMENT.upload_dir / INCOMING


def _safe_name(file_name: str) -> str:
    """Return the end of a name, which has the suffix, in characters that are safe in a path."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", file_name)[-_MAX_NAME:]
