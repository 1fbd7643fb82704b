"""The replay of a profile: measured times come out again, and changes give what they must."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.answers.changes import parse_changes
from aggregator.dldb.event_reader import stored_events
from aggregator.errors import ReplayError, UsageError
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.changes import (
    find_rows,
    graph_launch,
    no_synchronization,
    remove,
    speed_up,
)
from aggregator.replay.graph import EdgeKind
from aggregator.replay.loading import data_ready
from aggregator.replay.reader import read_replayed
from aggregator.replay.scenario import Change
from profiler_cli.dlprof import main
from tests.builders import Trace, alter, analyze, analyze_file, one_gpu, query
from tests.conftest import ProfileFactory

US = 1_000
STEP_US, KERNEL_US, LAUNCHES = 1_000, 80, 10


def replayed(path: Path) -> ReplayedProfile:
    with closing(sqlite3.connect(path)) as connection:
        return read_replayed(stored_events(connection), 1)


def step_us(profile: ReplayedProfile, *changes: Change) -> float:
    return profile.predict(changes).predicted_step_ns / US


def gpu_bound() -> Trace:
    """Ten kernels of 80 us in a step, launched far ahead, and a pause of 200 us on the CPU."""
    return _loop(kernel_us=KERNEL_US, launch_us=10, waits=True)


def launch_bound() -> Trace:
    """Ten kernels of 20 us in a step, launched every 80 us; nothing waits for the GPU."""
    return _loop(kernel_us=20, launch_us=80, waits=False)


def _loop(*, kernel_us: int, launch_us: int, waits: bool) -> Trace:
    """Steps that launch ten kernels, and wait for them if asked to."""
    trace, thread = one_gpu()
    now, gpu_free = 0, 0
    for step in range(8):
        begin = now
        for number in range(LAUNCHES):
            call = now
            start = max(call + 5 * US, gpu_free)
            gpu_free = start + kernel_us * US
            op = "conv2d" if number % 2 else "relu"
            thread.op(op, call - US // 2, call + 3 * US, seq=10 * step + number)
            thread.launch(op, call, gpu=(start, gpu_free), length=2 * US)
            now += launch_us * US
        if waits:
            end = max(now, gpu_free) + 4 * US
            thread.call("cudaStreamSynchronize_v3020", now, end)
            now = end + 196 * US
        thread.range(f"step {step}", begin - US, now - 2 * US)
    return trace


def test_the_unchanged_replay_gives_the_measured_steps(tmp_path: Path) -> None:
    for number, trace in enumerate((gpu_bound(), launch_bound())):
        (tmp_path / str(number)).mkdir()
        profile = replayed(analyze(trace, tmp_path / str(number)).path)
        assert profile.errors_pct.max() == 0
        assert len(profile.steps.number) >= 5


def test_a_step_bound_by_the_gpu_gains_what_its_kernels_gain(tmp_path: Path) -> None:
    profile = replayed(analyze(gpu_bound(), tmp_path).path)
    before = np.median(profile.measured_ns) / US
    assert before == pytest.approx(10 * KERNEL_US + 205, abs=1)
    assert step_us(profile, speed_up("conv2d", 2)) == pytest.approx(before - 5 * KERNEL_US / 2)
    shares = {one.op: one.step_ns_per_own_ns for one in profile.sensitivities}
    assert set(shares.values()) == {1.0}


def test_without_waiting_the_cpu_works_beside_the_gpu(tmp_path: Path) -> None:
    profile = replayed(analyze(gpu_bound(), tmp_path).path)
    assert step_us(profile, no_synchronization()) == pytest.approx(10 * KERNEL_US, abs=20)


def test_a_step_bound_by_launches_gains_nothing_from_kernels(tmp_path: Path) -> None:
    profile = replayed(analyze(launch_bound(), tmp_path).path)
    assert step_us(profile) == pytest.approx(10 * 80, abs=1)
    assert step_us(profile, speed_up("kernels", 2)) == pytest.approx(10 * 80, abs=1)
    assert max(one.step_ns_per_own_ns for one in profile.sensitivities) == 0
    assert all((one.slack_ns or 0) >= 50 * US for one in profile.sensitivities)


def test_profile_with_other_durations_keeps_nothing_that_was_computed_before(
    tmp_path: Path,
) -> None:
    profile = replayed(analyze(gpu_bound(), tmp_path).path)
    (own_ns,) = {op.own_ns for op in profile.sensitivities}
    path = profile.path
    halved = profile.scenario([speed_up("kernels", 2)]).durations
    faster = profile.with_durations(halved)
    assert {op.own_ns for op in faster.sensitivities} == {own_ns // 2}
    assert faster.path is not path


def test_one_launch_leaves_the_time_of_the_kernels(tmp_path: Path) -> None:
    profile = replayed(analyze(launch_bound(), tmp_path).path)
    assert step_us(profile, graph_launch) == pytest.approx(10 * 20, rel=0.15)


def test_removed_kernels_are_not_launched(tmp_path: Path) -> None:
    profile = replayed(analyze(launch_bound(), tmp_path).path)
    assert step_us(profile, remove("relu")) == pytest.approx(5 * 80, abs=80)


def test_a_call_waits_for_the_stream_that_ends_last(tmp_path: Path) -> None:
    """Of two streams that run beside each other, only the longer one is what the step waits for."""
    trace, thread = one_gpu()
    for step in range(8):
        now = 1_000 * step * US
        thread.range(f"step {step}", now, now + 990 * US)
        for place, (name, stream, taken_us) in enumerate((("short", 17, 300), ("long", 7, 600))):
            at = now + (10 + 10 * place) * US
            thread.op(name, at - US, at + 3 * US, seq=2 * step + place)
            gpu = (at + 5 * US, at + (5 + taken_us) * US)
            thread.launch(name, at, gpu=gpu, length=2 * US, long_name=name, stream=stream)
        thread.call("cudaDeviceSynchronize_v3020", now + 40 * US, now + 630 * US)
    profile = replayed(analyze(trace, tmp_path).path)
    assert step_us(profile) == 1_000
    assert step_us(profile, speed_up("short", 3)) == 1_000
    assert step_us(profile, speed_up("long", 1.25)) == pytest.approx(1_000 - 120, abs=1)
    assert step_us(profile, speed_up("long", 6)) == pytest.approx(1_000 - 310, abs=15)
    paths = {one.op: one.path_ns / US for one in profile.sensitivities}
    assert list(paths.values()) == [600, 0]


GAP_US = 40
"""Between two nodes of a graph: too long to take the one for the cause of the other."""


def _graph_of_two_streams(path: Path, *, has_arrows: bool) -> Path:
    """Steps that each launch a graph of two kernels, the second in another stream, and wait."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, ts: float, dur: float, lane: int, **args: Any) -> None:
        where = {"pid": 0 if cat == "kernel" else 7, "tid": lane}
        times = {"ph": "X", "ts": ts, "dur": dur}
        events.append({"cat": cat, "name": name, **times, **where, "args": args})

    for step in range(8):
        at = 1000.0 + 400 * step
        add("user_annotation", f"ProfilerStep#{step}", at, 390, 7)
        add("cpu_op", "aten::mm", at + 1, 10, 7)
        add("cuda_runtime", "cudaGraphLaunch", at + 2, 8, 7, correlation=2 * step + 1)
        second = at + 120 + GAP_US
        for lane, start, name in ((20, at + 20, "first"), (21, second, "second")):
            where = {"device": 0, "stream": lane, "grid": [1, 1, 1], "block": [32, 1, 1]}
            add("kernel", name, start, 100, lane, correlation=2 * step + 1, **where)
        ends = (("s", at + 120, 20), ("f", second, 21)) if has_arrows else ()
        for phase, time, lane in ends:
            number = (1 << 40) + step
            arrow = {"ph": phase, "id": number, "pid": 0, "tid": lane, "ts": time, "bp": "e"}
            events.append({"cat": "ac2g", "name": "ac2g", **arrow})
        waited = (at + 12, second + 105 - (at + 12))
        add("cuda_runtime", "cudaDeviceSynchronize", *waited, 7, correlation=2 * step + 2)
    devices = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0}]
    path.write_text(json.dumps({"deviceProperties": devices, "traceEvents": events}))
    return analyze_file(path, path.with_suffix(".sqlite")).path


