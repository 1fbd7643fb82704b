"""What the Keras callback and the session hook have in common: ranges of the calling thread."""

from __future__ import annotations

from dlprof_nvtx.domains import boundary, is_disabled


class ThreadRanges:
    """Opens and closes nested ranges in NVTX's default domain."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[bool] = []

    def open_marker(self, message: str) -> None:
        """Open a range on this thread."""
        self._written.append(not is_disabled())
        if self._written[-1]:
            boundary().push(message, "")

    def close_marker(self) -> None:
        """Close the last one."""
        if self._written and self._written.pop():
            boundary().pop("")
