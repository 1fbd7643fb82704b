"""Work that is distributed unevenly over the GPUs."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import gpu_item, launched
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MEDIUM_GAIN_PCT, Answer, Finding, Link, Proof, View
from aggregator.texts import Text, say

NAME = "imbalanced_gpus"
KERNEL_RATIO = 0.8  # Share of the work that is too much that one kernel must have to be named.


def advise(facts: Facts) -> Answer:
    """Compare the GPU that computes longest with the mean, which equal work would reach."""
    time = _computing_ns(facts)
    if len(time) < 2:
        return None
    most, mean = max(time.values()), sum(time.values()) / len(time)
    gain = facts.share_pct((most - mean) * len(time))
    if gain < MEDIUM_GAIN_PCT:
        return None
    busiest = max(time, key=lambda device: time[device])
    rows = facts.kernels & (facts.work.device == busiest)
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=_problem(facts, busiest, 100.0 * (most / max(mean, 1.0) - 1.0)),
        recommendation=_recommendation(facts, busiest, (most - mean) * len(time) / (len(time) - 1)),
        reasoning=say(
            "The time that the busiest GPU computes longer than the mean of all GPUs, "
            "without collectives: with equal work the step is shorter by this"
        ),
        evidence=tuple(gpu_item(gpu.device, gpu.name, time[gpu.device]) for gpu in facts.gpus),
        proof=Proof(
            "SELECT coalesce(sum(kernel_duration), 0) AS kernel_time_ns FROM view_kernel_launches"
            f" WHERE {launched(facts)} AND device_id = {busiest}",
            "kernel_time_ns",
            int(facts.work.duration_ns[rows].sum()),
        ),
        link=Link(View.GPUS, {}),
    )


def _recommendation(facts: Facts, busiest: int, excess_ns: float) -> Text:
    """What to look at: a kernel, if it is most of what a GPU computes longer than the others."""
    work, others = facts.work, len(facts.gpus) - 1
    here = work.device == busiest
    size = len(facts.names.short)
    (own, other) = (
        np.bincount(work.name[rows], weights=work.duration_ns[rows], minlength=size)
        for rows in (facts.kernels & here, facts.kernels & ~here)
    )
    more_ns = own - other / others
    # Collectives are no work: they wait for other ranks.
    more_ns[np.flatnonzero(facts.names.communicates)] = 0
    most = int(more_ns.argmax())
    if more_ns[most] >= KERNEL_RATIO * excess_ns:
        return say(
            "Look at the kernel {kernel}: it takes {ms:.1f} ms a step longer on GPU {busiest} than "
            "on the others",
            kernel=facts.names.short[most],
            ms=float(more_ns[most]) / facts.steps.count / 1e6,
            busiest=busiest,
        )
    return say(
        "Give every GPU the same number of samples of similar size, and the same layers: "
        "drop_last=True or equal batches, batches by length, stages of equal cost"
    )


def _problem(facts: Facts, busiest: int, more_pct: float) -> Text:
    rank = next((wait.rank for wait in facts.rank_waits if wait.device == busiest), None)
    if rank is None:
        return say(
            "GPU {busiest} has {more:.0f}% more work than the mean of all GPUs; the others wait "
            "for it",
            busiest=busiest,
            more=more_pct,
        )
    return say(
        "Rank {rank} (GPU {busiest}) has {more:.0f}% more work than the mean of the ranks; the "
        "others wait for it",
        rank=rank,
        busiest=busiest,
        more=more_pct,
    )


def _computing_ns(facts: Facts) -> dict[int, int]:
    """Return the time in the window in which each GPU computed, without collectives. Unit: ns."""
    result = {}
    for gpu in facts.gpus:
        edges = np.array([gpu.low_ns, gpu.high_ns], dtype=np.int64)
        before = gpu.computing.covered_before(edges)
        result[gpu.device] = int(before[1] - before[0])
    return result
