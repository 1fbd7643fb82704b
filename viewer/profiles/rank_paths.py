"""Rank files of one job, told by a folder or a pattern instead of one by one."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from aggregator.errors import InvalidValueError
from aggregator.rank_names import natural_order, ranks_in_name
from aggregator.texts import say
from viewer.errors import PathNotAllowedError

MAX_RANK_FILES = 1024
_SUFFIXES = (".sqlite", ".nsys-rep", ".qdrep", ".json", ".json.gz")
_MAGIC = re.compile(r"[*?\[]")


def is_several(raw: str) -> bool:
    """Whether a path is a folder, or a pattern and no file of that name."""
    # A name that is too long raises with pathlib.
    is_folder, is_there = os.path.isdir(raw), os.path.exists(raw)  # noqa: PTH110, PTH112
    return is_folder or (_MAGIC.search(raw) is not None and not is_there)


def fixed_part(raw: str) -> Path:
    """The folder that a pattern's first asterisk stands in; of a folder, itself."""
    parts = Path(raw).parts
    fixed = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    return Path(*parts[:fixed])


def rank_paths(raw: str) -> list[str]:
    """Files that a folder or pattern stands for, ``rank2`` before ``rank10``.

    Of a folder: the profiles in it; only those whose names tell a rank, if any does.

    Raises:
        PathNotAllowedError: None is there.
        InvalidValueError: More than a job can have.
    """
    found = [Path(path) for path in islice(_found(raw), MAX_RANK_FILES + 1)]
    if len(found) > MAX_RANK_FILES:
        raise InvalidValueError(
            say("More than {limit} files fit the path.", limit=MAX_RANK_FILES),
            hint=say("Give a pattern that fits the rank files of one job only."),
            parameter="path",
        )
    if not found:
        raise PathNotAllowedError(
            say("No profile fits that path."), hint=say("Check the folder and the pattern.")
        )
    return [str(path) for path in sorted(found, key=natural_order)]


def _found(raw: str) -> Iterator[str]:
    if not Path(raw).is_dir():
        # Lazily, and from the root on: neither can be done with pathlib.
        yield from (path for path in glob.iglob(raw) if Path(path).is_file())  # noqa: PTH207
        return
    with os.scandir(raw) as entries:
        paths = [
            Path(entry.path)
            for entry in entries
            if entry.is_file() and entry.name.lower().endswith(_SUFFIXES) and entry.name[0] != "."
        ]
    named = [path for path in paths if ranks_in_name(Path(path.name))]
    yield from map(str, named or paths)
