"""Matrix products in FP32 or TF32, and none in 16 bits."""

from __future__ import annotations

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MEDIUM_GAIN_PCT, Answer, Finding, Remedy, Unknown
from aggregator.advice.matmul import (
    HALF_CAPABILITY,
    TF32_CAPABILITY,
    all_gpus_have,
    in_half,
    in_tf32,
    on_fp32_units,
    products,
)
from aggregator.replay import changes
from aggregator.replay.changes import HALF_FACTOR, HALF_OVER_TF32
from aggregator.texts import Text, say

NAME = "half_precision"


def advise(facts: Facts) -> Answer:
    """Estimate automatic mixed precision, which is faster than TF32 and much faster than FP32."""
    rows = products(facts)
    if not rows.any() or in_half(facts).any():
        return None
    able = all_gpus_have(facts, HALF_CAPABILITY)
    if able is None:
        return Unknown(
            NAME,
            say("Whether the GPU has Tensor Cores is unknown"),
            say("An Nsight Systems export that describes the GPUs"),
        )
    time = facts.work.duration_ns
    slow, wide = int(time[on_fp32_units(facts)].sum()), int(time[in_tf32(facts)].sum())
    gain = facts.kernel_gain_pct(slow, HALF_FACTOR) + facts.kernel_gain_pct(wide, HALF_OVER_TF32)
    if not able or gain < MEDIUM_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=_remedy(),
        gain_pct=gain,
        problem=say(
            "No matrix product runs in FP16 or BF16; they take {share:.0f}% of {span}",
            share=facts.share_pct(int(time[rows].sum())),
            span=facts.span,
        ),
        recommendation=_recommendation(facts),
        reasoning=say(
            "FP32 products in 1/6 and TF32 products in 1/1.8 of their time, for the share of "
            "the time that is limited by the GPU; the ratios of the peaks are 15 and 2. "
            "Other kernels become faster too, because they move half the bytes"
        ),
        frameworks="PyTorch, TensorFlow",
        needs=say("A run in 16 bits, to check the accuracy"),
        **kernel_evidence(facts, rows),
    )


def _recommendation(facts: Facts) -> Text:
    if not all_gpus_have(facts, TF32_CAPABILITY):  # Nor have they BF16.
        return say(
            "Run forward pass and loss under torch.autocast('cuda', dtype=torch.float16) with a "
            "torch.amp.GradScaler, or a model that is not trained in model.half(). The Tensor "
            "Cores of this GPU do not take bfloat16. Check the results"
        )
    if facts.is_training:
        return say(
            "Run forward pass and loss under torch.autocast('cuda', dtype=torch.bfloat16), or in "
            "float16 with a torch.amp.GradScaler. Check that the model still converges"
        )
    return say(
        "Run the model in 16 bits: model.to(torch.bfloat16), or torch.autocast. Check its results"
    )


def _remedy() -> Remedy:
    return Remedy(
        say("with FP32 products in 1/6 and TF32 products in 1/1.8 of their time"),
        (changes.half_precision,),
        what_if="half_precision",
    )
