"""Tensors that are updated one by one outside of an optimizer."""

from __future__ import annotations

import numpy as np

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Remedy
from aggregator.profile.arrays import Bool, distinct
from aggregator.replay.changes import shrink_rows
from aggregator.texts import say

NAME = "parameter_loop"
UPDATES = frozenset({"lerp_", "mul_", "add_", "sub_", "copy_", "addcmul_"})
"""Types of ops that change a tensor in place."""
MIN_KERNELS = 48  # A shorter run of such kernels is no loop over parameters.
FUSED_RATIO = 0.8
"""Share of the time that one call for all tensors saves: it launches a few kernels."""


def advise(facts: Facts) -> Answer:
    """Find many updates from one place, such as an exponential moving average of the weights."""
    rows = _in_runs(facts)
    if not rows.any():
        return None
    waited = np.where(facts.launched_late, facts.gap_ns, 0)
    time_ns = float((facts.work.duration_ns * facts.gpu_bound_ratio + waited)[rows].sum())
    gain = FUSED_RATIO * facts.share_pct(time_ns)
    if gain < MIN_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with 20% of the time of these kernels and of their launches"),
            (shrink_rows(facts.rows_of_replay(rows), 1.0 - FUSED_RATIO),),
        ),
        gain_pct=gain,
        problem=say(
            "Tensors are updated one by one ({names}): {count}",
            names=", ".join(sorted({facts.ops.types[op] for op in distinct(facts.work.op[rows])})),
            count=facts.per_step(int(rows.sum())),
        ),
        recommendation=say(
            "Update all of them by one call: torch._foreach_lerp_ or torch._foreach_mul_ and "
            "_foreach_add_, as in torch.optim.swa_utils.AveragedModel(..., use_buffers=True) with "
            "get_ema_multi_avg_fn"
        ),
        reasoning=say(
            "80% of the time of these kernels, for the share of the time that is limited by the "
            "GPU, and of the gaps before their late launches"
        ),
        frameworks="PyTorch",
        **kernel_evidence(facts, rows),
    )


def _in_runs(facts: Facts) -> Bool:
    """Return which work is part of a run of such updates, launched one after the other."""
    ops, work = facts.ops, facts.work
    is_update = facts.of_ops(
        [
            kind in UPDATES and direction != "bprop" and "Optimizer.step#" not in name
            for kind, direction, name in zip(ops.types, ops.directions, ops.names, strict=True)
        ]
    )
    result = np.zeros(len(work), dtype=bool)
    for gpu in facts.gpus:
        rows = np.flatnonzero(facts.kernels & (work.device == gpu.device))
        rows = rows[np.argsort(work.api_start_ns[rows], kind="stable")]
        edges = np.flatnonzero(np.diff(is_update[rows].astype(np.int8), prepend=0, append=0))
        for first, last in edges.reshape(-1, 2).tolist():
            result[rows[first:last]] = last - first >= MIN_KERNELS
    return result
