"""GPUs that run nothing."""

from __future__ import annotations

from aggregator.advice.evidence import gpu_item
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Link, Proof, Severity, View
from aggregator.texts import say

NAME = "unused_gpus"


def advise(facts: Facts) -> Answer:
    """Find GPUs that were visible to the processes and ran nothing in the whole profile."""
    idle = facts.idle_devices
    if not idle or (len(facts.gpus) == 1 and bool(facts.names.communicates.any())):
        return None  # A collective has other members: their GPUs are those of other ranks.
    return Finding(
        advice=NAME,
        gain_pct=None,
        problem=say(
            "GPUs that are visible to the application run nothing: {names}",
            names=", ".join(str(device) for device in idle),
        ),
        recommendation=say(
            "Use them too (torchrun --nproc_per_node=gpu, with DistributedDataParallel), or leave "
            "them to others: hide them from the program (CUDA_VISIBLE_DEVICES)"
        ),
        reasoning=say("This profile does not show how well the training scales to more GPUs"),
        needs=say("A run on all GPUs, to measure the speedup"),
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
