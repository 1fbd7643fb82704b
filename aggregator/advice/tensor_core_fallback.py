"""Matrix products that run without Tensor Cores in a model that otherwise uses them."""

from __future__ import annotations

from aggregator.advice.evidence import kernel_items, kernels_proof, op_items, ops_link
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Remedy
from aggregator.advice.matmul import in_half, on_fp32_units
from aggregator.replay.changes import HALF_FACTOR, speed_up_rows
from aggregator.texts import say

NAME = "tensor_core_fallback"


def advise(facts: Facts) -> Answer:
    """Find parts in FP32, and types or shapes that Tensor Core kernels do not support."""
    rows = on_fp32_units(facts)
    if not rows.any() or not in_half(facts).any():
        return None
    total = int(facts.work.duration_ns[rows].sum())
    gain = facts.kernel_gain_pct(total, HALF_FACTOR)
    if gain < MIN_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with these kernels in 1/6 of their time"),
            (speed_up_rows(facts.rows_of_replay(rows), HALF_FACTOR),),
        ),
        gain_pct=gain,
        problem=say(
            "Some matrix products of this mixed-precision model run without Tensor Cores and take "
            "{share:.0f}% of {span}",
            share=facts.share_pct(total),
            span=facts.span,
        ),
        recommendation=say(
            "Find why the ops below do not use them: a region without autocast, a .float() "
            "before them, an FP32 or FP64 parameter, sizes that are no multiples of 8"
        ),
        reasoning=say(
            "These kernels in 1/6 of their time, for the share of the time that is limited "
            "by the GPU; the ratio of the peaks is 15"
        ),
        frameworks="PyTorch, TensorFlow",
        evidence=(*op_items(facts, rows), *kernel_items(facts, rows)),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )
