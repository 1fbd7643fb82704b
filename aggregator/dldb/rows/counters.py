"""Samples of GPUs as rows of the database's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aggregator.dldb.writer import Table
from aggregator.profile.profile import Counter


def counter_tables(counters: Sequence[Counter]) -> Iterator[Table]:
    """Yield the counters of a profile, and their samples in order of time."""
    if not counters:
        return
    columns = {
        name: [getattr(track, name) for track in counters] for name in ("name", "unit", "source")
    }
    numbers = np.arange(1, len(counters) + 1)
    devices = np.array([counter.device + 1 for counter in counters])
    yield Table("counters", {"id": numbers, "device": devices, **columns})
    of_sample = np.repeat(numbers, [len(counter.start_ns) for counter in counters])
    start, stop, value = (
        np.concatenate([getattr(counter, name) for counter in counters])
        for name in ("start_ns", "stop_ns", "value")
    )
    order = np.lexsort((of_sample, start))
    yield Table(
        "counter_samples",
        {
            "id": np.arange(1, len(order) + 1),
            "counter": of_sample[order],
            "start": start[order],
            "stop": stop[order],
            "value": value[order],
        },
    )
