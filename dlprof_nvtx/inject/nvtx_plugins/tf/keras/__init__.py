from __future__ import annotations

from nvtx.plugins.tf.keras import callbacks, layers

__all__ = ["callbacks", "layers"]
