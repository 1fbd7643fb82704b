"""Kernels that convert tensor layouts for convolutions."""

from __future__ import annotations

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Remedy
from aggregator.kernels.names import LAYOUT_CONVERSION
from aggregator.replay.changes import channels_last
from aggregator.texts import say

NAME = "layout_conversions"
MIN_KERNEL_PCT = 5.0
"""A smaller share of the kernel time is normal: a channels-last model still converts its
three-channel input."""


def advise(facts: Facts) -> Answer:
    """Find conversions that cuDNN runs around its Tensor Core kernels, which use channels last."""
    rows = facts.kernels & facts.named(
        [bool(LAYOUT_CONVERSION.search(n)) for n in facts.names.long]
    )
    total = int(facts.work.duration_ns[rows].sum())
    busy = max(int(facts.work.duration_ns[facts.kernels].sum()), 1)
    gain = facts.kernel_gain_pct(total, float("inf"))
    if gain < MIN_GAIN_PCT or 100.0 * total < MIN_KERNEL_PCT * busy:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("without these conversions, with faster batch normalization"),
            (channels_last,),
            is_of_all_steps=True,
        ),
        gain_pct=gain,
        problem=say(
            "{share:.0f}% of the kernel time converts tensor layouts for convolutions (NCHW "
            "to NHWC and back)",
            share=100.0 * total / busy,
        ),
        recommendation=say(
            "Use the channels-last layout: model.to(memory_format=torch.channels_last), and "
            "the same for the input"
        ),
        reasoning=say(
            "The time of these kernels, for the share of the time that is limited by the "
            "GPU: {ratio:.0f}% of the kernel time was in kernels that waited in a queue. "
            "Other kernels become faster too",
            ratio=100.0 * facts.gpu_bound_ratio,
        ),
        frameworks="PyTorch, TensorFlow",
        **kernel_evidence(facts, rows),
    )
