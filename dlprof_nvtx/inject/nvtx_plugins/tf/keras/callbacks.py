from __future__ import annotations

from dlprof_nvtx.tensorflow.keras.callbacks import NVTXCallback

__all__ = ["NVTXCallback"]
