"""What a recording of GPU memory says, for the advisers, and how sizes are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class RecordedMemory:
    """A recording of the memory of one GPU. Unit of sizes: bytes."""

    recording: int  # Row of ``view_memory_recordings``.
    device: int  # Number of the GPU, as its process counts.
    total_bytes: int | None  # Memory of the GPU; None if unknown.
    peak_allocated: int
    peak_active: int | None  # None: not recorded.
    peak_reserved: int
    failures: int  # Requests that failed because the memory was exhausted.
    failed_bytes: int  # The largest of them.
    kinds: Mapping[str, int]  # Bytes at the peak by kind, the largest first.
    growth: tuple[tuple[str, int, int], ...]  # Owner, bytes and steps of what grows.
    changes: tuple[tuple[str, int], ...]  # Changes and the peak with each, the best first.

    @property
    def used_pct(self) -> float | None:
        """Share of the GPU's memory that was taken at the peak; None if unknown."""
        return 100.0 * self.peak_reserved / self.total_bytes if self.total_bytes else None


def size_text(size: int) -> str:
    """A size in the unit that fits it."""
    return f"{size / GIB:.2f} GiB" if size >= GIB else f"{size / MIB:.1f} MiB"
