"""Files at URLs among the arguments: they are replaced by local copies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from aggregator.errors import UsageError
from aggregator.system.remote_files import is_url, local_file, matching_urls, shown_url

_CHOICE: Final = re.compile(r"@\d+(?:-\d+)?$")
"""An aggregation or iterations behind the name of a file, as dlprof compare takes them."""
_OUTPUTS: Final = ("-o", "--output")


def local_words(words: Sequence[str], stack: ExitStack) -> list[str]:
    """Return arguments of a subcommand with local copies of the files that URLs among them name.

    Raises:
        UsageError: An output is a URL.
        DlprofError: A file cannot be read.
    """
    found: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        name, separator, value = word.partition("=")
        is_option = bool(separator) and name.startswith("-")
        text = value if is_option else word
        if not is_url(text):
            found.append(word)
            continue
        if before in _OUTPUTS or (is_option and name in _OUTPUTS):
            raise UsageError(
                f"The output '{shown_url(text)}' is a URL.", hint="Name a local file, and copy it."
            )
        copies = _copies(text, stack)
        found += [f"{name}={copy}" for copy in copies] if is_option else copies
    return found


def local_database(text: str, stack: ExitStack) -> str:
    """Return the value of --database with local copies of the files that URLs in it name.

    Raises:
        DlprofError: A file cannot be read.
    """
    names = text.split(",")
    return ",".join(
        copy
        for name in names
        for copy in (_copies(name.strip(), stack) if is_url(name.strip()) else [name])
    )


def _copies(url: str, stack: ExitStack) -> list[str]:
    choice = _CHOICE.search(url)
    plain = url[: choice.start()] if choice else url
    suffix = choice[0] if choice else ""
    return [f"{local_file(address, stack)}{suffix}" for address in matching_urls(plain)]
