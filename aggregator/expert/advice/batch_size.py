"""Batches so small that the GPU has memory and time left over."""

from __future__ import annotations

from aggregator.expert.advice import launch_bound
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import (
    MEDIUM_GAIN_PCT,
    Answer,
    Certainty,
    Finding,
    Item,
    Proof,
    Unknown,
)
from aggregator.expert.batch_size import LOW_MEMORY_PCT, batch_factor
from aggregator.texts import say

NAME = "batch_size"
FRAMEWORKS = "PyTorch, TensorFlow"


def advise(facts: Facts) -> Answer:
    """Only where the GPU waits for launches: a larger batch costs nothing until it no longer does.

    Free memory alone is no reason: a GPU that is busy all the time takes twice as long for twice
    the batch.
    """
    waits = launch_bound.advise(facts)
    if not isinstance(waits, Finding) or facts.mode not in (
        "pytorch",
        "tensorflow1",
        "tensorflow2",
    ):
        return None
    shares = [
        100.0 * gpu.memory_used_bytes / gpu.memory_bytes
        for gpu in facts.gpus
        if gpu.memory_bytes and gpu.memory_used_bytes
    ]
    if not shares:
        return Unknown(
            NAME,
            say("Whether a larger batch fits cannot be told: the GPU's memory was not read"),
            say("A capture made by dlprof, which reads it through NVML"),
        )
    factor = batch_factor(max(shares))
    busy = sum(covered.covered_ns() for covered in facts.busy.values()) / facts.wall_ns
    gain = 100.0 * (1.0 - max(1.0, factor * busy) / factor)
    if max(shares) >= LOW_MEMORY_PCT or gain < MEDIUM_GAIN_PCT:
        return None
    batch = facts.settings.get("batch_size")
    used = max(gpu.memory_used_bytes or 0 for gpu in facts.gpus)
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "The GPU is busy {busy:.0f}% of the step and {share:.0f}% of its memory is used: the "
            "batch is too small for it",
            busy=100.0 * busy,
            share=max(shares),
        ),
        recommendation=say(
            "Try a batch {factor} times as large, and adapt the learning rate", factor=factor
        ),
        reasoning=say(
            "Time per sample: the waiting for launches is shared by {factor} times as many, the "
            "busy time grows with them",
            factor=factor,
        ),
        certainty=Certainty.LIKELY,
        frameworks=FRAMEWORKS,
        needs=say("A run with the larger batch tells whether it fits and converges"),
        evidence=(Item("setting", f"batch_size={batch}"),) if batch else (),
        proof=Proof("SELECT max(used) AS used_bytes FROM view_gpu_memories", "used_bytes", used),
    )
