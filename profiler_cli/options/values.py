"""Kinds of values of command-line options."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from aggregator.errors import UnknownReportError

BOOLEANS: Mapping[str, bool] = {"true": True, "True": True, "false": False, "False": False}
_SLOWER: Final = re.compile(r"step>(\d+(?:\.\d+)?)x")
LEAST_DURATION_S: Final = 10.0
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600}
_Value = TypeVar("_Value")


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a question with the closest known word; empty if no word is close."""
    closest = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {closest[0]}?" if closest else ""


@dataclass(frozen=True)
class Kind:
    """A kind of values."""

    metavar: str  # Name of the value in ``--help``.
    expects: str  # Its description, for the message "<option> expects ...".
    parse: Callable[[str], object]  # Raises ``ValueError`` if the text is not valid.
    choices: tuple[str, ...] = ()  # All values; empty if there are too many.
    # Whether a further word belongs to a list that does not end with ``--``; None for no list.
    is_member: Callable[[str], bool] | None = None


def _checked(value: _Value, is_valid: bool) -> _Value:  # noqa: FBT001
    if not is_valid:
        raise ValueError(value)
    return value


def parse_words(text: str) -> tuple[str, ...]:
    """Parse words that are separated by commas; duplicates are removed."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    return _checked(words, bool(words))


# An option of this kind without a value is true.
BOOLEAN: Final = Kind(
    "true|false",
    "true or false",
    lambda text: BOOLEANS[_checked(text, text in BOOLEANS)],
)


def any_text(metavar: str, convert: Callable[[str], object] = str) -> Kind:
    """Return any text that is not empty."""

    def parse(text: str) -> object:
        return convert(_checked(text, bool(text.strip())))

    return Kind(metavar, "a text that is not empty", parse)


def one_of(choices: tuple[str, ...], convert: Callable[[str], object] = str) -> Kind:
    """Return one of several words."""
    listed = ", ".join(choices)

    def parse(text: str) -> object:
        return convert(_checked(text, text in choices))

    return Kind("|".join(choices), f"one of {listed}", parse, choices)


def whole_number(at_least: int = 0) -> Kind:
    """Return a whole number with a minimum."""

    def parse(text: str) -> int:
        number = int(_checked(text, text.isascii() and text.isdigit()))
        return _checked(number, number >= at_least)

    return Kind("N", f"a whole number of at least {at_least}", parse)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) > 0


COUNT_OR_ALL: Final = Kind(
    "N|all",
    "a whole number of at least 1, or all",
    lambda text: _checked(text, _is_count(text) or text == "all"),
)
"""Kept as text."""


def _real(
    metavar: str,
    expects: str,
    is_valid: Callable[[float], bool],
    read: Callable[[str], float] = float,
) -> Kind:
    return Kind(metavar, expects, lambda text: _checked(value := read(text), is_valid(value)))


def seconds(*, above_zero: bool = False) -> Kind:
    """Return a time in seconds, which may have a fraction."""
    limit = "above 0" if above_zero else "of at least 0"
    return _real(
        "SECONDS",
        f"a number of seconds {limit}",
        lambda time: 0 <= time < math.inf and (time > 0 or not above_zero),
    )


def _factor(text: str) -> float:
    match = _SLOWER.fullmatch(text.replace(" ", ""))
    return float(match[1]) if match is not None else math.nan


DURATION: Final = _real(
    "TIME",
    "a time of at least 10s, as in 90s, 30m or 1h",
    lambda time: LEAST_DURATION_S <= time < math.inf,
    lambda text: float(text[:-1]) * _UNITS_S.get(text[-1:], math.nan),
)
"""Kept in seconds."""
GIGABYTES: Final = _real("GB", "a number of GB above 0", lambda size: 0 < size < math.inf)
MILLISECONDS: Final = _real(
    "MS", "a number of milliseconds above 0", lambda time: 1e-6 <= time <= 1e12
)
SLOWER_STEPS: Final = _real(
    "CONDITION",
    "step>FACTORx with a factor above 1, as in 'step>1.1x'",
    lambda factor: 1 < factor < math.inf,
    _factor,
)
"""Kept as the factor."""


def list_of_words(metavar: str) -> Kind:
    """Return a list of words, empty for ``all``.

    Without ``--`` it has only one word, because any further word could be a member.
    """

    def parse(text: str) -> tuple[str, ...]:
        words = parse_words(text)
        return () if words == ("all",) else words

    return Kind(metavar, "a list of names separated by commas", parse, is_member=lambda _: False)


@dataclass(frozen=True)
class Tokens:
    """A list of words of a fixed set."""

    choices: ClassVar[tuple[str, ...]] = ()  # Its own error has a hint.

    what: str  # Name of a member, for error messages.
    tokens: tuple[str, ...]  # The set, in the order of ``all``.
    aliases: Mapping[str, str]  # Other spellings of members.
    accepts_all: bool  # Whether ``all`` is accepted for the whole set.
    metavar: str
    extra: tuple[str, ...] = ()  # Members that ``all`` does not include.

    @property
    def expects(self) -> str:
        """The members in words."""
        return f"a list of {', '.join(self._spellings())}"

    def _spellings(self) -> tuple[str, ...]:
        return (("all",) if self.accepts_all else ()) + self.tokens + self.extra

    def is_member(self, word: str) -> bool:
        """Return whether a word consists of members of this list."""
        known = {*self._spellings(), *self.aliases}
        return all(part in known for part in word.split(",") if part)

    def parse(self, text: str) -> tuple[str, ...]:
        """Parse the members; the result has the order of the set.

        Raises:
            UnknownReportError: A word is not a member; the hint contains the closest member.
        """
        chosen: set[str] = set()
        for word in parse_words(text):
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
