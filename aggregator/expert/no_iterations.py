"""A profile that could not be cut into iterations."""

from __future__ import annotations

from aggregator.expert.evidence import Evidence, Issue
from aggregator.options import Mode
from aggregator.texts import say


def detect(evidence: Evidence) -> Issue | None:
    """Fires when no key node split the profile; simple mode has no iterations by design."""
    if evidence.window.iterations.has_key_node or evidence.data.mode == Mode.SIMPLE:
        return None
    return Issue(
        detector="no_iterations_detector",
        problem=say(
            "Unable to split profile into training iterations: key op {name} not found",
            name=evidence.requested_key_node,
        ),
        recommendation=say("Specify key op by setting the --key_op argument"),
    )
