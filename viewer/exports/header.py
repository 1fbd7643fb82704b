"""The heading of an export, and the text of its cells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ExportHeader:
    """Where the rows of an export come from."""

    profile: str  # Name of the profile.
    table: str  # Last part of the table's address.
    title: str  # The table's name for people.
    aggregation_id: int  # The aggregation.
    domain: str  # The NVTX domain.
    columns: tuple[str, ...]  # Names of the columns, in order.

    @property
    def file_stem(self) -> str:
        """Name of the file, without characters that are special in a header or file system."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", self.profile).strip("._") or "profile"
        return f"{stem}_{self.table}_aggregation{self.aggregation_id}"

    @property
    def heading(self) -> str:
        """One line for people."""
        return f"{self.profile}: {self.title} (aggregation {self.aggregation_id}, {self.domain})"


def printable(value: object) -> str:
    """Return a value as people read it in a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # Names come from a file and need not be valid Unicode.
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")
