"""Peaks of steps, leaks, fragmentation, and what makes one peak higher than another."""

from __future__ import annotations

import json
import lzma
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from aggregator.metrics.memory.analysis import DeviceMemory, analyze
from aggregator.metrics.memory.answers import fragmentation, leaks, step_peaks
from aggregator.metrics.memory.difference import compare_peaks
from aggregator.sources.memory import read_memory
from profiler_cli.commands.memory import run_memory
from tests.conftest import ProfileFactory
from tests.memory.pickles import SNAPSHOTS, event, frame, segment, write

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


CAPTURES = Path(__file__).parents[1] / "data/captures/advice"
KEPT_BYTES = 12 * 512 * 5000 * 4
"""The logits of one step: tokens, words, FP32."""


def test_parts_of_public_snapshots_add_up(profile: ProfileFactory) -> None:
    memories = [analyze(read_memory(profile(name))) for name in SNAPSHOTS]
    for base, new in permutations(memories, 2):
        (found,) = compare_peaks(base, new)
        peaks = [one[0].counts.peak_allocated for one in (base, new)]
        assert found.difference_bytes == peaks[1] - peaks[0]
        for parts in (found.kinds, found.owners):
            assert sum(one.difference_bytes for one in parts) == found.difference_bytes
            assert [sum(one.base_bytes for one in parts)] == peaks[:1]


def test_what_a_program_keeps_makes_its_peak_higher(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for name in ("memory_released", "memory_kept"):
        files.append(tmp_path / f"{name}.pickle")
        packed = CAPTURES / f"{name}_memory_1.pickle.xz"
        files[-1].write_bytes(lzma.decompress(packed.read_bytes()))
    words = [str(file) for file in files]
    assert run_memory([*words, "--format=json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    # At the peak of the last step, those of the seven steps before are held.
    assert found["difference_bytes"] == 7 * KEPT_BYTES
    assert found["kinds"][0]["kind"] == "activation"
    assert found["kinds"][0]["difference_bytes"] == 7 * KEPT_BYTES
    assert found["owners"][0]["owner"].startswith("head")
    assert run_memory(words) == 0
    assert "+860.16 MB" in capsys.readouterr().out
