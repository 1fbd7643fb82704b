"""Samples of GPUs as counters, from every source that records some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from aggregator.profile.profile import Counter

if TYPE_CHECKING:
    from aggregator.profile.arrays import Int64

BYTES: Final = "bytes"
PERCENT: Final = "percent"
HUNDREDTHS: Final = 100
_MOST_INTERVALS: Final = 4
"""A sample stands until the next one, unless that comes this many usual intervals later."""


def standing(
    device: int, name: str, unit: str, source: str, start_ns: Int64, value: Int64
) -> Counter:
    """Let each sample stand until the next one; where readings are missing, for one interval."""
    gaps = np.diff(start_ns)
    usual = int(np.median(gaps)) if len(gaps) else 0
    gaps = np.append(gaps, usual)
    gaps = np.where(gaps > _MOST_INTERVALS * usual, usual, gaps)
    return Counter(device, name, unit, source, start_ns, start_ns + gaps, value)


def within(counter: Counter, end_ns: int) -> Counter | None:
    """Keep the samples that stand in the time of the profile; None: there are none."""
    kept = (counter.stop_ns > 0) & (counter.start_ns < end_ns)
    kept &= counter.stop_ns > counter.start_ns
    if not kept.any():
        return None
    return Counter(
        *(counter.device, counter.name, counter.unit, counter.source),
        *(np.maximum(counter.start_ns[kept], 0), np.minimum(counter.stop_ns[kept], end_ns)),
        counter.value[kept],
    )
