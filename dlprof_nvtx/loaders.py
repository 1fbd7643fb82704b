"""Data loaders: their settings, and no markers in their workers.

The wait for the next batch has a range of PyTorch's own (``enumerate(DataLoader)#...__next__``).
"""

from __future__ import annotations

import functools
from typing import Any

from dlprof_nvtx.settings import note_config
from dlprof_nvtx.state import STATE

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
    module: Any = worker
    if module._worker_loop is not worker_loop:
        _WORKER.append(module._worker_loop)
        module._worker_loop = worker_loop


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
