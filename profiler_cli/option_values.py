"""What the value of a command line switch may be: one small class per kind of value."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aggregator.errors import UnknownReportError

BOOLEANS: Mapping[str, bool] = {"true": True, "True": True, "false": False, "False": False}


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A sentence that names the closest known word; empty when none is close."""
    closest = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {closest[0]}?" if closest else ""


class ValueKind(Protocol):
    """One kind of value."""

    @property
    def metavar(self) -> str:
        """What ``--help`` shows after the switch."""

    @property
    def expects(self) -> str:
        """Completes the sentence "<switch> expects ..."."""

    def parse(self, text: str) -> object:
        """The value; ``ValueError`` when the text is none."""


@dataclass(frozen=True)
class Boolean:
    """``true`` or ``false``, also capitalised; a switch without a value means true."""

    metavar: str = "true|false"
    expects: str = "true or false"

    def parse(self, text: str) -> bool:
        """The value."""
        if text not in BOOLEANS:
            raise ValueError(text)
        return BOOLEANS[text]


@dataclass(frozen=True)
class Text:
    """Any text that is not empty."""

    metavar: str
    expects: str = "a text that is not empty"

    def parse(self, text: str) -> str:
        """The text."""
        if not text.strip():
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class Choice:
    """One word of a few."""

    choices: tuple[str, ...]

    @property
    def metavar(self) -> str:
        """The choices."""
        return "|".join(self.choices)

    @property
    def expects(self) -> str:
        """The choices in words."""
        return f"one of {', '.join(self.choices)}"

    def parse(self, text: str) -> str:
        """The word."""
        if text not in self.choices:
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class WholeNumber:
    """A whole number that is not negative."""

    at_least: int = 0
    metavar: str = "N"

    @property
    def expects(self) -> str:
        """The limit in words."""
        return f"a whole number of at least {self.at_least}"

    def parse(self, text: str) -> int:
        """The number."""
        if not (text.isascii() and text.isdigit()) or int(text) < self.at_least:
            raise ValueError(text)
        return int(text)


@dataclass(frozen=True)
class Seconds:
    """A length of time in seconds, fractions allowed."""

    above_zero: bool = False
    metavar: str = "SECONDS"

    @property
    def expects(self) -> str:
        """The limits in words."""
        return "a number of seconds " + ("above 0" if self.above_zero else "of at least 0")

    def parse(self, text: str) -> float:
        """The time in seconds."""
        seconds = float(text)
        if not math.isfinite(seconds) or seconds < 0 or (self.above_zero and seconds == 0):
            raise ValueError(text)
        return seconds


@dataclass(frozen=True)
class Words:
    """A list of any words, separated by commas; ``all`` means no restriction."""

    metavar: str
    expects: str = "a list of names separated by commas"

    def is_member(self, word: str) -> bool:
        """Any word could be one, so a list without an end mark stops after its first word."""
        del word
        return False

    def parse(self, text: str) -> tuple[str, ...]:
        """The words, each once, in the order given."""
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
        if not words:
            raise ValueError(text)
        return words


@dataclass(frozen=True)
class Tokens:
    """A list of words out of a fixed set.

    Attributes:
        what: Singular name of a member, for error messages.
        tokens: The set, in the order in which ``all`` stands for it.
        aliases: Further spellings of members.
        accepts_all: Whether ``all`` stands for the whole set.
        extra: Further members, which ``all`` does not stand for.
    """

    what: str
    tokens: tuple[str, ...]
    aliases: Mapping[str, str]
    accepts_all: bool
    metavar: str
    extra: tuple[str, ...] = ()

    @property
    def expects(self) -> str:
        """The members in words."""
        return f"a list of {', '.join(self._spellings())}"

    def _spellings(self) -> tuple[str, ...]:
        return (("all",) if self.accepts_all else ()) + self.tokens + self.extra

    def is_member(self, word: str) -> bool:
        """Whether a word on its own can only be one more part of this list."""
        known = {*self._spellings(), *self.aliases}
        return all(part in known for part in word.split(",") if part)

    def parse(self, text: str) -> tuple[str, ...]:
        """The members, each once, in the order of the set.

        Raises:
            UnknownReportError: A word that is no member; the hint names the closest.
        """
        chosen: set[str] = set()
        for word in Words(self.metavar).parse(text):
            member = self.aliases.get(word, word)
            if self.accepts_all and member == "all":
                chosen.update(self.tokens)
            elif member in self.tokens or member in self.extra:
                chosen.add(member)
            else:
                raise self._unknown(word)
        return tuple(token for token in (*self.tokens, *self.extra) if token in chosen)

    def _unknown(self, word: str) -> UnknownReportError:
        spellings = self._spellings()
        hint = did_you_mean(word, (*spellings, *self.aliases))
        listed = f"There are: {', '.join(spellings)}."
        return UnknownReportError(
            f"There is no {self.what} named '{word}'.",
            hint=f"{hint} {listed}".strip(),
            word=word,
            known=list(spellings),
        )
