"""NVTX markers for TensorFlow 2, with the names and arguments of nvtx-plugins, without C++ ops.

::

    from dlprof_nvtx.tensorflow import ops

    x, context = ops.start(x, message="Dense", domain_name="Forward", grad_domain_name="Gradient")
    x = dense_3(dense_2(dense_1(x)))
    x = ops.end(x, context)

In a run under ``dlprof``, ``import nvtx.plugins.tf`` imports this package.
"""

from __future__ import annotations

from dlprof_nvtx.tensorflow import estimator, keras, ops

__all__ = ["estimator", "keras", "ops"]
