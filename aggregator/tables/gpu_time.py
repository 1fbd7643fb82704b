"""Where a step goes on the GPU: busy and idle, and the parts of both, for every surface alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.tables.plotly.theme import PART_NAMES, split_communication

BUSY: Final = ("tc", "non_tc", "communication", "graph", "memory")
IDLE: Final = ("dataloader", "io", "cpu", "other")
CORRECTED: Final = "corrected_"
"""Begins the names of the shares of the step without profiling."""
_DIGITS: Final = 4


@dataclass(frozen=True)
class Part:
    """A part of the step. Unit: percent."""

    name: str
    pct: float
    is_busy: bool


@dataclass(frozen=True)
class GpuTime:
    """Busy and idle time of the GPU, which add up to the step. Units: percent."""

    parts: tuple[Part, ...]

    @property
    def busy_pct(self) -> float:
        """Time in which kernels, graphs, copies or sets run."""
        return round(sum(part.pct for part in self.parts if part.is_busy), _DIGITS)

    @property
    def idle_pct(self) -> float:
        """The rest."""
        return round(100.0 - self.busy_pct, _DIGITS)

    @property
    def text(self) -> str:
        """One line, without small parts."""
        parts = ", ".join(f"{part.name} {part.pct:.1f}" for part in self.parts if part.pct >= 0.05)
        return f"GPU busy {self.busy_pct:.1f} %, idle {self.idle_pct:.1f} %: {parts} %"


def split_step(usage: Mapping[str, Any], prefix: str = "") -> GpuTime | None:
    """Split a mean step; None: it is unknown, or no work of a GPU was recorded in it.

    Args:
        usage: Shares ``<part>_pct``; what was not measured is in none.
        prefix: Of the names: ``CORRECTED``, or empty for the step as profiled.
    """
    known = {part: usage.get(f"{prefix}{part}_pct") for part in (*BUSY, *IDLE)}
    if known["non_tc"] is None or known["tc"] is None:
        return None
    shares = split_communication(known)
    total = sum(share or 0.0 for share in shares.values()) or 100.0
    parts = (
        Part(str(PART_NAMES[part]), round(100.0 * share / total, _DIGITS), part in BUSY)
        for part, share in shares.items()
        if share
    )
    found = GpuTime(tuple(parts))
    return found if found.busy_pct else None


def split_the_step(usage: Mapping[str, Any]) -> tuple[GpuTime | None, bool]:
    """Split the step without profiling where its parts are known, and say whether they are."""
    corrected = split_step(usage, CORRECTED)
    return (split_step(usage), False) if corrected is None else (corrected, True)


def busy_pct(usage: Mapping[str, Any]) -> float | None:
    """Return the busy share of ``split_the_step``."""
    found, _ = split_the_step(usage)
    return None if found is None else found.busy_pct


def idle_pct(usage: Mapping[str, Any]) -> float | None:
    """Return the idle share of ``split_the_step``."""
    found, _ = split_the_step(usage)
    return None if found is None else found.idle_pct
