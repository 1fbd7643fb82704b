"""The sentences of a job in its row, so that they can still be said in another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggregator.tasks import REUSED
from aggregator.texts import Text, from_json, say, to_json

CANCELLED = say("Cancelled.")
CANCELLING = say("Cancelling.")
_MESSAGES: dict[str, str] = {text: text for text in (CANCELLED, CANCELLING, REUSED)}
_WORDS = "words"


def stored_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """An error for the row: its sentences with what they were made of."""
    words = {name: to_json(text) for name, text in error.items() if isinstance(text, Text)}
    return {**error, _WORDS: words}


def presented_error(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The error of a row in the one shape of all errors."""
    if row is None:
        return None
    words = row.get(_WORDS, {})
    return {
        name: from_json(words[name], value) if name in words else value
        for name, value in row.items()
        if name != _WORDS
    }


def presented_message(message: str) -> str:
    """The message of a row; the engine's own lines stay as they are."""
    return _MESSAGES.get(message, message)
