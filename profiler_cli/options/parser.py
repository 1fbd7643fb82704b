"""Parse a command line into ``Options``, check them, and format ``--help``.

``-m simple``, ``--mode=simple``, ``--mode simple`` and ``-m=simple`` are all accepted. A list may
also be written as words that end with ``--``; further switches may follow. The first word that is
not a switch begins the application.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from aggregator.errors import IterationRangeError, UsageError
from aggregator.ranks.file_names import natural_order
from aggregator.sources.formats import PROFILE_SUFFIXES
from profiler_cli.options.declared import CAPTURE, GROUPS, OPTIONS, RETIRED, Option, Options
from profiler_cli.options.values import BOOLEAN, BOOLEANS, did_you_mean

STANDBY_VARIABLE: Final = "DLPROF_STANDBY"
"""Set to 1: as ``--standby``."""
LIST_END: Final = "--"
# Words that may be in a list that ends with ``--``. Most words of an application contain others,
# such as a dot, slash or dash, so ``--reports all python train.py -- x`` is parsed correctly.
LIST_WORD: Final = re.compile(r"[A-Za-z0-9_,]+")

_BY_SPELLING: Final = {word: option for option in OPTIONS for word in option.spellings}

SEE_HELP = "All options and their values: dlprof --help."
HELP_WIDTH: Final = 88
USAGE: Final = """\
usage: dlprof [switches] --database=FILE
       dlprof [switches] application [application arguments]
       dlprof advise|compare|doctor|export|history|mcp|memory ...
       dlprof pyprof|record|scrub|show|stragglers|summarize|trial|whatif ...

Writes a DLProf database and reports from the file of --database (an Nsight Systems
export or report, a DLProf database, or records that an interrupted run kept), or from
an application, which it runs and records. An export can also be made manually:

  nsys profile -t cuda,nvtx -s none --export=sqlite -o nsys_profile python train.py

Values are written as --mode=pytorch, --mode pytorch, -m pytorch or -m=pytorch.
Lists are separated by commas, or by spaces with -- at their end.
"""
EXIT_CODES: Final = """\
Exit codes:
  That of the application if it failed. Else 0 done, also if --duration ended it;
  1 internal error, 2 bad usage, 3 nothing was recorded, or a tool is missing or
  failed, 4 the profile cannot be used, 5 the database cannot be read or written,
  130 interrupted, 129 or 143 ended by SIGHUP or SIGTERM
