"""Coexist with other profilers: PyTorch allows one per thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from dlprof_nvtx import collector
from dlprof_nvtx.guard import ById, guarded, say
from dlprof_nvtx.marker_sampling import LIGHT, STEP, WRITTEN
from dlprof_nvtx.patches import PATCHES
from dlprof_nvtx.settings import note_config
from dlprof_nvtx.state import STATE, wrap
from dlprof_nvtx.windows import WINDOWS


def patch() -> None:
    """Let ``emit_nvtx`` and profilers of the script work as without the markers."""
    from torch.autograd import profiler

    _pause_for(profiler.profile, "_prepare_trace", "__exit__")
    emit: Any = profiler.emit_nvtx
    enter, leave = emit.__enter__, emit.__exit__

    after_enter, before_leave = guarded(_count_foreign), guarded(_uncount_foreign)

    @functools.wraps(enter)
    def enter_emit(self: Any) -> Any:
        if self.enabled and STATE.on and STATE.ops_thread:
            # The markers already record the same; emit_nvtx of the script would end that.
            self._dlprof_skipped = True
            return self
        entered = enter(self)
        after_enter(self)
        return entered

    @functools.wraps(leave)
    def leave_emit(self: Any, *details: Any) -> Any:
        if getattr(self, "_dlprof_skipped", False):
            self._dlprof_skipped = False
            return False
        before_leave(self)
        return leave(self, *details)

    emit.__enter__, emit.__exit__ = enter_emit, leave_emit
    _mark_functions(profiler.record_function)


def _count_foreign(emit: Any) -> None:
    if emit.enabled:
        STATE.foreign_ops += 1
        note_config({"emit_nvtx": True})


def _uncount_foreign(emit: Any) -> None:
    if emit.enabled and STATE.foreign_ops:
        STATE.foreign_ops -= 1


def _mark_functions(owner: Any) -> None:
    """Let ``record_function`` write a range even if no ops are recorded.

    The optimizers and data loaders of PyTorch use it; their ranges mark the iterations.
    """
    enter, leave = owner.__enter__, owner.__exit__
    before, after = guarded(_open_function), guarded(_close_function)
    opened, closing = guarded(_note_open), guarded(_note_closing)
    STATE.close_function = guarded(lambda function: leave(function, None, None, None))

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        before(self)
        result = enter(self)
        opened(self)
        return result

    @functools.wraps(leave)
    def left(self: Any, *details: Any) -> Any:
        closing(self)
        try:
            return leave(self, *details)
        finally:
            after(self)

    PATCHES.set(owner, "__enter__", entered)
    PATCHES.set(owner, "__exit__", left)


_PUSHED = ById()


def _note_open(function: Any) -> None:
    if STATE.ops_thread == threading.get_ident():
        STATE.open_functions.append(function)


def _note_closing(function: Any) -> None:
    if STATE.open_functions and STATE.ops_thread == threading.get_ident():
        kept = [found for found in STATE.open_functions if found is not function]
        STATE.open_functions = kept


def _open_function(function: Any) -> None:
    is_written = (STATE.on and not STATE.record_ops and not STATE.has_ops) or (
        STATE.is_light and str(function.name).startswith(WRITTEN)
    )
    if is_written and STATE.backend is not None:
        STATE.backend.push(str(function.name))
        _PUSHED.put(function, True)


def _close_function(function: Any) -> None:
    if _PUSHED.pop(function) and STATE.backend is not None:
        STATE.backend.pop()
    if (LIGHT.is_due or WINDOWS.must_detach) and str(function.name).startswith(STEP):
        if WINDOWS.must_detach:
            WINDOWS.detach()
        else:
            LIGHT.end_markers()


def _give_way() -> None:
    """Leave CUPTI, which serves one profiler at a time, to a profiler of the script."""
    if STATE.suspended or WINDOWS.is_giving_way or (STATE.is_held and not WINDOWS.is_attached):
        return
    if WINDOWS.is_attached and WINDOWS.on_give_way is not None:
        WINDOWS.on_give_way()
    if collector.detach():
        WINDOWS.give_way()
        say("dlprof: torch.profiler records now; dlprof's collector waits")


def _take_back() -> None:
    if WINDOWS.is_giving_way and not STATE.suspended and WINDOWS.take_back():
        say("dlprof: torch.profiler has ended; dlprof's collector records again")


def _pause_for(owner: Any, enter_name: str, leave_name: str) -> None:
    """Pause the markers between two methods of another profiler."""
    if not hasattr(owner, enter_name):
        return

    wrap(owner, enter_name, before=_suspend)
    leave: Callable[..., Any] = getattr(owner, leave_name)
    after = guarded(_resume)

    @functools.wraps(leave)
    def left(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return leave(self, *args, **kwargs)
        finally:
            after()

    setattr(owner, leave_name, left)


def _suspend(*_: Any, **__: Any) -> None:
    note_config({"autograd_profile": True})
    _give_way()
    STATE.suspended += 1
    STATE.disable_ops()


def _resume() -> None:
    if STATE.suspended:
        STATE.suspended -= 1
        _take_back()
        if STATE.on:
            STATE.enable_ops()
