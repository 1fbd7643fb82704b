"""Data loaders: record their settings and idle time, and write no markers in their workers.

PyTorch writes a range while the next batch is fetched (``enumerate(DataLoader)#...__next__``).
Between two fetches the loader is idle. That range does not nest, because it covers the whole step.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from dlprof_nvtx.reference import REFERENCE
from dlprof_nvtx.settings import note_config
from dlprof_nvtx.state import STATE, wrap

IDLE = "DataLoader idle"
_SETTINGS = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "batch_size")


def patch() -> None:
    """Wrap the functions that start iterations and workers."""
    from torch.utils import data
    from torch.utils.data._utils import worker

    wrap(data.DataLoader, "__iter__", before=_note_loader)
    _mark_idle(data.dataloader._BaseDataLoaderIter)
    module: Any = worker
    if module._worker_loop is not worker_loop:
        _WORKER.append(module._worker_loop)
        module._worker_loop = worker_loop


def _note_loader(loader: Any) -> None:
    if STATE.is_noting:
        note_config({name: getattr(loader, name, None) for name in _SETTINGS}, "DataLoader")


class _Idle:
    """The idle range of an iterator over a data loader."""

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


def _mark_idle(owner: Any) -> None:
    fetch = owner.__next__

    @functools.wraps(fetch)
    def fetched(self: Any) -> Any:
        if STATE.is_held:
            REFERENCE.fetch(self)
        idle = getattr(self, "_dlprof_idle", None)
        if idle is None:
            if not (STATE.on or STATE.is_light):
                return fetch(self)
            idle = self._dlprof_idle = _Idle()
            weakref.finalize(self, idle.end)
        idle.end()
        batch = fetch(self)
        idle.begin()
        return batch

    owner.__next__ = fetched


_WORKER: list[Any] = []


def worker_loop(*args: Any, **kwargs: Any) -> Any:
    """Run the worker process of a data loader without markers, which would only cost time."""
    STATE.disable_ops()
    STATE.on = STATE.is_held = STATE.is_light = False
    if _WORKER:
        return _WORKER[0](*args, **kwargs)
    from torch.utils.data._utils import worker

    module: Any = worker
    return module._worker_loop(*args, **kwargs)
