"""FP32 matrix products beside Tensor Cores that could take them as TF32."""

from __future__ import annotations

from aggregator.expert.advice.evidence import kernel_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import (
    MEDIUM_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Item,
    Unknown,
)
from aggregator.expert.advice.matmul import (
    TF32_CAPABILITY,
    TF32_OVER_FP32,
    all_gpus_have,
    in_half,
    on_fp32_units,
)
from aggregator.expert.advice.queries import kernels_proof
from aggregator.texts import say

NAME = "tf32_off"
SETTINGS = ("matmul_precision", "matmul_allow_tf32", "cudnn_allow_tf32")


def advise(facts: Facts) -> Answer:
    """Where 16-bit products run as well, slow ones are a matter of falling back."""
    rows = on_fp32_units(facts)
    if not rows.any() or in_half(facts).any():
        return None
    gain = facts.kernel_gain_pct(int(facts.work.duration_ns[rows].sum()), TF32_OVER_FP32)
    if gain < MEDIUM_GAIN_PCT:
        return None
    has_tf32 = all_gpus_have(facts, TF32_CAPABILITY)
    if has_tf32 is None:
        return Unknown(
            NAME,
            say("Whether the GPU has TF32 cannot be told: its compute capability is missing"),
            say("An export of Nsight Systems that describes the GPUs"),
        )
    if not has_tf32:
        return None
    known = [name for name in SETTINGS if name in facts.settings]
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "FP32 matrix products take {share:.0f}% of the step without Tensor Cores; this GPU "
            "has TF32",
            share=facts.share_pct(int(facts.work.duration_ns[rows].sum())),
        ),
        recommendation=say(
            "Allow TF32: torch.set_float32_matmul_precision('high') and "
            "torch.backends.cudnn.allow_tf32 = True. It keeps FP32's range, with 10 bits of "
            "mantissa"
        ),
        reasoning=say(
            "The time of these kernels at a quarter of it, as far as the GPU sets the pace; the "
            "ratio of the peaks is 7 to 8"
        ),
        certainty=Certainty.SURE if known else Certainty.LIKELY,
        frameworks="PyTorch, TensorFlow",
        needs=None if known else say("Markers that record the settings (dlprof_nvtx)"),
        evidence=(
            *kernel_items(facts, rows),
            *(Item("setting", f"{name}={facts.settings[name]}") for name in known),
        ),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )
