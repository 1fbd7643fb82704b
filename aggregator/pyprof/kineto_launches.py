"""Kernels, their launching calls and the ranges around them, from a trace of torch.profiler.

Ranges get the texts that ``emit_nvtx`` gives them, so that everything behind reads both alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aggregator.pyprof.launches import Launch, RangeColumns, by_lane
from aggregator.sources.kineto_lanes import TID_LIMIT

if TYPE_CHECKING:
    from aggregator.profile import Int64, Integers, Profile


PROCESS_SHIFT = 40
"""Correlation ids are below it."""


class KinetoLaunches:
    """A trace as PyProf's first step reads a file."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def launches(self) -> list[Launch]:
        """All kernels, in order of their start."""
        profile, kernels = self._profile, self._profile.kernels
        thread, start, end = _calls(profile)
        tids = (profile.threads % TID_LIMIT).tolist()
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
        """All ranges by thread."""
        ranges = self._profile.ranges
        rows = np.flatnonzero(ranges.end_ns > ranges.start_ns)
        return by_lane(
            ranges.thread[rows], ranges.start_ns[rows], ranges.end_ns[rows], rows.astype(np.int64)
        )

    def texts(self, numbers: set[int]) -> dict[int, str]:
        """What ``emit_nvtx`` would have written."""
        profile, ranges = self._profile, self._profile.ranges
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
    """Thread (-1: unknown), start and end of the call that launched each kernel."""
    kernels, calls = profile.kernels, profile.api_calls
    if not len(calls):
        return np.full(len(kernels), -1), kernels.start_ns, kernels.start_ns
    process = profile.thread_process[calls.thread].astype(np.int64)
    key = process << PROCESS_SHIFT | calls.correlation_id
    order = np.argsort(key, kind="stable")
    wanted = kernels.process.astype(np.int64) << PROCESS_SHIFT | kernels.correlation_id
    call = order[np.minimum(np.searchsorted(key[order], wanted), len(order) - 1)]
    known = key[call] == wanted
    return (
        np.where(known, calls.thread[call], -1),
        np.where(known, calls.start_ns[call], kernels.start_ns),
        np.where(known, calls.end_ns[call], kernels.start_ns),
    )


def _text(name: str, seq: int, sizes: str) -> str:
    number = f", seq = {seq}" if seq >= 0 else ""
    return f"{name}{number}, op_id = 0, sizes = {sizes}" if sizes else f"{name}{number}"
