"""The sentences of a job in its row, so that they can still be said in another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.jobs import IMPORTED, REUSED, WORDS, stored_error
from aggregator.texts import from_json, say

__all__ = ["CANCELLED", "CANCELLING", "presented_error", "presented_message", "stored_error"]

CANCELLED = say("Cancelled.")
CANCELLING = say("Cancelling.")
_MESSAGES: dict[str, str] = {text: text for text in (CANCELLED, CANCELLING, REUSED, IMPORTED)}


def presented_error(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The error of a row in the one shape of all errors."""
    if row is None:
        return None
    words = row.get(WORDS, {})
    return {
        name: from_json(words[name], value) if name in words else value
        for name, value in row.items()
        if name != WORDS
    }


def presented_message(message: str) -> str:
    """The message of a row; the engine's own lines stay as they are."""
    return _MESSAGES.get(message, message)
