"""Uploads in parts: a part begins where the last one ended, and a broken-off one is gone on with.

What is here already is the length of the file on the disk. So nothing has to be agreed on after a
crash: whoever uploads asks for the offset and goes on from there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.utils import timezone

from aggregator.texts import say
from viewer.environment import Environment
from viewer.errors import (
    ProfileTooLargeError,
    StorageFullError,
    UploadIncompleteError,
    UploadNotFoundError,
    UploadOffsetError,
)
from viewer.jobs.models import Upload
from viewer.profiles.storage import check_room

_INCOMING = "incoming"
_BLOCK_BYTES = 256 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Body(Protocol):
    """What a request's body can do."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


def begin(file_name: str, size_bytes: int, client: str) -> Upload:
    """Make room for a file.

    Raises:
        ProfileTooLargeError: It is larger than any that is taken.
        StorageFullError: There is no room for it.
    """
    check_size(size_bytes)
    remove_stale()
    check_room(size_bytes)
    upload = Upload.objects.create(file_name=file_name, size_bytes=size_bytes, client=client)
    try:
        _part(upload).parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        _part(upload).touch(mode=0o640)
    except OSError as error:
        upload.delete()
        raise _full(error) from error
    return upload


def check_size(size_bytes: int) -> None:
    """Refuse a file that is too large.

    Raises:
        ProfileTooLargeError: It is.
    """
    limit: int = settings.ENVIRONMENT.max_profile_bytes
    if size_bytes > limit:
        raise ProfileTooLargeError(
            say(
                "The file has {size:,} bytes, and {limit:,} are taken at most.",
                size=size_bytes,
                limit=limit,
            ),
            hint=say("Aggregate it with dlprof --database, or raise DLPROF_MAX_PROFILE_BYTES."),
            limit_bytes=limit,
        )


def find(upload_id: str) -> Upload:
    """The upload of an id.

    Raises:
        UploadNotFoundError: There is none.
    """
    upload = Upload.objects.filter(pk=upload_id).first()
    if upload is None or not _part(upload).is_file():
        raise UploadNotFoundError(
            say("There is no upload {upload_id!r}.", upload_id=upload_id),
            hint=say("It may have expired: begin anew."),
        )
    return upload


def offset(upload: Upload) -> int:
    """How many bytes are here."""
    try:
        return _part(upload).stat().st_size
    except FileNotFoundError:
        return 0


def append(upload: Upload, begins_at: int, length: int, body: Body) -> int:
    """Write a part behind what is here; the new offset.

    A body that breaks off leaves what came of it, and the next part begins there.

    Raises:
        UploadOffsetError: The part begins elsewhere, or is more than is missing.
        StorageFullError: The disk is full; what was written is kept.
    """
    with _part(upload).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        here = file.seek(0, os.SEEK_END)
        if begins_at != here or here + length > upload.size_bytes:
            raise UploadOffsetError(
                say(
                    "{here:,} of {size:,} bytes are here; the part does not fit there.",
                    here=here,
                    size=upload.size_bytes,
                ),
                hint=say("Send the part that begins at this offset."),
                offset=here,
                size_bytes=upload.size_bytes,
            )
        try:
            _copy(body, file.fileno(), length)
        except OSError as error:
            raise _full(error) from error
        here = file.seek(0, os.SEEK_END)
    Upload.objects.filter(pk=upload.id).update(touched_at=timezone.now())
    return here


def take(upload: Upload, target: Path) -> None:
    """Move a complete upload to its place; the upload is no more.

    Raises:
        UploadNotFoundError: Somebody else has taken it meanwhile.
    """
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    try:
        _part(upload).rename(target)
    except FileNotFoundError as error:
        raise UploadNotFoundError(
            say("There is no upload {upload_id!r}.", upload_id=upload.id)
        ) from error
    upload.delete()


def check_complete(upload: Upload) -> None:
    """Refuse an upload of which a part is missing.

    Raises:
        UploadIncompleteError: One is.
    """
    if offset(upload) != upload.size_bytes:
        raise UploadIncompleteError(
            say(
                "{here:,} of {size:,} bytes are here.", here=offset(upload), size=upload.size_bytes
            ),
            hint=say("Send the rest first."),
            offset=offset(upload),
            size_bytes=upload.size_bytes,
        )


def content(upload: Upload) -> Path:
    """The file as far as it is here."""
    return _part(upload)


def give_up(upload: Upload) -> None:
    """Forget an upload and what is here of it."""
    _part(upload).unlink(missing_ok=True)
    upload.delete()


def remove_stale() -> None:
    """Remove uploads that nobody goes on with, and parts that no upload knows."""
    environment: Environment = settings.ENVIRONMENT
    oldest = timezone.now() - timedelta(seconds=environment.upload_expiry_s)
    for upload in Upload.objects.filter(touched_at__lt=oldest):
        give_up(upload)
    folder = environment.upload_dir / _INCOMING
    known = {f"{upload_id}.part" for upload_id in Upload.objects.values_list("id", flat=True)}
    for part in folder.glob("*.part"):
        if part.name not in known and part.stat().st_mtime < oldest.timestamp():
            part.unlink(missing_ok=True)


def _copy(body: Body, descriptor: int, length: int) -> None:
    left = length
    while left and (block := body.read(min(_BLOCK_BYTES, left))):
        view = memoryview(block)
        while view:
            view = view[os.write(descriptor, view) :]
        left -= len(block)
    os.fsync(descriptor)


def _part(upload: Upload) -> Path:
    environment: Environment = settings.ENVIRONMENT
    return environment.upload_dir / _INCOMING / f"{upload.id}.part"


def _full(error: OSError) -> StorageFullError:
    if error.errno in _FULL:
        message = say("The disk of the viewer is full.")
    else:
        message = say("The disk of the viewer refuses: {reason}.", reason=error.strerror)
    return StorageFullError(message, hint=say("Make room on it, then go on from the offset."))
