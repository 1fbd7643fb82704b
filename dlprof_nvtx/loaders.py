"""Data loaders: their settings, their idle time, and no markers in their workers.

The fetch of the next batch has a range of PyTorch's own (``enumerate(DataLoader)#...__next__``).
From the end of one fetch to the start of the next the loader is idle: a range that does not nest,
for the whole step lies in it.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from dlprof_nvtx.settings import note_config
from dlprof_nvtx.state import STATE

IDLE = "DataLoader idle"
_SETTINGS = ("num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "batch_size")


def patch() -> None:
    """Wrap what starts iterations and workers."""
    from torch.utils import data
    from torch.utils.data._utils import worker

    loader: Any = data.DataLoader
    begin = loader.__iter__

    @functools.wraps(begin)
    def iterate(self: Any) -> Any:
        if STATE.on:
            note_config({name: getattr(self, name, None) for name in _SETTINGS}, "DataLoader")
        return begin(self)

    loader.__iter__ = iterate
    _mark_idle(data.dataloader._BaseDataLoaderIter)
    module: Any = worker
    if module._worker_loop is not worker_loop:
        _WORKER.append(module._worker_loop)
        module._worker_loop = worker_loop


class _Idle:
    """The idle range of one iterator over a data loader."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def begin(self) -> None:
        """A batch was handed out."""
        if STATE.on and STATE.backend is not None:
            self._open.append(STATE.backend.start(IDLE))

    def end(self) -> None:
        """The next one is asked for, or the iterator is gone."""
        while self._open and STATE.backend is not None:
            STATE.backend.end(self._open.pop())


def _mark_idle(owner: Any) -> None:
    fetch = owner.__next__

    @functools.wraps(fetch)
    def fetched(self: Any) -> Any:
        idle = getattr(self, "_dlprof_idle", None)
        if idle is None:
            idle = self._dlprof_idle = _Idle()
            weakref.finalize(self, idle.end)
        idle.end()
        batch = fetch(self)
        idle.begin()
        return batch

    owner.__next__ = fetched


_WORKER: list[Any] = []


def worker_loop(*args: Any, **kwargs: Any) -> Any:
    """A data loader's worker process, where markers would only cost time."""
    STATE.disable_ops()
    STATE.on = False
    if _WORKER:
        return _WORKER[0](*args, **kwargs)
    from torch.utils.data._utils import worker

    module: Any = worker
    return module._worker_loop(*args, **kwargs)
