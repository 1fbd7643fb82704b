"""An optimizer that updates its parameters one by one, or pass by pass."""

from __future__ import annotations

import re

import numpy as np

from aggregator.expert.advice.evidence import kernel_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import LEAST_GAIN_PCT, Answer, Certainty, Finding, Item
from aggregator.expert.advice.queries import kernels_proof
from aggregator.texts import Text, say

NAME = "unfused_optimizer"
STEP = "Optimizer.step#"
"""Part of the names of ops in an optimizer's step."""
FUSED = re.compile(r"Fused(?:Adam|Sgd|Adagrad|Lamb|Optimizer)|multi_tensor_(?:adam|lamb|sgd)", re.I)
"""Names of PyTorch's and apex's fused optimizers."""
FOREACH = re.compile(r"multi_tensor_apply", re.I)
LEAST_KERNELS = 8
"""Kernels a step of an optimizer from which fusing is worth a thought."""
PASSES = 3.0
"""How many times as much memory as a fused update the separate passes read and write: Adam's
passes move about 11 to 14 values per parameter, a fused one 4 to 7."""


def advise(facts: Facts) -> Answer:
    """The time from the first to the last of its kernels, gaps counted in, against one pass."""
    work = facts.work
    inside = facts.kernels & facts.of_ops([STEP in name for name in facts.ops.names])
    if not inside.any():
        return None
    fused = inside & facts.named([bool(FUSED.search(name)) for name in facts.names.long])
    rows = inside & ~fused
    kernels = int(rows.sum()) // (facts.steps.count * len(facts.gpus))
    if kernels < LEAST_KERNELS or fused.any():
        return None
    waited = np.where(facts.came_late, facts.gap_ns, 0)
    now = int((work.duration_ns * facts.gpu_bound_ratio + waited)[rows].sum())
    passes = int(work.duration_ns[rows].sum()) * facts.gpu_bound_ratio / PASSES
    gain = facts.share_pct(max(now - passes, 0.0))
    if gain < LEAST_GAIN_PCT:
        return None
    foreach = facts.named([bool(FOREACH.search(name)) for name in facts.names.long])
    is_loop = int((rows & foreach).sum()) * 2 < int(rows.sum())
    known = [key for key in ("optimizer", "optimizer_foreach") if key in facts.settings]
    return Finding(
        advice=NAME,
        gain_pct=gain,
        problem=_problem(facts, kernels, is_loop=is_loop),
        recommendation=say(
            "Use the fused optimizer: torch.optim.Adam(..., fused=True), and alike for AdamW, SGD "
            "and Adagrad"
        ),
        reasoning=say(
            "The optimizer's kernels as far as the GPU sets the pace, and the gaps before late "
            "launches of them, less the time of one pass over its values"
        ),
        certainty=Certainty.LIKELY,
        frameworks="PyTorch",
        evidence=(
            *kernel_items(facts, rows),
            *(Item("setting", f"{key}={facts.settings[key]}") for key in known),
        ),
        proof=kernels_proof(facts, rows, "optimizer_kernel_time_ns"),
        link=ops_link(facts, rows),
    )


def _problem(facts: Facts, kernels: int, *, is_loop: bool) -> Text:
    if is_loop:
        return say(
            "The optimizer updates its parameters one by one: {count} kernels a step",
            count=kernels,
        )
    return say(
        "The optimizer reads and writes its values in several passes: {count} kernels a step",
        count=kernels,
    )
