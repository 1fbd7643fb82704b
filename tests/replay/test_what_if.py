"""What-ifs of data between GPUs and of ideal times, against the profile of the changed program."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aggregator.answers.changes import make_changes
from aggregator.dldb.event_reader import stored_events
from aggregator.errors import InvalidValueError, UsageError
from aggregator.events.model import Calls, Names, OpCalls, Ops, WorkKind
from aggregator.replay.analysis import ReplayedProfile
from aggregator.replay.changes import find_ops, roofline, speed_up
from aggregator.replay.communication import bucket_size, link_speed, no_communication
from aggregator.replay.edges import presumed_waits
from aggregator.replay.inputs import BlockingStreams, LinkedWaits, LinkedWork, Loading, ReplayInput
from aggregator.replay.reader import read_replayed
from aggregator.replay.scenario import Change, Scenario
from tests.advice.conftest import captured
from tests.builders import Trace, analyze_file
from tests.conftest import ProfileFactory

US, MIB = 1_000, 1 << 20
STEPS, LAYERS, LAYER_US, LATENCY_US, UPDATE_US = 6, 8, 100, 10, 50
COMPUTE, REDUCE = 7, 17
NAMES = ("gemm", "ncclDevKernel_AllReduce_Sum_f32", "adam")


def data_parallel(
    buckets: tuple[int, ...], us_of_mib: float = 10.0, beside: float = 1.0
) -> ReplayInput:
    """Steps of a backward pass in a queue; each layer has 4 MiB of gradients, in buckets.

    Args:
        buckets: Layers of each bucket, in order.
        us_of_mib: Time that a MiB takes. Unit: us.
        beside: How much longer transfers take that begin before the backward pass ends.
    """
    rows: list[tuple[int, int, int, int, int]] = []  # start, end, stream, name, bytes
    calls: list[tuple[int, int]] = []
    waits: list[tuple[int, int, int, int]] = []  # call, stream, record call, record stream
    call_of: list[int] = []
    now = cpu = 0

    def call(name: int) -> int:
        nonlocal cpu
        calls.append((cpu, name))
        cpu += 2 * US
        return len(calls) - 1

    def work(start: int, duration: float, stream: int, name: int, size: int = -1) -> int:
        call_of.append(call(0))
        begin = max(start, calls[-1][0] + 5 * US)
        rows.append((begin, begin + round(duration), stream, name, size))
        return rows[-1][1]

    def wait(stream: int, recorded: int) -> None:
        record, waiting = call(1), call(2)
        waits.append((waiting, stream, record, recorded))

    ends = np.cumsum(buckets).tolist()
    step_calls = []
    for _ in range(STEPS + 1):
        step_calls.append(len(calls))
        sent = now
        for layer in range(1, LAYERS + 1):
            now = work(now, LAYER_US * US, COMPUTE, 0)
            if layer in ends:
                size = 4 * buckets[ends.index(layer)]
                wait(REDUCE, COMPUTE)
                time = (LATENCY_US + us_of_mib * size) * US * (1 if layer == LAYERS else beside)
                sent = work(max(now, sent), time, REDUCE, 1, size * MIB)
        wait(COMPUTE, REDUCE)
        now = work(max(now, sent), UPDATE_US * US, COMPUTE, 2)
    return _columns(rows, calls, waits, call_of, [calls[one][0] for one in step_calls])


def _columns(
    rows: list[tuple[int, int, int, int, int]],
    calls: list[tuple[int, int]],
    waits: list[tuple[int, int, int, int]],
    call_of: list[int],
    steps: list[int],
) -> ReplayInput:
    start, end, stream, name, size = np.array(rows, dtype=np.int64).T
    zero, none = np.zeros_like(start), np.full_like(start, -1)
    called, kind = np.array(calls, dtype=np.int64).T
    zeros = np.zeros_like(called)
    waiting, waited, record, recorded = np.array(waits, dtype=np.int64).T
    empty = np.empty(0, dtype=np.int64)
    return ReplayInput(
        calls=Calls(called, called + US, zeros, zeros, kind, zeros - 1, np.arange(len(called)) + 1),
        call_names=("cudaLaunchKernel", "cudaEventRecord", "cudaStreamWaitEvent"),
        work=LinkedWork(
            kind=zero + WorkKind.KERNEL,
            start_ns=start,
            end_ns=end,
            device=zero,
            stream=stream,
            process=zero,
            api_start_ns=called[call_of],
            api_end_ns=called[call_of] + US,
            op=name,
            name=name,
            copy_kind=none,
            host_kind=none,
            num_bytes=size,
            row_id=np.arange(len(rows)) + 1,
            call=np.array(call_of, dtype=np.int64),
            collective=none,
            moved_bytes=size,
        ),
        waits=LinkedWaits(waiting, np.zeros_like(waiting), waited, record, recorded),
        blocking_streams=BlockingStreams(empty, empty, empty > 0),
        links=np.empty((2, 0), dtype=np.int64),
        loading=Loading(empty, empty, empty, empty > 0),
        ops=Ops(
            op_ids=("LINEAR_1", "REDUCE_1", "ADAM_1"),
            names=("/net/fc/aten::linear", "/ddp/nccl:all_reduce", "/net/aten::linear/aten::adam"),
            types=("linear", "all_reduce", "adam"),
            directions=("bprop", "", ""),
            domain=np.zeros(3, dtype=np.int64),
            eligible=np.array([True, False, False]),
            forward=np.full(3, -1),
            process=np.zeros(3, dtype=np.int64),
            data_types=("", "", ""),
        ),
        ideal_share=np.array([0.5, np.nan, 1.5]),
        op_calls=OpCalls(empty, empty, empty, empty, empty),
        names=Names(
            short=NAMES,
            long=NAMES,
            verdict=np.zeros(3, dtype=np.int64),
            half=np.zeros(3, dtype=bool),
            communicates=np.array([False, True, False]),
        ),
        converts=np.zeros(3, dtype=bool),
        iteration=np.arange(STEPS),
        iteration_start_ns=np.array(steps[:-1]),
        iteration_end_ns=np.array(steps[1:]),
        has_waits=True,
        lost_records=False,
    )


def step_us(data: ReplayInput, *changes: Change) -> float:
    found = ReplayedProfile(data, np.arange(STEPS - 1))
    assert found.errors_pct.max() == 0
    return found.predict(changes).predicted_step_ns / US


BUCKETS = {4: (1,) * 8, 8: (2,) * 4, 12: (3, 3, 2), 16: (4, 4), 32: (8,)}


@pytest.mark.parametrize("us_of_mib", [5.0, 30.0])
@pytest.mark.parametrize("mbytes", list(BUCKETS))
def test_joined_buckets_give_the_step_of_the_program_with_such_buckets(
    mbytes: int, us_of_mib: float
) -> None:
    changed = step_us(data_parallel(BUCKETS[mbytes], us_of_mib))
    predicted = step_us(data_parallel(BUCKETS[4], us_of_mib), bucket_size(mbytes))
    # The latency is not shown by buckets of one size; the gaps of the queue are not either.
    assert predicted == pytest.approx(changed, abs=8 * LATENCY_US + 5)
    if mbytes == 4:
        assert predicted == changed


def test_one_bucket_after_the_backward_pass_takes_as_long_as_nothing_runs_beside_it() -> None:
    changed = step_us(data_parallel(BUCKETS[32], 30.0, 1.5))
    predicted = step_us(data_parallel(BUCKETS[8], 30.0, 1.5), bucket_size(32))
    assert predicted == pytest.approx(changed, rel=0.02)


@pytest.mark.parametrize("us_of_mib", [5.0, 15.0])
def test_cut_buckets_give_the_step_of_the_program_with_such_buckets(us_of_mib: float) -> None:
    changed = step_us(data_parallel(BUCKETS[4], us_of_mib))
    before = step_us(data_parallel(BUCKETS[16], us_of_mib))
    predicted = step_us(data_parallel(BUCKETS[16], us_of_mib), bucket_size(4))
    assert changed < before
    assert predicted == pytest.approx(changed, abs=0.1 * (before - changed) + 3 * LATENCY_US)


@pytest.mark.parametrize("us_of_mib", [15.0, 60.0])
def test_buckets_that_wait_for_the_link_gain_nothing_when_cut(us_of_mib: float) -> None:
    """Except the first one of a step, whose parts are ready while the backward pass goes on."""
    changed = step_us(data_parallel(BUCKETS[4], us_of_mib))
    for base in (BUCKETS[8], BUCKETS[32]):
        predicted = step_us(data_parallel(base, us_of_mib), bucket_size(4))
        assert predicted == pytest.approx(changed, abs=9 * LATENCY_US)


def test_events_that_were_not_recorded_are_taken_for_the_latest_work() -> None:
    data = data_parallel(BUCKETS[8], 60.0)
    waits = data.waits
    known = ReplayedProfile(data, np.arange(STEPS - 1))
    unknown = np.full(len(waits), -1)
    lost = replace(data, waits=replace(waits, record_call=unknown, record_stream=unknown))
    found = ReplayedProfile(lost, np.arange(STEPS - 1))
    (note,) = set(found.notes) - set(known.notes)
    assert f"wait {len(waits)} times" in note
    for profile in (known, found):
        assert profile.unexplained_pct < 1
        step = profile.predict([no_communication]).predicted_step_ns / US
        assert step == pytest.approx(LAYERS * LAYER_US + UPDATE_US, rel=0.02)
    # Where some are recorded, the others are of events that were never recorded.
    some = replace(waits, record_call=np.where(waits.stream == COMPUTE, waits.record_call, -1))
    assert not len(presumed_waits(replace(data, waits=some)))


def test_the_latency_is_found_from_two_sizes() -> None:
    """Buckets of 4 and 28 MiB; joined to one of 32 they take 10 us less than both."""
    data = data_parallel((1, 7), 30.0)
    one = step_us(data_parallel(BUCKETS[32], 30.0))
    assert step_us(data, bucket_size(32)) == pytest.approx(one, abs=2)


def test_a_link_moves_the_bytes_of_a_collective_in_their_time() -> None:
    data = data_parallel(BUCKETS[32], 30.0)
    gbytes = 100.0
    moved_us = 32 * MIB / gbytes / US
    expected = LAYERS * LAYER_US + moved_us + UPDATE_US
    assert step_us(data, link_speed(gbytes)) == pytest.approx(expected, abs=10)
    assert step_us(data, link_speed(1e-3)) == step_us(data)  # never slower than measured


def test_sizes_that_were_not_recorded_are_said() -> None:
    data = data_parallel(BUCKETS[8])
    unknown = np.full_like(data.work.num_bytes, -1)
    bare = replace(data, work=replace(data.work, num_bytes=unknown, moved_bytes=unknown))
    for change in (link_speed(100), bucket_size(25)):
        with pytest.raises(UsageError, match="records no sizes"):
            step_us(bare, change)


def test_work_at_the_roofline_takes_its_ideal_time() -> None:
    data = data_parallel(BUCKETS[32])
    before = step_us(data)
    # Layers take half; the share of the optimizer is above 1, that of the collective unknown.
    assert step_us(data, roofline("")) == pytest.approx(before - LAYERS * LAYER_US / 2, abs=10)
    with pytest.raises(UsageError, match="ideal time"):
        step_us(data, roofline("all_reduce"))


def test_a_path_selects_one_op_alone() -> None:
    graph = ReplayedProfile(data_parallel(BUCKETS[32]), np.arange(STEPS - 1)).graph
    chosen = {
        "/net/fc/aten::linear": [True, False, False],
        "/net/fc/linear": [True, False, False],
        "LINEAR_1": [True, False, False],
        "aten::linear": [True, False, True],  # and what runs inside one
        "linear": [True, False, False],  # the type of one
        "/net/aten::linear/aten::adam": [False, False, True],
        "/other/aten::linear": [False, False, False],
    }
    assert {name: find_ops(graph, name).tolist() for name in chosen} == chosen


@pytest.mark.parametrize(
    "wanted",
    [{"link_speed": ["fast"]}, {"bucket_mb": ["0"]}, {"link_speed": ["nan"]}, {"speedup": ["x"]}],
)
def test_a_value_that_is_none_is_refused(wanted: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidValueError):
        make_changes(wanted)


def test_changes_have_one_order() -> None:
    data = data_parallel(BUCKETS[32])
    changes = make_changes({"no_communication": [""], "speedup": ["linear=2x"]})
    assert len(changes) == 2
    assert step_us(data, *changes) == step_us(data, speed_up("linear", 2), changes[1])


def with_side_stream(*, is_blocking: bool) -> ReplayInput:
    """Layers alternate between the legacy default stream and another one, without events."""
    data = data_parallel((LAYERS,))
    layer = np.flatnonzero(data.work.name == 0)
    stream = data.work.stream.copy()
    stream[layer[::2]] = 20
    empty = np.empty(0, dtype=np.int64)
    known = BlockingStreams(empty, empty, empty > 0)
    if is_blocking:
        known = BlockingStreams(
            np.zeros(2, dtype=np.int64), np.array([7, 20]), np.array([True, False])
        )
    return replace(data, work=replace(data.work, stream=stream), blocking_streams=known)


def test_the_legacy_default_stream_and_blocking_streams_wait_for_each_other() -> None:
    twice = speed_up("linear", 2)
    expected = step_us(data_parallel((LAYERS,)), twice)
    assert step_us(with_side_stream(is_blocking=True), twice) == pytest.approx(expected, abs=10)
    # Without the kinds of the streams, half of the kernels would stay where they were.
    unknown = with_side_stream(is_blocking=False)
    assert step_us(unknown, twice) > expected + LAYERS * LAYER_US / 5
    profile = ReplayedProfile(unknown, np.arange(STEPS - 1))
    assert profile.confidence != "high"


def test_kinds_of_streams_are_read_from_an_export(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    for pid in (101, 102):
        trace.thread(pid).launch("gemm", 100, gpu=(200, 300))
    export = trace.write(tmp_path / "profile.sqlite")
    # Process 102 has no stream that waits for its default stream.
    rows = [(7, 101, 3), (13, 101, 1), (14, 101, 2), (7, 102, 3), (15, 102, 2), (16, 999, 1)]
    with closing(sqlite3.connect(export)) as connection, connection:
        connection.execute("CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId, processId, flag)")
        connection.executemany("INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?, ?, ?)", rows)
    found = analyze_file(export, tmp_path / "dldb.sqlite")
    sql = (
        "SELECT p.pid, s.stream_id, s.is_default FROM blocking_streams AS s"
        " JOIN processes AS p ON p.id = s.process ORDER BY 2"
    )
    assert found.query(sql) == [(101, 7, 1), (101, 13, 0)]


@pytest.mark.parametrize(
    ("before", "after", "wanted", "error"),
    [
        ("eager", "graphed", {"graph_launch": [""]}, 0.15),
        ("item", "item_not", {"remove": ["item"]}, 0.05),
        ("adam_loop", "adam_fused", {"fuse": ["*Optimizer.step*"]}, 0.1),
    ],
)
def test_prediction_is_near_the_measured_step(
    before: str,
    after: str,
    wanted: dict[str, list[str]],
    error: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """One training each, captured without and with the change."""
    found = [_replayed(name, tmp_path_factory) for name in (before, after)]
    predicted = found[0].predict(make_changes(wanted)).predicted_step_ns
    assert predicted == pytest.approx(np.median(found[1].measured_ns), rel=error)


def test_mixed_precision_promises_nothing_where_products_run_with_16_bits(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    mixed = _replayed("mlp_bf16", tmp_path_factory)
    with pytest.raises(UsageError, match="16 bits or fewer already"):
        mixed.predict(make_changes({"half_precision": [""]}))
    with pytest.raises(UsageError, match="No op of the profile is known"):
        mixed.predict(make_changes({"tensor_cores": [""]}))
    wide = _replayed("mlp_fp32", tmp_path_factory)
    faster = wide.predict(make_changes({"half_precision": [""]}))
    assert faster.predicted_step_ns < 0.5 * np.median(wide.measured_ns)


def test_channels_last_makes_batch_normalization_faster(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """In this capture the CPU limits the step, so only the time of the GPU shows it."""
    names = ("conv_fp16", "conv_fp16_channels_last")
    before, after = (_replayed(name, tmp_path_factory) for name in names)
    changes = make_changes({"graph_launch": [""], "channels_last": [""]})
    times = [found.predict(changes).predicted_step_ns for found in (before, after)]
    assert times[0] == pytest.approx(times[1], rel=0.15)


def _replayed(name: str, factory: pytest.TempPathFactory) -> ReplayedProfile:
    with closing(sqlite3.connect(captured(factory, name))) as connection:
        return read_replayed(stored_events(connection), 1)


def _removed_on_path_ns(found: ReplayedProfile, scenario: Scenario) -> float:
    """Time of a mean step that changes take from what is on its critical path. Unit: ns."""
    path, before, after = found.path, found.measured, scenario.durations
    shorter = [
        (before.cpu_step_ns - after.cpu_step_ns)[path.steps],
        (before.duration_ns - after.duration_ns)[path.work],
        (before.gap_ns - after.gap_ns)[path.gaps],
        (before.launch_lag_ns - after.launch_lag_ns)[path.launches],
        (before.lag_ns - after.lag_ns)[path.edges],
    ]
    return sum(int(part.sum()) for part in shorter) / len(found.steps.number)


@pytest.mark.parametrize("name", ["conv_fp16", "conv_fp32", "mlp_fp32", "amp"])
@pytest.mark.parametrize("change", ["channels_last", "half_precision"])
def test_a_change_saves_no_more_than_it_takes_from_the_critical_path(
    name: str,
    change: str,
    tmp_path_factory: pytest.TempPathFactory,
    imported: ProfileFactory,
) -> None:
    if name == "amp":
        with closing(sqlite3.connect(imported("pytorch_resnet50_amp"))) as connection:
            found = read_replayed(stored_events(connection), 2)
    else:
        found = _replayed(name, tmp_path_factory)
    changes = make_changes({change: [""]})
    try:
        saved = found.measured_ns.mean() - found.predict(changes).mean_step_ns
    except UsageError:
        assert change == "half_precision"
        assert name in ("conv_fp16", "amp")
        return
    scenario = found.scenario(changes)
    graph, calls = found.graph, found.graph.data.calls
    assert saved <= _removed_on_path_ns(found, scenario) + 1
    if change == "channels_last":
        op = calls.op[graph.call_row]
        begins = 2 * np.flatnonzero(np.diff(op, prepend=-1))
        kept = scenario.durations.cpu_step_ns[begins]
        assert (kept == found.measured.cpu_step_ns[begins]).all()  # The ops themselves stay.
