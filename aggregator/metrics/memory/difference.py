"""The difference of the peaks of two recordings, by kind and by owner; it adds up exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aggregator.metrics.memory.analysis import DeviceMemory
from aggregator.metrics.memory.kinds import KIND_NAMES


@dataclass(frozen=True)
class Part:
    """What one kind, or one owner, holds at both peaks. Unit: bytes."""

    kind: str
    owner: str  # Module and op; empty for all of a kind.
    base_bytes: int
    new_bytes: int

    @property
    def difference_bytes(self) -> int:
        """How much more it is in the new recording."""
        return self.new_bytes - self.base_bytes


@dataclass(frozen=True)
class PeakDifference:
    """Two recordings of one device. Unit: bytes."""

    device: int
    base_bytes: int  # Most allocated in the base.
    new_bytes: int  # Most allocated in the new recording.
    kinds: tuple[Part, ...]  # Their differences add up to that of the peaks.
    owners: tuple[Part, ...]  # So do those of the owners; the largest first.

    @property
    def difference_bytes(self) -> int:
        """How much higher the new peak is."""
        return self.new_bytes - self.base_bytes


def to_document(found: PeakDifference) -> dict[str, Any]:
    """Return a difference as JSON has it."""
    return {
        "device": found.device,
        "base_peak_allocated_bytes": found.base_bytes,
        "new_peak_allocated_bytes": found.new_bytes,
        "difference_bytes": found.difference_bytes,
        "kinds": [_part(kind) for kind in found.kinds],
        "owners": [_part(owner) for owner in found.owners],
    }


def _part(part: Part) -> dict[str, Any]:
    return asdict(part) | {"difference_bytes": part.difference_bytes}


def compare_peaks(
    base: Sequence[DeviceMemory], new: Sequence[DeviceMemory]
) -> list[PeakDifference]:
    """Compare the devices that both have, by their number and what recorded them."""
    known = {(recording.source, recording.device): recording for recording in reversed(base)}
    return [
        _compare(known[recording.source, recording.device], recording)
        for recording in new
        if (recording.source, recording.device) in known
    ]


def _compare(base: DeviceMemory, new: DeviceMemory) -> PeakDifference:
    before, after = base.bytes_by_kind(base.at_peak), new.bytes_by_kind(new.at_peak)
    kinds = {(kind, ""): size for kind, size in before.items()}
    return PeakDifference(
        device=new.device,
        base_bytes=base.counts.peak_allocated,
        new_bytes=new.counts.peak_allocated,
        kinds=_parts(kinds, {(kind, ""): size for kind, size in after.items()}),
        owners=_parts(_owners(base), _owners(new)),
    )


def _owners(memory: DeviceMemory) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for owner in memory.owners(memory.at_peak):
        key = (KIND_NAMES[owner.kind], owner.name)
        sums[key] = sums.get(key, 0) + owner.size
    return sums


def _parts(
    base: Mapping[tuple[str, str], int], new: Mapping[tuple[str, str], int]
) -> tuple[Part, ...]:
    parts = [
        Part(kind, owner, base.get((kind, owner), 0), new.get((kind, owner), 0))
        for kind, owner in {**base, **new}
    ]
    return tuple(
        sorted(parts, key=lambda item: (-abs(item.difference_bytes), item.kind, item.owner))
    )
