"""Structs that are replies: the meaning of their fields, and their messages in a language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from aggregator.texts import ENGLISH, Text, translate


def doc(meaning: str, *, least: int | None = None, most: int | None = None) -> msgspec.Meta:
    """Describe a field of a reply, or a parameter of an answer, in its ``Annotated``."""
    return msgspec.Meta(description=meaning, ge=least, le=most)


def to_plain(reply: msgspec.Struct) -> dict[str, Any]:
    """Return a reply as dictionaries, lists and plain values, in English."""
    found: dict[str, Any] = msgspec.to_builtins(reply, enc_hook=message_encoder(ENGLISH))
    return found


def message_encoder(language: str) -> Callable[[Any], str]:
    """Return the ``enc_hook`` with which msgspec writes messages in a language."""

    def encode(value: Any) -> str:
        if isinstance(value, Text):
            return str(translate(value, language))
        raise NotImplementedError

    return encode
