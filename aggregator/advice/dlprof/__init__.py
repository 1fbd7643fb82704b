"""DLProf's twelve detectors, in the order of its reports; other advice is in the parent package."""

from __future__ import annotations

from aggregator.advice.dlprof import gpus, iterations, ops, pytorch
from aggregator.advice.dlprof.evidence import Evidence, Issue

DETECTORS = (
    ops.detect_bad_tensor_shape,
    ops.detect_amp,
    ops.detect_no_fusion,
    gpus.detect_unused,
    gpus.detect_underutilized,
    gpus.detect_imbalance,
    pytorch.detect_dataloader,
    pytorch.detect_cudnn_benchmark,
    pytorch.detect_slow_api,
    gpus.detect_small_batch,
    pytorch.detect_no_emit_nvtx,
    iterations.detect_bad_iteration_range,
    iterations.detect_no_iterations,
)


def find_issues(evidence: Evidence) -> list[Issue]:
    """Run every detector."""
    found = (detect(evidence) for detect in DETECTORS)
    return [issue for issue in found if issue is not None]


__all__ = ["DETECTORS", "Evidence", "Issue", "find_issues"]
