"""Write the tables of options in docs/cli.md from the commands' own declarations.

``--check`` writes nothing and ends with 1 if the file is out of date.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast
from unittest.mock import patch

from profiler_cli.dlprof import SUBCOMMANDS
from profiler_cli.options.declared import GROUPS, Option

PAGE = Path(__file__).resolve().parent.parent / "docs/cli.md"
REGION = re.compile(r"(<!-- options of ([\w ]+) -->\n).*?(<!-- /options -->)", re.DOTALL)


class ParserFoundError(Exception):
    """Carries the parser that a command was about to use."""


def as_cells(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


def as_row(option: Option) -> str:
    spellings = ", ".join(f"`{word}`" for word in option.spellings)
    value = f"`{option.kind.metavar}`" if option.kind is not None else ""
    return as_cells(spellings, value, option.default, option.help)


def dlprof_tables() -> Iterator[str]:
    for title, options in GROUPS.items():
        yield f"\n### {title}\n\n| option | value | default | what |\n|---|---|---|---|"
        yield from map(as_row, options)


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of a command, which is caught when it begins to parse."""
    module, _, function = SUBCOMMANDS.get(command, "profiler_cli.dlprofviewer:main").partition(":")
    run = getattr(importlib.import_module(module), function)

    def caught(parser: argparse.ArgumentParser, *_: object) -> None:
        raise ParserFoundError(parser)

    with patch("argparse.ArgumentParser.parse_args", caught):
        try:
            run([])
        except ParserFoundError as found:
            return cast("argparse.ArgumentParser", found.args[0])
    raise LookupError(f"{command} parses nothing")


def argument_row(action: argparse.Action, program: str) -> str:
    choices = ",".join(map(str, action.choices or ()))
    value = str(action.metavar or (f"{{{choices}}}" if choices else action.dest.upper()))
    if action.option_strings:
        names = ", ".join(f"`{word}`" for word in action.option_strings)
        named = names if action.nargs == 0 else f"{names} `{value}`"
    else:
        named = f"`{value}`"
    return as_cells(named, (action.help or "") % {**vars(action), "prog": program})


def parser_tables(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield what a command does, its arguments and its exit codes."""
    actions = [action for action in parser._actions if action.dest != "help"]
    subcommands = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    yield f"\n{' '.join((parser.description or '').split())}"
    for several in subcommands:
        for name, each in several.choices.items():
            yield f"\n**{name}**"
            yield from parser_tables(each)
    if not subcommands:
        yield "\n| argument | what |\n|---|---|"
        yield from (argument_row(action, parser.prog) for action in actions)
    if parser.epilog:
        yield f"\n{' '.join(parser.epilog.split())}"


def updated_page() -> str:
    def updated(found: re.Match[str]) -> str:
        lines = dlprof_tables() if found[2] == "dlprof" else parser_tables(parser_of(found[2]))
        return f"{found[1]}" + "\n".join(lines) + f"\n\n{found[3]}"

    return REGION.sub(updated, PAGE.read_text())


def write_pages(pages: Iterable[tuple[Path, str]]) -> int:
    """Write pages that changed; with ``--check`` none, and 1 is returned if one did."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--check", action="store_true")
    check_only = parser.parse_args().check
    for page, text in pages:
        if page.exists() and text == page.read_text():
            continue
        if check_only:
            print(f"{page.name} is out of date: run `make docs`", file=sys.stderr)
            return 1
        page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(write_pages([(PAGE, updated_page())]))
