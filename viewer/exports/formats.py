"""Tables as files: the formats, and what each says about where it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class ExportHeader:
    """What an export says about itself.

    Attributes:
        profile: Name of the profile.
        table: Last part of the table's address.
        title: The table's name for people.
        aggregation_id: The aggregation.
        domain: The NVTX domain.
        columns: Names of the columns, in order.
    """

    profile: str
    table: str
    title: str
    aggregation_id: int
    domain: str
    columns: tuple[str, ...]

    @property
    def file_stem(self) -> str:
        """Name of the file, without what a header or a file system would stumble over."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", self.profile).strip("._") or "profile"
        return f"{stem}_{self.table}_aggregation{self.aggregation_id}"

    @property
    def heading(self) -> str:
        """One line for people."""
        return f"{self.profile}: {self.title} (aggregation {self.aggregation_id}, {self.domain})"


@dataclass(frozen=True)
class ExportFormat:
    """One kind of file.

    Attributes:
        suffix: Of the file's name, without the dot.
        content_type: For the reply.
        write: Writes all rows to a file; they come one by one and are not kept.
    """

    suffix: str
    content_type: str
    write: Callable[[ExportHeader, Iterable[Row], IO[bytes]], None]


def printable(value: object) -> str:
    """A value as people read it in a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # Names come from a file and need not be valid Unicode.
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")
