"""Collectives that move data while no kernel computes."""

from __future__ import annotations

import re

import numpy as np

from aggregator.advice.evidence import gpu_item, kernel_evidence
from aggregator.advice.facts import Facts, Gpu
from aggregator.advice.finding import Answer, Finding, Remedy
from aggregator.profile.arrays import Bool
from aggregator.profile.intervals import flatten, uncovered_between
from aggregator.replay.communication import overlap_communication
from aggregator.texts import Text, say

NAME = "exposed_communication"
MIN_SHARE_PCT = 5.0  # A smaller share of the step is not reported.
MANY = 32  # From so many collectives per step on they are better sent together.
EXCHANGE = re.compile(r"SendRecv|AllToAll", re.I)
SHORT_NS = 1_000_000  # A collective that takes less hardly moves data.


def exposed_ns(facts: Facts, gpu: Gpu, rows: Bool) -> int:
    """Return the time in which collectives moved data and no kernel computed on a GPU. Unit: ns.

    Where it is known how long a collective waited for other ranks, that time is left out.
    """
    work = facts.work
    here = rows & (work.device == gpu.device)
    start = work.start_ns[here] + np.maximum(work.waiting_ns[here], 0)
    moving = flatten(np.minimum(start, work.end_ns[here]), work.end_ns[here])
    edges = np.array([gpu.low_ns, gpu.high_ns], dtype=np.int64)
    return int(uncovered_between(moving, gpu.computing, edges).sum())


def advise(facts: Facts) -> Answer:
    """Find exposed communication; waiting for a late rank is that of ``late_ranks``.

    Of several GPUs the slowest is judged: the others have time for communication.
    """
    rows = facts.kernels & facts.named(facts.names.communicates.tolist())
    if not rows.any():
        return None
    exposed = {gpu.device: exposed_ns(facts, gpu, rows) for gpu in facts.gpus}
    share = facts.gpu_share_pct(facts.slowest, exposed[facts.slowest.device])
    if share < MIN_SHARE_PCT:
        return None
    is_known = bool((facts.work.waiting_ns[rows] >= 0).all())
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with the communication beside the computation"),
            (overlap_communication,),
            what_if="overlap_communication",
        ),
        gain_pct=share,
        problem=_problem(facts, share, is_known=is_known),
        recommendation=_recommendation(facts, rows),
        reasoning=_reasoning(is_known=is_known),
        is_guess=not is_known,
        needs=None
        if is_known
        else say("The collectives of all ranks, to see how much of it is waiting for other ranks"),
        **kernel_evidence(
            facts,
            rows,
            *(gpu_item(gpu.device, gpu.name, exposed[gpu.device]) for gpu in facts.gpus),
            column="communication_ns",
        ),
    )


def _problem(facts: Facts, share: float, *, is_known: bool) -> Text:
    if is_known:
        return say(
            "Data moves between GPUs for {share:.0f}% of {span} while no kernel computes",
            share=share,
            span=facts.span,
        )
    return say(
        "Collectives run for {share:.0f}% of {span} while no kernel computes: they move data or "
        "wait for other ranks, which this profile does not distinguish",
        share=share,
        span=facts.span,
    )


def _recommendation(facts: Facts, rows: Bool) -> Text:
    reduces = rows & facts.named(["AllReduce" in name for name in facts.names.long])
    count = int(reduces.sum()) // (facts.steps.count * len(facts.gpus))
    if count >= MANY and float(np.median(facts.work.duration_ns[reduces])) < SHORT_NS:
        return say(
            "Send tensors together: {count} separate all-reduces run on a GPU. "
            "DistributedDataParallel puts gradients into buckets (bucket_cap_mb) and starts each "
            "during the backward pass; without it, flatten them into one tensor",
            count=count,
        )
    time = facts.work.duration_ns
    exchanges = rows & facts.named([bool(EXCHANGE.search(name)) for name in facts.names.long])
    if 2 * int(time[exchanges].sum()) > int(time[rows].sum()):
        return say(
            "Most of it exchanges tensors between the ranks (all-to-all, send and receive). Begin "
            "it while work runs that does not need the result, such as that of the batch before "
            "(for embeddings: torchrec's TrainPipelineSparseDist), or send less (16-bit values)"
        )
    if not facts.is_training:
        return say(
            "Overlap it with the computation of other requests or layers, send less (16-bit or "
            "8-bit values), or spread the model over fewer GPUs"
        )
    return say(
        "Overlap it with the backward pass (DistributedDataParallel with suitable "
        "buckets: bucket_cap_mb, gradient_as_bucket_view), send less (16-bit gradients), "
        "or accumulate gradients over several batches with no_sync()"
    )


def _reasoning(*, is_known: bool) -> Text:
    if is_known:
        return say(
            "Time in which collective kernels ran and no other kernel did, without the time that "
            "they waited for a rank that had not started them. Overlapping could hide all of it"
        )
    return say(
        "Time in which collective kernels ran and no other kernel did. Overlapping could "
        "hide the part in which they move data, but not the waiting for a slower rank"
    )
