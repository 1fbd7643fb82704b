"""Batches that leave most of the GPU's memory unused."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say

LOW_MEMORY_PCT = 50.0
"""Below this share of its memory a GPU could hold twice the batch."""
LARGEST_FACTOR = 4
"""DLProf recommended no more, seen at 2 %, 7 % and 23 % of the memory."""
_MODES = frozenset({Mode.PYTORCH, Mode.TENSORFLOW1, Mode.TENSORFLOW2})


def memory_share_pct(evidence: Evidence) -> float | None:
    """Largest share of its memory that any GPU used; None where no reading was taken."""
    devices = evidence.data.devices
    shares = [
        100.0 * used / total
        for used, total in zip(devices.memory_used_bytes, devices.memory_bytes, strict=False)
        if used and total
    ]
    return max(shares, default=None)


def batch_factor(share_pct: float) -> int:
    """How many times the batch fits: a power of two, 1 to ``LARGEST_FACTOR``."""
    factor = 1
    while factor < LARGEST_FACTOR and 2 * factor * share_pct <= 100.0:
        factor *= 2
    return factor


def detect(evidence: Evidence) -> Issue | None:
    """Fires when the memory was read and less than half of it was in use."""
    if evidence.data.mode not in _MODES:
        return None
    share = memory_share_pct(evidence)
    if share is None or share >= LOW_MEMORY_PCT:
        return None
    return Issue(
        detector="batch_size_detector",
        problem=say(
            "GPU memory is underutilized: Only {share:.0f}% of GPU memory is used", share=share
        ),
        recommendation=say(
            "Try increasing batch size by {factor}x to increase data throughput",
            factor=batch_factor(share),
        ),
    )
