"""Matrix products in FP32 or TF32, and none in 16 bits."""

from __future__ import annotations

from aggregator.expert.advice.evidence import kernel_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import MEDIUM_GAIN_PCT, Answer, Certainty, Finding, Unknown
from aggregator.expert.advice.matmul import (
    HALF_CAPABILITY,
    HALF_OVER_FP32,
    HALF_OVER_TF32,
    all_gpus_have,
    in_half,
    in_tf32,
    on_fp32_units,
    products,
)
from aggregator.expert.advice.queries import kernels_proof
from aggregator.texts import say

NAME = "half_precision"


def advise(facts: Facts) -> Answer:
    """Automatic mixed precision runs them twice as fast as TF32, many times as fast as FP32."""
    rows = products(facts)
    if not rows.any() or in_half(facts).any():
        return None
    able = all_gpus_have(facts, HALF_CAPABILITY)
    if able is None:
        return Unknown(
            NAME,
            say("Whether the GPU has Tensor Cores cannot be told"),
            say("An export of Nsight Systems that describes the GPUs"),
        )
    time = facts.work.duration_ns
    slow, wide = int(time[on_fp32_units(facts)].sum()), int(time[in_tf32(facts)].sum())
    gain = facts.kernel_gain_pct(slow, HALF_OVER_FP32) + facts.kernel_gain_pct(wide, HALF_OVER_TF32)
    if not able or gain < MEDIUM_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "Matrix products take {share:.0f}% of the step and none of them runs in 16 bits",
            share=facts.share_pct(int(time[rows].sum())),
        ),
        recommendation=say(
            "Use automatic mixed precision: torch.autocast('cuda', dtype=torch.bfloat16), or "
            "float16 with a GradScaler. Check that the model still converges"
        ),
        reasoning=say(
            "FP32 products at a sixth of their time and TF32 ones at 1/1.8 of it, as far as the "
            "GPU sets the pace; the ratios of the peaks are 15 and 2. Other kernels gain too, for "
            "they move half the bytes"
        ),
        certainty=Certainty.LIKELY,
        frameworks="PyTorch, TensorFlow",
        needs=say("A training run in 16 bits tells whether accuracy stays"),
        evidence=kernel_items(facts, rows),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )
