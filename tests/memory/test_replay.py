"""Counts of the replay, against the same events undone one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.metrics.memory.analysis import analyze
from aggregator.metrics.memory.replay import pair_allocations, replay
from aggregator.sources.memory import read_memory
from tests.conftest import ProfileFactory
from tests.memory.pickles import SNAPSHOTS, event, load, segment, write

SIGNS = {
    "alloc": (1, 1, 0),
    "free_requested": (-1, 0, 0),
    "free_completed": (0, -1, 0),
    "segment_alloc": (0, 0, 1),
    "segment_map": (0, 0, 1),
    "segment_free": (0, 0, -1),
    "segment_unmap": (0, 0, -1),
}


def undone(content: dict[str, Any], device: int) -> list[tuple[int, int, int]]:
    """Allocated, active and reserved after each event and before the first, from the end back."""
    own = [one for one in content["segments"] if one["device"] == device]
    blocks = [block for one in own for block in one["blocks"]]
    counts = [
        sum(block["size"] for block in blocks if block["state"] == "active_allocated"),
        sum(block["size"] for block in blocks if block["state"] != "inactive"),
        sum(one["total_size"] for one in own),
    ]
    after = [(counts[0], counts[1], counts[2])]
    for one in reversed(content["device_traces"][device]):
        signs = SIGNS.get(one["action"], (0, 0, 0))
        counts = [count - sign * one["size"] for count, sign in zip(counts, signs, strict=True)]
        after.append((counts[0], counts[1], counts[2]))
    return after[::-1]


def assert_equal_at_every_event(path: Path) -> None:
    content = load(path)
    memory = read_memory(path)
    assert memory.devices
    for trace in memory.devices:
        counts = replay(trace)
        expected = undone(content, trace.device)
        found = zip(
            counts.allocated.tolist(),
            counts.active.tolist(),
            counts.reserved.tolist(),
            strict=True,
        )
        assert list(found) == expected[1:]
        assert counts.peak_allocated == max(one[0] for one in expected)
        assert counts.peak_reserved == max(one[2] for one in expected)
        rows = pair_allocations(trace)
        # The allocations that live after an event add up to what is allocated then.
        for place in np.linspace(-1, len(trace.events) - 1, 60).astype(int).tolist():
            assert int(rows.size[rows.alive_after(place)].sum()) == expected[place + 1][0]


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_public_snapshots_equal_a_replay_of_single_events(
    profile: ProfileFactory, name: str
) -> None:
    assert_equal_at_every_event(profile(name))


def test_replay_has_the_bytes_of_a_real_training(profile: ProfileFactory) -> None:
    (memory,) = analyze(read_memory(profile("w_medium_1024_training_memory_snapshot.pickle")))
    assert memory.num_events == 22_331
    assert round(memory.counts.end_reserved / 1e9, 2) == 25.18
    assert round(memory.counts.end_allocated / 1e9, 2) == 6.87


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_kinds_add_up_to_the_peak(profile: ProfileFactory, name: str) -> None:
    for memory in analyze(read_memory(profile(name))):
        kinds = memory.bytes_by_kind(memory.at_peak)
        assert sum(kinds.values()) == memory.counts.peak_allocated
        owners = memory.owners(memory.at_peak)
        assert sum(one.size for one in owners) == memory.counts.peak_allocated


def test_the_training_has_as_many_bytes_of_gradients_as_of_parameters(
    profile: ProfileFactory,
) -> None:
    # AdamW in FP32: a gradient and two states for each parameter, 423 million of them.
    (memory,) = analyze(read_memory(profile("w_medium_1024_training_memory_snapshot.pickle")))
    kinds = memory.bytes_by_kind(memory.rows.alive_after(memory.num_events))
    assert kinds["parameter"] == kinds["gradient"] == 1_692_733_440
    assert kinds["optimizer state"] == 2 * kinds["parameter"]


STEPS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5000)), max_size=60)


@given(steps=STEPS, begin=st.integers(0, 40))
def test_any_history_that_begins_late_is_replayed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], begin: int
) -> None:
    """Slots are allocated and released in turn; the recording begins at some event."""
    held: dict[int, int] = {}
    events = []
    for number, (slot, size) in enumerate(steps):
        address = 4096 * (slot + 1)
        if slot in held:
            size = held.pop(slot)
            events.append(event("free_requested", address, size, number))
            events.append(event("free_completed", address, size, number))
        else:
            held[slot] = size
            events.append(event("alloc", address, size, number))
    segments = [
        segment(4096 * (slot + 1), [(-(-size // 512) * 512, size, "active_allocated")])
        for slot, size in held.items()
    ]
    path = tmp_path_factory.mktemp("history") / "snapshot.pickle"
    assert_equal_at_every_event(write(path, [events[begin:]], [*segments, segment(1 << 20, [])]))


def test_reserved_memory_follows_the_segments(tmp_path: Path) -> None:
    events = [
        event("segment_alloc", 0, 2 << 20, 1),
        event("alloc", 0, 1000, 2),
        event("segment_alloc", 8 << 20, 20 << 20, 3),
        event("free_requested", 0, 1000, 4),
        event("segment_free", 8 << 20, 20 << 20, 5),
        event("free_completed", 0, 1000, 6),
    ]
    path = write(tmp_path / "s.pickle", [events], [segment(0, [(2 << 20, 0, "inactive")])])
    (memory,) = analyze(read_memory(path))
    assert memory.counts.reserved.tolist() == [
        *(2 << 20, 2 << 20, 22 << 20, 22 << 20),
        *(2 << 20, 2 << 20),
    ]
    assert memory.counts.allocated.tolist() == [0, 1000, 1000, 0, 0, 0]
    assert memory.counts.active.tolist() == [0, 1000, 1000, 1000, 1000, 0]