@pytest.mark.parametrize(("has_arrows", "gain_us"), [(True, 50), (False, 0)])
def test_recorded_dependencies_of_graph_nodes_carry_a_gain_to_other_streams(
    tmp_path: Path, has_arrows: bool, gain_us: float
) -> None:
    profile = replayed(_graph_of_two_streams(tmp_path / "trace.json", has_arrows=has_arrows))
    assert step_us(profile) == pytest.approx(400, rel=0.01)
    assert 400 - step_us(profile, speed_up("first", 2)) == pytest.approx(gain_us, abs=2)


def test_the_path_of_a_step_that_begins_within_a_call_is_cut_there(tmp_path: Path) -> None:
    """The first step begins while the CPU is in a pause that began before it."""
    trace, thread = one_gpu()
    for step in range(3):
        now = (10_000 + 1_000 * step) * US
        thread.range(f"step {step}", now - 900 * US, now + 50 * US)
        thread.op("linear", now - US, now + 3 * US, seq=step)
        gpu = (now + 5 * US, now + 800 * US)
        thread.launch("gemm", now, gpu=gpu, length=2 * US, long_name="gemm")
    profile = replayed(analyze(trace, tmp_path).path)
    shares = profile.critical_path_shares()
    assert sum(one.share_pct for one in shares) == pytest.approx(100, abs=0.01)


