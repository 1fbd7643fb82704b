"""The difference of the peaks of two recordings, by kind and by owner; it adds up exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct

from aggregator.metrics.memory.analysis import DeviceMemory
from aggregator.metrics.memory.kinds import KIND_NAMES
from aggregator.system.replies import doc


class MemoryDifferencePart(Struct):
    """What one kind, or one owner, holds at both peaks."""

    kind: str
    owner: Annotated[str, doc("Module and op; empty: all of the kind.")]
    base_bytes: int
    new_bytes: int
    difference_bytes: int


class MemoryDifference(Struct):
    """How the peak memory of a GPU differs between two recordings; the parts add up to it."""

    device: int
    base_peak_allocated_bytes: int
    new_peak_allocated_bytes: int
    difference_bytes: int
    kinds: Annotated[list[MemoryDifferencePart], doc("The largest difference first.")]
    owners: Annotated[list[MemoryDifferencePart], doc("The largest difference first.")]


def compare_peaks(
    base: Sequence[DeviceMemory], new: Sequence[DeviceMemory]
) -> list[MemoryDifference]:
    """Compare the devices that both have, by their number and what recorded them."""
    known = {(recording.source, recording.device): recording for recording in reversed(base)}
    return [
        _compare(known[recording.source, recording.device], recording)
        for recording in new
        if (recording.source, recording.device) in known
    ]


def _compare(base: DeviceMemory, new: DeviceMemory) -> MemoryDifference:
    before, after = base.bytes_by_kind(base.at_peak), new.bytes_by_kind(new.at_peak)
    kinds = {(kind, ""): size for kind, size in before.items()}
    peaks = base.counts.peak_allocated, new.counts.peak_allocated
    return MemoryDifference(
        device=new.device,
        base_peak_allocated_bytes=peaks[0],
        new_peak_allocated_bytes=peaks[1],
        difference_bytes=peaks[1] - peaks[0],
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
) -> list[MemoryDifferencePart]:
    parts = [
        MemoryDifferencePart(*key, before, after, after - before)
        for key in {**base, **new}
        for before, after in [(base.get(key, 0), new.get(key, 0))]
    ]
    return sorted(parts, key=lambda item: (-abs(item.difference_bytes), item.kind, item.owner))
