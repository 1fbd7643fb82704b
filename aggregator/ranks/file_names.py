"""Rank numbers in the names of rank files."""

from __future__ import annotations

import re
from pathlib import Path

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[_\-.=]?(\d+)(?!\d)", re.IGNORECASE)


def ranks_in_name(path: Path) -> list[int]:
    """Rank numbers in a file's name, else in its folder's (``rank3/dlprof_dldb.sqlite``)."""
    found = _RANK_IN_NAME.findall(path.name) or _RANK_IN_NAME.findall(path.parent.name)
    return [int(number) for number in found]


def natural_order(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in a name by their values: ``rank2`` before ``rank10``."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
