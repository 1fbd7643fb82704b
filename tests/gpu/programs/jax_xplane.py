"""A JAX training loop of twelve steps, recorded by XLA's profiler or by others.

    export XLA_FLAGS=--xla_gpu_enable_command_buffer=
    python jax_xplane.py FOLDER
    dlprof --collector=cupti --mode=jax --nsys_profile_range=true python jax_xplane.py
    nsys profile -t cuda,nvtx -c cudaProfilerApi --export=sqlite -o other python jax_xplane.py

CUPTI serves one of them at a time. Without the flag, XLA makes a CUDA graph of each step. Without a
folder, the calls of CUDA's profiler say when the steps begin and end.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager

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


@contextmanager
def others_record():
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuProfilerStart()
    yield
    cuda.cuProfilerStop()


with jax.profiler.trace(sys.argv[1]) if len(sys.argv) > 1 else others_record():
    for step in range(STEPS):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            weights = train_step(weights, images)
    jax.block_until_ready(weights)
