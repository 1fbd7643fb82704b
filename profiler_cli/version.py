"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

DISTRIBUTION: Final = "open-dlprof"


def program_version() -> str:
    """The version of the installed distribution; of a bare checkout it is not known."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown (not installed)"
