from __future__ import annotations

from dlprof_nvtx.tensorflow.ops import end, start, trace, trainable_variables

__all__ = ["end", "start", "trace", "trainable_variables"]
