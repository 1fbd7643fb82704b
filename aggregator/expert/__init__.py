"""Expert systems: DLProf's detectors, one per file, in the order of DLProf's reports.

Our own advice, with what it could win and the evidence, is in ``aggregator.expert.advice``.
"""

from __future__ import annotations

from aggregator.expert import (
    amp,
    bad_iteration_range,
    bad_tensor_shape,
    batch_size,
    cudnn_benchmark,
    dataloader,
    emit_nvtx,
    imbalanced_gpu,
    no_fusion,
    no_iterations,
    slow_api,
    underutilized_gpu,
)
from aggregator.expert.evidence import Evidence, Issue

DETECTORS = (
    bad_tensor_shape.detect,
    amp.detect,
    no_fusion.detect,
    underutilized_gpu.detect_unused,
    underutilized_gpu.detect,
    imbalanced_gpu.detect,
    dataloader.detect,
    cudnn_benchmark.detect,
    slow_api.detect,
    batch_size.detect,
    emit_nvtx.detect,
    bad_iteration_range.detect,
    no_iterations.detect,
)


def find_issues(evidence: Evidence) -> list[Issue]:
    """Run every detector."""
    found = (detect(evidence) for detect in DETECTORS)
    return [issue for issue in found if issue is not None]


__all__ = ["DETECTORS", "Evidence", "Issue", "find_issues"]
