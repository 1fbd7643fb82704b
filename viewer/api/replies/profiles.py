"""Replies about profiles and uploads, and what they say of a file."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from aggregator.dldb.conversion import SOURCE_NAME
from aggregator.dldb.reader import is_aggregable
from aggregator.errors import DatabaseBusyError, DatabaseError, DlprofError
from aggregator.system.replies import Unknown, doc
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.counts import file_state
from aggregator.tables.declared.profile import (
    name_of_file,
    profile_details,
    profile_id,
    profile_item,
)
from aggregator.texts import say
from viewer.api.replies.shared import Error
from viewer.profiles.registry import ServedProfile, conversions_of

_AT_A_TIME = 8
_SLOW_S, _REMEMBERED_S = 1.0, 300.0
_MOST_FAILED = 256
_FAILED: dict[Hashable, tuple[float, DlprofError]] = {}

logger = logging.getLogger(__name__)


class ProfileFacts(Struct, kw_only=True):
    """What is known of a profile without its aggregations."""

    id: Annotated[str, doc("Part of the profile's address.")]
    name: Annotated[str, doc("Name of the profile, else the name of its file.")]
    file_name: Annotated[str, doc("Name of the file, without its folder.")]
    path: Annotated[str, doc("Where the file is on the server.")]
    is_stored: Annotated[bool, doc("Stored by the viewer: deleting the profile deletes it.")]
    is_foreign: Annotated[bool | None, doc("Written by NVIDIA's DLProf.")]
    db_version: Annotated[str | None, doc("Version of the DLProf that wrote it.")]
    mode: Annotated[str | None, doc("How its ranges were read.")]
    framework: Annotated[str | None, doc("Framework and its version.")]
    gpu_count: Annotated[int | None, doc("Number of GPUs.")]
    gpu_name: Annotated[str | None, doc("Names of the GPUs.")]
    iteration_count: Annotated[
        int | None, doc("Iterations of the whole profile, in its first aggregation.")
    ]
    created_at: Annotated[str | None, doc("When the database was written.")]
    aggregation_count: Annotated[int | None, doc("Number of aggregations in it.")]


class ProfileItem(ProfileFacts, kw_only=True):
    """A profile in the list of profiles."""

    error: Annotated[Error | None, doc("Why the file cannot be opened.")]


class SystemConfig(Struct, kw_only=True):
    """The system that a profile was recorded on."""

    profile_name: str | None
    cpu_model: str | None
    driver_version: str | None
    framework: str | None
    cuda_version: str | None
    cudnn_version: str | None
    nsys_version: str | None
    dlprof_version: str | None
    original_command: str | None
    dlprof_db_version: str | None
    viewer_version: str | None
    gpu_count: int | None
    gpu_names: list[str]


class ProfileWarning(Struct, kw_only=True):
    """Something that the import of a profile could not read or had to assume."""

    code: str
    message: str
    count: int


class Profile(ProfileFacts, kw_only=True):
    """A profile with everything that no aggregation changes."""

    system_config: SystemConfig
    domains: list[str]
    warnings: list[ProfileWarning]
    info: dict[str, str | None]
    converted_from: Annotated[str | None, doc("File of NVIDIA's that it was converted from.")]
    conversion_ids: list[Annotated[str, doc("Profile that was converted from this one.")]]
    can_reaggregate: bool
    cannot_reaggregate_reason: Annotated[str, doc("Empty if aggregations can be added.")]
    unknown: Unknown


class RemovedProfile(Struct, kw_only=True):
    """The result of removing a profile."""

    id: str
    deleted_files: list[Annotated[str, doc("Name of a file that the viewer stored.")]]
    is_unlisted: Annotated[bool, doc("The profile was removed from the list, its file kept.")]


class Upload(Struct, kw_only=True):
    """A file that was uploaded."""

    id: Annotated[str, doc("Names the upload in POST profiles/.")]
    file_name: Annotated[str, doc("The file's name, in characters that are safe in a path.")]
    size_bytes: int


def describe_all(profiles: Sequence[ServedProfile], *, time_limit_s: float) -> list[ProfileItem]:
    """Return the items of the list. Files are read side by side: a slow one holds up no other."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        describe_one = partial(describe, time_limit_s=time_limit_s)
        items = [pool.submit(copy_context().run, describe_one, served) for served in profiles]
        return [item.result() for item in items]


