"""Waiting for input: a data loader that keeps the GPU waiting, or no DALI op."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.expert.underutilized_gpu import LOW_UTILIZATION_PCT
from aggregator.options import Mode
from aggregator.texts import say

HIGH_DATALOADER_PCT = 20.0
"""Share of the wall time; DLProf's own threshold is not public, it fired at 87.3 %."""


def detect(evidence: Evidence) -> Issue | None:
    """Fires when the data loader takes a large share while the GPU waits, or no DALI op ran.

    DLProf 1.8 gave the second form for every PyTorch run without DALI ops, data loader or not.
    """
    if evidence.data.mode != Mode.PYTORCH:
        return None
    share = float(evidence.totals["dataloader_duration_pct"])
    if share >= HIGH_DATALOADER_PCT and evidence.totals["gpu_utilization"] < LOW_UTILIZATION_PCT:
        return Issue(
            detector="dataloader_detector",
            problem=say("The dataloader uses {share:.1f}% of the aggregated run", share=share),
            recommendation=say(
                "Reduce the time spent on input: more workers, pinned memory, prefetching, or "
                "NVIDIA DALI. Learn more here: https://developer.nvidia.com/DALI"
            ),
        )
    if any("dali" in name.lower() for name in evidence.data.ops.names):
        return None
    return Issue(
        detector="dataloader_detector",
        problem=say("No DALI ops detected"),
        recommendation=say(
            "Consider using NVIDIA DALI, a library that is a high performance alternative to "
            "built-in data loaders and data iterators. Learn more here: https://developer.nvidia.com/DALI"
        ),
    )
