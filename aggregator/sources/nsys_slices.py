"""How the rows of an export are shared out among the threads that read it."""

from __future__ import annotations

import os
from itertools import pairwise


def readers() -> int:
    """Threads that read: more than a few wait for each other."""
    return max(2, min(4, os.cpu_count() or 1))


MIN_SLICE_ROWS = 100_000


def slices_of(last_rowid: int) -> list[tuple[int, int]]:
    """Ranges of row ids: more than there are threads, so that all end at about the same time."""
    count = min(2 * readers(), last_rowid // MIN_SLICE_ROWS + 1)
    bounds = [last_rowid * number // count for number in range(count + 1)]
    return [(low, high) for low, high in pairwise(bounds) if high > low]


def row_conditions(last_rowid: int) -> list[str]:
    """Conditions that part the rows of a table; together they leave none out."""
    inner = [high for _, high in slices_of(last_rowid)][:-1]
    below = [f"rowid <= {high}" for high in inner] + ["1"]
    above = ["1"] + [f"rowid > {high}" for high in inner]
    return [f"{low} AND {high}" for low, high in zip(above, below, strict=True)]
