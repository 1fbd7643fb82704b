"""Kernels so short that starting them takes as long as their work."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import kernel_items, launched, ops_link
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Proof, Remedy
from aggregator.replay.changes import shrink_rows
from aggregator.texts import say

NAME = "tiny_kernels"
TINY_NS = 5_000
"""Starting and draining a kernel takes 2 to 3 us on an H200: half of the time of such a kernel."""
MIN_SHARE_PCT = 15.0  # A smaller share of the step, with the gaps before them, is not reported.
MIN_KERNELS = 100  # Fewer of them in the window are not reported.
FUSED_RATIO = 0.6
"""Share of that time that fusing two or three of them into one saves: a rule of thumb."""
MAX_GAP_NS = 3_000  # Longer gaps before a kernel have other causes than starting it.


def advise(facts: Facts) -> Answer:
    """Find tiny kernels; if the GPU waits for launches, ``launch_bound`` covers this."""
    work = facts.work
    tiny = facts.kernels & (work.duration_ns < TINY_NS)
    gap = np.where(facts.gap_ns <= MAX_GAP_NS, facts.gap_ns, 0)
    total = int((work.duration_ns + gap)[tiny].sum())
    share = facts.share_pct(total)
    if share < MIN_SHARE_PCT or int(tiny.sum()) < MIN_KERNELS:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with 40% of the time of these kernels and of their launches"),
            (shrink_rows(facts.rows_of_replay(tiny), 1.0 - FUSED_RATIO),),
        ),
        covered_by=("launch_bound",),
        gain_pct=FUSED_RATIO * share,
        problem=say(
            "Kernels shorter than 5 us ({count}) take {share:.0f}% of {span}: starting them takes "
            "as long as their work",
            count=facts.per_step(int(tiny.sum())),
            share=share,
            span=facts.span,
        ),
        recommendation=say(
            "Fuse element-wise ops: torch.compile(model), an optimizer with fused=True, fused "
            "losses; or a larger batch"
        ),
        reasoning=say(
            "The time of these kernels and of the gaps of up to 3 us before them; fusing two "
            "or three kernels into one saves about 60% of it"
        ),
        needs=say(
            "Hardware counters (ncu), to see how far each kernel is from the memory bandwidth"
        ),
        evidence=kernel_items(facts, tiny),
        proof=Proof(
            f"SELECT count(*) AS tiny_kernels FROM view_kernel_launches WHERE {launched(facts)}"
            f" AND kernel_duration < {TINY_NS}",
            "tiny_kernels",
            int(tiny.sum()),
        ),
        link=ops_link(facts, tiny),
    )
