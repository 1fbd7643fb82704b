"""Remember lengths and orders of tables, which do not change while their database does not."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


def file_state(path: Path) -> Hashable:
    """Return a value that changes with a file's content, name, owner and permissions, or None."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


class QueryCache(Generic[Result]):
    """Results of queries, each asked for once while its file stays as it is.

    At most the weight ``most`` is kept; what was asked for longest ago goes first.
    """

    def __init__(self, most: int, weight: Callable[[Result], int] = lambda _: 1) -> None:
        self._most, self._weight = most, weight
        self._kept = 0
        self._known: OrderedDict[Hashable, Result] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self, state: Hashable, sql: str, params: Mapping[str, Any], read: Callable[[], Result]
    ) -> Result:
        """Return what was read of this state of the file before, or what is read now.

        ``read`` asks the query; without a state it is asked anew.
        """
        if state is None:
            return read()
        key = (state, sql, tuple(sorted((name, repr(value)) for name, value in params.items())))
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        result = read()
        with self._lock:
            if key not in self._known:
                self._known[key] = result
                self._kept += self._weight(result)
            while self._kept > self._most and len(self._known) > 1:
                self._kept -= self._weight(self._known.popitem(last=False)[1])
        return result


COUNTS: QueryCache[int] = QueryCache(4096)  # Each takes a few hundred bytes.
