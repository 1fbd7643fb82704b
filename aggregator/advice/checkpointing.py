"""Activations that are computed again although they would fit in memory."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MEDIUM_GAIN_PCT, Answer, Finding, Remedy, Unknown
from aggregator.profile.arrays import Bool
from aggregator.profile.intervals import NOTHING, Flattened, flatten, union_of
from aggregator.replay.changes import shrink_rows, without_cpu_time
from aggregator.texts import say

NAME = "checkpointing"
MOST_USED_PCT = 60.0  # With more of the memory in use it may be what makes the model fit.


def advise(facts: Facts) -> Answer:
    """Find forward work that activation checkpointing repeats in the backward pass."""
    # The backward pass of what was repeated has to run in any case.
    repeated = [direction == "recompute" for direction in facts.ops.directions]
    rows = facts.kernels & facts.of_ops(repeated)
    all_rows, pauses = _with_unnamed(facts, rows)
    waited = np.where(facts.launched_late, facts.gap_ns, 0)
    time_ns = float((facts.work.duration_ns * facts.gpu_bound_ratio + waited)[all_rows].sum())
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
            say("without the repeated work"),
            (shrink_rows(facts.rows_of_replay(all_rows), 0.0), without_cpu_time(pauses)),
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
            "Turn it off (gradient_checkpointing=False in transformers, no "
            "torch.utils.checkpoint), or use it for fewer layers, as far as the memory allows"
        ),
        reasoning=say(
            "The time of the kernels that are run again, for the share of the time that is limited "
            "by the GPU, and of the gaps before their late launches. What checkpoints cost in the "
            "forward pass is not known and is saved, too"
        ),
        frameworks="PyTorch",
        needs=say("A run without it, to see whether the activations fit in memory"),
        **kernel_evidence(facts, rows),
    )


def _with_unnamed(facts: Facts, repeated: Bool) -> tuple[Bool, Flattened]:
    """Return all work of the repeated passes, and when the CPU was in them.

    Between two launches of a repeated pass nothing else is launched but its own: copies of the
    state of the random numbers, and kernels outside every op or directly in the backward node that
    repeats it. Around it the CPU saves and restores that state.
    """
    work, rows = facts.work, repeated.copy()
    backward = facts.of_ops([direction == "bprop" for direction in facts.ops.directions])
    pauses = [NOTHING]
    for gpu in facts.gpus:
        here = np.flatnonzero(facts.launched & (work.device == gpu.device))
        here = here[np.argsort(work.api_start_ns[here], kind="stable")]
        for begin, end in _holes(repeated[here]):
            inside = here[begin:end]
            own = np.unique(work.op[inside[backward[inside]]])
            kinds = {facts.ops.types[row] for row in own.tolist()}
            is_single = end - begin == 1 or not len(own)
            if is_single and facts.ops.types[work.op[here[begin - 1]]] not in kinds:
                rows[inside] = True
        called = work.api_start_ns[here]
        gaps_ns = np.diff(called)[backward[here][1:] & backward[here][:-1]]
        usual_ns = int(np.median(gaps_ns)) if len(gaps_ns) else 0
        edges = np.flatnonzero(np.diff(rows[here].astype(np.int8), prepend=0, append=0))
        first, last = edges[0::2], edges[1::2]
        until = called[np.minimum(last, len(here) - 1)] - usual_ns
        since = work.api_end_ns[here[np.maximum(first - 1, 0)]]
        pauses.append(flatten(since, np.maximum(until, called[last - 1])))
    return rows, union_of(*pauses)


def _holes(rows: Bool) -> list[tuple[int, int]]:
    """Return the runs of other rows between two of these: as many as passes, not as kernels."""
    place = np.flatnonzero(rows)
    heads = np.flatnonzero(np.diff(place) > 1)
    return list(zip((place[heads] + 1).tolist(), place[heads + 1].tolist(), strict=True))
