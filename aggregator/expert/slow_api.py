"""Debugging aids of PyTorch that were left on."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say

SLOW_SETTINGS = (
    "detect_anomaly",
    "gradcheck",
    "gradgradcheck",
    "record_function",
    "autograd_profile",
)
"""Settings that DLProf's guide lists; ``set_detect_anomaly`` is told as ``detect_anomaly``."""


def detect(evidence: Evidence) -> Issue | None:
    """Fires when a marker told that any of them is on."""
    settings = evidence.data.settings
    if evidence.data.mode != Mode.PYTORCH:
        return None
    found = [name for name in SLOW_SETTINGS if settings.get(name) is True]
    if not found:
        return None
    return Issue(
        detector="slow_api_detector",
        problem=say(
            "The following PyTorch APIs, which slow down a run, are enabled: {names}",
            names=", ".join(found),
        ),
        recommendation=say("Disable them when not debugging"),
    )
