"""What makes up the peak of a memory that is full."""

from __future__ import annotations

from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Item, Proof, Severity
from aggregator.advice.recorded_memory import RecordedMemory, size_text
from aggregator.texts import Text, say

NAME = "memory_peak"
FULL_PCT = 85.0  # The CUDA context, libraries and other processes need the rest.
LEAST_LOWERED = 0.01  # A server that keeps its cache for good gains nothing by any of them.
_HINTS = {
    "batch": say("halve the micro-batch and accumulate the gradients of two"),
    "bf16-states": say("keep the states of the optimizer in BF16"),
    "shard": say("shard the states of the optimizer over two GPUs (ZeRO, FSDP)"),
}


def advise(facts: Facts) -> Answer:
    """Find a memory that is full or exhausted, and what would lower its peak most."""
    full = [memory for memory in facts.memories if _is_full(memory) and _changes(memory)]
    if not full:
        return None
    memory = max(full, key=lambda item: (item.failures, item.peak_reserved, -item.recording))
    kind, size = next(iter(memory.kinds.items()))
    changes = _changes(memory)
    change, peak = changes[0]
    return Finding(
        advice=NAME,
        gain_pct=None,
        problem=_problem(memory, kind, size),
        recommendation=say(
            "To lower the peak from {before} to {after}: {change}",
            before=size_text(memory.peak_allocated),
            after=size_text(peak),
            change=_hint(change),
        ),
        reasoning=say(
            "The recorded allocations, replayed with other sizes and lifetimes; a run that failed "
            "shows the peak up to its failure only"
        ),
        frameworks="PyTorch",
        evidence=tuple(Item("setting", f"{name}: {size_text(after)}") for name, after in changes),
        severity=Severity.HIGH if memory.failures else Severity.MEDIUM,
        proof=Proof(
            "SELECT sum(bytes_at_peak) AS bytes_at_peak FROM view_memory_peak"
            f" WHERE recording = {memory.recording} AND memory_kind = '{kind}'",
            "bytes_at_peak",
            size,
        ),
    )


def _is_full(memory: RecordedMemory) -> bool:
    return bool(memory.failures) or (memory.used_pct or 0.0) >= FULL_PCT


def _changes(memory: RecordedMemory) -> list[tuple[str, int]]:
    """Return the changes that lower the peak, and the peak with each."""
    most = memory.peak_allocated * (1 - LEAST_LOWERED)
    return [(change, peak) for change, peak in memory.changes if peak <= most]


def _problem(memory: RecordedMemory, kind: str, size: int) -> Text:
    share = 100.0 * size / max(memory.peak_allocated, 1)
    if memory.failures:
        return say(
            "The memory of GPU {device} was exhausted by a request of {failed}: {share:.0f}% of "
            "the peak of {peak} is of the kind {kind}",
            device=memory.device,
            failed=size_text(memory.failed_bytes),
            share=share,
            peak=size_text(memory.peak_allocated),
            kind=kind,
        )
    return say(
        "{used:.0f}% of the memory of GPU {device} is taken: {share:.0f}% of the peak of {peak} is "
        "of the kind {kind}",
        used=memory.used_pct or 0.0,
        device=memory.device,
        share=share,
        peak=size_text(memory.peak_allocated),
        kind=kind,
    )


def _hint(change: str) -> Text:
    name, _, value = change.partition(":")
    if name == "checkpoint":
        return say("checkpoint the activations of {module}", module=value)
    return _HINTS[name]
