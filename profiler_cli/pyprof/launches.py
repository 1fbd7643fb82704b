"""Kernels, their launching calls and the ranges around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aggregator.correlate.work import LaunchIndex

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64, Integers
    from aggregator.profile.profile import Profile

Size = tuple[int, int, int]
_TID_MASK = 0xFFFFFF  # Thread part of a global thread id.


class Launch(NamedTuple):
    """One kernel with its launching call."""

    name: str  # Demangled name.
    duration_ns: int  # Time on the GPU. Unit: ns.
    lane: object  # Thread, as numbered by the source.
    tid: int  # Thread id of the operating system.
    api_start_ns: int  # Start of the call. Unit: ns.
    api_end_ns: int  # End of the call. Unit: ns.
    device: int
    stream: int
    grid: Size  # Blocks in x, y, z.
    block: Size  # Threads of a block in x, y, z.


@dataclass(frozen=True)
class RangeColumns:
    """Ranges of one thread, ordered by start."""

    start_ns: Int64  # Unit: ns.
    end_ns: Int64  # Unit: ns.
    number: Int64  # Number of its text in the source.


def by_lane(lanes: Integers, starts: Int64, ends: Int64, numbers: Int64) -> dict[int, RangeColumns]:
    """Return the columns per lane, ordered by start; of equal starts the outermost is first."""
    order = np.lexsort((-ends, starts, lanes))
    found, firsts = np.unique(lanes[order], return_index=True)
    groups = np.split(order, firsts[1:])
    return {
        lane: RangeColumns(starts[rows], ends[rows], numbers[rows])
        # np.split returns one group even without rows.
        for lane, rows in zip(found.tolist(), groups, strict=False)
    }


class ProfileLaunches:
    """The kernels and ranges of a profile that the engine reads.

    Ranges get the texts that ``emit_nvtx`` writes, whatever wrote the profile.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._ranges = profile.ranges.joined(profile.start_end_ranges)

    def launches(self) -> list[Launch]:
        """Return all kernels, in the order of the profile."""
        profile, kernels = self._profile, self._profile.kernels
        thread, start, end = _calls(profile)
        tids = (profile.threads & _TID_MASK).tolist()
        devices = [device.device_id for device in profile.devices]
        columns = (
            kernels.long_name,
            kernels.end_ns - kernels.start_ns,
            thread,
            start,
            end,
            kernels.device,
            kernels.stream_id,
        )
        sizes = zip(kernels.grid.tolist(), kernels.block.tolist(), strict=True)
        rows = zip(*(column.tolist() for column in columns), sizes, strict=True)
        return [
            Launch(
                profile.strings[name],
                duration,
                lane if lane >= 0 else None,
                tids[lane] if lane >= 0 else 0,
                called,
                returned,
                devices[device],
                stream,
                (grid[0], grid[1], grid[2]),
                (block[0], block[1], block[2]),
            )
            for name, duration, lane, called, returned, device, stream, (grid, block) in rows
        ]

    def ranges(self) -> dict[int, RangeColumns]:
        """Return all ranges by thread."""
        ranges = self._ranges
        rows = np.flatnonzero(ranges.end_ns > ranges.start_ns)
        return by_lane(
            ranges.thread[rows], ranges.start_ns[rows], ranges.end_ns[rows], rows.astype(np.int64)
        )

    def texts(self, numbers: set[int]) -> dict[int, str]:
        """Return the texts of some ranges, as ``emit_nvtx`` would write them."""
        profile, ranges = self._profile, self._ranges
        rows = np.array(sorted(numbers), dtype=np.int64)
        sizes = (*profile.shape_texts, "")
        columns = zip(
            rows.tolist(),
            ranges.name[rows].tolist(),
            ranges.seq[rows].tolist(),
            ranges.shapes[rows].tolist(),
            strict=True,
        )
        return {
            row: _text(profile.range_names[name], seq, sizes[code])
            for row, name, seq, code in columns
        }


def _calls(profile: Profile) -> tuple[Integers, Int64, Int64]:
    """Return the thread (-1: unknown), start and end of the call that launched each kernel."""
    kernels, calls = profile.kernels, profile.api_calls
    call = LaunchIndex(profile).launching_call(kernels)
    if not len(calls):
        return call, kernels.start_ns, kernels.start_ns
    known = call >= 0
    return (
        np.where(known, calls.thread[call], -1),
        np.where(known, calls.start_ns[call], kernels.start_ns),
        np.where(known, calls.end_ns[call], kernels.start_ns),
    )


def _text(name: str, seq: int, sizes: str) -> str:
    number = f", seq = {seq}" if seq >= 0 else ""
    return f"{name}{number}, op_id = 0, sizes = {sizes}" if sizes else f"{name}{number}"
