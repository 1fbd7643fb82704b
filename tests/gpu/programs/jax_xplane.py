"""A JAX training loop that XLA's profiler and Nsight Systems may record at once or one by one.

    nsys profile -t cuda,nvtx --export=sqlite -o both python jax_xplane.py FOLDER
    python -m tests.gpu.compare_xplane both.sqlite FOLDER

CUPTI serves one of them at a time on some drivers: record it twice then, first with ``FOLDER``.
With XLA_FLAGS=--xla_gpu_enable_command_buffer= every kernel is launched by itself.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp

STEPS = 12


@jax.jit
def train_step(weights, images):
    def loss(weights):
        hidden = images
        for index, matrix in enumerate(weights):
            with jax.named_scope(f"layer_{index}"):
                hidden = jnp.tanh(hidden @ matrix)
        return (hidden**2).mean()

    return jax.tree.map(
        lambda matrix, slope: matrix - 0.1 * slope, weights, jax.grad(loss)(weights)
    )


key = jax.random.key(0)
weights = [jax.random.normal(key, (2048, 2048), dtype=jnp.bfloat16) for _ in range(3)]
images = jax.random.normal(key, (512, 2048), dtype=jnp.bfloat16)
jax.block_until_ready(train_step(weights, images))
with jax.profiler.trace(sys.argv[1]):
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = train_step(weights, images)
    jax.block_until_ready(weights)
