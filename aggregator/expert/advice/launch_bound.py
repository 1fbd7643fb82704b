"""Kernels launched one by one, later than the GPU could take them."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import op_items
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import Answer, Certainty, Finding, Item
from aggregator.expert.advice.queries import LATE, gaps_proof
from aggregator.texts import say

NAME = "launch_bound"
LEAST_SHARE_PCT = 10.0
"""Waiting for launches below this share of the step is ordinary."""
LEAST_GAPS = 20
"""Gaps per step from which launching is the matter, and no single stop."""
LONGEST_GAP_NS = 1_000_000
"""A longer gap is no matter of launching but of what the script does in between."""
GRAPH_GAP_NS = 1_300
"""What a CUDA graph leaves between two kernels, measured on an H200."""


def advise(facts: Facts) -> Answer:
    """Short gaps before work whose launch came when the GPU had nothing left to do."""
    waited = facts.came_late & (facts.gap_ns > 0) & (facts.gap_ns <= LONGEST_GAP_NS)
    total, gaps = int(facts.gap_ns[waited].sum()), int(waited.sum())
    share = facts.share_pct(total)
    if share < LEAST_SHARE_PCT or gaps < LEAST_GAPS * facts.steps.count * len(facts.gpus):
        return None
    gain = facts.share_pct(max(total - GRAPH_GAP_NS * gaps, 0))
    kernels = int(facts.kernels.sum()) // (facts.steps.count * len(facts.gpus))
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "The GPU waits {share:.0f}% of the step for kernels to be launched: {count} kernels a "
            "step, one call each",
            share=share,
            count=kernels,
        ),
        recommendation=say(
            "Launch many kernels at once: CUDA graphs (torch.cuda.make_graphed_callables, or "
            "torch.compile with mode='reduce-overhead'), or fewer and larger kernels "
            "(torch.compile, larger batches)"
        ),
        reasoning=say(
            "Gaps of up to 1 ms before a kernel whose launch began when the GPU had run dry, less "
            "1.3 us for each that a CUDA graph would keep. Tracing and markers slow launching "
            "down, so without them the share is smaller"
        ),
        certainty=Certainty.LIKELY,
        needs=say("A step time measured without the profiler tells how much of the waiting stays"),
        evidence=(
            *op_items(facts, waited, facts.gap_ns),
            Item("gap", "median gap", int(np.median(facts.gap_ns[waited])), gaps),
        ),
        proof=gaps_proof(
            facts, waited, f"{LATE} AND start - reached <= {LONGEST_GAP_NS}", "waiting_ns"
        ),
    )
