from __future__ import annotations

from dlprof_nvtx.tensorflow.keras.layers import NVTXEnd, NVTXStart

__all__ = ["NVTXEnd", "NVTXStart"]
