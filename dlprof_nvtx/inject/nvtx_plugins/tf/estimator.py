from __future__ import annotations

from dlprof_nvtx.tensorflow.estimator import NVTXHook

__all__ = ["NVTXHook"]
