"""Scripts that still import ``nvidia_dlprof_pytorch_nvtx`` run unchanged."""

from __future__ import annotations

from dlprof_nvtx import init, start_graph, stop_graph

__all__ = ["init", "start_graph", "stop_graph"]
