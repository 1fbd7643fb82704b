"""Work spread unevenly over the GPUs, and GPUs without any."""

from __future__ import annotations

import numpy as np

from aggregator.expert.advice.evidence import gpu_item
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import (
    MEDIUM_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Link,
    Proof,
    Severity,
    View,
)
from aggregator.expert.advice.queries import launched
from aggregator.texts import say

IMBALANCED_NAME, UNUSED_NAME = "imbalanced_gpus", "unused_gpus"


def computing_ns(facts: Facts) -> dict[int, int]:
    """Time of the window in which each GPU computed, collectives left out. Unit: ns."""
    result = {}
    for gpu in facts.gpus:
        edges = np.array([gpu.low_ns, gpu.high_ns], dtype=np.int64)
        before = gpu.computing.covered_before(edges)
        result[gpu.device] = int(before[1] - before[0])
    return result


def advise_imbalance(facts: Facts) -> Answer:
    """The step takes as long as its busiest GPU computes; with equal work all take the mean."""
    time = computing_ns(facts)
    if len(time) < 2:
        return None
    most, mean = max(time.values()), sum(time.values()) / len(time)
    gain = facts.share_pct((most - mean) * len(time))
    if gain < MEDIUM_GAIN_PCT:
        return None
    busiest = max(time, key=lambda device: time[device])
    rows = facts.kernels & (facts.work.device == busiest)
    return Finding(
        advice=IMBALANCED_NAME,
        gain_pct=gain,
        problem=say(
            "GPU {busiest} computes {ratio:.1f} times as long as the mean of all GPUs; the others "
            "wait for it",
            busiest=busiest,
            ratio=most / max(mean, 1.0),
        ),
        recommendation=say(
            "Give every GPU as many samples of like size, and the same layers: equal batches, "
            "samples sorted by length, stages of equal cost"
        ),
        reasoning=say(
            "What the busiest GPU computes beyond the mean of all, collectives left out: with "
            "equal work the step is that much shorter"
        ),
        certainty=Certainty.LIKELY,
        evidence=tuple(gpu_item(gpu.device, gpu.name, time[gpu.device]) for gpu in facts.gpus),
        proof=Proof(
            "SELECT coalesce(sum(kernel_duration), 0) AS kernel_time_ns FROM view_kernel_launches"
            f" WHERE {launched(facts)} AND device_id = {busiest}",
            "kernel_time_ns",
            int(facts.work.duration_ns[rows].sum()),
        ),
        link=Link(View.GPUS, {}),
    )


def advise_unused(facts: Facts) -> Answer:
    """GPUs that the processes could see and that ran nothing in the whole profile."""
    idle = facts.idle_devices
    if not idle:
        return None
    return Finding(
        advice=UNUSED_NAME,
        gain_pct=None,
        problem=say(
            "GPUs that the application can see run nothing: {names}",
            names=", ".join(str(device) for device in idle),
        ),
        recommendation=say(
            "Spread the work over them (torchrun, DistributedDataParallel), or leave them to "
            "others (CUDA_VISIBLE_DEVICES)"
        ),
        reasoning=say("How well the training scales over more GPUs is not in this profile"),
        certainty=Certainty.SURE,
        needs=say("A run on all GPUs tells what they win"),
        evidence=tuple(gpu_item(device, "", 0) for device in idle),
        proof=Proof(
            "SELECT count(*) AS unused_gpus FROM view_gpu_memories WHERE device_id NOT IN"
            " (SELECT device_id FROM view_gpu_work)",
            "unused_gpus",
            len(idle),
        ),
        severity=Severity.LOW,
        link=Link(View.GPUS, {}),
    )
