"""Batches that are there in time: what the main process does for those of worker processes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from aggregator.dldb.event_reader import stored_events
from aggregator.replay.loading import BATCH_NS, HANDOVER_NS_A_BYTE, TENSOR_NS, data_ready
from aggregator.replay.reader import read_replayed
from tests.builders import analyze_file, one_gpu

US = 1_000
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"
LOADING_US, REST_US, NUM_BYTES = 4_000, 500, 1_000_000
PAGEABLE, PINNED, ON_DEVICE = 0, 1, 2
BATCH_US, TENSOR_US = BATCH_NS / US, TENSOR_NS / US
MB_US = HANDOVER_NS_A_BYTE * NUM_BYTES / US


@pytest.mark.parametrize(
    ("loader", "memory", "sizes", "later", "left_us"),
    [
        ("SingleProcess", PAGEABLE, [8], [], BATCH_US + TENSOR_US),
        ("SingleProcess", PAGEABLE, [NUM_BYTES], [], BATCH_US + TENSOR_US + MB_US),
        ("SingleProcess", PAGEABLE, [NUM_BYTES, 8], [], BATCH_US + 2 * TENSOR_US + MB_US),
        # What the program copies later is no tensor of the batch.
        ("SingleProcess", PAGEABLE, [8], [8, 8], BATCH_US + TENSOR_US),
        ("SingleProcess", PAGEABLE, [], [8], 0),
        ("SingleProcess", PAGEABLE, [100 * NUM_BYTES], [], LOADING_US),
        ("SingleProcess", PINNED, [NUM_BYTES], [], 0),
        ("MultiProcessing", PAGEABLE, [NUM_BYTES], [], 0),
    ],
)
def test_a_batch_of_a_worker_is_handed_over(
    loader: str, memory: int, sizes: list[int], later: list[int], left_us: float, tmp_path: Path
) -> None:
    """It takes time by its tensors and bytes if not pinned, at most as long as it was loaded."""
    trace, thread = one_gpu()
    for step in range(8):
        now = step * (LOADING_US + REST_US) * US
        thread.range(f"step {step}", now, now + (LOADING_US + REST_US - 1) * US)
        thread.range(LOADER.format(loader), now + US, now + (1 + LOADING_US) * US)
        begin = now + (LOADING_US + 10) * US
        for number, num_bytes in enumerate([*sizes, *later]):
            start = begin + 10 * number * US + (30 * US if number >= len(sizes) else 0)
            call = thread.call("cudaMemcpyAsync_v3020", start, start + 5 * US)
            copy = thread.process.copy(start + 6 * US, start + 8 * US, correlation=call)
            copy["bytes"] = num_bytes
        launched = begin + 10 * len(sizes) * US
        thread.op("relu", launched, launched + 10 * US)
        thread.launch("relu", launched + 2 * US, gpu=(launched + 8 * US, launched + 10 * US))
    export = trace.write(tmp_path / "profile.sqlite")
    with closing(sqlite3.connect(export)) as connection, connection:
        table = "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN"
        connection.execute(f"{table} srcKind INTEGER DEFAULT {memory}")
        connection.execute(f"{table} dstKind INTEGER DEFAULT {ON_DEVICE}")
    path = analyze_file(export, tmp_path / "dldb.sqlite").path
    with closing(sqlite3.connect(path)) as connection:
        profile = read_replayed(stored_events(connection), 1)
    assert np.median(profile.measured_ns) / US == LOADING_US + REST_US
    predicted = profile.predict([data_ready]).predicted_step_ns / US
    assert predicted == pytest.approx(REST_US + left_us, abs=1)
