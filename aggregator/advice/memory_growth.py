"""Memory that each step allocates and nothing releases."""

from __future__ import annotations

from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Item, Proof, Severity
from aggregator.advice.recorded_memory import MIB, size_text
from aggregator.texts import say

NAME = "memory_growth"
LEAST_BYTES_PER_STEP = MIB  # Smaller growth takes tens of thousands of steps to matter.


def advise(facts: Facts) -> Answer:
    """Find allocations that every step adds and no later step releases."""
    found = [
        (sum(size / steps for _, size, steps in recording.growth), recording)
        for recording in facts.memories
        if recording.growth
    ]
    if not found:
        return None
    per_step, memory = max(found, key=lambda pair: (pair[0], -pair[1].recording))
    if per_step < LEAST_BYTES_PER_STEP:
        return None
    owner, _, steps = memory.growth[0]
    left = None if memory.total_bytes is None else memory.total_bytes - memory.peak_reserved
    return Finding(
        advice=NAME,
        gain_pct=None,
        problem=say(
            "The memory of GPU {device} grows by {size} with each step: no step releases what "
            "{owner} allocated in the {steps} steps before",
            device=memory.device,
            size=size_text(round(per_step)),
            owner=owner,
            steps=steps,
        ),
        recommendation=say(
            "Keep numbers, not tensors: loss.item(), or output.detach().cpu() for what is "
            "collected. A tensor that needs a gradient also keeps the graph that made it"
        ),
        reasoning=say(
            "The memory left is filled after {count:,} more steps",
            count=max(left, 0) // round(per_step),
        )
        if left is not None
        else say("How much memory the GPU has is unknown"),
        frameworks="PyTorch",
        evidence=tuple(
            Item("setting", f"{name}: {size_text(size)}", count=steps)
            for name, size, steps in memory.growth
        ),
        severity=Severity.HIGH,
        proof=Proof(
            "SELECT sum(growth_bytes) AS growth_bytes FROM view_memory_growth"
            f" WHERE recording = {memory.recording}",
            "growth_bytes",
            sum(size for _, size, _ in memory.growth),
        ),
    )
