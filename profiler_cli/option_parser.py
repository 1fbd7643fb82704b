"""From the words of a command line to ``Options``.

DLProf's guides write ``-m simple`` and ``--mode=simple``, its users also ``--mode simple`` and
``-m=simple``: all four are read. A list may also stand as words ended by ``--``, after which
further switches may follow. The first word that is no switch begins the application.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aggregator.errors import IterationRangeError, UsageError
from aggregator.options import Mode
from profiler_cli.option_values import BOOLEANS, Boolean, Choice, Tokens, Words, did_you_mean
from profiler_cli.options import OPTIONS, Option, Options

LIST_END: Final = "--"
# Words that can stand in a list ended by ``--``: an application's words mostly hold more (a dot,
# a slash, a dash), so that ``--reports all python train.py -- x`` is read as it was meant.
LIST_WORD: Final = re.compile(r"[A-Za-z0-9_,]+")

_BY_SPELLING: Final = {word: option for option in OPTIONS for word in option.spellings}

SEE_HELP = "All options and their values: dlprof --help."


def parse_options(words: Sequence[str]) -> Options:
    """Read a command line, without the program's name.

    Raises:
        UsageError: An unknown switch, a missing or bad value, a reversed iteration range.
    """
    values: dict[str, Any] = {}
    given: list[Option] = []
    position = 0
    while position < len(words) and words[position].startswith("-") and len(words[position]) > 1:
        if words[position] == LIST_END:
            position += 1
            break
        option, inline = _split_switch(words[position])
        value, position = _read_value(option, inline, words, position)
        values[option.name] = value
        given.append(option)
        if option.name in {"help", "version"}:
            return Options(**values)
    options = Options(**_typed(values), application=tuple(words[position:]))
    _check_range(options)
    return dataclasses.replace(options, unused=_unused(options, given))


def _split_switch(word: str) -> tuple[Option, str | None]:
    """The option that a word names, and its value if the word holds one after ``=``."""
    spelling, equals, inline = word.partition("=")
    option = _BY_SPELLING.get(spelling)
    if option is None:
        hint = did_you_mean(spelling, tuple(_BY_SPELLING))
        raise UsageError(
            f"Unknown option {spelling}.",
            hint=f"{hint} See dlprof --help.".strip(),
            option=spelling,
        )
    return option, inline if equals else None


def _read_value(
    option: Option, inline: str | None, words: Sequence[str], position: int
) -> tuple[object, int]:
    """The value of the switch at ``position``, and the position after it."""
    following = words[position + 1] if position + 1 < len(words) else None
    if option.kind is None:
        if inline is not None:
            raise UsageError(f"{option.title} takes no value, not '{inline}'.", hint=SEE_HELP)
        return True, position + 1
    if inline is not None:
        return _parse(option, inline), position + 1
    if isinstance(option.kind, Boolean):
        if following is not None and following in BOOLEANS:
            return BOOLEANS[following], position + 2
        return True, position + 1
    if following is None or following == LIST_END or _is_switch(following):
        raise UsageError(
            f"{option.title} expects {option.kind.expects}, and nothing was given.", hint=SEE_HELP
        )
    if isinstance(option.kind, Tokens | Words):
        return _read_list(option, option.kind, words, position + 1)
    return _parse(option, following), position + 2


def _is_switch(word: str) -> bool:
    """Whether a word is one of our switches; ``-t cuda`` is not, so it can be a value."""
    return word.partition("=")[0] in _BY_SPELLING


def _read_list(
    option: Option, kind: Tokens | Words, words: Sequence[str], start: int
) -> tuple[object, int]:
    """A list that stands as words: up to ``--``, or as far as the words can only be members."""
    end = start
    while end < len(words) and LIST_WORD.fullmatch(words[end]):
        end += 1
    if end < len(words) and words[end] == LIST_END and end > start:
        return _parse(option, ",".join(words[start:end])), end + 1
    end = start + 1
    while end < len(words) and kind.is_member(words[end]):
        end += 1
    after = end + 1 if end < len(words) and words[end] == LIST_END else end
    return _parse(option, ",".join(words[start:end])), after


def _parse(option: Option, text: str) -> object:
    kind = option.kind
    assert kind is not None
    try:
        return kind.parse(text)
    except ValueError as error:
        hint = did_you_mean(text, kind.choices) if isinstance(kind, Choice) else ""
        raise UsageError(
            f"{option.title} expects {kind.expects}, not '{text}'.",
            hint=hint or SEE_HELP,
            option=option.title,
        ) from error


def _typed(values: dict[str, Any]) -> dict[str, Any]:
    """The fields whose type is not that of the word."""
    typed = dict(values)
    if "mode" in typed:
        typed["mode"] = Mode(typed["mode"])
    if "output_path" in typed:
        typed["output_path"] = Path(typed["output_path"])
    if typed.get("domains") == ("all",):
        typed["domains"] = ()
    return typed


def _check_range(options: Options) -> None:
    if options.iter_stop is not None and options.iter_stop < (options.iter_start or 0):
        raise IterationRangeError(
            f"--iter_stop={options.iter_stop} lies before --iter_start={options.iter_start}.",
            hint="Both ends belong to the range, so the stop is at least the start.",
            iter_start=options.iter_start,
            iter_stop=options.iter_stop,
        )


def _unused(options: Options, given: Sequence[Option]) -> tuple[str, ...]:
    """The switches that were given and change nothing, in the order given."""
    without_effect = (
        option
        for option in given
        if option.is_retired or (option.needs_application and options.database)
    )
    return tuple(dict.fromkeys(option.title for option in without_effect))
