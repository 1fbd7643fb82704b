"""GPUs that compute much less than the others."""

from __future__ import annotations

import numpy as np

from aggregator.expert.evidence import Evidence, Issue
from aggregator.texts import say

LOW_RATIO = 0.75
"""A GPU that computes for less than this share of what the busiest one does counts as low."""
LOW_UTILIZATION_PCT = 1.0
"""Below this on every GPU there is nothing to balance. Unit: percent of the window."""


def computing_pct(evidence: Evidence) -> list[float]:
    """Share of the window in which each GPU computed.

    Kernels that move data between GPUs are left out: a GPU that waits for another in a collective
    runs one all the time.
    """
    edges = np.array([evidence.window.start_ns, evidence.window.stop_ns], dtype=np.int64)
    wall = max(int(edges[1] - edges[0]), 1)
    covered = (computing.covered_before(edges) for computing, _ in evidence.data.collectives)
    return [100.0 * int(before[1] - before[0]) / wall for before in covered]


def detect(evidence: Evidence) -> Issue | None:
    """Fires among GPUs that ran anything; idle ones are told of elsewhere."""
    devices = evidence.data.devices
    shares = {
        device: share
        for device, share, used in zip(
            devices.device_ids, computing_pct(evidence), devices.used, strict=False
        )
        if used
    }
    if len(shares) < 2 or max(shares.values()) < LOW_UTILIZATION_PCT:
        return None
    most = max(shares.values())
    low = [device for device, share in shares.items() if share < LOW_RATIO * most]
    if not low:
        return None
    return Issue(
        detector="imbalanced_gpu_detector",
        problem=say(
            "The following GPU device IDs are used significantly less than the others: {names} "
            "({least:.1f}% of the time against {most:.1f}%)",
            names=", ".join(str(device) for device in low),
            least=min(shares.values()),
            most=most,
        ),
        recommendation=say(
            "Balance the work: give every GPU as many samples of like size, and the same layers"
        ),
    )
