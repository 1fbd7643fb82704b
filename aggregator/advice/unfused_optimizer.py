"""An optimizer that updates its parameters one by one or in several passes."""

from __future__ import annotations

import re

import numpy as np

from aggregator.advice.evidence import kernel_evidence, setting_items
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MIN_GAIN_PCT, Answer, Finding, Remedy
from aggregator.profile.arrays import Bool
from aggregator.replay.changes import fuse_rows
from aggregator.texts import Text, say

NAME = "unfused_optimizer"
STEP = re.compile(r"Optimizer\.step#(\w+)(?:\.step)?(?:\[\d+\])?/([^/]*)$")
"""Path of an op directly in the step of an optimizer: its class, and the op."""
FUSED = re.compile(r"Fused(?:Adam|Sgd|Adagrad|Lamb|Optimizer)|multi_tensor_(?:adam|lamb|sgd)", re.I)
"""Kernels of the fused optimizers of PyTorch and apex."""
HAVE_FUSED = frozenset({"Adam", "AdamW", "SGD"})
"""Optimizers of PyTorch with the option ``fused`` for parameters on a GPU: Adagrad raises there."""
ONLY_FOREACH = frozenset(
    {
        *("Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"),
        *("Adafactor",),
    }
)
"""Optimizers of PyTorch with the option ``foreach`` and no update in one pass on a GPU."""
MIN_KERNELS = 8  # With fewer kernels per step fusing is not worth it.
PASSES = 3.0
"""Ratio of the memory traffic of separate passes to that of a fused update: Adam moves about 11 to
14 values per parameter in passes, 4 to 7 if fused."""


def advise(facts: Facts) -> Answer:
    """Compare the time of the kernels of the optimizer, with gaps, to one fused pass."""
    work = facts.work
    moves = facts.named(facts.names.communicates.tolist())
    inside = facts.kernels & _of_optimizer(facts) & ~moves
    if not inside.any():
        return None
    fused = inside & facts.named([bool(FUSED.search(name)) for name in facts.names.long])
    rows = inside & ~fused
    kernels = int(rows.sum()) // (facts.steps.count * len(facts.gpus))
    if kernels < MIN_KERNELS or fused.any():
        return None
    waited = np.where(facts.launched_late & _follows(facts, rows), facts.gap_ns, 0)
    now = int((work.duration_ns * facts.gpu_bound_ratio + waited)[rows].sum())
    passes = int(work.duration_ns[rows].sum()) * facts.gpu_bound_ratio / PASSES
    gain = facts.share_pct(max(now - passes, 0.0))
    if gain < MIN_GAIN_PCT:
        return None
    foreach = facts.of_ops([kind.startswith("_foreach_") for kind in facts.ops.types])
    is_loop = int((rows & foreach).sum()) * 2 < int(rows.sum())
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with one launch for these kernels, in 1/3 of their time"),
            (fuse_rows(facts.rows_of_replay(rows), PASSES),),
        ),
        gain_pct=gain,
        problem=_problem(facts, int(rows.sum()), is_loop=is_loop),
        recommendation=_recommendation(facts, rows),
        reasoning=say(
            "The time of the optimizer's kernels, for the share of the time that is limited "
            "by the GPU, and of the gaps between their late launches, minus the time of one "
            "pass over the values"
        ),
        frameworks="PyTorch",
        **kernel_evidence(
            facts,
            rows,
            *setting_items(facts, "optimizer", "optimizer_foreach"),
            column="optimizer_kernel_time_ns",
        ),
    )


def _follows(facts: Facts, rows: Bool) -> Bool:
    """Return which of some work began after other work of it: the gap before is not another's."""
    work, result = facts.work, np.zeros(len(facts.work), dtype=bool)
    for gpu in facts.gpus:
        here = np.flatnonzero(work.device == gpu.device)
        here = here[np.argsort(work.start_ns[here], kind="stable")]
        result[here[1:]] = rows[here[1:]] & rows[here[:-1]]
    return result


def _of_optimizer(facts: Facts) -> Bool:
    """Return which work the optimizer itself launched.

    A closure runs the forward and the backward pass within the step: of those ops the update's own
    are recognized by what they are, fused passes and changes in place.
    """
    names, ops = facts.ops.names, facts.ops
    found = [STEP.search(name) for name in names]
    forward = [side == "fprop" or not side for side in ops.directions]
    closure = any(
        "Optimizer.step#" in name and direction == "bprop"
        for name, direction in zip(names, ops.directions, strict=True)
    )
    return facts.of_ops(
        [
            bool(hit) and is_forward and (not closure or kind.startswith("_f") or kind[-1:] == "_")
            for hit, is_forward, kind in zip(found, forward, ops.types, strict=True)
        ]
    )


def _recommendation(facts: Facts, rows: Bool) -> Text:
    names = {
        found[1]
        for op in np.unique(facts.work.op[rows]).tolist()
        if (found := STEP.search(facts.ops.names[op]))
    }
    known = sorted(names & HAVE_FUSED)
    if known:
        return say("Use the fused optimizer: torch.optim.{name}(..., fused=True)", name=known[0])
    if names and names <= ONLY_FOREACH:
        return say(
            "Compile its step: torch.compile(optimizer.step), or use {name}(..., foreach=True); "
            "PyTorch has no fused {name} for GPUs",
            name=", ".join(sorted(names)),
        )
    return say(
        "Use a fused form of {name} (apex has some), compile its step: "
        "torch.compile(optimizer.step), or use foreach=True if it has that option",
        name=", ".join(sorted(names)),
    )


def _problem(facts: Facts, kernels: int, *, is_loop: bool) -> Text:
    if is_loop:
        return say(
            "The optimizer is not fused and updates its parameters one by one ({count})",
            count=facts.per_step(kernels),
        )
    return say("The optimizer is not fused ({count})", count=facts.per_step(kernels))
