"""Peaks of steps, leaks and fragmentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aggregator.metrics.memory.analysis import DeviceMemory, analyze
from aggregator.metrics.memory.answers import fragmentation, leaks, step_peaks
from aggregator.sources.memory import read_memory
from tests.memory.pickles import event, frame, segment, write

FORWARD = [frame("forward", "/train/model.py", 10)]
KEEPS = [frame("log", "/train/main.py", 70)]
OPTIMIZER = [frame("step", "/usr/torch/optim/adam.py", 5)]


def recording(folder: Path, *, leaks: bool) -> DeviceMemory:
    """Five steps: an activation of 1,000 bytes more each step; what is logged is kept or not."""
    events: list[dict[str, Any]] = []
    kept = []

    def add(action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        events.append(event(action, address, size, len(events), frames=frames))

    for step in range(5):
        size = 10_000 + 1_000 * step
        add("alloc", 4096, size, FORWARD)
        add("alloc", 1 << 20 | step << 12, 512, KEEPS)
        add("free_requested", 4096, size, FORWARD)
        add("alloc", 8192, 64, OPTIMIZER)
        add("free_requested", 8192, 64, OPTIMIZER)
        if leaks:
            kept.append(segment(1 << 20 | step << 12, [(512, 512, "active_allocated")]))
        else:
            add("free_requested", 1 << 20 | step << 12, 512, OPTIMIZER)
    segments = [*kept, segment(1 << 30, [(3000, 0, "inactive"), (1000, 0, "inactive")])]
    (memory,) = analyze(read_memory(write(folder / "s.pickle", [events], segments)))
    return memory


def test_each_step_has_its_peak(tmp_path: Path) -> None:
    peaks = step_peaks(recording(tmp_path, leaks=False))
    assert [one.allocated_bytes for one in peaks] == [10_512 + 1_000 * step for step in range(5)]
    assert all(sum(one.kinds.values()) == one.allocated_bytes for one in peaks)


def test_what_grows_with_each_step_is_named(tmp_path: Path) -> None:
    (leak,) = leaks(recording(tmp_path, leaks=True))
    assert (leak.bytes, leak.steps) == (5 * 512, 5)
    assert "main.py:70" in leak.name


def test_what_is_released_does_not_grow(tmp_path: Path) -> None:
    assert leaks(recording(tmp_path, leaks=False)) == []


def test_free_blocks_are_counted(tmp_path: Path) -> None:
    free = fragmentation(recording(tmp_path, leaks=False))
    assert free is not None
    assert (free.free_bytes, free.largest_bytes) == (4000, 3000)
