"""Kernels that turn tensors around for convolutions."""

from __future__ import annotations

import re

from aggregator.expert.advice.evidence import kernel_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import LEAST_GAIN_PCT, Answer, Certainty, Finding
from aggregator.expert.advice.queries import kernels_proof
from aggregator.texts import say

NAME = "layout_conversions"
CONVERSION = re.compile(r"nchwToNhwc|nhwcToNchw|nchw_to_nhwc|nhwc_to_nchw|nhwcAddPadding", re.I)
"""Names of cuDNN's kernels between (N, C, H, W) and (N, H, W, C)."""

LEAST_KERNEL_PCT = 5.0
"""Their share of the kernel time; below it they are the odd layer: a model that is channels last
still converts its three-channel input."""


def advise(facts: Facts) -> Answer:
    """The library converts before and after its Tensor Core kernels, which want channels last."""
    rows = facts.kernels & facts.named([bool(CONVERSION.search(n)) for n in facts.names.long])
    total = int(facts.work.duration_ns[rows].sum())
    busy = max(int(facts.work.duration_ns[facts.kernels].sum()), 1)
    gain = facts.kernel_gain_pct(total, float("inf"))
    if gain < LEAST_GAIN_PCT or 100.0 * total < LEAST_KERNEL_PCT * busy:
        return None
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "{share:.0f}% of the kernel time turns tensors around for convolutions (NCHW to NHWC "
            "and back)",
            share=100.0 * total / busy,
        ),
        recommendation=say(
            "Keep images channels last: model.to(memory_format=torch.channels_last), and the same "
            "for the input"
        ),
        reasoning=say(
            "The time of these kernels, as far as the GPU sets the pace of the step: "
            "{ratio:.0f}% of the kernel time stood in a queue. Other kernels gain too",
            ratio=100.0 * facts.gpu_bound_ratio,
        ),
        certainty=Certainty.SURE,
        frameworks="PyTorch, TensorFlow",
        evidence=kernel_items(facts, rows),
        proof=kernels_proof(facts, rows),
        link=ops_link(facts, rows),
    )
