"""State of the PyTorch markers in this process."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from dlprof_nvtx.guard import guarded
from dlprof_nvtx.patches import PATCHES


class Backend(Protocol):
    """Destination of ranges; tests replace it."""

    def push(self, text: str, /) -> object:
        """Open a range on this thread."""

    def pop(self) -> object:
        """Close the innermost range of this thread."""

    def enable_ops(self, *, shapes: bool) -> bool:
        """Write ranges for the ops of this thread; returns whether that is possible."""

    def disable_ops(self) -> None:
        """Write no more ranges for ops."""

    def start(self, text: str, /) -> Any:
        """Open a range that need not nest; returns the argument for ``end``."""

    def end(self, handle: Any, /) -> object:
        """Close a range that ``start`` opened."""


@dataclass
class State:
    """The state; there is one per process."""

    backend: Backend | None = None  # Destination of ranges; None before the initialization.
    on: bool = False  # Whether ranges are written.
    # Whether the first steps are timed without markers; settings are remembered meanwhile.
    is_held: bool = False
    # Whether steps have the ranges of ``marker_sampling.WRITTEN`` and of models only.
    is_light: bool = False
    patched: bool = False  # Whether the classes of PyTorch are wrapped.
    # When ranges of ops have the shapes of their tensors: ``always``, ``never``, or in the
    # ``first`` calls of a model with inputs of the same shapes. Writing shapes takes most of the
    # time of a range.
    shapes: str = "first"
    with_shapes: bool = True  # Whether they have shapes now.
    call_sites: bool = False  # Whether ranges of modules have the line that calls them.
    # Whether PyTorch writes a range for each op and its backward pass. Without it, a module's own
    # work is one op, and the backward pass has no ranges.
    record_ops: bool = True
    foreign_ops: int = 0  # Number of ``emit_nvtx`` of the script that are active.
    ops_thread: int = 0  # Thread whose ops are recorded; 0 for none.
    # Ranges of ``record_function`` that this thread opened while its ops were recorded.
    open_functions: list[Any] = field(default_factory=list)
    close_function: Callable[[Any], object] | None = None  # Closes one of them.
    # Number of other profilers that are active; the markers are paused meanwhile.
    suspended: int = 0
    steps: int = 0  # Number of steps of optimizers.
    pid: int = 0  # Process that was initialized; a forked child starts without markers.

    def enable_ops(self) -> None:
        """Record the ops of this thread."""
        if self.backend is None or self.ops_thread or self.suspended or not self.record_ops:
            return
        if self.backend.enable_ops(shapes=self.with_shapes):
            self.ops_thread = threading.get_ident()

    def disable_ops(self) -> None:
        """Stop recording ops, if this thread started it.

        Ranges of the program that are open end here: PyTorch asserts at their end that ops are
        still recorded, and writes that it failed. Their own end does nothing then.
        """
        if self.backend is None or self.ops_thread != threading.get_ident():
            return
        while self.open_functions:
            function = self.open_functions.pop()
            if self.close_function is not None:
                self.close_function(function)
        self.backend.disable_ops()
        self.ops_thread = 0

    def record_shapes(self, *, wanted: bool) -> None:
        """Start or stop recording shapes, if only those of first calls are recorded."""
        if self.shapes != "first" or wanted == self.with_shapes:
            return
        if self.ops_thread == threading.get_ident():
            self.with_shapes = wanted
            open_functions, self.open_functions = self.open_functions, []
            self.disable_ops()
            self.enable_ops()
            self.open_functions = open_functions

    @property
    def is_noting(self) -> bool:
        """Whether settings are written now or remembered for later."""
        return self.on or self.is_held or self.is_light

    @property
    def has_ops(self) -> bool:
        """Whether PyTorch writes ranges for ops now."""
        return bool(self.ops_thread or self.foreign_ops)

    def note(self, text: str) -> None:
        """Write information about the run, as an empty range."""
        if (self.on or self.is_light) and self.backend is not None:
            self.backend.push(text)
            self.backend.pop()


STATE = State()


def wrap(
    owner: Any,
    name: str,
    *,
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    is_marker: bool = False,
) -> None:
    """Let a function or method also call ``before`` and ``after``, with the same arguments.

    Args:
        owner: The class or module.
        name: The function.
        before: Called before it.
        after: Called after it.
        is_marker: Whether only markers need this: not while steps are timed without profiling.
    """
    function = getattr(owner, name)
    begin, end = before and guarded(before), after and guarded(after)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if begin is not None:
            begin(*args, **kwargs)
        result = function(*args, **kwargs)
        if end is not None:
            end(*args, **kwargs)
        return result

    if is_marker:
        PATCHES.set(owner, name, wrapped)
    else:
        setattr(owner, name, wrapped)


def forget_in_child() -> None:
    """Disable the markers in a forked process, such as a worker of a data loader."""
    if STATE.pid and STATE.pid != os.getpid():
        STATE.disable_ops()
        STATE.on = STATE.is_held = STATE.is_light = False
