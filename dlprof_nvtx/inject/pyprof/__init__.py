"""Scripts that still import ``pyprof`` run unchanged."""

from __future__ import annotations

from dlprof_nvtx import init, start_graph, stop_graph

__all__ = ["init", "start_graph", "stop_graph"]


class nvtx:
    """``pyprof.nvtx.init()``, the older spelling."""

    init = staticmethod(init)


def wrap(*_: object, **__: object) -> None:
    """``pyprof.wrap`` marked functions; modules and ops are marked without it."""
