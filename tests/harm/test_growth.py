"""Memory of the markers does not grow with the steps of a long run."""

from __future__ import annotations

import pytest

from tests.harm.conftest import Server

MOST_BYTES, MOST_OBJECTS = 1_000_000, 2_000


@pytest.mark.parametrize("phase", ["high", "normal", "held", "full"])
@pytest.mark.parametrize("steps", [4_000, 20_000])
def test_a_new_loss_in_each_step_leaves_nothing(server: Server, phase: str, steps: int) -> None:
    result = server.run("new_losses", phase, environment={"HARM_STEPS": str(steps)})
    assert result["code"] == 0, result["err"]
    grown_bytes, grown_objects = map(int, result["out"].split())
    assert grown_bytes < MOST_BYTES
    assert grown_objects < MOST_OBJECTS
