"""Convolutions without cuDNN's search for the fastest algorithm."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say


def is_convolution(op_type: str) -> bool:
    """Whether an op is a convolution of cuDNN's."""
    return op_type.startswith(("conv1d", "conv2d", "conv3d", "conv_transpose", "convolution"))


def detect(evidence: Evidence) -> Issue | None:
    """Fires when a marker told that the search is off, and convolutions ran."""
    data = evidence.data
    if data.mode != Mode.PYTORCH or data.settings.get("cudnn_benchmark") is not False:
        return None
    if not any(is_convolution(data.ops.types[op]) for op in evidence.ops.op.tolist()):
        return None
    return Issue(
        detector="cudnn_benchmark_detector",
        problem=say("cuDNN benchmark is disabled and the model has convolution ops"),
        recommendation=say(
            "Set torch.backends.cudnn.benchmark = True: cuDNN then searches for the fastest "
            "convolution algorithms. It pays where the input sizes do not change"
        ),
    )
