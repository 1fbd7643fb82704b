"""Recordings of dlprof --memory on an H100: tests/gpu/programs/memory.py, PyTorch 2.11.

What PyTorch counted at the end of each run is in its snapshot; the peaks of the other
configurations were measured without any profiler.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from aggregator.errors import UsageError
from aggregator.metrics.memory.analysis import DeviceMemory, analyze
from aggregator.metrics.memory.what_if import what_if
from aggregator.sources.memory import read_memory
from tests.builders import query

CAPTURES = Path(__file__).parents[1] / "data/captures/memory"
RUNS = ("transformer", "autocast", "convolution", "gpt2", "gpt2_autocast", "mobilenet")
STEPS = 5  # Four, and what follows the last.


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((CAPTURES / f"{name}.xz").read_bytes()))
    return path


@pytest.fixture(scope="module", params=RUNS)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DeviceMemory, dict]:
    path = unpacked(f"{request.param}.pickle", tmp_path_factory.mktemp("memory"))
    memory = read_memory(path)
    (device,) = analyze(memory)
    return device, memory.run


def test_counts_at_the_end_are_those_of_memory_stats(run: tuple[DeviceMemory, dict]) -> None:
    device, recorded = run
    stats, counts = recorded["memory_stats"][0], device.counts
    assert counts.end_allocated == stats["allocated_bytes.all.current"]
    assert counts.end_active == stats["active_bytes.all.current"]
    assert counts.end_reserved == stats["reserved_bytes.all.current"]
    # The history is complete, so nothing was held before it.
    assert (counts.start_allocated, counts.start_reserved) == (0, 0)


def test_peaks_are_those_of_memory_stats(run: tuple[DeviceMemory, dict]) -> None:
    device, recorded = run
    stats = recorded["memory_stats"][0]
    assert device.counts.peak_allocated == stats["requested_bytes.all.peak"]
    assert device.counts.peak_reserved == stats["reserved_bytes.all.peak"]


def test_kinds_are_the_models_own_counts(run: tuple[DeviceMemory, dict]) -> None:
    device, recorded = run
    time_ns = recorded["steps"][-1]["start_us"] * 1000
    event = int(np.searchsorted(device.time_ns, time_ns, side="right")) - 1
    kinds = device.bytes_by_kind(device.rows.alive_after(event))
    own = recorded["counts"]
    assert kinds["parameter"] == own["parameters"]
    assert kinds["gradient"] == own["gradients"]
    assert kinds["optimizer state"] == own["states"]


def test_the_peak_is_named(run: tuple[DeviceMemory, dict]) -> None:
    device, _ = run
    assert device.unnamed_bytes_at_peak < 0.05 * device.counts.peak_allocated
    assert len(device.whose.steps) == STEPS
    assert device.whose.steps.evidence == "recorded"


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        ("checkpoint:layers.*", 2_856_469_504),
        ("batch:0.5", 4_181_558_272),
        ("bf16-states", 6_414_074_880),
        ("shard:2", 6_414_074_880),
    ],
)
def test_predicted_peaks_are_the_measured_ones(tmp_path: Path, change: str, measured: int) -> None:
    (device,) = analyze(read_memory(unpacked("transformer.pickle", tmp_path)))
    assert what_if(device, change).peak_allocated_bytes == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("run", "change", "measured"),
    [
        # Predicted before they were measured.
        ("gpt2", "checkpoint:transformer.h.*", 2_672_982_024),
        ("gpt2", "batch:0.5", 3_866_474_504),
        ("gpt2", "bf16-states", 6_548_324_360),
        ("gpt2", "shard:4", 6_409_979_912),
        ("gpt2_autocast", "checkpoint:transformer.h.*", 2_491_512_840),
        ("gpt2_autocast", "batch:0.5", 3_372_791_944),
        ("mobilenet", "checkpoint:mobilenet_v2.layer.*", 1_880_255_144),
        ("mobilenet", "batch:0.5", 2_058_551_560),
    ],
)
def test_peaks_of_models_of_other_people_are_predicted(
    tmp_path: Path, run: str, change: str, measured: int
) -> None:
    """GPT-2 and MobileNetV2 of transformers 5, requested bytes."""
    (device,) = analyze(read_memory(unpacked(f"{run}.pickle", tmp_path)))
    assert what_if(device, change).peak_allocated_bytes == pytest.approx(measured, rel=0.016)


def test_a_snapshot_with_frames_of_c_has_the_models_own_counts(tmp_path: Path) -> None:
    """``stacks="all"``, without dlprof: torch.cuda.memory_stats and the model's own counts."""
    (device,) = analyze(read_memory(unpacked("snapshot.pickle", tmp_path)))
    counts = device.counts
    assert counts.end_allocated == 907_601_920
    assert counts.end_reserved == counts.peak_reserved == 2_971_664_384
    assert device.unnamed_bytes_at_peak < 0.05 * counts.peak_allocated
    kinds = device.bytes_by_kind(device.at_peak)
    assert kinds["parameter"] == 279_115_776
    assert kinds["optimizer state"] == 558_231_552


def test_what_fills_the_memory_when_it_is_exhausted_is_named(tmp_path: Path) -> None:
    """A limit of 6 GB, reached in the first forward pass."""
    (device,) = analyze(read_memory(unpacked("exhausted.pickle", tmp_path)))
    kinds = device.bytes_by_kind(device.at_peak)
    assert kinds["activation"] > 0.9 * device.counts.peak_allocated
    assert device.unnamed_bytes_at_peak < 0.05 * device.counts.peak_allocated


def test_allocations_of_the_driver_are_those_in_the_export(tmp_path: Path) -> None:
    """MobileNetV2 under nsys with --cuda-memory-usage=true, without dlprof."""
    path = unpacked("usage.sqlite", tmp_path)
    (device,) = analyze(read_memory(path))
    sql = (
        "SELECT sum(bytes) OVER (ORDER BY start, rowid) FROM (SELECT start, rowid, CASE"
        " memoryOperationType WHEN 0 THEN bytes WHEN 1 THEN -bytes END AS bytes"
        " FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind IN (2, 3, 5))"
    )
    expected = [row[0] for row in query(path, sql)]
    assert device.counts.allocated.tolist() == expected
    assert len(expected) > 1000


@pytest.mark.parametrize(
    "change", ["checkpoint:nothing", "batch:much", "batch:0", "shard:1", "paint:red"]
)
def test_a_change_that_fits_nothing_is_refused(tmp_path: Path, change: str) -> None:
    (device,) = analyze(read_memory(unpacked("convolution.pickle", tmp_path)))
    with pytest.raises(UsageError):
        what_if(device, change)


def test_the_driver_made_the_segments_of_the_allocator(tmp_path: Path) -> None:
    """The same run, seen by the CUDA driver and by PyTorch."""
    by_driver = read_memory(unpacked("driver.sqlite", tmp_path))
    by_torch = read_memory(unpacked("convolution.pickle", tmp_path))
    (driver,), (torch,) = analyze(by_driver), analyze(by_torch)
    made = sorted(by_driver.devices[0].events.size.tolist(), reverse=True)
    for size in by_torch.devices[0].segments.size.tolist():
        made.remove(size)
    assert driver.counts.peak_allocated > torch.counts.peak_reserved
    # The rest is of libraries and of the kernels' own static memory.
    assert sum(made) < 200 << 20
