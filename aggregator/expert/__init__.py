"""Expert systems: one detector per file, in the order of DLProf's reports."""

from __future__ import annotations

from aggregator.expert import amp, dataloader, no_iterations, underutilized_gpu
from aggregator.expert.evidence import Evidence, Issue

DETECTORS = (amp.detect, underutilized_gpu.detect, dataloader.detect, no_iterations.detect)


def find_issues(evidence: Evidence) -> list[Issue]:
    """Run every detector."""
    found = (detect(evidence) for detect in DETECTORS)
    return [issue for issue in found if issue is not None]


__all__ = ["DETECTORS", "Evidence", "Issue", "find_issues"]
