"""A hook for the sessions of TensorFlow 1, in ``tf.compat.v1``."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dlprof_nvtx.domains import ThreadRanges


class NVTXHook(ThreadRanges, tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Writes a range for each ``session.run()``: ``step 0``, ``step 1``...

    Args:
        skip_n_steps: Number of calls at the start without a range.
        name: Text of a range around the whole session; None for no such range.
    """

    def __init__(self, skip_n_steps: int = 0, name: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.step_counter = 0
        self.skip_n_steps = skip_n_steps
        self.iteration_message = "step {iter}"

    def begin(self) -> None:
        """Open the range of the session."""
        self.step_counter = 0
        if self.name:
            self.open_marker(self.name)

    def before_run(self, run_context: Any) -> None:
        """Open the range of the step."""
        if self.step_counter >= self.skip_n_steps:
            self.open_marker(self.iteration_message.format(iter=self.step_counter))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Close the range of the step."""
        if self.step_counter >= self.skip_n_steps:
            self.close_marker()
        self.step_counter += 1

    def end(self, session: Any) -> None:
        """Close the range of the session."""
        if self.name:
            self.close_marker()
