"""Weights of iterations in the replicates of a bootstrap: one matrix serves all rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aggregator.profile.arrays import Float64


def replicate_weights(
    captures: Sequence[Float64], replicates: int, random: np.random.Generator
) -> Float64:
    """How often each replicate takes each iteration, for captures of shape (iterations, rows).

    Of several captures, captures are drawn first and blocks of neighboring iterations within each;
    of one capture, blocks only. Iterations of all captures stand one after the other.
    """
    counts = [len(capture) for capture in captures]
    starts = np.concatenate([[0], np.cumsum(counts)])
    weights = np.zeros((replicates, starts[-1]))
    lengths = [block_length(capture.sum(axis=1)) for capture in captures]
    for _slot in captures:
        drawn = random.integers(0, len(captures), replicates)
        for index, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            chosen = np.flatnonzero(drawn == index)
            columns = slice(starts[index], starts[index + 1])
            weights[chosen, columns] += _block_weights(count, length, len(chosen), random)
    return weights


def block_length(samples: Float64) -> int:
    """Length of the blocks for samples whose neighbors are alike.

    Politis and White's optimum for an autoregressive process of order one, at most a third of the
    samples.
    """
    count = len(samples)
    rho = float(autocorrelation(samples[:, None])[0])
    optimum = (2 * rho / (1 - rho**2)) ** (2 / 3) * count ** (1 / 3)
    return max(1, min(int(np.ceil(max(optimum, count ** (1 / 3)))), count // 3))


def autocorrelation(samples: Float64) -> Float64:
    """Lag-one autocorrelation of each column, corrected for its bias in short series.

    Between 0 and 0.95: negative values would promise more than the samples hold.
    """
    count = len(samples)
    if count < 4:
        return np.zeros(samples.shape[1])
    centered = samples - samples.mean(axis=0)
    power = (centered**2).sum(axis=0)
    product = (centered[1:] * centered[:-1]).sum(axis=0)
    rho = np.divide(product, power, out=np.zeros_like(product), where=power > 0)
    rho = rho + (1 + 4 * rho) / count
    return np.where(power > 0, np.clip(rho, 0.0, 0.95), 0.0)


def independent_samples(samples: Float64, *, is_cautious: bool) -> Float64:
    """How many independent samples hold as much as these, whose neighbors are alike; per column.

    A cautious answer takes the autocorrelation one standard error above its estimate.
    """
    count = len(samples)
    rho = autocorrelation(samples)
    if is_cautious:
        rho = np.minimum(rho + np.sqrt((1 - rho**2) / count), 0.95)
    return np.clip(count * (1 - rho) / (1 + rho), min(2, count), count)


def _block_weights(
    count: int, length: int, replicates: int, random: np.random.Generator
) -> Float64:
    """Circular blocks until ``count`` iterations are drawn."""
    heads = random.integers(0, count, (replicates, -(-count // length), 1))
    drawn = (heads + np.arange(length)).reshape(replicates, -1)[:, :count] % count
    keys = drawn + count * np.arange(replicates)[:, None]
    weights = np.bincount(keys.ravel(), minlength=replicates * count)
    return weights.reshape(replicates, count).astype(np.float64)
