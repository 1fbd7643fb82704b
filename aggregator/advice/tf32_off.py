"""FP32 matrix products that Tensor Cores could run as TF32."""

from __future__ import annotations

from aggregator.advice.evidence import kernel_evidence, setting_items
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MEDIUM_GAIN_PCT, Answer, Finding, Remedy, Unknown
from aggregator.advice.matmul import (
    TF32_CAPABILITY,
    all_gpus_have,
    in_half,
    on_fp32_units,
)
from aggregator.replay.changes import TF32_FACTOR, tensor_cores
from aggregator.texts import say

NAME = "tf32_off"
SETTINGS = ("matmul_precision", "matmul_allow_tf32", "cudnn_allow_tf32")


def advise(facts: Facts) -> Answer:
    """Find FP32 products in a model without 16-bit ones; else see ``tensor_core_fallback``."""
    rows = on_fp32_units(facts)
    if not rows.any() or in_half(facts).any():
        return None
    gain = facts.kernel_gain_pct(int(facts.work.duration_ns[rows].sum()), TF32_FACTOR)
    if gain < MEDIUM_GAIN_PCT:
        return None
    has_tf32 = all_gpus_have(facts, TF32_CAPABILITY)
    if has_tf32 is None:
        return Unknown(
            NAME,
            say("Whether the GPU supports TF32 is unknown: its compute capability is missing"),
            say("An Nsight Systems export that describes the GPUs"),
        )
    if not has_tf32:
        return None
    known = setting_items(facts, *SETTINGS)
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with these kernels in 1/5 of their time"),
            (tensor_cores,),
            what_if="tensor_cores",
        ),
        gain_pct=gain,
        problem=say(
            "FP32 matrix products take {share:.0f}% of {span} without Tensor Cores; this "
            "GPU supports TF32",
            share=facts.share_pct(int(facts.work.duration_ns[rows].sum())),
            span=facts.span,
        ),
        recommendation=say(
            "Allow TF32: torch.set_float32_matmul_precision('high') and "
            "torch.backends.cudnn.allow_tf32 = True. It has the range of FP32 and a mantissa "
            "of 10 bits"
        ),
        reasoning=say(
            "These kernels in 1/5 of their time, for the share of the time that is limited "
            "by the GPU; the ratio of the peaks is 7 to 8"
        ),
        frameworks="PyTorch, TensorFlow",
        needs=None if known else say("Markers that record the settings (dlprof_nvtx)"),
        **kernel_evidence(facts, rows, *known),
    )
