"""Scripts that still import ``pyprof2`` run unchanged."""

from __future__ import annotations

from dlprof_nvtx.inject.pyprof import init, nvtx, start_graph, stop_graph, wrap

__all__ = ["init", "nvtx", "start_graph", "stop_graph", "wrap"]
