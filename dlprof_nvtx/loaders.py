"""Data loaders: record their settings and idle time, and write no markers in their workers.

PyTorch writes a range while the next batch is fetched (``enumerate(DataLoader)#...__next__``).
Between two fetches the loader is idle. That range does not nest, because it covers the whole step.
"""

from __future__ import annotations

import weakref
from typing import Any

from dlprof_nvtx.baseline_timing import REFERENCE
from dlprof_nvtx.guard import ById, fields, guarded
from dlprof_nvtx.settings import note_config
from dlprof_nvtx.state import STATE, wrap

IDLE = "DataLoader idle"
_SETTINGS = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "batch_size")


def patch() -> None:
    """Wrap the functions that start iterations and workers."""
    from torch.utils import data
    from torch.utils.data._utils import worker

    wrap(data.DataLoader, "__iter__", before=_note_loader)
    iterator = data.dataloader._BaseDataLoaderIter
    wrap(iterator, "__next__", before=_before_fetch, after=_after_fetch)
    # The target of worker processes: it is pickled by the name that PyTorch gives it.
    wrap(worker, "_worker_loop", before=_leave_unmarked)


def _note_loader(loader: Any) -> None:
    if STATE.is_noting:
        note_config({name: fields(loader).get(name) for name in _SETTINGS}, "DataLoader")


class _Idle:
    def __init__(self) -> None:
        self._open: list[Any] = []

    def begin(self) -> None:
        """Open the range, after a batch was returned."""
        if (STATE.on or STATE.is_light) and STATE.backend is not None:
            self._open.append(STATE.backend.start(IDLE))

    def end(self) -> None:
        """Close the range, when the next batch is requested or the iterator is deleted."""
        while self._open and STATE.backend is not None:
            STATE.backend.end(self._open.pop())


_IDLE = ById()


def close_idle() -> None:
    """Close the idle ranges: the collector leaves, and would not see their ends."""
    for _, idle in _IDLE.values():
        idle.end()


def _before_fetch(iterator: Any) -> None:
    if REFERENCE.is_held:
        REFERENCE.fetch(iterator)
    idle = _IDLE.get(iterator)
    if idle is not None:
        idle.end()


def _after_fetch(iterator: Any) -> None:
    if not (STATE.on or STATE.is_light):
        return
    idle = _IDLE.get(iterator)
    if idle is None:
        idle = _Idle()
        _IDLE.put(iterator, idle)
        weakref.finalize(iterator, guarded(idle.end))
    idle.begin()


def _leave_unmarked(*_: Any, **__: Any) -> None:
    """Write no markers in the worker process of a data loader, where they would only cost time."""
    STATE.disable_ops()
    STATE.on = STATE.is_held = STATE.is_light = False
