"""Structs that are replies: the meaning of their fields, and their messages in a language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from aggregator.texts import Text, translate


def doc(meaning: str, *, least: int | None = None, most: int | None = None) -> msgspec.Meta:
    """Describe a field of a reply, or a parameter of an answer, in its ``Annotated``."""
    return msgspec.Meta(description=meaning, ge=least, le=most)


Unknown: TypeAlias = Annotated[
    dict[str, str], doc("Why a field is null, by the field's name; * stands for all of them.")
]


def to_plain(reply: Any) -> Any:
    """Return a reply as dictionaries, lists and plain values; messages stay translatable."""
    if isinstance(reply, msgspec.Struct):
        fields = ((name, getattr(reply, name)) for name in reply.__struct_fields__)
        return {name: to_plain(value) for name, value in fields if value is not msgspec.UNSET}
    if isinstance(reply, Mapping):
        return {name: to_plain(value) for name, value in reply.items()}
    if isinstance(reply, list | tuple):
        return [to_plain(item) for item in reply]
    return reply


def message_encoder(language: str) -> Callable[[Any], str]:
    """Return the ``enc_hook`` with which msgspec writes messages in a language."""

    def encode(value: Any) -> str:
        if isinstance(value, Text):
            return str(translate(value, language))
        raise NotImplementedError

    return encode
