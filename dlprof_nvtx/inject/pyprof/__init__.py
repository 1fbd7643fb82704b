"""Scripts that still import ``pyprof`` or ``pyprof2`` run unchanged."""

from __future__ import annotations

from dlprof_nvtx import init, start_graph, stop_graph

__all__ = ["init", "nvtx", "start_graph", "stop_graph", "wrap"]


class nvtx:
    """``pyprof.nvtx.init()``, the older spelling."""

    init = staticmethod(init)


def wrap(*_: object, **__: object) -> None:
    """``pyprof.wrap`` marked functions; modules and ops are marked without it."""
