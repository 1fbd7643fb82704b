"""The step without profiling: known costs of a made capture come out again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aggregator.answers.replay import read_critical_path, read_what_if
from aggregator.dldb.event_reader import stored_events
from aggregator.dldb.rows.corrected import read_markers
from aggregator.events.steps import Statistic, typical_step
from aggregator.profile.arrays import Int64
from aggregator.replay.analysis import Prediction, ReplayedProfile
from aggregator.replay.corrected import CALL_NS, MARKER_NS, correct
from aggregator.replay.reader import read_replayed
from aggregator.replay.scale import StepScale
from aggregator.tables.aggregation_data import AggregationData
from aggregator.tables.connection import opened
from profiler_cli.dlprof import main
from tests.builders import Trace, analyze, one_gpu, query

US, MS = 1_000, 1_000_000
STEPS, LAUNCHES = 10, 12


@dataclass
class Program:
    """A loop that launches kernels, as it would run with some costs of profiling."""

    scale: float  # Cost of an event by its usual cost.
    think_us: int = 30  # Time of the CPU between two launches.
    kernel_us: int = 10
    call_us: int = 6
    launches: int = LAUNCHES

    def trace(self) -> tuple[Trace, int]:
        """The capture, and the length of its steps. Unit: ns."""
        marker, half = round(self.scale * MARKER_NS), round(self.scale * CALL_NS / 2)
        trace, thread = one_gpu()
        now = gpu_free = 10 * US
        begins = []
        for step in range(STEPS):
            begins.append(now)
            now += marker
            for number in range(self.launches):
                # Some ops have a range inside them: markers do not lie alike before all calls.
                depth = 1 + number % 3
                opened = now
                now += depth * marker + self.think_us * US
                call, end = now, now + self.call_us * US + half
                start = max(call + 5 * US, gpu_free)
                gpu_free = start + self.kernel_us * US
                thread.launch(f"kernel_{number}", call, gpu=(start, gpu_free), length=end - call)
                now = end + half + depth * marker
                for inner in range(depth):
                    low, high = opened + inner, now - inner
                    thread.op(
                        f"op{number}_{inner}", low, high, seq=1000 * step + 10 * number + inner
                    )
            now += marker
            thread.range(f"step {step}", begins[-1], now)
        return trace, begins[2] - begins[1]


def with_reference(path: Path, bare_ns: int, profiled_ns: int) -> None:
    """Add the times of steps that dlprof would have taken."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE DLPROF_STEP_TIMES"
            " (pid, rank, stepEnd, phase, number, hostNs, gpuNs INTEGER)"
        )
        rows = [
            (100, None, "optimizer", phase, number, time_ns, None)
            for phase, time_ns in (("bare", bare_ns), ("profiled", profiled_ns))
            for number in range(5)
        ]
        connection.executemany("INSERT INTO DLPROF_STEP_TIMES VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def imported(folder: Path, program: Program, bare_ns: int) -> tuple[Path, int]:
    """The database of a capture, and the length of its steps."""
    trace, length_ns = program.trace()
    export = trace.write(folder / "profile.sqlite")
    with_reference(export, bare_ns, length_ns)
    assert main([f"--database={export}", f"--output_path={folder / 'out'}"]) == 0
    return folder / "out" / "dlprof_dldb.sqlite", length_ns


def replayed(path: Path) -> tuple[ReplayedProfile, Int64]:
    with closing(sqlite3.connect(path)) as connection:
        return read_replayed(stored_events(connection), 1), read_markers(connection)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.5])
