"""Losses and batch sizes of the first steps of a trial, in which only steps are timed.

``dlprof trial`` runs a program without recording anything. While it warms up, the losses on which
the backward pass begins are copied, and the batches of its model measured. The copies are read when
the steps have been timed: the GPU is not waited for before.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from typing import Any

from dlprof_nvtx.guard import has_parameters
from dlprof_nvtx.state import wrap

VARIABLE = "DLPROF_TRIAL"
"""Seconds after which the timing ends, however few steps it has; not set: this is no trial."""
DEFAULT_S = 60.0
FIRST_STEPS = 5
"""Steps whose losses and batches are kept: all of them are a part of the warm-up."""
MOST_LOSSES = 64
"""Calls of the backward pass in these steps that are kept; more are gradient accumulation."""


class Trial:
    """What is known of the first steps of this process."""

    def __init__(self) -> None:
        text = os.environ.get(VARIABLE, "")
        self.is_active = bool(text)
        self.limit_ns = round(1e9 * _seconds(text))
        self._step = 0
        self._losses: list[tuple[int, Any]] = []  # Step, and the copy of a loss.
        self._is_unscaled = False  # Whether the loss of the next backward pass is known.
        self._samples: dict[int, int] = {}  # By step.
        self._tokens: dict[int, int] = {}  # By step; without an entry: no tokens.

    def patch(self) -> None:
        """See the losses, until the loop is found."""
        import torch

        wrap(torch.autograd, "backward", before=self._note_backward, is_marker=True)
        scaler: Any = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        wrap(scaler, "scale", before=self._note_unscaled, is_marker=True)

    def end_step(self) -> None:
        """Note that a step of the loop has ended."""
        self._step += 1
        self._is_unscaled = False

    def note_call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the batch of a call that no other module makes."""
        if self._step >= FIRST_STEPS or not has_parameters(module):
            return
        batch = _first_tensor((*args, *kwargs.values()))
        shape = () if batch is None else tuple(batch.shape)
        if not shape:
            return
        self._samples[self._step] = self._samples.get(self._step, 0) + int(shape[0])
        if len(shape) == 2 and not batch.is_floating_point():
            tokens = int(shape[0]) * int(shape[1])
            self._tokens[self._step] = self._tokens.get(self._step, 0) + tokens

    def content(self) -> dict[str, Any]:
        """Return what was noted, as JSON; it waits for the GPU."""
        if not self.is_active:
            return {}
        sums: dict[int, float] = {}
        for step, loss in self._losses:
            try:
                sums[step] = sums.get(step, 0.0) + float(loss)
            except (RuntimeError, ValueError, TypeError):  # An error of the program's own work.
                sums[step] = math.nan
        losses = [sums.get(step) for step in range(max(sums, default=-1) + 1)]
        return {
            # Not a number is no JSON.
            "losses": [str(x) if x is not None and not math.isfinite(x) else x for x in losses],
            "samples": _median(self._samples),
            "tokens": _median(self._tokens),
        }

    def _note_unscaled(self, _scaler: Any, outputs: Any, *_: Any, **__: Any) -> None:
        self._is_unscaled = self._note(outputs)

    def _note_backward(self, tensors: Any, *_: Any, **__: Any) -> None:
        if self._is_unscaled:
            self._is_unscaled = False
            return
        self._note(tensors)

    def _note(self, loss: Any) -> bool:
        """Copy a loss; returns whether it is one."""
        torch: Any = sys.modules["torch"]
        while type(loss) in (list, tuple) and len(loss) == 1:
            loss = loss[0]
        is_loss = isinstance(loss, torch.Tensor) and loss.numel() == 1
        if not is_loss or self._step >= FIRST_STEPS or len(self._losses) >= MOST_LOSSES:
            return False
        cuda = torch.cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            return False
        with torch.no_grad(), torch._C.DisableTorchFunction():
            # The program may reuse the memory of the loss itself.
            self._losses.append((self._step, loss.detach().clone()))
        return True


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return DEFAULT_S


def _median(values: dict[int, int]) -> float | None:
    return float(statistics.median(values.values())) if values else None


def _first_tensor(values: tuple[Any, ...]) -> Any:
    """Return the first tensor of the arguments and of the collections in them; None: none."""
    torch: Any = sys.modules["torch"]
    for value in values:
        if isinstance(value, torch.Tensor):
            return value
        if type(value) in (dict, list, tuple):
            inner = value.values() if type(value) is dict else value
            found = _first_tensor(tuple(inner))
            if found is not None:
                return found
    return None


TRIAL = Trial()
