"""A JAX training loop with the markers: steps, a jitted step in a domain of its own, an evaluation.

It compiles first and steps 16 s after its start, so that ``dlprof --delay=13`` leaves the compiler
out: Nsight Systems 2025.3 loses kernels while XLA compiles ("Cannot find string for an exterior
index"). With XLA_FLAGS=--xla_gpu_enable_command_buffer= every kernel is launched by itself.
"""

from __future__ import annotations

import itertools
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from dlprof_nvtx import jax as marks

BEGAN = time.monotonic()
STEPS = 24


def forward(params, images):
    for index, (weights, bias) in enumerate(params):
        with jax.named_scope(f"layer_{index}"):
            images = images.astype(jnp.bfloat16) @ weights.astype(jnp.bfloat16) + bias
            images = jax.nn.relu(images) if index + 1 < len(params) else images
    return images.astype(jnp.float32)


@marks.trace("loss")
def loss_of(params, images, labels):
    logits = jax.nn.log_softmax(forward(params, images))
    return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()


@marks.jit(static_argnums=3, message="train_step", domain_name="Loop")
def train_step(params, images, labels, rate):
    loss, gradients = jax.value_and_grad(loss_of)(params, images, labels)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradients), loss


@marks.jit(message="evaluate", domain_name="Loop", wait=True)
def evaluate(params, images, labels):
    return (forward(params, images).argmax(1) == labels).mean()


rng = np.random.default_rng(0)
sizes = [1024, 4096, 4096, 10]
params = [
    (jnp.asarray(rng.standard_normal((a, b), dtype=np.float32) * 0.02), jnp.zeros(b))
    for a, b in itertools.pairwise(sizes)
]
images = jnp.asarray(rng.standard_normal((512, 1024), dtype=np.float32))
labels = jnp.asarray(rng.integers(0, 10, 512))
params, loss = train_step(params, images, labels, 1e-3)
evaluate(params, images, labels)
time.sleep(max(0.0, 16 - (time.monotonic() - BEGAN)))
for step in marks.steps(range(STEPS)):
    params, loss = train_step(params, images, labels, 1e-3)
    if step % 4 == 3:
        with marks.annotate("validation", "Loop"):
            score = evaluate(params, images, labels)
print("loss", float(loss), "score", float(score), file=sys.stderr)
