"""The first bytes of a file, which tell what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.errors import ProfileError
from aggregator.texts import say

if TYPE_CHECKING:
    from pathlib import Path


def read_head(path: Path, count: int) -> bytes:
    """At most ``count`` bytes.

    Raises:
        ProfileError: The file may not be opened.
    """
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise ProfileError(
            say(
                "The profile '{path}' cannot be opened: {error}.",
                path=str(path),
                error=error.strerror,
            ),
            hint=say("Check the permissions of the file."),
        ) from error
