"""The requests that are worked on at a time: how many, of how many profiles, and for whom."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

REQUESTS_AT_A_TIME: Final = 32
#: How long a request waits for a place before it is refused.
WAIT_LIMIT_S: Final = 30.0
#: When no request has ended for so long, and others wait, the server does not answer.
STUCK_AFTER_S: Final = 30.0
_POLL_S: Final = 0.5


class NoPlaceError(Exception):
    """All places were taken, or the client did not wait for one."""


class Places:
    """Places for requests; each belongs to a profile, or to none."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._taken: Counter[str] = Counter()
        self._waiting = 0
        self._last_change = time.monotonic()

    @contextmanager
    def take(self, profile: str, has_left: Callable[[], bool]) -> Iterator[None]:
        """Hold a place within the block.

        Args:
            profile: The profile that the request is about; empty: none.
            has_left: Whether the client has left, so that nothing need be done for it.

        Raises:
            NoPlaceError: None was free in time.
        """
        deadline = time.monotonic() + WAIT_LIMIT_S
        with self._free:
            self._waiting += 1
            try:
                while not self._is_free(profile):
                    self._free.wait(_POLL_S)
                    if time.monotonic() > deadline or has_left():
                        raise NoPlaceError
                self._taken[profile] += 1
                self._last_change = time.monotonic()
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._free:
                self._taken[profile] -= 1
                if not self._taken[profile]:  # names of profiles are what clients write
                    del self._taken[profile]
                self._last_change = time.monotonic()
                self._free.notify_all()

    def _is_free(self, profile: str) -> bool:
        """Return whether a place is free for a profile: at most as many as it leaves to the others.

        What takes long with some profiles leaves room for the others: one may hold 16 places, the
        next 8, then 4, and the last ones are for profiles that hold none.
        """
        free = REQUESTS_AT_A_TIME - self._taken.total()
        return free > (self._taken.get(profile, 0) if profile else 0)

    @property
    def is_stuck(self) -> bool:
        """Whether requests wait, and none has begun or ended for long."""
        return bool(self._waiting) and time.monotonic() - self._last_change > STUCK_AFTER_S


PLACES: Final = Places()


def has_left(connection: socket.socket | None) -> bool:
    """Return whether a client has closed its connection; unknown without a connection."""
    if connection is None:
        return False
    poll = select.poll()
    try:
        poll.register(connection, select.POLLRDHUP)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # it was closed here
        return True
