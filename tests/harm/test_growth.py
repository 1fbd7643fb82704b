"""Memory of the markers does not grow with the steps of a long run."""

from __future__ import annotations

import pytest

from tests.harm.conftest import Server

MOST_BYTES, MOST_OBJECTS = 1_000_000, 2_000


def growth(server: Server, phase: str, steps: int) -> list[int]:
    result = server.run("new_losses", phase, environment={"HARM_STEPS": str(steps)})
    assert result["code"] == 0, result["err"]
    return [int(word) for word in result["out"].split()]


@pytest.mark.parametrize("phase", ["high", "normal", "held", "full", "windows"])
@pytest.mark.parametrize("steps", [4_000, 20_000])
def test_a_new_loss_in_each_step_leaves_nothing(server: Server, phase: str, steps: int) -> None:
    # A forked process also takes over pages of its parent, with the markers and without.
    before_bytes, before_objects = growth(server, "bare", steps)
    grown_bytes, grown_objects = growth(server, phase, steps)
    assert grown_bytes - before_bytes < MOST_BYTES
    assert grown_objects - before_objects < MOST_OBJECTS