def describe(served: ServedProfile, *, time_limit_s: float) -> ProfileItem:
    """Return one item of the list; a file that cannot be read has an error instead of values."""
    try:
        with (
            _remembered_failure(served.path),
            opened(served.path, time_limit_s=time_limit_s, keep=True) as database,
        ):
            return ProfileItem(**_facts(served, database), error=None)
    except DlprofError as error:
        reason = error
    except Exception:
        # Whatever a file does, the other profiles are listed.
        logger.exception("%s cannot be listed", served.path)
        reason = DatabaseError(
            say("The database cannot be read: internal error (details in the server log).")
        )
    unreadable: dict[str, Any] = dict.fromkeys(ProfileFacts.__struct_fields__)
    return ProfileItem(
        **unreadable
        | {
            "id": served.id,
            "name": served.name or name_of_file(served.path),
            "file_name": served.path.name,
            "path": str(served.path),
            "is_stored": served.is_stored,
            "error": reason.to_dict(),
        }
    )


@contextmanager
def _remembered_failure(path: Path) -> Iterator[None]:
    """Raise at once what took long to fail a while ago, if the file is still the same."""
    key = file_state(path)
    until, known = _FAILED.get(key, (0.0, None))
    if known is not None and time.monotonic() < until:
        raise known.with_traceback(None)
    began = time.monotonic()
    try:
        yield
    except DlprofError as error:
        is_slow = time.monotonic() - began > _SLOW_S
        if is_slow and key is not None and not isinstance(error, DatabaseBusyError):
            if len(_FAILED) >= _MOST_FAILED:
                _FAILED.clear()
            _FAILED[key] = (time.monotonic() + _REMEMBERED_S, error)
        raise


def describe_fully(served: ServedProfile, database: ProfileDatabase) -> Profile:
    """Describe everything about one profile that no aggregation changes."""
    reason = why_not_reaggregate(served, database)
    details = profile_details(database)
    return Profile(
        **_facts(served, database),
        system_config=SystemConfig(**details.pop("system_config")),
        warnings=[ProfileWarning(**row) for row in details.pop("warnings")],
        **details,
        converted_from=database.info.get(SOURCE_NAME),
        conversion_ids=[profile_id(path) for path in conversions_of(served.path)],
        can_reaggregate=not reason,
        cannot_reaggregate_reason=reason,
    )


def why_not_reaggregate(served: ServedProfile, database: ProfileDatabase) -> str:
    """Return why no aggregation can be added; empty if one can."""
    if not database.is_ours:
        if os.access(served.path.parent, os.W_OK):
            return ""
        return say(
            "A database of NVIDIA's is never changed but converted into a new one beside it, "
            "and its folder cannot be written to."
        )
    return why_read_only(served, database)


def why_read_only(served: ServedProfile, database: ProfileDatabase) -> str:
    """Return why nothing in the database can be changed; empty if it can be."""
    if not database.is_ours:
        return say("A database of NVIDIA's is never changed.")
    if not is_aggregable(database.version):
        return "It was written by an earlier version: aggregate its profile again with dlprof."
    # SQLite writes its journal beside the file.
    if not (os.access(served.path, os.W_OK) and os.access(served.path.parent, os.W_OK)):
        return say("The database or its folder cannot be written to.")
    return ""


def _facts(served: ServedProfile, database: ProfileDatabase) -> dict[str, Any]:
    item = profile_item(served.path, served.id, database)
    name = served.name or item["name"]
    return item | {"name": name, "path": str(served.path), "is_stored": served.is_stored}
