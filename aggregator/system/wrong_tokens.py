"""Counts wrong tokens by address, so that they cannot be tried without end."""

from __future__ import annotations

import logging
import math
import time
from typing import Final

#: Wrong tokens of one address in a minute that are answered as such.
MOST_WRONG_TOKENS: Final = 20
MINUTE_S: Final = 60
_MAX_ADDRESSES: Final = 1_000

logger = logging.getLogger(__name__)


class WrongTokens:
    """When an address was first refused in the last minute, and its wrong tokens since."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[float, int]] = {}

    def are_too_many(self, address: str, *, shows_token: bool) -> bool:
        """Note a refusal; the first of a minute is logged.

        Args:
            address: Where the request came from; empty: a socket of this machine.
            shows_token: Whether it had a token, which is wrong; others are not counted.
        """
        if len(self._refused) > _MAX_ADDRESSES:
            self._refused.clear()
        now = time.monotonic()
        since, count = self._refused.get(address, (-math.inf, 0))
        if now - since > MINUTE_S:
            since, count = now, 0
            logger.warning("refused a request without the token from %s", address or "a socket")
        count += shows_token
        self._refused[address] = (since, count)
        return shows_token and count > MOST_WRONG_TOKENS
