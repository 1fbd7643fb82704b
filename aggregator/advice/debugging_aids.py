"""Debugging settings of PyTorch that were left on."""

from __future__ import annotations

from aggregator.advice.dlprof.pytorch import SLOW_SETTINGS
from aggregator.advice.evidence import setting_items, setting_proof
from aggregator.advice.facts import Facts
from aggregator.advice.finding import Answer, Finding, Severity
from aggregator.texts import say

NAME = "debugging_aids"


def advise(facts: Facts) -> Answer:
    """Find debugging settings that were recorded as on."""
    found = [name for name in SLOW_SETTINGS if facts.settings.get(name) is True]
    if facts.mode != "pytorch" or not found:
        return None
    return Finding(
        advice=NAME,
        gain_pct=None,
        problem=say(
            "Debugging aids of PyTorch are on: {names}. They slow down the backward pass",
            names=", ".join(found),
        ),
        recommendation=say(
            "Turn them off outside of debugging, for example "
            "torch.autograd.set_detect_anomaly(False)"
        ),
        reasoning=say(
            "A profile does not show their cost: they record stack traces and check every "
            "gradient, which waits for the GPU"
        ),
        frameworks="PyTorch",
        needs=say("A run without them, to measure their cost"),
        evidence=setting_items(facts, *found),
        proof=setting_proof(found[0], value=True),
        severity=Severity.MEDIUM,
    )
