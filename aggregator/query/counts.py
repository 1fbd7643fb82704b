"""Counts that are known: a table's length does not change while its database does not."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

MAX_COUNTS = 4096
"""Counts that are remembered; each is a few hundred bytes."""
_known: OrderedDict[Hashable, int] = OrderedDict()
_lock = threading.Lock()


def file_state(path: Path) -> Hashable:
    """What changes whenever a file does; None: it cannot be told."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def remembered(
    state: Hashable, sql: str, params: Mapping[str, Any], count: Callable[[], int]
) -> int:
    """A count that was made of this state of the file before, or a new one.

    Args:
        state: State of the file; None: count anew.
        sql: The query that counts.
        params: Its parameters.
        count: Counts.
    """
    if state is None:
        return count()
    key = (state, sql, tuple(sorted((name, repr(value)) for name, value in params.items())))
    with _lock:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    result = count()
    with _lock:
        _known[key] = result
        while len(_known) > MAX_COUNTS:
            _known.popitem(last=False)
    return result
