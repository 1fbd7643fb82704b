"""Captures that lack something: a lower confidence with its reason, or no replay, never silence."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from aggregator.dldb.event_reader import stored_events
from aggregator.errors import ReplayError
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.changes import speed_up
from aggregator.replay.communication import no_communication
from aggregator.replay.reader import read_replayed
from tests.builders import Trace, analyze_file, one_gpu

US = 1_000
STEPS, KERNELS, KERNEL_US = 10, 8, 100
KERNEL_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
WAITS = ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT")


def loop(*, side_stream: bool = False, collective: bool = False) -> Trace:
    """Steps that launch kernels ahead of the GPU and wait for it at their ends."""
    trace, thread = one_gpu()
    now, free = 0, 0
    for step in range(STEPS):
        begin = now
        for number in range(KERNELS):
            start = max(now + 5 * US, free)
            free = start + KERNEL_US * US
            is_last = number == KERNELS - 1
            name = REDUCE if collective and is_last else "gemm"
            stream = 17 if side_stream and is_last else 7
            thread.op("linear", now - US // 2, now + 3 * US, seq=KERNELS * step + number)
            gpu = (start, free)
            thread.launch(name, now, gpu=gpu, length=2 * US, long_name=f"{name}(x)", stream=stream)
            now += 10 * US
        end = max(now, free) + 4 * US
        thread.call("cudaDeviceSynchronize_v3020", now, end)
        thread.range(f"step {step}", begin - US, end + 10 * US)
        now = end + 30 * US
    return trace


def replayed(trace: Trace, folder: Path, without: tuple[str, ...] = ()) -> ReplayedProfile:
    export = trace.write(folder / "profile.sqlite", without=without)
    path = analyze_file(export, folder / "dldb.sqlite").path
    with closing(sqlite3.connect(path)) as connection:
        return read_replayed(stored_events(connection), 1)


def test_a_whole_capture_is_of_high_confidence(tmp_path: Path) -> None:
    profile = replayed(loop(), tmp_path)
    assert (profile.confidence, profile.notes) == ("high", ())


def test_streams_without_events_lower_the_confidence(tmp_path: Path) -> None:
    profile = replayed(loop(side_stream=True), tmp_path, WAITS)
    assert profile.confidence == "medium"
    assert "no events" in str(profile.notes[0])
    assert profile.errors_pct.max() == 0


def test_one_stream_needs_no_events(tmp_path: Path) -> None:
    profile = replayed(loop(), tmp_path, WAITS)
    assert profile.confidence == "high"
    faster = profile.predict([speed_up("linear", 2)]).predicted_step_ns
    gained = np.median(profile.measured_ns) - faster
    assert gained == pytest.approx(KERNELS * KERNEL_US * US / 2, rel=0.02)


def ahead(steps: int, *, in_last: int = KERNELS) -> Trace:
    """A capture that begins while the GPU still runs three steps launched before it.

    The last step launches ``in_last`` kernels: none if the capture ends before it launches any.
    """
    trace, thread = one_gpu()
    free = 0
    for _ in range(3 * KERNELS):
        free += KERNEL_US * US
        thread.process.kernel("gemm", free - KERNEL_US * US, free - US, correlation=None)
    for step in range(steps):
        begin = step * KERNELS * 10 * US
        thread.range(f"step {step}", begin, begin + KERNELS * 10 * US - 1)
        for number in range(KERNELS if step < steps - 1 else in_last):
            now = begin + number * 10 * US + US
            free += KERNEL_US * US
            thread.op("linear", now, now + 3 * US, seq=KERNELS * step + number)
            gpu = (free - KERNEL_US * US, free - US)
            thread.launch("gemm", now + US, gpu=gpu, length=US, long_name="gemm(x)")
    return trace


def test_work_that_was_launched_before_the_capture_belongs_to_no_step(tmp_path: Path) -> None:
    profile = replayed(ahead(6), tmp_path)
    assert (profile.confidence, profile.notes) == ("high", ())
    assert len(profile.measured_ns) >= 2
    assert np.median(profile.measured_ns) == KERNELS * KERNEL_US * US
    faster = profile.predict([speed_up("linear", 2)]).predicted_step_ns
    assert faster == pytest.approx(KERNELS * KERNEL_US * US / 2, rel=0.03)


def test_of_two_steps_the_one_that_another_follows_is_replayed(tmp_path: Path) -> None:
    profile = replayed(ahead(2), tmp_path)
    assert not profile.steps.is_whole
    assert profile.measured_ns.tolist() == [KERNELS * KERNEL_US * US]
    assert profile.errors_pct.max() == 0


def test_a_capture_without_a_whole_step_is_of_low_confidence(tmp_path: Path) -> None:
    """It ends before the second step launches work: nothing on the GPU ends the first one."""
    profile = replayed(ahead(2, in_last=0), tmp_path)
    assert len(profile.graph.data.iteration) == 2
    assert profile.steps.is_whole
    assert len(profile.notes) == 1
    assert profile.confidence == "low"
    assert "this is the recorded span" in profile.notes[0]


def test_a_cut_capture_replays_the_steps_that_it_holds(tmp_path: Path) -> None:
    """The file ends in the middle of a step: its calls are there, its kernels are not."""
    whole = replayed(loop(), tmp_path)
    trace = loop()
    kernels = trace.tables[KERNEL_TABLE]
    kernels.sort(key=lambda row: int(row["start"]))
    del kernels[int(len(kernels) * 0.65) :]
    (tmp_path / "cut").mkdir()
    cut = replayed(trace, tmp_path / "cut")
    assert 2 <= len(cut.steps.number) < len(whole.steps.number)
    assert np.median(cut.measured_ns) == pytest.approx(np.median(whole.measured_ns), rel=0.01)
    assert cut.errors_pct.max() == 0
    assert cut.confidence != "high"
    assert any("have no work" in str(note) for note in cut.notes)


def test_records_that_were_lost_lower_the_confidence(tmp_path: Path) -> None:
    trace = loop()
    del trace.tables[KERNEL_TABLE][3::9]
    profile = replayed(trace, tmp_path)
    assert profile.confidence in ("medium", "low")
    assert any("have no work" in str(note) for note in profile.notes)


@pytest.mark.parametrize("shift_us", [-2_000, -400, 3_000])
def test_clocks_that_do_not_fit_lower_the_confidence(tmp_path: Path, shift_us: int) -> None:
    trace = loop()
    for row in trace.tables[KERNEL_TABLE]:
        row["start"] += shift_us * US + 2_000 * US
        row["end"] += shift_us * US + 2_000 * US
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        for row in trace.tables[table]:
            row["start"] += 2_000 * US
            row["end"] = row["end"] and row["end"] + 2_000 * US
    profile = replayed(trace, tmp_path)
    assert profile.confidence in ("medium", "low")
    assert profile.notes


@pytest.mark.parametrize("shift_us", [-2_000, 3_000])
def test_clocks_of_a_loop_that_never_waits_are_named(tmp_path: Path, shift_us: int) -> None:
    """Without a call that waits, only the time from launch to start shows the clock of the GPU."""
    profile = replayed(launches_only(shift_us), tmp_path)
    assert profile.confidence != "high"
    assert any("clocks of CPU and GPU do not fit" in str(note) for note in profile.notes)
    (tmp_path / "fits").mkdir()
    assert replayed(launches_only(0), tmp_path / "fits").notes == ()


def launches_only(shift_us: int, pids: tuple[int, ...] = (100,)) -> Trace:
    """Steps of 8 launches, 100 us apart, each of a kernel of 20 us; processes take turns."""
    trace = Trace()
    trace.gpu()
    for turn, pid in enumerate(pids):
        thread = trace.thread(pid=pid)
        for number in range(STEPS * KERNELS):
            now = (5_000 + 100 * number + 30 * turn) * US
            thread.op("linear", now - US, now + 3 * US, seq=number)
            start = now + (5 + shift_us) * US
            gpu = (start, start + 20 * US)
            thread.launch("gemm", now, gpu=gpu, length=2 * US, long_name="gemm(x)")
            if number % KERNELS == 0:
                thread.range(f"step {number}", now - 2 * US, now + (100 * KERNELS - 4) * US)
    return trace


def test_work_of_the_gpu_alone_is_of_low_confidence(tmp_path: Path) -> None:
    trace = loop()
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
        trace.tables[table].clear()
    profile = replayed(trace, tmp_path)
    assert profile.confidence == "low"
    assert any("no call that launched" in str(note) for note in profile.notes)
    rows = trace.tables[KERNEL_TABLE]
    length = max(int(row["end"]) for row in rows) - min(int(row["start"]) for row in rows)
    assert np.median(profile.replayed_ns) == length


def test_processes_that_share_a_gpu_are_of_low_confidence(tmp_path: Path) -> None:
    profile = replayed(launches_only(0, pids=(100, 101)), tmp_path)
    assert profile.confidence == "low"
    assert any("2 processes use the GPU" in str(note) for note in profile.notes)


def test_a_call_that_returns_long_after_its_work_is_not_explained(tmp_path: Path) -> None:
    """What it waited for was lost: the time is no return from the kernel that is recorded."""
    trace = loop()
    rows = sorted(trace.tables[KERNEL_TABLE], key=lambda row: int(row["start"]))
    kept = [row for place, row in enumerate(rows) if place % KERNELS < KERNELS // 2]
    trace.tables[KERNEL_TABLE][:] = kept
    profile = replayed(trace, tmp_path)
    step = float(np.median(profile.measured_ns))
    lost = KERNELS // 2 * KERNEL_US * US
    assert profile.unexplained_pct == pytest.approx(100 * (lost - 100 * US) / step, rel=0.05)
    assert any("nothing explains" in str(note) for note in profile.notes)


def test_a_missing_rank_is_said(tmp_path: Path) -> None:
    """The time of a collective then holds the waiting for the others."""
    profile = replayed(loop(collective=True), tmp_path)
    assert profile.confidence == "medium"
    assert "not in the profile" in str(profile.notes[0])
    assert profile.predict([no_communication]).predicted_step_ns < np.median(profile.measured_ns)


def test_calls_without_any_work_cannot_be_replayed(tmp_path: Path) -> None:
    trace = loop()
    trace.tables[KERNEL_TABLE].clear()
    with pytest.raises(ReplayError, match="cannot be replayed"):
        replayed(trace, tmp_path)


def test_work_without_its_calls_lowers_the_confidence(tmp_path: Path) -> None:
    def without_calls(trace: Trace, keep: Callable[[int], bool]) -> None:
        rows = trace.tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
        rows[:] = [row for place, row in enumerate(rows) if keep(place)]

    trace = loop()
    without_calls(trace, lambda place: place % 4 != 0)
    profile = replayed(trace, tmp_path)
    assert profile.confidence in ("medium", "low")
    assert any("no call that launched" in str(note) for note in profile.notes)
