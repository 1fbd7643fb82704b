"""Calls in the step that wait until the GPU has run dry."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import call_items
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import (
    LEAST_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Proof,
    Unknown,
)
from aggregator.expert.advice.queries import quoted
from aggregator.profile import Int64
from aggregator.texts import say

NAME = "synchronizing_calls"


def idle_after_ns(facts: Facts) -> Int64:
    """Idle time of the GPU between the end of each wait and the start of the next one.

    Up to the length of the wait it would not be there without it: the CPU would have gone on
    launching meanwhile. Unit: ns.
    """
    waits = facts.waits
    result = np.zeros(len(waits.start_ns), dtype=np.int64)
    for gpu in facts.gpus:
        rows = np.flatnonzero(waits.device == gpu.device)
        begin = np.clip(waits.end_ns[rows], gpu.low_ns, gpu.high_ns)
        end = np.append(begin[1:], gpu.high_ns) if len(rows) else begin
        busy, loading = facts.busy[gpu.device], gpu.loading
        idle = end - begin
        for cover in (busy, loading):
            idle = idle - cover.covered_before(end) + cover.covered_before(begin)
        result[rows] = np.maximum(idle, 0)
    return result


def advise(facts: Facts) -> Answer:
    """What each wait cost: its length, or the idle time after it where that is shorter."""
    waits = facts.waits
    if not len(waits.start_ns):
        if facts.has_graphs or int(facts.kernels.sum()):
            return None
        return Unknown(
            NAME,
            say("Whether calls wait for the GPU cannot be told: no CUDA calls were recorded"),
            say("A trace with CUDA calls (ProfilerActivity.CUDA)")
            if facts.is_kineto
            else say("A capture with CUDA API calls (nsys -t cuda)"),
        )
    length = waits.end_ns - waits.start_ns
    cost = np.minimum(length, idle_after_ns(facts))
    gain = facts.share_pct(int(cost.sum()))
    if gain < LEAST_GAIN_PCT:
        return None
    count = len(length) / (facts.steps.count * len(facts.gpus))
    everything = np.ones(len(length), dtype=bool)
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "Calls wait until the GPU has finished, {count:.0f} in each step; it then stands idle "
            "until new work arrives",
            count=max(count, 1.0),
        ),
        recommendation=say(
            "Take .item(), .cpu(), nonzero() and printing of tensors out of the step, or do them "
            "every n steps; copy to pinned memory with non_blocking=True"
        ),
        reasoning=say(
            "For each wait the smaller of its length and the GPU's idle time up to the next wait: "
            "in it the CPU could have gone on launching"
        ),
        certainty=Certainty.LIKELY,
        evidence=call_items(facts, everything, cost),
        proof=_proof(facts, int(length.sum())),
    )


def _proof(facts: Facts, total: int) -> Proof:
    names = ", ".join(quoted(name) for name in sorted(set(facts.waits.name)))
    query = (
        "SELECT coalesce(sum(api_duration), 0) AS blocked_ns FROM view_api_calls WHERE api_name IN"
        f" ({names}) AND api_start >= {facts.steps.api_low_ns}"
        f" AND api_start < {facts.steps.api_high_ns}"
    )
    return Proof(query, "blocked_ns", total)
