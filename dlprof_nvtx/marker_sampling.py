"""Write markers in a few steps only: names need few steps, times need many.

The first steps of the collection have all markers. Later ones have the ranges of the optimizer's
steps, the data loader's fetches and the calls of models, and nothing else; the import gives their
kernels names by aligning them with a marked step. A model that is called with inputs of a new shape
gets markers again until its step ends. The notes ``marked_steps`` and ``markers_resumed`` say when
markers end and begin.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from dlprof_nvtx.baseline_timing import REFERENCE
from dlprof_nvtx.names import Model, shape_of
from dlprof_nvtx.settings import note_marks, note_training_flags
from dlprof_nvtx.state import STATE
from dlprof_nvtx.windows import WINDOWS

DETAIL_VARIABLE = "DLPROF_NVTX_DETAIL"
MARKED_STEPS = {"low": 1, "normal": 3}
"""Steps with markers by detail; of any other detail all of them."""
UNREADY_STEPS = 2
"""So many more have them if no steps were timed before: the first steps are no typical ones."""
MOST_RESUMED, RESUMED_SHARE = 8, 16
"""Markers resume for at most this many new shapes, and in one of this many later steps."""
MOST_SEEN = 4096
STEP = "Optimizer.step#"
WRITTEN = ("Optimizer.", "enumerate(DataLoader)")
"""Ranges of PyTorch that every step has."""


class Light:
    """Ends the markers after some steps, and resumes them for steps of another kind."""

    def __init__(self) -> None:
        self.limit = 0  # Number of steps with markers; 0: all.
        self.steps = 0  # Steps since the markers began, all of them.
        self.marked = 0  # Of these and of earlier windows with markers.
        self.marked_before = 0  # Of earlier windows.
        self.resumed = 0  # How often markers were resumed.
        self.is_due = False  # Whether the markers end as soon as no range is open.
        self.seen: set[tuple[Any, ...]] = set()  # Calls of models that have had markers.

    def begin_again(self) -> None:
        """Mark the first steps of another window, and new shapes in it."""
        self.marked_before = self.marked
        self.steps = 0
        self.resumed += 1
        self.is_due = STATE.is_light = False
        REFERENCE.is_marked = True
        note_marks("markers_resumed", self.resumed)

    def begin(self) -> None:
        """Count steps from now on, which have markers."""
        self.limit = MARKED_STEPS.get(os.environ.get(DETAIL_VARIABLE, ""), 0)
        # All of them may be few steps, unless a window follows the loops that come.
        is_short = REFERENCE.reason == "few_batches" and not WINDOWS.is_active
        if STATE.call_sites or is_short:
            self.limit = 0
        if self.limit and not REFERENCE.unprofiled:
            self.limit += UNREADY_STEPS
        self.steps = self.marked = self.marked_before = self.resumed = 0
        self.is_due = STATE.is_light = False
        self.seen.clear()

    @property
    def has_shapes(self) -> bool:
        """Whether all calls in this step record the shapes of their tensors."""
        return self.marked - self.marked_before <= self.limit - MARKED_STEPS["normal"]

    def step(self) -> None:
        """End a step: the last one with markers, or one for which they were resumed."""
        self.steps += 1
        if STATE.on and self.limit:
            self.marked += 1
            # A call begins a step, a step of an optimizer ends it.
            marked = self.marked - self.marked_before
            self.is_due = marked >= self.limit + (REFERENCE.clock == "call")

    def end_markers(self) -> bool:
        """Write no more markers; called when no range of the markers is open.

        Returns:
            False if that is not possible.
        """
        self.is_due = False
        if not STATE.on:
            return False
        if STATE.ops_thread not in (0, threading.get_ident()):
            self.limit = 0  # Only the thread that began the ranges of ops can end them.
            return False
        note_marks("marked_steps", self.marked)
        STATE.disable_ops()
        STATE.on, STATE.is_light = False, True
        REFERENCE.is_marked = False
        return True

    def see(self, key: tuple[Any, ...]) -> None:
        """Remember a call of a model with markers."""
        if self.limit and len(self.seen) < MOST_SEEN:
            self.seen.add(key)

    def resume_for(self, key: tuple[Any, ...]) -> bool:
        """Resume the markers if a model was not called like this before; returns whether."""
        if key in self.seen:
            return False
        # A window ends, so that the work of each new shape in it can have names.
        if not WINDOWS.is_active and self.resumed >= MOST_RESUMED + self.steps // RESUMED_SHARE:
            return False
        if len(self.seen) >= MOST_SEEN:
            WINDOWS.is_unnamed = True
            return False
        self.seen.add(key)
        self.resumed += 1
        STATE.on, STATE.is_light = True, False
        REFERENCE.is_marked = True
        STATE.enable_ops()
        note_marks("markers_resumed", self.resumed)
        note_training_flags()
        return True


def call_key(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], tensor: type, *flags: bool
) -> tuple[Any, ...]:
    """Return what calls that run the same kernels share: flags, and the shape of the first tensor.

    Later tensors may grow with each call, as an attention mask does.
    """
    for value in (*args, *kwargs.values()):
        if issubclass(type(value), tensor):
            return (model.key, *flags, shape_of(value))
    return (model.key, *flags)


LIGHT = Light()
