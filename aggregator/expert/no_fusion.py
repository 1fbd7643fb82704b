"""TensorFlow 1 without XLA: element-wise ops run one by one."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say

XLA_OPS = ("_XlaRun", "_XlaCompile", "XlaLaunch", "cluster_")
"""Parts of the names of ops that XLA made."""


def detect(evidence: Evidence) -> Issue | None:
    """Fires when none of the ops is XLA's."""
    data = evidence.data
    if data.mode != Mode.TENSORFLOW1 or not len(evidence.ops.op):
        return None
    ran = evidence.ops.op.tolist()
    if any(part in data.ops.names[op] + data.ops.types[op] for op in ran for part in XLA_OPS):
        return None
    return Issue(
        detector="no_fusion_detector",
        problem=say("No XLA ops were detected: fusion is disabled"),
        recommendation=say(
            "Try enabling XLA, which fuses ops. For more information: "
            "https://www.tensorflow.org/xla"
        ),
    )
