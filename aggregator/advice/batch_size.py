"""Batches so small that the GPU has memory and time to spare."""

from __future__ import annotations

from aggregator.advice import launch_bound
from aggregator.advice.dlprof.gpus import BATCH_MODES, LOW_MEMORY_PCT, batch_factor
from aggregator.advice.facts import Facts
from aggregator.advice.finding import (
    MEDIUM_GAIN_PCT,
    Answer,
    Finding,
    Item,
    Proof,
    Severity,
    Unknown,
)
from aggregator.texts import say

NAME = "batch_size"


def advise(facts: Facts) -> Answer:
    """Find a larger batch that fits in memory, for a GPU that waits for launches.

    Free memory alone is not enough: a GPU that is always busy takes twice as long for twice the
    batch.
    """
    waits = launch_bound.advise(facts)
    if not isinstance(waits, Finding) or facts.mode not in BATCH_MODES:
        return None
    shares = [gpu.memory_used_pct for gpu in facts.gpus if gpu.memory_used_pct is not None]
    if not shares:
        return Unknown(
            NAME,
            say("Whether a larger batch fits is unknown: the GPU memory usage was not recorded"),
            say("A capture made by dlprof, which reads the memory usage through NVML"),
        )
    factor = batch_factor(max(shares))
    busy = sum(covered.covered_ns() for covered in facts.busy.values()) / facts.wall_ns
    if facts.corrected_idle_pct is not None:
        busy = 1.0 - facts.corrected_idle_pct / 100.0
    gain = 100.0 * (1.0 - max(1.0, factor * busy) / factor)
    if max(shares) >= LOW_MEMORY_PCT or gain < MEDIUM_GAIN_PCT:
        return None
    batch = facts.settings.get("batch_size")
    used = max(gpu.memory_used_bytes or 0 for gpu in facts.gpus)
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=say(
            "The GPU is busy {busy:.0f}% of the step and {share:.0f}% of its memory is used: a "
            "larger batch fits",
            busy=100.0 * busy,
            share=max(shares),
        ),
        recommendation=say("Try a {factor}x larger batch; retune the learning rate", factor=factor)
        if facts.is_training
        else say("Process {factor}x as many samples or requests at once", factor=factor),
        reasoning=say(
            "Time per sample: {factor} times as many samples share the time spent waiting "
            "for launches, while the busy time grows with the batch",
            factor=factor,
        ),
        frameworks="PyTorch, TensorFlow",
        needs=say("A run with the larger batch, to see whether it fits and what it changes"),
        evidence=(Item("setting", f"batch_size={batch}"),) if batch else (),
        is_per_sample=True,
        severity=Severity.LOW,  # what saves time with the same batch comes first
        proof=Proof("SELECT max(used) AS used_bytes FROM view_gpu_memories", "used_bytes", used),
    )
