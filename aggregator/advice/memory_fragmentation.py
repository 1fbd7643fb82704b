"""Memory that the allocator takes beyond what the program uses."""

from __future__ import annotations

from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Item, Proof, Severity
from aggregator.advice.recorded_memory import GIB, RecordedMemory, size_text
from aggregator.texts import say

NAME = "memory_fragmentation"
LEAST_SHARE_PCT = 20.0  # Rounding and small blocks alone take up to a tenth.
LEAST_BYTES = GIB // 2


def advise(facts: Facts) -> Answer:
    """Find a cache whose free blocks are too small for later requests."""
    found = [(_waste(recording), recording) for recording in facts.memories]
    waste, memory = max(found, key=lambda pair: pair[0], default=(0, None))
    if memory is None or waste < LEAST_BYTES:
        return None
    if 100.0 * waste < LEAST_SHARE_PCT * memory.peak_reserved:
        return None
    return Finding(
        advice=NAME,
        gain_pct=None,
        problem=say(
            "PyTorch took {reserved} of GPU {device} and never used more than {used} at once: the "
            "free blocks of its cache are too small for later requests",
            reserved=size_text(memory.peak_reserved),
            device=memory.device,
            used=size_text(memory.peak_active or 0),
        ),
        recommendation=say(
            "Set PYTORCH_ALLOC_CONF=expandable_segments:True, or run the longest batch first, or "
            "pad batches to few lengths"
        ),
        reasoning=say("The most that was reserved, minus the most that was used at once"),
        frameworks="PyTorch",
        evidence=(Item("gpu", f"GPU {memory.device}: {size_text(waste)} ({_pct(waste, memory)})"),),
        severity=Severity.HIGH if memory.failures else Severity.MEDIUM,
        proof=Proof(
            "SELECT peak_reserved_bytes - peak_active_bytes AS unused_bytes"
            f" FROM view_memory_recordings WHERE recording = {memory.recording}",
            "unused_bytes",
            waste,
        ),
    )


def _waste(memory: RecordedMemory) -> int:
    return 0 if memory.peak_active is None else memory.peak_reserved - memory.peak_active


def _pct(waste: int, memory: RecordedMemory) -> str:
    return f"{100 * waste / memory.peak_reserved:.0f}%"
