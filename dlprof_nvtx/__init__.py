"""NVTX markers for PyTorch: module paths, ops, shapes, data types and settings for the profile.

``dlprof --mode=pytorch python train.py`` enables them without a change to the script. Manually::

    import dlprof_nvtx

    dlprof_nvtx.init()

Requires only PyTorch 2.0 or newer. Importing this package does not import torch.
"""

from __future__ import annotations

from dlprof_nvtx.control import init, is_active, start, start_graph, stop, stop_graph
from dlprof_nvtx.phases import phase

__all__ = ["init", "is_active", "phase", "start", "start_graph", "stop", "stop_graph"]
