"""Matrix products that run without Tensor Cores in a model that otherwise uses them."""

from __future__ import annotations

from aggregator.expert.advice.evidence import kernel_items, op_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import LEAST_GAIN_PCT, Answer, Certainty, Finding
from aggregator.expert.advice.matmul import HALF_OVER_FP32, in_half, on_fp32_units
from aggregator.expert.advice.queries import kernels_proof
from aggregator.texts import say

NAME = "tensor_core_fallback"


def advise(facts: Facts) -> Answer:
    """Parts kept in FP32, types or shapes that no Tensor Core kernel takes."""
    rows = on_fp32_units(facts)
    if not rows.any() or not in_half(facts).any():
        return None
    total = int(facts.work.duration_ns[rows].sum())
    gain = facts.kernel_gain_pct(total, HALF_OVER_FP32)
    if gain < LEAST_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "Some matrix products of this mixed-precision model run without Tensor Cores and take "
            "{share:.0f}% of the step",
            share=facts.share_pct(total),
        ),
        recommendation=say(
            "See why these ops stay out: a region with autocast off, a .float() before them, an "
            "FP32 or FP64 parameter, an odd shape"
        ),
        reasoning=say(
            "The time of these kernels at a sixth of it, as far as the GPU sets the pace; the "
            "ratio of the peaks is 15"
        ),
        certainty=Certainty.SURE,
        frameworks="PyTorch, TensorFlow",
        evidence=(*op_items(facts, rows), *kernel_items(facts, rows)),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )
