"""What is on in this process."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any, Protocol


class Backend(Protocol):
    """Where ranges go; the tests put a recorder in its place."""

    def push(self, text: str, /) -> object:
        """Open a range on this thread."""

    def pop(self) -> object:
        """Close the last one."""

    def enable_ops(self, *, shapes: bool) -> bool:
        """Ranges around every op of this thread."""

    def disable_ops(self) -> None:
        """No more of them."""

    def start(self, text: str, /) -> Any:
        """Open a range that need not nest; returns what ``end`` takes."""

    def end(self, handle: Any, /) -> object:
        """Close it."""


@dataclass
class State:
    """One per process.

    Attributes:
        backend: Where ranges go; None: not initialised.
        on: Whether ranges are written.
        patched: Whether PyTorch's classes carry our wrappers.
        shapes: Whether ops carry the shapes of their tensors: ``always``, ``never``, or in the
            ``first`` calls of the model, which is enough where they stay as they are. PyTorch
            takes longer to write shapes than everything else of a range.
        with_shapes: Whether they carry them now.
        call_sites: Whether modules carry the line that calls them.
        record_ops: Whether PyTorch may write a range for every op and its backward; without, a
            module's own work is one op, and the backward pass carries no ranges.
        foreign_ops: How many ``emit_nvtx`` of the script's own are open.
        ops_thread: Thread whose ops are recorded by us; 0: none.
        suspended: How many other profilers run, which ours makes room for.
        pid: Process that initialised; a forked child starts without markers.
    """

    backend: Backend | None = None
    on: bool = False
    patched: bool = False
    shapes: str = "first"
    with_shapes: bool = True
    call_sites: bool = False
    record_ops: bool = True
    foreign_ops: int = 0
    ops_thread: int = 0
    suspended: int = 0
    pid: int = 0

    def enable_ops(self) -> None:
        """Record the ops of this thread."""
        if self.backend is None or self.ops_thread or self.suspended or not self.record_ops:
            return
        if self.backend.enable_ops(shapes=self.with_shapes):
            self.ops_thread = threading.get_ident()

    def disable_ops(self) -> None:
        """Stop recording ops; only the thread that began it can."""
        if self.backend is not None and self.ops_thread == threading.get_ident():
            self.backend.disable_ops()
            self.ops_thread = 0

    def end_shapes(self) -> None:
        """Enough shapes were written."""
        if self.shapes == "first" and self.with_shapes:
            if self.ops_thread != threading.get_ident():
                return
            self.with_shapes = False
            self.disable_ops()
            self.enable_ops()

    @property
    def has_ops(self) -> bool:
        """Whether somebody lets PyTorch write ranges of ops now."""
        return bool(self.ops_thread or self.foreign_ops)

    def note(self, text: str) -> None:
        """A range without length: something to know about the run."""
        if self.on and self.backend is not None:
            self.backend.push(text)
            self.backend.pop()


STATE = State()


def forget_in_child() -> None:
    """In a forked process: a data loader's worker writes no markers."""
    if STATE.pid and STATE.pid != os.getpid():
        STATE.disable_ops()
        STATE.on = False
