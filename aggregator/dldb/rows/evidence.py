"""How it is known that work belongs to an op, as a grade and a sentence."""

from __future__ import annotations

from typing import Final

from aggregator.correlate.instances import Evidence, Origin
from aggregator.correlate.op_table import Op
from aggregator.options import Mode
from aggregator.texts import say

RECORDED: Final = "recorded"
CAPTURE: Final = "capture"
PROVENANCE: Final = "provenance"
ALIGNED: Final = "aligned"
UNKNOWN: Final = "unknown"

_OF_EVIDENCE: Final = {
    Evidence.PROVENANCE: (
        PROVENANCE,
        say("The compiler recorded the modules and ops that the kernel computes."),
    ),
    Evidence.ALIGNED: (
        ALIGNED,
        say(
            "It was launched inside the range of the op in steps with markers; in the others its "
            "place is that of the same calls."
        ),
    ),
    Evidence.NODE: (
        CAPTURE,
        say("CUDA graphs replayed it; the op ran when the nodes of the graphs were captured."),
    ),
    Evidence.ORDER: (
        CAPTURE,
        say("CUDA graphs replayed it; a recorded capture has the same kernels in the same order."),
    ),
    Evidence.NO_CAPTURE: (
        UNKNOWN,
        say("CUDA graphs replayed it, and the profile does not hold their capture."),
    ),
    Evidence.AMBIGUOUS: (
        UNKNOWN,
        say("CUDA graphs replayed it; captures of the same kernels belong to different ops."),
    ),
    Evidence.UPDATED: (
        UNKNOWN,
        say("CUDA graphs replayed it after a graph was changed in place."),
    ),
    Evidence.OUTSIDE: (
        UNKNOWN,
        say("CUDA graphs replayed it; their nodes were captured outside every op and module."),
    ),
}


def evidence_of(op: Op, mode: str) -> tuple[str, str]:
    """Grade and sentence."""
    if mode == Mode.SIMPLE and not op.domain:
        return UNKNOWN, say("The profile is read without the ranges of ops.")
    if op.evidence in _OF_EVIDENCE:
        return _OF_EVIDENCE[op.evidence]
    if op.origin is Origin.STRAY:
        return UNKNOWN, say("It was launched outside every op and module.")
    return RECORDED, say("It was launched inside the range of the op.")
