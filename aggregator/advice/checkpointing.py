"""Activations that are computed again although they would fit in memory."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MEDIUM_GAIN_PCT, Answer, Finding, Remedy, Unknown
from aggregator.replay.changes import shrink_rows
from aggregator.texts import say

NAME = "checkpointing"
MOST_USED_PCT = 60.0  # With more of the memory in use it may be what makes the model fit.


def advise(facts: Facts) -> Answer:
    """Find forward work that activation checkpointing repeats in the backward pass."""
    repeated = [
        direction == "recompute" or "/recompute/" in name
        for direction, name in zip(facts.ops.directions, facts.ops.names, strict=True)
    ]
    rows = facts.kernels & facts.of_ops(repeated)
    waited = np.where(facts.launched_late, facts.gap_ns, 0)
    time_ns = float((facts.work.duration_ns * facts.gpu_bound_ratio + waited)[rows].sum())
    gain = facts.share_pct(time_ns)
    if gain < MEDIUM_GAIN_PCT:
        return None
    used = [gpu.memory_used_pct for gpu in facts.gpus if gpu.memory_used_pct is not None]
    if not used:
        return Unknown(
            NAME,
            say(
                "Whether activations must be computed again is unknown: the GPU memory usage was "
                "not recorded"
            ),
            say("A capture made by dlprof, which reads the memory usage through NVML"),
        )
    if max(used) > MOST_USED_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("without the repeated work"), (shrink_rows(facts.rows_of_replay(rows), 0.0),)
        ),
        gain_pct=gain,
        problem=say(
            "Activation checkpointing computes activations again for {share:.0f}% of {span}, and "
            "only {used:.0f}% of the GPU's memory is used",
            share=gain,
            span=facts.span,
            used=max(used),
        ),
        recommendation=say(
            "Turn it off (gradient_checkpointing=False), or use it for fewer layers, as far as the "
            "memory allows"
        ),
        reasoning=say(
            "The time of the kernels that are run again, for the share of the time that is limited "
            "by the GPU, and of the gaps before their late launches"
        ),
        frameworks="PyTorch",
        needs=say("A run without it, to see whether the activations fit in memory"),
        **kernel_evidence(facts, rows),
    )
