"""Scripts that still import ``pyprof2`` run unchanged."""

from __future__ import annotations

from dlprof_nvtx import init, start_graph, stop_graph

__all__ = ["init", "start_graph", "stop_graph"]


class nvtx:
    """``pyprof2.nvtx.init()``, the older spelling."""

    init = staticmethod(init)


def wrap(*_: object, **__: object) -> None:
    """``pyprof2.wrap`` marked functions; modules and ops are marked without it."""
