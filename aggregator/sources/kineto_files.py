"""Which files may be Kineto traces: told by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aggregator.errors import ProfileError
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path

GZIP_MAGIC: Final = b"\x1f\x8b"


def is_trace(path: Path) -> bool:
    """Whether a file may be a trace: packed, or an object or a list of JSON.

    Raises:
        ProfileError: The file may not be opened.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise ProfileError(
            say(
                "The profile '{path}' cannot be opened: {error}.",
                path=str(path),
                error=error.strerror,
            ),
            hint=say("Check the permissions of the file."),
        ) from error
    return head.startswith(GZIP_MAGIC) or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
