"""Ops of 16-bit types that could use Tensor Cores, and did not: their shapes stand in the way."""

from __future__ import annotations

from aggregator.expert.amp import HALF_TYPES
from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say

_MODES = frozenset({Mode.TENSORFLOW1, Mode.TENSORFLOW2})


def detect(evidence: Evidence) -> Issue | None:
    """Fires in TensorFlow's modes; what element type an op had must have been recorded."""
    if evidence.data.mode not in _MODES:
        return None
    ops, data = evidence.ops, evidence.data.ops
    missed = [
        op
        for op, using in zip(ops.op.tolist(), ops.using_tc.tolist(), strict=True)
        if data.tc_eligible[op] and not using and data.data_types[op] in HALF_TYPES
    ]
    if not missed:
        return None
    return Issue(
        detector="bad_tensor_shape_detector",
        problem=say(
            "{count} ops were eligible to use tensor cores but are not using them because of their "
            "tensor shapes or data types",
            count=len(missed),
        ),
        recommendation=say(
            "Make batch size, channels and layer widths multiples of 8. For more information: "
            "https://docs.nvidia.com/deeplearning/performance/index.html"
        ),
    )
