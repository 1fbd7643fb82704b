"""Batches that are there in time: what the main process does for those of worker processes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from aggregator.dldb.replay_inputs import read_replayed
from aggregator.replay.loading import HANDOVER_NS_A_BYTE, data_ready
from tests.builders import Trace, analyze_file

US = 1_000
LOADER = "enumerate(DataLoader)#_{}DataLoaderIter.__next__"
LOADING_US, REST_US, NUM_BYTES = 1_000, 500, 1_000_000
PAGEABLE, PINNED, ON_DEVICE = 0, 1, 2
HANDOVER_US = HANDOVER_NS_A_BYTE * NUM_BYTES / US


@pytest.mark.parametrize(
    ("loader", "memory", "num_bytes", "left_us"),
    [
        ("SingleProcess", PAGEABLE, NUM_BYTES, HANDOVER_US),
        ("SingleProcess", PAGEABLE, 100 * NUM_BYTES, LOADING_US),
        ("SingleProcess", PINNED, NUM_BYTES, 0),
        ("MultiProcessing", PAGEABLE, NUM_BYTES, 0),
    ],
)
def test_a_batch_of_a_worker_is_handed_over(
    loader: str, memory: int, num_bytes: int, left_us: float, tmp_path: Path
) -> None:
    """It takes time by its bytes, if it is not pinned, and at most as long as it was loaded."""
    trace = Trace()
    trace.gpu()
    thread = trace.thread()
    for step in range(8):
        now = step * (LOADING_US + REST_US) * US
        thread.range(f"step {step}", now, now + (LOADING_US + REST_US - 1) * US)
        thread.range(LOADER.format(loader), now + US, now + (1 + LOADING_US) * US)
        begin = now + (LOADING_US + 10) * US
        number = thread.call("cudaMemcpyAsync_v3020", begin, begin + 5 * US)
        copy = thread.process.copy(begin + 6 * US, begin + 8 * US, correlation=number)
        copy["bytes"] = num_bytes
        thread.op("relu", begin + 10 * US, begin + 20 * US)
        thread.launch("relu", begin + 12 * US, gpu=(begin + 18 * US, begin + 20 * US))
    export = trace.write(tmp_path / "profile.sqlite")
    with closing(sqlite3.connect(export)) as connection, connection:
        table = "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN"
        connection.execute(f"{table} srcKind INTEGER DEFAULT {memory}")
        connection.execute(f"{table} dstKind INTEGER DEFAULT {ON_DEVICE}")
    path = analyze_file(export, tmp_path / "dldb.sqlite").path
    with closing(sqlite3.connect(path)) as connection:
        profile = read_replayed(connection, 1)
    assert np.median(profile.measured_ns) / US == LOADING_US + REST_US
    predicted = profile.predict([data_ready]).predicted_step_ns / US
    assert predicted == pytest.approx(REST_US + left_us, abs=1)
