"""The language that a client wants: sentences are translated at the edge, when a reply is written.

A client asks by ``Accept-Language``; without it, and for languages that are not known here,
replies are English. Field names, codes and what comes from a profile are the same in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from aggregator.texts import ENGLISH, LANGUAGES

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def current_language() -> str:
    """Language of the reply that is being made."""
    return _language.get()


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Make replies in a language within the block."""
    token = _language.set(language)
    try:
        yield
    finally:
        _language.reset(token)


def preferred_language(header: str) -> str:
    """The first known language of an ``Accept-Language`` header, by its weights."""
    weighted: list[tuple[float, int, str]] = []
    for place, part in enumerate(header.split(",")[:_MOST_LANGUAGES]):
        tag, _, parameters = part.strip().partition(";")
        name = tag.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if name in LANGUAGES and weight > 0:
            weighted.append((-weight, place, name))
    return min(weighted)[2] if weighted else ENGLISH


_MOST_LANGUAGES = 20


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
