"""Kernels so short that starting them takes as long as their work."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import kernel_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import Answer, Certainty, Finding, Proof
from aggregator.expert.advice.queries import launched
from aggregator.texts import say

NAME = "tiny_kernels"
TINY_NS = 5_000
"""Starting and draining a kernel takes 2 to 3 us of an H200: below this it is half of its time."""
LEAST_SHARE_PCT = 15.0
"""Their share of the step, the gaps before them counted in, from which they matter."""
FUSED_RATIO = 0.6
"""Share of that time that fusing each two to three of them into one saves: a rule of thumb."""
LONGEST_GAP_NS = 3_000
"""A longer gap before a kernel has another reason than starting it."""


def advise(facts: Facts) -> Answer:
    """Only where the GPU is not kept waiting for launches: there, that is what to mend first."""
    work = facts.work
    tiny = facts.kernels & (work.duration_ns < TINY_NS)
    gap = np.where(facts.gap_ns <= LONGEST_GAP_NS, facts.gap_ns, 0)
    total = int((work.duration_ns + gap)[tiny].sum())
    share = facts.share_pct(total)
    if share < LEAST_SHARE_PCT:
        return None
    count = int(tiny.sum()) // (facts.steps.count * len(facts.gpus))
    return Finding(
        advice=NAME,
        gain_pct=FUSED_RATIO * share,
        problem=say(
            "{count} kernels a step are shorter than 5 us and take {share:.0f}% of it: starting "
            "them takes as long as their work",
            count=count,
            share=share,
        ),
        recommendation=say(
            "Fuse element-wise ops: torch.compile, fused optimizers and losses, fewer and larger "
            "tensors, larger batches"
        ),
        reasoning=say(
            "Their time and the gaps of up to 3 us before them; fusing two to three into one saves "
            "about 60% of it"
        ),
        certainty=Certainty.POSSIBLE,
        needs=say("Hardware counters (ncu) tell how far from the memory's speed each kernel is"),
        evidence=kernel_items(facts, tiny),
        proof=Proof(
            f"SELECT count(*) AS tiny_kernels FROM view_kernel_launches WHERE {launched(facts)}"
            f" AND kernel_duration < {TINY_NS}",
            "tiny_kernels",
            int(tiny.sum()),
        ),
        link=ops_link(facts, tiny),
    )
