"""PyTorch without ``emit_nvtx``: its backward pass and much else has no names."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say

UNASSOCIATED = "unassociated_"
COMBINED = "backward"
"""Type of the one op that stands for a backward pass without names."""
LARGE_SHARE = 0.2
"""Share of the kernel time outside any op from which ranges are missing."""


def detect(evidence: Evidence) -> Issue | None:
    """Fires when markers ran without the ranges of ``emit_nvtx``.

    They leave a setting, one combined op for the backward pass, or kernels that belong to no op.
    """
    data, ops = evidence.data, evidence.ops
    if data.mode != Mode.PYTORCH or data.settings.get("emit_nvtx") is True:
        return None
    rows = ops.op.tolist()
    backward = {data.ops.types[op] for op in rows if data.ops.directions[op] == "bprop"}
    if backward - {COMBINED}:
        return None
    combined = COMBINED in backward or any(data.ops.types[op] == COMBINED for op in rows)
    names = [data.ops.names[op] for op in rows]
    time = ops.columns["kernel_time"].tolist()
    total = sum(time)
    stray = sum(ns for ns, name in zip(time, names, strict=True) if name.startswith(UNASSOCIATED))
    if not combined and (not total or stray < LARGE_SHARE * total):
        return None
    return Issue(
        detector="emit_nvtx_detector",
        problem=say("emit_nvtx was not used: the ops of the backward pass cannot be told apart"),
        recommendation=say(
            "Wrap the training loop: with torch.autograd.profiler.emit_nvtx(). The markers that "
            "dlprof puts in by itself do so"
        ),
    )