def test_the_critical_path_fills_the_step(tmp_path: Path) -> None:
    for number, trace in enumerate((gpu_bound(), launch_bound())):
        (tmp_path / str(number)).mkdir()
        profile = replayed(analyze(trace, tmp_path / str(number)).path)
        shares = profile.critical_path_shares()
        assert sum(one.share_pct for one in shares) == pytest.approx(100, abs=0.5)
    # In the last one the CPU is what the step waits for: Python between ops, which is no op's.
    assert {one.kind for one in shares if one.share_pct > 2} == {"call", "before"}
    # Every op begins 0.5 us before its launch, and is on the path for no longer.
    times = {one.owner: one.ns for one in shares if one.kind == "cpu"}
    assert len(times) == LAUNCHES
    assert set(times.values()) == {US // 2}


def test_an_unknown_name_lists_the_closest(tmp_path: Path) -> None:
    profile = replayed(analyze(gpu_bound(), tmp_path).path)
    with pytest.raises(UsageError, match="conv3d") as caught:
        find_rows(profile.graph, "conv3d")
    assert "conv2d" in caught.value.hint


def test_a_profile_without_gpu_work_cannot_be_replayed(tmp_path: Path) -> None:
    trace = Trace()
    trace.thread().call("cudaMalloc", 0, 10)
    with pytest.raises(ReplayError, match="no work on a GPU"):
        replayed(analyze(trace, tmp_path).path)
    trace.gpu()
    trace.thread().launch("gemm", 20, gpu=(30, 40))
    (tmp_path / "one").mkdir()
    with pytest.raises(ReplayError, match="a single piece of work on a GPU"):
        replayed(analyze(trace, tmp_path / "one").path)


def test_the_command_writes_the_documented_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(analyze(gpu_bound(), tmp_path).path)
    plain = run(capsys, [database])
    changed = run(capsys, [database, "--speedup", "conv2d=2x", "--no-sync", "--graph-launch"])
    keys = (
        *("measured_step_ns", "replayed_step_ns", "error_pct", "unexplained_pct", "confidence"),
        *("critical_path", "sensitivity", "notes", "basis", "statistic", "is_recorded_span"),
    )
    assert set(plain) == {*keys}
    of_change = {"predicted_step_ns", "interval_ns", "is_bound", "saving_ns", "bound_by"}
    assert set(changed) == {*keys, *of_change, "uncertain_ns", "reason"}
    # The step without profiling is unknown: only what the GPU works less is known to be saved.
    of_gpu = LAUNCHES // 2 * KERNEL_US * US // 2
    assert changed["saving_ns"] == of_gpu
    assert changed["predicted_step_ns"] == changed["measured_step_ns"] - of_gpu
    assert changed["uncertain_ns"] > 0
    assert "time of the CPU" in changed["reason"]
    unknown = run(capsys, [database, "--no-sync"])
    assert (unknown["saving_ns"], unknown["predicted_step_ns"]) == (None, None)
    assert set(plain["critical_path"][0]) == {"kind", "owner", "ns", "share_pct"}
    sensitivity = {"op", "direction", "own_ns", "step_ns_per_own_ns"}
    assert set(plain["sensitivity"][0]) == sensitivity
    assert changed["predicted_step_ns"] < plain["measured_step_ns"]
    assert any(not one["owner"] for one in plain["critical_path"])
    assert main(["whatif", database]) == 0
    text = capsys.readouterr().out
    assert "critical path" in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_the_command_stores_what_the_views_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = analyze(gpu_bound(), tmp_path).path
    for _ in range(2):  # the second time replaces the rows
        document = run(capsys, [str(database), "--save"])
    path = query(
        database,
        "SELECT path_kind, path_owner, path_ns, share_pct FROM view_critical_path"
        " WHERE aggr_id = 2 ORDER BY place",
    )
    ops = query(
        database,
        "SELECT op_id, direction, own_ns, step_ns_per_own_ns FROM view_op_sensitivity"
        " WHERE aggr_id = 2 ORDER BY place",
    )
    assert [tuple(one.values()) for one in document["critical_path"]] == path != []
    assert [tuple(one.values()) for one in document["sensitivity"]] == ops != []


def test_only_a_database_can_be_saved_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze(gpu_bound(), tmp_path).path.exists()
    assert main(["whatif", str(tmp_path / "profile.sqlite"), "--save"]) == 2
    assert "--save" in capsys.readouterr().err


def run(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> dict[str, Any]:
    assert main(["whatif", *words, "--format=json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("text", ["conv2d", "conv2d=0x", "=2x", "conv2d=fast", "conv2d=1e-300x"])
def test_a_wrong_speed_up_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert main(["whatif", str(tmp_path), "--speedup", text]) == 2
    assert "NAME=Kx" in capsys.readouterr().err


def test_data_in_time_predicts_the_runs_with_workers(imported: ProfileFactory) -> None:
    """Two runs without loader workers, and two of the same script with four."""
    names = ("w0a", "w0b", "w4a", "w4b")
    found = {name: replayed(imported(f"{name}.json.gz")) for name in names}
    measured = np.mean([np.median(found[name].measured_ns) / US for name in ("w4a", "w4b")])
    for name in ("w0a", "w0b"):
        assert step_us(found[name], data_ready) == pytest.approx(measured, rel=0.1)
        assert step_us(found[name]) > 1.15 * measured


HTA = "critical_path__end_to_end__simple_add__output__overlaid_critical_path_trace.json.gz"


def test_the_critical_path_is_that_of_hta(shared_dir: Path, imported: ProfileFactory) -> None:
    """HTA's own critical path, as flags in the trace; the replay ends with the last work, too."""
    source = shared_dir / "public" / "critical_path" / HTA
    if not source.is_file():
        pytest.skip(f"no public trace at {source}")
    events = [
        one
        for one in json.loads(gzip.decompress(source.read_bytes()))["traceEvents"]
        if "dur" in one
    ]
    profile = replayed(imported(HTA))
    work = [one for one in events if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    first_us = min(one["ts"] for one in work)
    starts = profile.graph.work_start_ns
    theirs = {one["ts"] - first_us for one in work if one["args"].get("critical")}
    ours = set(((starts[profile.path.work] - starts.min()) // US).tolist())
    assert ours == theirs
    assert len(ours) == 22
    calls = {one["ts"] - first_us: one for one in events if one.get("cat") == "cuda_runtime"}
    on_path, last = _calls_on_path_us(profile)
    flagged = {at for at, one in calls.items() if one["args"].get("critical")}
    assert len(flagged & on_path) == 235
    # 4 calls before the first work; memory that is freed and a synchronization after the last one.
    assert len([at for at in flagged - on_path if at < 0]) == 4
    after = Counter(calls[at]["name"] for at in flagged - on_path if at > last)
    assert after == {"cudaFree": 10, "cudaDeviceSynchronize": 1}
    assert len(flagged - on_path) == 15
    # HTA leaves out calls that took no time.
    assert {calls[at]["dur"] for at in on_path - flagged} == {0}


def _calls_on_path_us(profile: ReplayedProfile) -> tuple[set[int], int]:
    """Starts of the calls on the path from the first work on, and the end of the last one."""
    graph, path = profile.graph, profile.path
    calls, edges = graph.data.calls, graph.edges
    steps = np.flatnonzero(path.steps)
    waits = path.edges[edges.kind[path.edges] == EdgeKind.SYNC]
    position = np.concatenate(
        [steps[steps % 2 == 1], edges.target[waits], graph.launch[path.launches]]
    )
    row, first_ns = graph.call_row[position // 2], graph.work_start_ns.min()
    end = calls.end_ns[graph.call_row[steps // 2]].max() - first_ns
    return set(((calls.start_ns[row] - first_ns) // US).tolist()), int(end // US)


PROFILES = (
    *("pytorch_resnet50_fp32", "pytorch_resnet50_amp", "pytorch_bert_bf16", "ddp2_resnet50_amp"),
    *("jax_cnn_bf16", "nvtx_domains", "simple_no_nvtx"),
)


@pytest.mark.parametrize("name", PROFILES)
def test_recorded_profiles_come_out_as_measured(imported: ProfileFactory, name: str) -> None:
    profile = replayed(imported(name))
    assert np.median(profile.errors_pct) <= 1
    assert profile.errors_pct.max() <= 3
    assert profile.unexplained_pct <= 3
    total = sum(one.share_pct for one in profile.critical_path_shares())
    assert total == pytest.approx(100, abs=1)


@pytest.mark.parametrize("name", ["w0a", "w0b", "w4a", "w4b"])
def test_public_traces_come_out_as_measured(imported: ProfileFactory, name: str) -> None:
    profile = replayed(imported(f"{name}.json.gz"))
    assert profile.errors_pct.max() <= 3
    assert profile.unexplained_pct <= 3 or profile.confidence != "high"


def test_without_an_op_the_word_after_no_sync_is_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(analyze(gpu_bound(), tmp_path).path)
    assert run(capsys, ["--no-sync", database]) == run(capsys, [database, "--no-sync"])
    assert main(["whatif", "--no-sync"]) == 2
    assert "required: DB" in capsys.readouterr().err


def test_work_that_starts_at_one_time_has_no_error(tmp_path: Path) -> None:
    trace = Trace()
    thread = trace.thread()
    for stream in (1, 2):
        thread.launch("conv2d", stream * US, gpu=(20 * US, 30 * US), length=US, stream=stream)
    profile = replayed(analyze(trace, tmp_path).path)
    assert profile.measured_ns.tolist() == [10 * US]
    assert profile.errors_pct.tolist() == [0]


def test_a_switch_of_a_request_is_off_at_zero() -> None:
    assert parse_changes({"no_sync": "0", "data_ready": "0"}) == []
    assert len(parse_changes({"no_sync": "1", "data_ready": "1"})) == 2


@pytest.mark.parametrize("command", ["whatif", "stragglers"])
def test_a_database_without_aggregations_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    database = analyze(gpu_bound(), tmp_path).path
    alter(database, "DELETE FROM aggregations")
    assert main([command, str(database)]) == 5
    assert "has no aggregation. [DATABASE_ERROR]\n" in capsys.readouterr().err
