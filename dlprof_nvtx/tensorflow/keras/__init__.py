"""Layers and a callback for Keras."""

from __future__ import annotations

from dlprof_nvtx.tensorflow.keras import callbacks, layers

__all__ = ["callbacks", "layers"]
