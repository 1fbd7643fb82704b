"""Series with known change points; plain Python, for the script that asks Apache Otava too."""

from __future__ import annotations

import random

COUNT = 240


def synthetic_series(seed: int) -> list[float]:
    """Levels with noise, some with a drift or outliers, some without any change."""
    chance = random.Random(seed)
    length = chance.choice([6, 10, 20, 35, 60, 90, 130])
    changes = chance.randint(0, 4)
    noise = chance.choice([0.002, 0.01, 0.05, 0.2])
    drift = chance.choice([0, 0, 0, 0.002])
    outliers = chance.choice([0, 0, 0.05])
    at = sorted(chance.sample(range(1, length), min(changes, length - 1)))
    level = 100.0
    series = []
    for index in range(length):
        if index in at:
            level *= 1 + chance.choice([-0.3, -0.05, 0.02, 0.05, 0.3])
        value = level * (1 + drift * index + chance.gauss(0, noise))
        if chance.random() < outliers:
            value *= 1.5
        series.append(round(value, 4))
    return series
