"""The step in loops of all kinds, in traces that a few lines make and in captures of two loops."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.options import ImportOptions
from aggregator.pipeline import import_profile
from aggregator.system.progress import NullProgress
from profiler_cli.dlprof import main
from tests.builders import query, unpacked
from tests.conftest import ProfileFactory
from tests.golden.loop_traces import Loop
from tests.golden.test_steps import CASES


def _row(source: Path) -> dict[str, Any]:
    """The typical step of the newest aggregation."""
    path = source.with_suffix(".dldb.sqlite")
    import_profile(ImportOptions(source, path), NullProgress())
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        query = "SELECT * FROM view_typical_step ORDER BY aggr_id DESC, rowid LIMIT 1"
        query = query.replace(", rowid", "")
        row = dict(connection.execute(query).fetchone())
    gaps = json.loads(row["between_steps"])
    return row | {"kinds": {gap["kind"]: gap["count"] for gap in gaps}}


def _train(loop: Loop, steps: int, *, fetches: bool = True) -> None:
    for _ in range(steps):
        if fetches:
            loop.fetch()
        loop.step()
        loop.wait()


def _evaluate(loop: Loop, batches: int, *, fetches: bool) -> None:
    for _ in range(batches):
        if fetches:
            loop.fetch()
        loop.forward(200)
        loop.wait()


def plain(loop: Loop) -> None:
    _train(loop, 8)


def evaluation_by_loader(loop: Loop) -> None:
    _train(loop, 10)
    _evaluate(loop, 5, fetches=True)
    _train(loop, 10)


def evaluation_without_loader(loop: Loop) -> None:
    _train(loop, 10, fetches=False)
    _evaluate(loop, 5, fetches=False)
    _train(loop, 10, fetches=False)


def evaluation_in_each_epoch(loop: Loop) -> None:
    for _ in range(4):
        _train(loop, 5)
        _evaluate(loop, 3, fetches=False)


def ends_of_epochs(loop: Loop) -> None:
    for _ in range(3):
        _train(loop, 6)
        loop.fetch(500)


def two_optimizers_of_one_class(loop: Loop) -> None:
    for _ in range(8):
        loop.fetch()
        for kernel in (300, 700):
            loop.forward(kernel)
            loop.backward(kernel)
            loop.update(100, "Adam")
        loop.wait()


def two_optimizers_of_two_classes(loop: Loop) -> None:
    for _ in range(8):
        for kernel, name in ((300, "Adam"), (700, "SGD")):
            loop.forward(kernel)
            loop.backward(kernel)
            loop.update(100, name)
        loop.wait()


def micro_batches(loop: Loop) -> None:
    for _ in range(6):
        for _ in range(4):
            loop.fetch()
            loop.forward(100)
            loop.backward(100)
        loop.update()
        loop.wait()


def units_of_a_sharded_model(loop: Loop) -> None:
    for _ in range(6):
        for _ in range(4):
            start = loop.now
            loop.op("aten::linear", 100)
            loop.annotation("FullyShardedDataParallel.forward", start)
        for _ in range(4):
            loop.op("AddmmBackward0", 100, backward=True)
        loop.update()
        loop.wait()


def pause_in_the_middle(loop: Loop) -> None:
    _train(loop, 6, fetches=False)
    loop.idle(200_000)
    _train(loop, 6, fetches=False)


def program_goes_on_after_the_loop(loop: Loop) -> None:
    _train(loop, 8)
    loop.idle(50_000)
    loop.op("aten::relu", 10)
    loop.wait()


def host_runs_ahead(loop: Loop) -> None:
    for _ in range(6):
        loop.fetch()
        loop.step(3000)
    loop.wait()


def first_step_compiles(loop: Loop) -> None:
    loop.fetch()
    for _ in range(20):
        loop.op("aten::linear", 50)
    loop.idle(400_000)
    loop.step()
    loop.wait()
    _train(loop, 10)


def last_kernels_are_lost(loop: Loop) -> None:
    _train(loop, 8)
    kernels = [event for event in loop.events if event["cat"] == "kernel"]
    for event in kernels[-3:]:
        loop.events.remove(event)


def launches_are_not_recorded(loop: Loop) -> None:
    loop.has_launches = False
    _train(loop, 8)


def gpu_clock_is_behind(loop: Loop) -> None:
    _train(loop, 8)
    loop.events = loop.shifted(-400).events


Write = Callable[[Loop], None]


@pytest.mark.parametrize(
    ("write", "steps", "step_us", "kinds"),
    [
        (plain, 8, 863, {}),
        (evaluation_by_loader, 20, 863, {"evaluation": 5}),
        (evaluation_without_loader, 20, 833, {"evaluation": 1}),
        (evaluation_in_each_epoch, 20, 863, {"evaluation": 3}),
        (ends_of_epochs, 18, 863, {"end of an epoch": 2}),
        (two_optimizers_of_one_class, 8, 4243, {}),
        (two_optimizers_of_two_classes, 8, 4213, {}),
        (micro_batches, 6, 1663, {}),
        (units_of_a_sharded_model, 6, 833, {}),
        (pause_in_the_middle, 12, 833, {"pause": 1}),
        (program_goes_on_after_the_loop, 8, 863, {}),
        (host_runs_ahead, 6, 12020, {}),
        (first_step_compiles, 11, 863, {}),
        (last_kernels_are_lost, 8, 863, {}),
        (launches_are_not_recorded, 8, 863, {}),
        (gpu_clock_is_behind, 8, 863, {}),
    ],
)
def test_steps_of_each_kind_of_loop_are_counted_and_timed(
    tmp_path: Path, write: Write, steps: int, step_us: int, kinds: dict[str, int]
) -> None:
    loop = Loop()
    write(loop)
    row = _row(loop.write(tmp_path / "trace.json"))
    assert (row["loop_steps"], row["statistic"]) == (steps, "median")
    assert row["typical_step"] == pytest.approx(step_us * 1000, rel=0.01)
    assert row["step_mean"] == pytest.approx(step_us * 1000, rel=0.01)
    assert row["kinds"] == kinds


def test_the_clock_of_a_gpu_that_is_behind_is_moved_and_said(tmp_path: Path) -> None:
    loop = Loop()
    gpu_clock_is_behind(loop)
    source = loop.write(tmp_path / "trace.json")
    _row(source)
    with closing(sqlite3.connect(source.with_suffix(".dldb.sqlite"))) as connection:
        codes = dict(connection.execute("SELECT code, count FROM view_warnings"))
        query = "SELECT count(*) FROM kernels WHERE start < api_start"
        (early,) = connection.execute(query).fetchone()
    assert codes == {"GPU_CLOCK": 24}  # The others were queued.
    assert early <= 1


def _busy(source: Path) -> tuple[int, float, dict[str, int]]:
    """Wall time, busy time of the GPU in percent of it, and the warnings."""
    path = source.with_suffix(".dldb.sqlite")
    import_profile(ImportOptions(source, path), NullProgress())
    sql = (
        "SELECT p.wall_clock_time, g.device_gpu_utilization FROM view_performance_summary AS p"
        " JOIN view_gpu_devices AS g USING (aggr_id) WHERE aggr_id = 1"
    )
    ((wall_ns, busy_pct),) = query(path, sql)
    codes = dict(query(path, "SELECT code, count FROM view_warnings"))
    return wall_ns, busy_pct, codes


def _set_end(loop: Loop, kernels: list[int], duration_us: float) -> None:
    found = [event for event in loop.events if event["cat"] == "kernel"]
    for kernel in kernels:
        found[kernel]["dur"] = duration_us


@pytest.mark.parametrize(
    ("kernels", "duration_us"),
    [([3], 1e6), ([3], 1_600), ([3, 4], 1e6), ([2, 9, 20], 1e6), ([-3], 1e6)],
)
def test_kernels_that_cover_others_end_where_the_next_begins(
    tmp_path: Path, kernels: list[int], duration_us: float
) -> None:
    loop = Loop()
    _train(loop, 8)
    wall_ns, busy_pct, codes = _busy(loop.write(tmp_path / "right.json"))
    assert codes == {}
    _set_end(loop, kernels, duration_us)
    found_ns, found_pct, codes = _busy(loop.write(tmp_path / "trace.json"))
    assert codes == {"ENDLESS_WORK": len(kernels)}
    assert found_ns == wall_ns
    assert found_pct == pytest.approx(busy_pct, abs=2)


def _covers_its_own_graph(loop: Loop) -> None:
    found = [event for event in loop.events if event["cat"] == "kernel"]
    for kernel in found[10:14]:
        kernel["args"]["correlation"] = found[10]["args"]["correlation"]
    _set_end(loop, [10], 500)


@pytest.mark.parametrize(
    "change",
    [
        lambda loop: _set_end(loop, list(range(39)), 205),
        lambda loop: _set_end(loop, list(range(0, 40, 2)), 1_500),
        _covers_its_own_graph,
    ],
    ids=["neighbors", "often", "graph"],
)
def test_kernels_that_may_overlap_keep_their_ends(
    tmp_path: Path, change: Callable[[Loop], None]
) -> None:
    """Neighbors may overlap (dependent launch), and not every stream number is that of a stream."""
    loop = Loop()
    _train(loop, 8)
    change(loop)
    expected = [event["dur"] * 1000 for event in loop.events if event["cat"] == "kernel"]
    source = loop.write(tmp_path / "trace.json")
    assert "ENDLESS_WORK" not in _busy(source)[2]
    found = [
        row[0]
        for row in query(
            source.with_suffix(".dldb.sqlite"), "SELECT duration FROM kernels ORDER BY start"
        )
    ]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_few_steps_are_steps(tmp_path: Path, steps: int) -> None:
    loop = Loop()
    _train(loop, steps)
    row = _row(loop.write(tmp_path / "trace.json"))
    assert row["loop_steps"] == steps
    assert row["typical_step"] == pytest.approx(863_000, rel=0.05)


def test_every_fifth_step_makes_the_mean_typical(tmp_path: Path) -> None:
    loop = Loop()
    for number in range(25):
        loop.fetch()
        loop.step()
        loop.idle(5000 if number % 5 == 4 else 0)
        loop.wait()
    row = _row(loop.write(tmp_path / "trace.json"))
    assert (row["loop_steps"], row["statistic"]) == (25, "mean")
    assert row["uneven_reason"] == "every 5th step takes 4.27 ms longer"


def test_one_pass_is_no_loop(tmp_path: Path) -> None:
    loop = Loop()
    _train(loop, 1)
    row = _row(loop.write(tmp_path / "trace.json"))
    assert (row["loop_steps"], row["typical_step"]) == (0, None)


def test_ranks_of_different_length_have_the_steps_of_the_longer_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = []
    for rank, steps in enumerate((10, 9)):
        loop = Loop(pid=9 + rank)
        _train(loop, steps)
        sources.append(loop.write(tmp_path / f"rank{rank}.json"))
    found = _shown(",".join(map(str, sources)), capsys)
    assert found["loop"]["steps"] == 10
    assert found["step"]["ns"] == pytest.approx(863_000, rel=0.02)


@pytest.mark.parametrize(
    ("name", "steps", "step_ms", "busy_pct"),
    [
        # Times are those of the scripts' own clocks while they were profiled.
        ("gpt", 30, 39.38, 84),
        ("jax", 60, 23.18, None),
        ("trainer", 12, 673, None),
        ("vit_loader", 26, 256, None),
        # The export holds 295 of the 299 updates.
        ("pyg_epochs", 295, 23.6, None),
        ("ddp", 30, None, 61),
        ("static", 381, None, None),
        ("module", 64, None, None),
        # Three processes of 20 steps, with seconds between them.
        ("children", 60, None, 42),
    ],
)
def test_steps_of_recorded_programs_are_those_that_they_count(
    imported: ProfileFactory,
    name: str,
    steps: int,
    step_ms: float | None,
    busy_pct: float | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = _shown(str(imported(name)), capsys)
    assert found["loop"]["steps"] == steps
    if step_ms is not None:
        assert found["step"]["ns"] == pytest.approx(step_ms * 1e6, rel=0.03)
    if busy_pct is not None:
        assert found["gpu"]["busy_pct"] == pytest.approx(busy_pct, abs=1.5)


def _shown(source: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["show", source, "--format=json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("name", "step_ms", "busy_pct"), [("plain_cuda_loop", 0.3616, 94), ("cupy_loop", 0.4151, 80)]
)
def test_kernels_without_ranges_show_their_loop(
    name: str, step_ms: float, busy_pct: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The programs print 300 iterations; that of CuPy 0.4151 ms in the median by its own clock."""
    source = unpacked(CASES / f"{name}.sqlite.xz", tmp_path)
    found = _shown(str(source), capsys)
    assert found["loop"]["steps"] == 300
    assert "the same kernels are launched again and again" in found["loop"]["reason"]
    assert found["step"]["ns"] == pytest.approx(step_ms * 1e6, rel=0.03)
    assert found["gpu"]["busy_pct"] == pytest.approx(busy_pct, abs=1)
    assert found["top_ops"][0]["gpu_ns_per_step"] < found["step"]["mean_ns"]
