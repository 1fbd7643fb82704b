"""Convolutions that run while cuDNN's search for the fastest algorithm is off."""

from __future__ import annotations

from aggregator.advice.dlprof.pytorch import is_convolution
from aggregator.advice.evidence import kernel_items, ops_link, setting_items, setting_proof
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Remedy, Unknown
from aggregator.advice.matmul import products
from aggregator.replay.changes import speed_up_rows
from aggregator.texts import say

NAME = "cudnn_benchmark"
MIN_SHARE_PCT = 20.0  # For a smaller share of the step the search is not worth its time.
SEARCH_SPEEDUP = 1.1  # Speedup over cuDNN's own choice: a rule of thumb for a range from 1 to 3.


def advise(facts: Facts) -> Answer:
    """Find convolutions that take much time while the search is off."""
    convolutions = facts.of_ops([is_convolution(kind) for kind in facts.ops.types])
    rows = products(facts) & convolutions
    time = int(facts.work.duration_ns[rows].sum())
    share = facts.share_pct(time)
    if facts.mode != "pytorch" or share < MIN_SHARE_PCT:
        return None
    setting = facts.settings.get("cudnn_benchmark")
    if setting is None:
        return Unknown(
            NAME,
            say("Whether torch.backends.cudnn.benchmark is on was not recorded"),
            say("Markers that record the settings (dlprof_nvtx)"),
        )
    if setting:
        return None
    return Finding(
        advice=NAME,
        remedy=Remedy(
            say("with these kernels in 90% of their time"),
            (speed_up_rows(facts.rows_of_replay(rows), SEARCH_SPEEDUP),),
        ),
        gain_pct=facts.kernel_gain_pct(time, SEARCH_SPEEDUP),
        problem=say(
            "Convolutions take {share:.0f}% of {span}, and cuDNN does not search for their "
            "fastest algorithms",
            share=share,
            span=facts.span,
        ),
        recommendation=say(
            "Set torch.backends.cudnn.benchmark = True at the start of the program, if the input "
            "sizes do not change from step to step"
        ),
        reasoning=say(
            "10% of their time, for the share of the time that is limited by the GPU. This "
            "is a rule of thumb: the real gain may be zero or much larger"
        ),
        frameworks="PyTorch",
        needs=say("A run with the search enabled"),
        evidence=(*kernel_items(facts, rows), *setting_items(facts, "cudnn_benchmark")),
        proof=setting_proof("cudnn_benchmark", value=False),
        link=ops_link(facts, rows),
    )
