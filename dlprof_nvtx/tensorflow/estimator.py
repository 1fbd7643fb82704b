"""A hook for TensorFlow 1's sessions, as ``tf.compat.v1`` still has them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dlprof_nvtx.tensorflow.callbacks import ThreadRanges


class NVTXHook(ThreadRanges, tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """A range around every ``session.run()``: ``step 0``, ``step 1``...

    Args:
        skip_n_steps: How many calls at the start get none.
        name: Text of a range around the whole session; None: there is none.
    """

    def __init__(self, skip_n_steps: int = 0, name: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.step_counter = 0
        self.skip_n_steps = skip_n_steps
        self.iteration_message = "step {iter}"

    def begin(self) -> None:
        """Open the session's range."""
        self.step_counter = 0
        if self.name:
            self.open_marker(self.name)

    def before_run(self, run_context: Any) -> None:
        """Open the step's range."""
        if self.step_counter >= self.skip_n_steps:
            self.open_marker(self.iteration_message.format(iter=self.step_counter))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Close the step's range."""
        if self.step_counter >= self.skip_n_steps:
            self.close_marker()
        self.step_counter += 1

    def end(self, session: Any) -> None:
        """Close the session's range."""
        if self.name:
            self.close_marker()
