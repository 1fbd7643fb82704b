"""Which files may be Kineto traces: told by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aggregator.sources.file_heads import read_head

if TYPE_CHECKING:
    from pathlib import Path

GZIP_MAGIC: Final = b"\x1f\x8b"


def is_trace(path: Path) -> bool:
    """Whether a file may be a trace: packed, or an object or a list of JSON.

    Raises:
        ProfileError: The file may not be opened.
    """
    head = read_head(path, 64)
    return head.startswith(GZIP_MAGIC) or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