"""


AGGREGATION: Final = ("--aggregation N", "aggregation of the database (default: last)")
"""The argument of all subcommands that show an aggregation."""


class SubcommandParser(argparse.ArgumentParser):
    """Parses the options of a subcommand; an error in them is a ``UsageError``."""

    def __init__(self, **texts: Any) -> None:
        super().__init__(allow_abbrev=False, **texts)

    def add(self, words: str, meaning: str, **more: Any) -> None:
        """Add an argument, ``-o, --output FILE``; ``N`` is a whole number, no value a switch."""
        names = [word.rstrip(",") for word in words.split()]
        if len(names) > 1 and not names[-1].startswith("-"):
            more["metavar"] = names.pop()
            if more["metavar"] == "N":
                more.setdefault("type", int)
        elif more.keys().isdisjoint(("choices", "action")):
            more["action"] = "store_true"
        self.add_argument(*names, help=meaning, **more)

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        text = f"{message[:1].upper()}{message[1:]}."
        raise UsageError(text, hint=f"{self.prog} --help lists the options.")


def parse_options(words: Sequence[str]) -> Options:
    """Parse a command line, without the name of the program.

    Raises:
        UsageError: An option is unknown, a value is missing or not valid.
        IterationRangeError: The iteration range is reversed.
    """
    values: dict[str, Any] = {}
    used: list[Option] = []
    position = 0
    while position < len(words) and words[position].startswith("-") and len(words[position]) > 1:
        if words[position] == LIST_END:
            position += 1
            break
        option, inline = _split_switch(words[position])
        value, position = _read_value(option, inline, words, position)
        values[option.name] = value
        used.append(option)
        if option.name in {"help", "version"}:
            return Options(**values)
    options = Options(**values, application=tuple(words[position:]))
    _check_range(options)
    return dataclasses.replace(options, unused=_unused(options, used))


def _split_switch(word: str) -> tuple[Option, str | None]:
    """Return the option of a word, and its value if there is one after ``=``."""
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
    """Return the value of the option at ``position``, and the position after it."""
    following = words[position + 1] if position + 1 < len(words) else None
    if option.kind is None:
        if inline is not None:
            raise UsageError(f"{option.title} takes no value, not '{inline}'.", hint=SEE_HELP)
        return True, position + 1
    if inline is not None:
        return _parse(option, inline), position + 1
    if option.kind is BOOLEAN:
        if following is not None and following in BOOLEANS:
            return BOOLEANS[following], position + 2
        return True, position + 1
    if following is None or following == LIST_END or _is_switch(following):
        raise UsageError(
            f"{option.title} expects {option.kind.expects}, but no value was found.", hint=SEE_HELP
        )
    if option.kind.is_member is not None:
        return _read_list(option, option.kind.is_member, words, position + 1)
    return _parse(option, following), position + 2


def _is_switch(word: str) -> bool:
    """Return whether a word is an option of dlprof; ``-t`` is not, so it can be a value."""
    return word.partition("=")[0] in _BY_SPELLING


def _read_list(
    option: Option, is_member: Callable[[str], bool], words: Sequence[str], start: int
) -> tuple[object, int]:
    """Parse a list of words that ends with ``--``, or before the first word that is no member."""
    end = start
    while end < len(words) and LIST_WORD.fullmatch(words[end]):
        end += 1
    if end < len(words) and words[end] == LIST_END and end > start:
        return _parse(option, ",".join(words[start:end])), end + 1
    end = start + 1
    while end < len(words) and is_member(words[end]):
        end += 1
    after = end + 1 if end < len(words) and words[end] == LIST_END else end
    return _parse(option, ",".join(words[start:end])), after


def _parse(option: Option, text: str) -> object:
    kind = option.kind
    assert kind is not None
    try:
        return kind.parse(text)
    except ValueError as error:
        hint = did_you_mean(text, kind.choices)
        raise UsageError(
            f"{option.title} expects {kind.expects}, not '{text}'.",
            hint=hint or SEE_HELP,
            option=option.title,
        ) from error


def _check_range(options: Options) -> None:
    if options.iter_stop is not None and options.iter_stop < (options.iter_start or 0):
        raise IterationRangeError(
            f"--iter_stop={options.iter_stop} is less than --iter_start={options.iter_start}.",
            hint="The range is inclusive: --iter_stop must be at least --iter_start.",
            iter_start=options.iter_start,
            iter_stop=options.iter_stop,
        )


def _unused(options: Options, used: Sequence[Option]) -> tuple[str, ...]:
    """Return the options that were set but have no effect, in their order."""
    without_effect = (
        option for option in used if option in RETIRED or (option in CAPTURE and options.database)
    )
    return tuple(dict.fromkeys(option.title for option in without_effect))


def check_request(options: Options) -> None:
    """Check that there is something to profile or to aggregate.

    Raises:
        UsageError: There is nothing, or the input is not valid.
    """
    if options.database:
        if "://" not in options.database:  # A URL is read later.
            rank_files(options.database)
        return
    if not options.application:
        raise UsageError(
            "Nothing to profile: no application and no --database was given.",
            hint="Example: dlprof python train.py. See dlprof --help.",
        )
    _check_standby(options)
    first = options.application[0]
    if first.endswith((*PROFILE_SUFFIXES, ".gz")) and Path(first).is_file():
        raise UsageError(
            f"'{first}' is a file, not an application.",
            hint=f"Aggregate it with: dlprof --database={shlex.quote(first)}",
        )


def stands_by(options: Options) -> bool:
    """Return whether the application is recorded only when it is asked for."""
    return options.standby or os.environ.get(STANDBY_VARIABLE) == "1"


def _check_standby(options: Options) -> None:
    if not stands_by(options):
        if options.every or options.when:
            raise UsageError("--every and --when need --standby.")
        return
    if options.delay or options.duration or options.nsys_profile_range or options.memory:
        raise UsageError(
            "--standby records when it is asked, so --delay, --duration, --memory and "
            "--nsys_profile_range have no place.",
            hint="Leave them out, or leave out --standby.",
        )


def named_by_environment(options: Options) -> Options:
    """Replace ``%q{NAME}`` by environment variables in the names of output files.

    A launcher starts the same command for every rank. ``--output_path='rank%q{RANK}'`` gives each
    of them its own folder, as in Nsight Systems.

    Raises:
        UsageError: A variable is not set.
    """
    return dataclasses.replace(
        options,
        output_path=Path(_filled(str(options.output_path), "--output_path")),
        nsys_base_name=_filled(options.nsys_base_name, "--nsys_base_name"),
        profile_name=_filled(options.profile_name, "--profile_name"),
        standby=stands_by(options),
    )


_VARIABLE = re.compile(r"%q\{(\w+)\}")


def _filled(text: str, option: str) -> str:
    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if value is None:
            raise UsageError(
                f"{option} uses the environment variable {found[1]}, which is not set.",
                hint="Launchers set one for each rank: RANK (torchrun), SLURM_PROCID (Slurm).",
            )
        return value

    return _VARIABLE.sub(value_of, text)


def rank_files(database: str) -> list[Path]:
    """Return the files of ``--database``: one, several separated by commas, or a pattern.

    A text with commas or asterisks that is the name of an existing file is one file.

    Raises:
        UsageError: A pattern matches no file, a file occurs twice, or a name is empty.
    """
    if Path(database).exists():
        return [Path(database)]
    found: list[Path] = []
    for name in database.split(","):
        if not name.strip():
            raise UsageError(
                f"--database has an empty name in '{database}'.",
                hint="Example: --database=rank0.sqlite,rank1.sqlite",
            )
        found += _matching(name.strip())
    seen: set[Path] = set()
    for path in found:
        if path.resolve() in seen:
            raise UsageError(f"--database contains '{path}' twice.", hint="List each file once.")
        seen.add(path.resolve())
    return found


def _matching(name: str) -> list[Path]:
    """Return the files that match a pattern, ``rank2`` before ``rank10``, or the name itself."""
    if not _PATTERN.search(name) or Path(name).exists():
        return [Path(name)]
    paths = [Path(found) for found in glob.glob(name)]  # noqa: PTH207 - may begin with /
    if not paths:
        raise UsageError(f"No file matches '{name}' of --database.", hint="Check the folder.")
    return sorted(paths, key=natural_order)


_PATTERN = re.compile(r"[*?\[]")


def format_help() -> str:
    """Return usage, all options with their defaults, and exit codes."""
    parts = [USAGE]
    for title, options in GROUPS.items():
        parts.append(f"{title}:\n" + "".join(_format_option(option) for option in options))
    parts.append(EXIT_CODES)
    return "\n".join(parts)


def _format_option(option: Option) -> str:
    value = f" {option.kind.metavar}" if option.kind is not None else ""
    head = f"  {', '.join(option.spellings)}{value}\n"
    text = option.help + (f" (default: {option.default})" if option.default else "")
    body = textwrap.fill(
        text,
        HELP_WIDTH,
        initial_indent=" " * 6,
        subsequent_indent=" " * 6,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"{head}{body}\n"
