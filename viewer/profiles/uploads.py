"""Uploads in parts: a part begins where the last one ended, and a broken-off one is gone on with.

What is here already is the length of the file on the disk. So nothing has to be agreed on after a
crash: whoever uploads asks for the offset and goes on from there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.utils import timezone

from aggregator.leftovers import remove_leftovers
from aggregator.texts import say
from viewer.environment import Environment
from viewer.errors import (
    ProfileTooLargeError,
    StorageFullError,
    UploadIncompleteError,
    UploadNotFoundError,
    UploadOffsetError,
)
from viewer.jobs.models import StoredProfile, Upload
from viewer.profiles.storage import INCOMING, check_room, remove_ownerless

#: What came of a part that breaks off is kept but for the last so many bytes.
_BLOCK_BYTES = 64 * 1024
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
        raise _not_found(upload_id)
    return upload


def offset(upload: Upload) -> int:
    """How many bytes are here."""
    try:
        return _part(upload).stat().st_size
    except FileNotFoundError:
        return 0


def append(upload: Upload, begins_at: int, length: int, body: Body) -> int:
    """Write a part behind what is here; the new offset.

    A body that breaks off leaves what came of it, and the next part begins there. It may begin
    while an earlier request, whose client is long gone, still waits for the rest of its own: each
    block is written only where the file ends, so the slower of two ends with an error.

    Raises:
        UploadNotFoundError: It was given up meanwhile.
        UploadOffsetError: The part begins elsewhere, or is more than is missing.
        StorageFullError: The disk is full; what was written is kept.
    """
    try:
        file = _part(upload).open("r+b", buffering=0)
    except FileNotFoundError as error:
        raise _not_found(upload.id) from error
    with file:
        here = file.seek(0, os.SEEK_END)
        if begins_at != here or here + length > upload.size_bytes:
            raise _misplaced(upload, here)
        left = length
        while left and (block := _next_block(body, min(_BLOCK_BYTES, left))):
            here = _write_at(here, block, file.fileno(), upload)
            left -= len(block)
        try:
            os.fsync(file.fileno())
        except OSError as error:
            raise _full(error) from error
    if not Upload.objects.filter(pk=upload.id).update(touched_at=timezone.now()):
        raise _not_found(upload.id)
    return here


def _next_block(body: Body, size: int) -> bytes:
    """What comes next; nothing at the end, and if the client is gone."""
    try:
        return body.read(size)
    except OSError:
        return b""


def _write_at(begins_at: int, block: bytes, descriptor: int, upload: Upload) -> int:
    """Write a block where the file ends, if it still ends there; where it ends then."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        here = os.lseek(descriptor, 0, os.SEEK_END)
        if here != begins_at:
            raise _misplaced(upload, here)
        view = memoryview(block)
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise _full(error) from error
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    return begins_at + len(block)


def _misplaced(upload: Upload, here: int) -> UploadOffsetError:
    return UploadOffsetError(
        say(
            "{here:,} of {size:,} bytes are here; the part does not fit there.",
            here=here,
            size=upload.size_bytes,
        ),
        hint=say("Send the part that begins at this offset."),
        offset=here,
        size_bytes=upload.size_bytes,
    )


@contextmanager
def held(upload: Upload) -> Iterator[None]:
    """Make use of a complete upload, as the only one; it is no more when the block ends well.

    Raises:
        UploadNotFoundError: Somebody else uses it, or has.
    """
    try:
        file = _part(upload).open("rb")
    except FileNotFoundError as error:
        raise _not_found(upload.id) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _not_found(upload.id) from error
        if not Upload.objects.filter(pk=upload.id).exists():
            raise _not_found(upload.id)
        yield
        give_up(upload)


def place(upload: Upload, target: Path) -> None:
    """Have the file of an upload at its place, too: if anything fails later, it is still here."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    try:
        target.hardlink_to(_part(upload))
    except OSError:  # a file system without hard links
        shutil.copyfile(_part(upload), target)


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
    folder = environment.upload_dir / INCOMING
    known = {f"{upload_id}.part" for upload_id in Upload.objects.values_list("id", flat=True)}
    for part in folder.glob("*.part"):
        with suppress(FileNotFoundError):  # somebody else was quicker
            if part.name not in known and part.stat().st_mtime < oldest.timestamp():
                part.unlink()
    remove_ownerless(oldest)
    for stored in StoredProfile.objects.exclude(folder="").values_list("folder", flat=True):
        remove_leftovers(Path(stored))


def _not_found(upload_id: str) -> UploadNotFoundError:
    return UploadNotFoundError(
        say("There is no upload {upload_id!r}.", upload_id=upload_id),
        hint=say("It may have expired: begin anew."),
    )


def _part(upload: Upload) -> Path:
    environment: Environment = settings.ENVIRONMENT
    return environment.upload_dir / INCOMING / f"{upload.id}.part"


def _full(error: OSError) -> StorageFullError:
    if error.errno in _FULL:
        message = say("The disk of the viewer is full.")
    else:
        message = say("The disk of the viewer refuses: {reason}.", reason=error.strerror)
    return StorageFullError(message, hint=say("Make room on it, then go on from the offset."))
