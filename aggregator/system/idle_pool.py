"""Things that take long to open, kept for a while for the next user of this process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class IdlePool(Generic[Item]):
    """Items that are not in use.

    Args:
        most: How many are kept.
        longest_s: For how long each is kept, and half as long again at most.
        end: Ends one that is not kept any more.
    """

    def __init__(self, most: int, longest_s: float, end: Callable[[Item], object]) -> None:
        self.most, self.longest_s, self._end = most, longest_s, end
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Forget the parent's items after a fork: they must be neither used nor ended."""
        self._lock = threading.Lock()
        self._parents = getattr(self, "_items", [])
        self._items: list[tuple[float, Item]] = []
        self._timer: threading.Timer | None = None

    def take(self, fits: Callable[[Item], bool] = lambda _: True) -> Item | None:
        """Return an item that fits, or None."""
        with self._lock:
            for place, (_, item) in enumerate(self._items):
                if fits(item):
                    return self._items.pop(place)[1]
        return None

    def give(self, item: Item) -> None:
        """Keep an item, in place of the oldest one if there are enough."""
        with self._lock:
            self._items.append((time.monotonic(), item))
            surplus = self._items[: -self.most]
            del self._items[: -self.most]
            if self._timer is None:
                self._wait()
        for _, old in surplus:
            self._end(old)

    def end_old(self) -> None:
        """End the items that were kept long enough."""
        oldest = time.monotonic() - self.longest_s
        with self._lock:
            old = [item for since, item in self._items if since < oldest]
            self._items = [entry for entry in self._items if entry[0] >= oldest]
            self._timer = None
            if self._items:
                self._wait()
        for item in old:
            self._end(item)

    def _wait(self) -> None:
        self._timer = threading.Timer(self.longest_s / 2, self.end_old)
        self._timer.daemon = True
        self._timer.start()
