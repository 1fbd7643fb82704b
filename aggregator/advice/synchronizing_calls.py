"""Calls in the step that wait until the GPU has finished its work."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import call_items, quoted
from aggregator.advice.facts import Facts
from aggregator.advice.finding import (
    MIN_GAIN_PCT,
    Answer,
    Finding,
    Proof,
    Remedy,
    Unknown,
)
from aggregator.profile.arrays import Int64
from aggregator.replay.changes import no_synchronization
from aggregator.texts import Text, say

NAME = "synchronizing_calls"


def idle_after_ns(facts: Facts) -> Int64:
    """Return the idle time of the GPU between each wait and the next one. Unit: ns.

    The wait causes it, up to the duration of the wait: the CPU could have launched work meanwhile.
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
    """Measure the cost of each wait: the shorter of its duration and the idle time after it."""
    waits = facts.waits
    if not len(waits.start_ns):
        if facts.has_graphs or int(facts.kernels.sum()):
            return None
        return Unknown(
            NAME,
            say("Whether calls wait for the GPU is unknown: no CUDA calls were recorded"),
            say("A trace with CUDA calls (ProfilerActivity.CUDA)")
            if facts.is_kineto
            else say("A capture with CUDA API calls (nsys -t cuda)"),
        )
    length = waits.end_ns - waits.start_ns
    cost = np.minimum(length, idle_after_ns(facts))
    gain = facts.share_pct(int(cost.sum()))
    if gain < MIN_GAIN_PCT and facts.trusted_replay is None:
        return None  # else the replay decides
    everything = np.ones(len(length), dtype=bool)
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("in which no call waits for the GPU"), (no_synchronization(),), what_if="no_sync"
        ),
        gain_pct=gain,
        problem=_problem(len(length) / len(facts.gpus), facts.steps.count),
        recommendation=say(
            "Move .item(), .cpu(), nonzero() and the printing of tensors out of the step, or do "
            "them every 50 steps; for values that are needed later, copy to pinned memory with "
            "non_blocking=True and read them a step later"
        ),
        reasoning=say(
            "For each wait, the shorter of its duration and the idle time of the GPU until "
            "the next wait: the CPU could have launched work during that time"
        ),
        evidence=call_items(facts, everything, cost),
        proof=_proof(facts, int(length.sum())),
    )


def _problem(count: float, steps: int) -> Text:
    if count < steps:
        return say(
            "The program waits until the GPU has finished, {count:.0f}x in {steps} steps; the GPU "
            "is then idle until new work arrives",
            count=max(count, 1.0),
            steps=steps,
        )
    return say(
        "The program waits until the GPU has finished, {count:.3g}x a step; the GPU is then idle "
        "until new work arrives",
        count=count / steps,
    )


def _waiting_names(facts: Facts) -> list[str]:
    return sorted({facts.call_names[row] for row in facts.waits.name.tolist()})


def _proof(facts: Facts, total: int) -> Proof:
    names = ", ".join(quoted(name) for name in _waiting_names(facts))
    query = (
        "SELECT coalesce(sum(api_duration), 0) AS blocked_ns FROM view_api_calls WHERE api_name IN"
        f" ({names}) AND api_start >= {facts.steps.api_low_ns}"
        f" AND api_start < {facts.steps.api_high_ns}"
    )
    return Proof(query, "blocked_ns", total)
