"""Collectives during which no kernel computes."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import gpu_item, kernel_items, ops_link
from aggregator.expert.advice.facts import Facts, Gpu
from aggregator.expert.advice.finding import Answer, Certainty, Finding
from aggregator.expert.advice.queries import kernels_proof
from aggregator.intervals import union_of
from aggregator.texts import Text, say

NAME = "exposed_communication"
LEAST_SHARE_PCT = 5.0
"""Exposed communication below this share of the step is left alone."""


def exposed_ns(gpu: Gpu) -> int:
    """Time of the window in which kernels moved data between GPUs and none computed. Unit: ns."""
    edges = np.array([gpu.low_ns, gpu.high_ns], dtype=np.int64)
    both = union_of(gpu.computing, gpu.moving).covered_before(edges)
    alone = gpu.computing.covered_before(edges)
    return int(both[1] - both[0] - alone[1] + alone[0])


def advise(facts: Facts) -> Answer:
    """An upper bound: what of it is waiting for slower ranks, overlapping does not win."""
    rows = facts.kernels & facts.named(facts.names.communicates.tolist())
    if not rows.any():
        return None
    exposed = {gpu.device: exposed_ns(gpu) for gpu in facts.gpus}
    share = facts.share_pct(sum(exposed.values()))
    if share < LEAST_SHARE_PCT:
        return None
    return Finding(
        advice=NAME,
        gain_pct=share,
        problem=say(
            "Communication between GPUs takes {share:.0f}% of the step while no kernel computes",
            share=share,
        ),
        recommendation=say(
            "Overlap it with the backward pass (DistributedDataParallel with buckets that fit: "
            "bucket_cap_mb, gradient_as_bucket_view), send less (16-bit gradients), or accumulate "
            "gradients over several batches with no_sync()"
        ),
        reasoning=_reasoning(facts),
        certainty=Certainty.LIKELY,
        needs=None
        if facts.rank_waits
        else say("The collectives of all ranks tell how much of it is waiting for others"),
        evidence=(
            *kernel_items(facts, rows),
            *(gpu_item(gpu.device, gpu.name, exposed[gpu.device]) for gpu in facts.gpus),
        ),
        proof=kernels_proof(facts, rows, "communication_ns"),
        link=ops_link(facts, rows),
    )


def _reasoning(facts: Facts) -> Text:
    if not facts.rank_waits:
        return say(
            "Time in which kernels of collectives ran and no other kernel did, all of which "
            "overlapping could hide. Waiting for a slower rank is part of it, and stays"
        )
    slowest = max(facts.rank_waits, key=lambda rank: rank.kept_waiting_ns)
    return say(
        "Time in which kernels of collectives ran and no other kernel did, all of which "
        "overlapping could hide. In collectives the ranks wait {waiting:.1f}% of the step for each "
        "other, {kept:.1f}% of it for rank {rank}: only equal work wins that",
        waiting=facts.share_pct(sum(rank.waiting_ns for rank in facts.rank_waits)),
        kept=facts.share_pct(slowest.kept_waiting_ns),
        rank=slowest.rank,
    )
