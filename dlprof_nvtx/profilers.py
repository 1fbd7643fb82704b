"""Living with other profilers: PyTorch allows one per thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dlprof_nvtx.state import STATE


def patch() -> None:
    """A script's own ``emit_nvtx`` or profiler runs as it would without ours."""
    from torch.autograd import profiler

    _give_way(profiler.profile, "_prepare_trace", "__exit__")
    emit: Any = profiler.emit_nvtx
    enter, leave = emit.__enter__, emit.__exit__

    @functools.wraps(enter)
    def enter_emit(self: Any) -> Any:
        if self.enabled and STATE.on and STATE.ops_thread:
            # Ours is on already and records as much: the script's own would end it.
            self._dlprof_skipped = True
            return self
        return enter(self)

    @functools.wraps(leave)
    def leave_emit(self: Any, *details: Any) -> Any:
        if getattr(self, "_dlprof_skipped", False):
            self._dlprof_skipped = False
            return False
        return leave(self, *details)

    emit.__enter__, emit.__exit__ = enter_emit, leave_emit


def _give_way(owner: Any, enter_name: str, leave_name: str) -> None:
    """Ours pauses between two methods of another profiler."""
    enter: Callable[..., Any] | None = getattr(owner, enter_name, None)
    leave: Callable[..., Any] = getattr(owner, leave_name)
    if enter is None:
        return

    @functools.wraps(enter)
    def entered(self: Any, *args: Any, **kwargs: Any) -> Any:
        STATE.suspended += 1
        STATE.disable_ops()
        return enter(self, *args, **kwargs)

    @functools.wraps(leave)
    def left(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return leave(self, *args, **kwargs)
        finally:
            if STATE.suspended:
                STATE.suspended -= 1
                if STATE.on:
                    STATE.enable_ops()

    setattr(owner, enter_name, entered)
    setattr(owner, leave_name, left)
