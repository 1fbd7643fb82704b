"""The ops, and how it is known that work belongs to each: a grade and a sentence."""

from __future__ import annotations

from typing import Final

from aggregator.correlate.instances import Evidence, Origin
from aggregator.correlate.op_table import Op
from aggregator.dldb.rows.costs import op_flops
from aggregator.dldb.rows.shapes import recorded_shapes, tensor_core_fits
from aggregator.dldb.writer import Table, attributes
from aggregator.importing.imported import (
    TC_ELIGIBLE,
    TC_NOT_ELIGIBLE,
    TC_UNASSOCIATED,
    ImportedProfile,
)
from aggregator.options import Mode
from aggregator.texts import say

RECORDED: Final = "recorded"
CAPTURE: Final = "capture"
PROVENANCE: Final = "provenance"
ALIGNED: Final = "aligned"
ANNOTATED: Final = "annotated"
MODULE: Final = "module"
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
    Evidence.ANNOTATED: (
        ANNOTATED,
        say("CUDA graphs replayed it; the program wrote the module to the nodes of the graphs."),
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
    Evidence.OTHER_CAPTURE: (
        UNKNOWN,
        say(
            "CUDA graphs replayed it; no capture that was read names the same kernels in the same "
            "order."
        ),
    ),
}


def _evidence_of(op: Op, mode: str) -> tuple[str, str]:
    if mode == Mode.SIMPLE and not op.domain:
        return UNKNOWN, say("The profile is read without the ranges of ops.")
    is_aligned = op.evidence is Evidence.ALIGNED
    if op.origin is Origin.STRAY and (is_aligned or op.evidence not in _OF_EVIDENCE):
        return UNKNOWN, say("It was launched outside every op and module.")
    if op.origin is Origin.GROUP and (is_aligned or op.evidence not in _OF_EVIDENCE):
        return MODULE, say("It was launched inside the module, outside every op.")
    if op.evidence in _OF_EVIDENCE:
        return _OF_EVIDENCE[op.evidence]
    return RECORDED, say("It was launched inside the range of the op.")


def _tc_support_status(op: Op) -> int:
    """Return DLProf's code for what an op can do with Tensor Cores."""
    if op.origin is Origin.STRAY:
        return TC_UNASSOCIATED
    return TC_ELIGIBLE if op.tc_eligible else TC_NOT_ELIGIBLE


def op_table(data: ImportedProfile) -> Table:
    """Return the ops of all domains."""
    ops = data.all_ops()
    recorded = recorded_shapes(data)
    fits = tensor_core_fits(data, recorded)
    domain_row = {0: 1} | {domain.code: row for row, domain in enumerate(data.domains, start=2)}
    evidence = [_evidence_of(op, data.mode) for op in ops]
    return Table(
        "ops",
        {
            "id": list(range(1, len(ops) + 1)),
            "domain": [domain_row[op.domain] for op in ops],
            **attributes(ops, "op_id", "op_name", "op_type", "direction"),
            **attributes(ops, "data_type", "stack_trace"),
            "process": [op.process + 1 for op in ops],
            "tc_support_status": [_tc_support_status(op) for op in ops],
            "forward": [op.forward + 1 if op.forward >= 0 else None for op in ops],
            "tc_fit": [fit.eligible for fit in fits],
            "tc_fit_reason": [fit.reason for fit in fits],
            "flops": op_flops(data.costs, data.ops.op_of_instance, len(ops)),
            "name_grade": [grade for grade, _ in evidence],
            "name_reason": [reason for _, reason in evidence],
            "shared_modules": [op.shared_modules for op in ops],
        },
    )
