"""Ops that could use Tensor Cores, and nothing runs in half precision."""

from __future__ import annotations

import numpy as np

from aggregator.expert.evidence import Evidence, Issue
from aggregator.texts import say

HALF_TYPES = frozenset({"float16", "bfloat16", "half", "torch.float16", "torch.bfloat16"})


def detect(evidence: Evidence) -> Issue | None:
    """Fires when eligible ops ran kernels, and none of them has a 16-bit type or such a kernel.

    ``emit_nvtx`` records no data types; there the names of the Tensor Core kernels tell them.
    """
    data, ops = evidence.data, evidence.ops
    rows = evidence.window.rows(data.kernels.api_start_ns)
    pairs = np.unique(data.kernels.op_kernel[rows])
    eligible = ops.op[data.ops.tc_eligible[ops.op]]
    # Without kernels (in a CUDA graph that was recorded as a whole) nothing tells what an op used.
    eligible = eligible[np.isin(eligible, data.op_kernels.op[pairs])]
    if not len(eligible):
        return None
    if any(data.ops.data_types[op] in HALF_TYPES for op in eligible.tolist()):
        return None
    if bool((data.op_kernels.half_precision[pairs] & data.op_kernels.uses_tc[pairs]).any()):
        return None
    return Issue(
        detector="amp_detector",
        problem=say(
            "{count} ops were eligible to use tensor cores but none are using FP16",
            count=len(eligible),
        ),
        recommendation=say(
            "Try enabling AMP (Automatic Mixed Precision). For more information: "
            "https://developer.nvidia.com/automatic-mixed-precision"
        ),
        drill_down="ShowBadDataTypeOps",
    )