def test_known_costs_are_found_and_the_bare_step_comes_out(
    scale: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, bare_ns = Program(0.0).trace()
    path, length_ns = imported(tmp_path, Program(scale), bare_ns)
    assert length_ns > 1.1 * bare_ns
    profile, markers = replayed(path)
    found = correct(profile, markers, bare_ns, length_ns)
    assert found.scale == pytest.approx(scale, rel=0.03)
    assert found.step_ns == pytest.approx(bare_ns, rel=0.005)
    assert found.cost_ns == pytest.approx(length_ns - bare_ns, rel=0.03)
    assert found.unexplained_ns == 0
    busy = LAUNCHES * 10 * US
    assert found.profile.busy_ns == pytest.approx(busy, rel=0.001)
    row = query(
        path,
        "SELECT corrected_step, corrected_idle, corrected_limit, replayed_step"
        " FROM view_corrected_step WHERE aggr_id = 1",
    )[0]
    assert row[0] == found.step_ns
    assert row[1] == pytest.approx(bare_ns - busy, rel=0.01)
    assert row[2:] == ("cpu", length_ns)
    assert "Corrected for profiling: the GPU is busy" in capsys.readouterr().out


@pytest.mark.parametrize("kernel_us", [10, 200])
def test_without_costs_the_corrected_step_is_the_measured_one(
    kernel_us: int, tmp_path: Path
) -> None:
    trace, length_ns = Program(1.0, kernel_us=kernel_us).trace()
    with closing(sqlite3.connect(analyze(trace, tmp_path).path)) as connection:
        profile = read_replayed(stored_events(connection), 1)
    markers = np.full(len(profile.graph.data.calls), 3)
    for bare_ns in (length_ns, 2 * length_ns):
        found = correct(profile, markers, bare_ns, length_ns)
        assert (found.scale, found.cost_ns, found.unexplained_ns) == (0.0, 0, 0)
        assert found.profile.measured_ns.tolist() == profile.measured_ns.tolist()


def test_a_cpu_that_profiling_slows_down_is_as_fast_as_without_it(tmp_path: Path) -> None:
    """Of two captures with the same costs, in one the program's own work takes a quarter longer."""
    _, bare_ns = Program(0.0, think_us=30, call_us=6).trace()
    path, length_ns = imported(tmp_path, Program(4.0, think_us=40, call_us=8), bare_ns)
    profile, markers = replayed(path)
    found = correct(profile, markers, bare_ns, length_ns)
    assert found.slower == pytest.approx(0.25, abs=0.06)
    assert found.step_ns == pytest.approx(bare_ns, rel=0.01)
    assert found.unexplained_ns == 0


def test_a_step_that_the_gpu_limits_stays_what_it_is(tmp_path: Path) -> None:
    trace, length_ns = Program(1.0, kernel_us=200).trace()
    with closing(sqlite3.connect(analyze(trace, tmp_path).path)) as connection:
        profile = read_replayed(stored_events(connection), 1)
    measured_ns = float(np.median(profile.measured_ns))
    found = correct(profile, np.full(len(profile.graph.data.calls), 3), 80, 100)
    # The steps are shorter than the work of the GPU: tracing on the CPU does not explain that.
    assert found.step_ns == pytest.approx(measured_ns, rel=0.005)
    assert found.unexplained_ns == pytest.approx(0.2 * measured_ns, rel=0.05)
    assert length_ns < measured_ns


LAUNCH_BOUND = (
    "SELECT gain_source, gain_pct, gain_ns, problem FROM view_advice"
    " WHERE aggr_id = 1 AND advice_name = 'launch_bound'"
)


def test_advice_is_that_of_the_step_without_profiling(tmp_path: Path) -> None:
    """Only profiling makes one step wait for launches; another one waits in any case."""
    hidden = {"kernel_us": 38, "launches": 30}
    trace, _ = Program(2.5, **hidden).trace()
    # Without a step without profiling nothing is promised of what the launches cost.
    source, gain_pct, gain_ns, problem = query(analyze(trace, tmp_path).path, LAUNCH_BOUND)[0]
    assert (source, gain_pct, gain_ns) == ("", None, None)
    assert "as profiled: what a fix saves is unknown" in problem
    for kernel_us in (38, 10):
        shape = {"kernel_us": kernel_us, "launches": 30}
        folder, of_bare = tmp_path / str(kernel_us), tmp_path / f"bare_{kernel_us}"
        folder.mkdir()
        of_bare.mkdir()
        bare, _ = Program(0.0, **shape).trace()
        with closing(sqlite3.connect(analyze(bare, of_bare).path)) as connection:
            step_ns = int(np.median(read_replayed(stored_events(connection), 1).measured_ns))
        path, _ = imported(folder, Program(2.5, **shape), step_ns)
        found = query(path, LAUNCH_BOUND)
        if kernel_us == 38:
            assert found == []
            continue
        source, gain_pct, gain_ns, problem = found[0]
        assert source == "corrected"
        idle_ns = step_ns - 30 * kernel_us * US
        # One launch and the gaps between the kernels of a graph remain.
        assert gain_ns == pytest.approx(idle_ns, rel=0.08)
        assert gain_pct == pytest.approx(100 * gain_ns / step_ns, rel=0.01)
        waits = 100 * idle_ns / step_ns
        assert problem.startswith(f"Without profiling, GPU 0 idles about {waits:.0f}%"), problem


@pytest.mark.parametrize(
    ("last_ms", "typical_ms"), [(60, 50.0), (70, 50.0), (80, 57.5), (150, 75.0)]
)
def test_the_typical_step_is_the_median_if_the_mean_is_within_a_tenth_of_it(
    last_ms: int, typical_ms: float
) -> None:
    lengths = np.array([50, 50, 50, last_ms], dtype=np.int64) * MS
    assert typical_step(lengths).ns == typical_ms * MS


def test_corrected_replay_has_the_step_without_profiling(tmp_path: Path) -> None:
    _, bare_ns = Program(0.0).trace()
    path, length_ns = imported(tmp_path, Program(2.0), bare_ns)
    with opened(path, time_limit_s=60) as database:
        params: dict[str, str | int] = {"aggr_id": 1, "domain": "default-domain"}
        data = AggregationData(database, params)
        raw, bare = (read_critical_path(data, corrected=one) for one in (False, True))
        changed = read_what_if(data, changes={"graph_launch": "1"}, corrected=True)
    assert (raw.is_corrected, bare.is_corrected) == (False, True)
    assert raw.measured_step_ns == length_ns
    assert bare.measured_step_ns == pytest.approx(bare_ns, rel=0.005)
    assert changed.measured_step_ns == bare.measured_step_ns
    assert changed.predicted_step_ns is not None
    assert changed.predicted_step_ns < 0.7 * bare_ns


def test_the_breakdown_of_the_corrected_step_adds_up(tmp_path: Path) -> None:
    bare, bare_ns = Program(0.0).trace()
    path, _ = imported(tmp_path, Program(2.0), bare_ns)
    row = query(path, "SELECT * FROM view_corrected_breakdown WHERE aggr_id = 1")[0]
    tc, non_tc, _, graph, memory, loader, io, cpu, other = (part or 0.0 for part in row[2:])
    assert tc + non_tc + graph + memory + loader + io + cpu + other == pytest.approx(100.0)
    busy = 100 * LAUNCHES * 10 * US / bare_ns
    assert tc + non_tc == pytest.approx(busy, rel=0.02)
    foreign = analyze(bare, tmp_path).path
    assert query(foreign, "SELECT * FROM view_corrected_breakdown") == []


def test_a_foreign_capture_has_no_corrected_step(tmp_path: Path) -> None:
    path = analyze(Program(1.0).trace()[0], tmp_path).path
    assert query(path, "SELECT corrected_step FROM view_corrected_step LIMIT 1") == [(None,)]
    assert query(path, "SELECT count(*) FROM call_markers") == [(0,)]


def test_less_work_saves_time_where_it_moves_the_median_step_to_the_slower_kind() -> None:
    # Steps that the GPU limits take 44, those that the CPU limits 48; with 2 less on the GPU one
    # more of them waits for the CPU, so the median grows while the loop takes less time.
    before, after = np.array([44, 44, 44, 48, 48]) * MS, np.array([42, 42, 46, 48, 48]) * MS
    steps = SimpleNamespace(is_whole=False)
    profile: Any = SimpleNamespace(measured_ns=before, busy_ns=44 * MS, steps=steps)
    found = Prediction(
        int(np.median(after)), int(after.mean()), (0, 0), is_bound=False, busy_ns=42 * MS
    )
    scale = StepScale(44 * MS, Statistic.MEDIAN, "bare", True, 1.0)
    saving_ns = scale.saving_ns(profile, found)
    assert saving_ns is not None
    assert saving_ns == pytest.approx(44 * MS * 2 / 228)
    assert scale.uncertain_ns(profile, found) == 0
