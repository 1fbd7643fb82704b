"""``nvtx.plugins.tf``: the markers of ``dlprof_nvtx.tensorflow``."""

from __future__ import annotations

from nvtx.plugins.tf import estimator, keras, ops

__all__ = ["estimator", "keras", "ops"]
