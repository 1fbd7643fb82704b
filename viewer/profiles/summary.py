"""The items of the list of profiles, and the fields of one profile."""

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
from typing import Any

from aggregator.dldb.conversion import SOURCE_NAME
from aggregator.dldb.reader import is_aggregable
from aggregator.errors import DatabaseBusyError, DatabaseError, DlprofError
from aggregator.tables.connection import ProfileDatabase, opened
from aggregator.tables.counts import file_state
from aggregator.tables.declared.profile import (
    name_of_file,
    profile_details,
    profile_id,
    profile_item,
)
from aggregator.texts import say
from viewer.profiles.registry import ServedProfile, conversions_of

#: Fields of a profile that cannot be opened.
_UNREADABLE: dict[str, Any] = {
    **dict.fromkeys(("is_foreign", "db_version", "mode", "framework")),
    **dict.fromkeys(
        ("gpu_count", "gpu_name", "iteration_count", "created_at", "aggregation_count")
    ),
}

_AT_A_TIME = 8
_SLOW_S, _REMEMBERED_S = 1.0, 300.0
_MOST_FAILED = 256
_FAILED: dict[Hashable, tuple[float, DlprofError]] = {}

logger = logging.getLogger(__name__)


def describe_all(profiles: Sequence[ServedProfile], *, time_limit_s: float) -> list[dict[str, Any]]:
    """Return the items of the list. Files are read side by side: a slow one holds up no other."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        describe_one = partial(describe, time_limit_s=time_limit_s)
        items = [pool.submit(copy_context().run, describe_one, served) for served in profiles]
        return [item.result() for item in items]


def describe(served: ServedProfile, *, time_limit_s: float) -> dict[str, Any]:
    """Return one item of the list; a file that cannot be read has an error instead of values."""
    try:
        with (
            _remembered_failure(served.path),
            opened(served.path, time_limit_s=time_limit_s, keep=True) as database,
        ):
            return _item(served, database) | {"error": None}
    except DlprofError as error:
        reason = error
    except Exception:
        # Whatever a file does, the other profiles are listed.
        logger.exception("%s cannot be listed", served.path)
        reason = DatabaseError(
            say("The database cannot be read: internal error (details in the server log).")
        )
    item = {
        "id": served.id,
        "name": served.name or name_of_file(served.path),
        "file_name": served.path.name,
        "path": str(served.path),
        "is_stored": served.is_stored,
    }
    return item | _UNREADABLE | {"error": reason.to_dict()}


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


def describe_fully(served: ServedProfile, database: ProfileDatabase) -> dict[str, Any]:
    """Describe everything about one profile that no aggregation changes."""
    reason = why_not_reaggregate(served, database)
    return {
        **_item(served, database),
        **profile_details(database),
        "converted_from": database.info.get(SOURCE_NAME),
        "conversion_ids": [profile_id(path) for path in conversions_of(served.path)],
        "can_reaggregate": not reason,
        "cannot_reaggregate_reason": reason,
    }


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


def _item(served: ServedProfile, database: ProfileDatabase) -> dict[str, Any]:
    item = profile_item(served.path, served.id, database)
    name = served.name or item["name"]
    return item | {"name": name, "path": str(served.path), "is_stored": served.is_stored}
