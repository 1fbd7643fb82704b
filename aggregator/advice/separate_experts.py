"""Experts of a mixture that run one after the other."""

from __future__ import annotations

import re

import numpy as np

from aggregator.advice.evidence import kernel_evidence
from aggregator.advice.facts import Facts
from aggregator.advice.finding import MEDIUM_GAIN_PCT, Answer, Finding, Remedy
from aggregator.replay.changes import shrink_rows
from aggregator.texts import say

NAME = "separate_experts"
EXPERT = re.compile(r"^(.*\bexperts?)[./\[_]+(\d+)\b", re.I)
"""Path of an op in one of several experts: their common part, and its number."""
MIN_EXPERTS = 4
GROUPED_RATIO = 0.6
"""Share of the time that grouped products save: 0.84 was measured on an H100."""


def advise(facts: Facts) -> Answer:
    """Find modules of experts whose products are launched one by one."""
    found = [EXPERT.search(name) for name in facts.ops.names]
    ran = np.bincount(facts.work.op[facts.kernels], minlength=len(found)) > 0
    experts: dict[str, set[str]] = {}
    for row in np.flatnonzero(ran).tolist():
        if one := found[row]:
            experts.setdefault(one[1], set()).add(one[2])
    many = {name for name, numbers in experts.items() if len(numbers) >= MIN_EXPERTS}
    rows = facts.kernels & facts.of_ops([bool(expert and expert[1] in many) for expert in found])
    waited = np.where(facts.launched_late, facts.gap_ns, 0)
    time_ns = float((facts.work.duration_ns + waited)[rows].sum())
    gain = GROUPED_RATIO * facts.share_pct(time_ns)
    if gain < MEDIUM_GAIN_PCT:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with 40% of the time of the work of the experts and of its launches"),
            (shrink_rows(facts.rows_of_replay(rows), 1.0 - GROUPED_RATIO),),
        ),
        gain_pct=gain,
        problem=say(
            "{experts} experts run one after the other and take {share:.0f}% of {span}: {count}",
            experts=max(len(experts[name]) for name in many),
            share=facts.share_pct(time_ns),
            span=facts.span,
            count=facts.per_step(int(rows.sum())),
        ),
        recommendation=say(
            "Compute all experts by grouped matrix products: sort the tokens by expert and use "
            "torch._grouped_mm, Megablocks or Transformer Engine"
        ),
        reasoning=say(
            "60% of the time of the experts' kernels and of the gaps before their late launches: "
            "small products leave most of the GPU idle"
        ),
        frameworks="PyTorch",
        needs=say("A run with grouped products"),
        **kernel_evidence(facts, rows),
    )
