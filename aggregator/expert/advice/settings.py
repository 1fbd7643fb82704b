"""Settings of the script that cost time: debugging aids, and cuDNN's search switched off."""

from __future__ import annotations

from aggregator.expert.advice.evidence import kernel_items, ops_link
from aggregator.expert.advice.facts import Facts
from aggregator.expert.advice.finding import Answer, Certainty, Finding, Item, Severity, Unknown
from aggregator.expert.advice.matmul import products
from aggregator.expert.advice.queries import setting_proof
from aggregator.expert.cudnn_benchmark import is_convolution
from aggregator.expert.slow_api import SLOW_SETTINGS
from aggregator.texts import say

BENCHMARK_NAME, DEBUGGING_NAME = "cudnn_benchmark", "debugging_aids"
FRAMEWORKS = "PyTorch"
LEAST_SHARE_PCT = 20.0
"""Convolutions below this share of the step are not worth a search."""
SEARCH_SPEEDUP = 1.1
"""What the search wins over cuDNN's own choice: a rule of thumb, nothing to threefold."""


def advise_benchmark(facts: Facts) -> Answer:
    """The search of cuDNN for the fastest algorithm is off, and convolutions take time."""
    convolutions = facts.of_ops([is_convolution(kind) for kind in facts.ops.types])
    rows = products(facts) & convolutions
    time = int(facts.work.duration_ns[rows].sum())
    share = facts.share_pct(time)
    if facts.mode != "pytorch" or share < LEAST_SHARE_PCT:
        return None
    setting = facts.settings.get("cudnn_benchmark")
    if setting is None:
        return Unknown(
            BENCHMARK_NAME,
            say("Whether torch.backends.cudnn.benchmark is on was not recorded"),
            say("Markers that record the settings (dlprof_nvtx)"),
        )
    if setting:
        return None
    return Finding(
        advice=BENCHMARK_NAME,
        gain_pct=facts.kernel_gain_pct(time, SEARCH_SPEEDUP),
        problem=say(
            "Convolutions take {share:.0f}% of the step, and cuDNN does not search for their "
            "fastest algorithms",
            share=share,
        ),
        recommendation=say(
            "Set torch.backends.cudnn.benchmark = True where the input sizes do not change"
        ),
        reasoning=say(
            "A tenth off their time as far as the GPU sets the pace: a rule of thumb, it may be "
            "nothing or much more"
        ),
        certainty=Certainty.POSSIBLE,
        frameworks=FRAMEWORKS,
        needs=say("A run with the search on tells"),
        evidence=(*kernel_items(facts, rows), Item("setting", "cudnn_benchmark=False")),
        proof=setting_proof("cudnn_benchmark", value=False),
        link=ops_link(facts, rows),
    )


def advise_debugging(facts: Facts) -> Answer:
    """Debugging aids that were left on."""
    found = [name for name in SLOW_SETTINGS if facts.settings.get(name) is True]
    if facts.mode != "pytorch" or not found:
        return None
    return Finding(
        advice=DEBUGGING_NAME,
        gain_pct=None,
        problem=say(
            "Debugging aids of PyTorch are on: {names}. They slow the backward pass down",
            names=", ".join(found),
        ),
        recommendation=say(
            "Switch them off in ordinary runs, torch.autograd.set_detect_anomaly(False) for one"
        ),
        reasoning=say(
            "What they cost does not show in a profile: they record stack traces and check every "
            "gradient, which waits for the GPU"
        ),
        certainty=Certainty.SURE,
        frameworks=FRAMEWORKS,
        needs=say("A run without them tells what they cost"),
        evidence=tuple(Item("setting", f"{name}=True") for name in found),
        proof=setting_proof(found[0], value=True),
        severity=Severity.MEDIUM,
    )
