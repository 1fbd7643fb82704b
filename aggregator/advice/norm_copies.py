"""Group normalization that copies tensors into another layout."""

from __future__ import annotations

import re

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Remedy
from aggregator.replay.changes import shrink_rows
from aggregator.texts import say

NAME = "norm_copies"
COPY = re.compile(r"direct_copy_kernel")
NORM = re.compile(r"group_?norm", re.I)
MIN_KERNEL_PCT = 5.0  # A smaller share of the kernel time is not reported.


def advise(facts: Facts) -> Answer:
    """Find copies inside of group normalizations, whose kernels need contiguous input.

    In a channels-last model each of them copies its input, and the next convolution copies back.
    """
    norms = [bool(NORM.search(f"{name}/{kind}")) for name, kind in _paths(facts)]
    rows = facts.kernels & facts.of_ops(norms)
    rows &= facts.named([bool(COPY.search(name)) for name in facts.names.long])
    total = int(facts.work.duration_ns[rows].sum())
    busy = max(int(facts.work.duration_ns[facts.kernels].sum()), 1)
    if 100.0 * total < MIN_KERNEL_PCT * busy:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(say("without these copies"), (shrink_rows(facts.rows_of_replay(rows), 0.0),)),
        gain_pct=facts.kernel_gain_pct(total, float("inf")),
        problem=say(
            "{share:.0f}% of the kernel time copies tensors in group normalizations",
            share=100.0 * total / busy,
        ),
        recommendation=say(
            "PyTorch's GroupNorm copies input in the channels-last layout. Use one that reads it "
            "(apex.contrib.group_norm, or torch.compile), or keep this part of the model in the "
            "contiguous layout"
        ),
        reasoning=say(
            "The time of these copies, for the share of the time that is limited by the GPU: "
            "{ratio:.0f}% of the kernel time was in kernels that waited in a queue",
            ratio=100.0 * facts.gpu_bound_ratio,
        ),
        frameworks="PyTorch",
        **kernel_evidence(facts, rows),
    )


def _paths(facts: Facts) -> zip[tuple[str, str]]:
    return zip(facts.ops.names, facts.ops.types, strict=True)
