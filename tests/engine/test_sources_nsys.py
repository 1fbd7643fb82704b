"""Exports of many years and makers: each gives a useful profile or one clear sentence."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from aggregator.errors import (
    DlprofError,
    ProfileNotFoundError,
    UnsupportedProfileError,
)
from aggregator.profile.profile import Profile
from aggregator.sources import open_profile
from aggregator.system.progress import NullProgress
from tests.builders import SCHEMA, START_END, Trace, alter, analyze, analyze_file, global_pid

SESSION_NS = 1_700_000_000_000_000_000
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
ANYTHING = [
    None,
    -1,
    0,
    2**31 - 1,
    2**62,
    -(2**62),
    "text",
    "",
    b"\xff",
    1.5,
    float("inf"),
    "9" * 30,
]


def sample(*, devices: tuple[int, ...] = (0,)) -> Trace:
    """An op with a kernel on each device."""
    trace = Trace()
    thread = trace.thread()
    thread.op("conv2d", 100, 900, seq=1)
    for device in devices:
        thread.launch(f"conv{device}", 110 + 20 * device, device=device)
    return trace


def read(path: Path) -> Profile:
    return open_profile(path, NullProgress())


# --- GPUs -----------------------------------------------------------------------------------------

OLD_GPUS = (
    (
        "CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INT, name TEXT, computeCapabilityMajor INT,"
        " computeCapabilityMinor INT, globalMemorySize INT, numMultiprocessors INT)"
    ),
    "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla V100', 7, 0, 17179869184, 80)",
)


def test_gpus_of_a_2020_export_are_described(tmp_path: Path) -> None:
    source = alter(sample().write(tmp_path / "old.sqlite"), *OLD_GPUS)
    (device,) = read(source).devices
    assert (device.device_id, device.name, device.compute_capability) == (0, "Tesla V100", (7, 0))
    assert (device.sm_count, device.memory_bytes) == (80, 17179869184)


def test_of_two_tables_of_gpus_the_one_that_knows_cuda_is_read(tmp_path: Path) -> None:
    source = alter(
        sample().write(tmp_path / "early2021.sqlite"),
        *OLD_GPUS,
        "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, busLocation TEXT)",
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'Intel UHD', ''), (1, 'Tesla V100', '')",
    )
    (device,) = read(source).devices
    assert (device.name, device.compute_capability) == ("Tesla V100", (7, 0))


def test_gpus_of_another_maker_are_no_devices_whatever_the_columns(tmp_path: Path) -> None:
    source = alter(
        sample().write(tmp_path / "names.sqlite"),
        "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT)",
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100')",
        "INSERT INTO TARGET_INFO_GPU VALUES (1, 'Intel(R) UHD Graphics')",
    )
    assert [device.name for device in read(source).devices] == ["NVIDIA A100"]


@pytest.mark.parametrize("identified_by", ["TARGET_INFO_CUDA_DEVICE", "cuDevice"])
def test_an_intel_gpu_before_two_of_nvidia_shifts_no_work(
    tmp_path: Path, identified_by: str
) -> None:
    trace = sample(devices=(0, 1))
    trace.gpu(0, "Intel(R) UHD Graphics", (0, 0))
    trace.gpu(1, "NVIDIA A100", (8, 0))
    trace.gpu(2, "NVIDIA H200", (9, 0))
    if identified_by == "TARGET_INFO_CUDA_DEVICE":
        trace.cuda_device(100, 0, 1)
        trace.cuda_device(100, 1, 2)
    source = trace.write(tmp_path / "three.sqlite")
    if identified_by == "cuDevice":
        alter(
            source,
            "ALTER TABLE TARGET_INFO_GPU ADD COLUMN cuDevice INT",
            "UPDATE TARGET_INFO_GPU SET cuDevice = id - 1",
        )
    profile = read(source)
    assert [device.name for device in profile.devices] == ["NVIDIA A100", "NVIDIA H200"]
    assert profile.kernels.device.tolist() == [0, 1]


def test_without_any_table_of_gpus_those_that_worked_are_there(tmp_path: Path) -> None:
    profile = read(sample(devices=(0, 3)).write(tmp_path / "none.sqlite"))
    assert [(device.device_id, device.name) for device in profile.devices] == [(0, ""), (3, "")]


@pytest.mark.parametrize("value", [None, "nine", b"\x09", -1])
def test_a_capability_that_is_no_number_makes_no_device(tmp_path: Path, value: Any) -> None:
    trace = sample()
    trace.gpu()
    trace.tables["TARGET_INFO_GPU"][0]["computeMajor"] = value
    (device,) = read(trace.write(tmp_path / "odd.sqlite")).devices
    assert (device.device_id, device.name) == (0, "")


# --- CUDA graphs ----------------------------------------------------------------------------------


def add_graphs(source: Path, *rows: tuple[int, int, int, int]) -> Path:
    """Whole-graph launches: (start, end, device, correlation)."""
    columns = '"start", "end", deviceId, streamId, correlationId, globalPid, graphId'
    alter(source, f"CREATE TABLE {GRAPH_TRACE} ({columns})")
    for start, end, device, correlation in rows:
        values = f"{start}, {end}, {device}, 7, {correlation}, {global_pid(100)}, 1"
        alter(source, f"INSERT INTO {GRAPH_TRACE} VALUES ({values})")
    return source


def test_a_graph_recorded_as_a_whole_keeps_its_op_and_is_no_kernel(tmp_path: Path) -> None:
    trace = sample()
    trace.gpu()
    thread = trace.process().thread()
    thread.op("mm", 1000, 2000, seq=2)
    thread.call("cudaGraphLaunch_v10000", 1100, 1150, correlation=77)
    source = add_graphs(trace.write(tmp_path / "graph.sqlite"), (1200, 1900, 0, 77))
    found = analyze_file(source, tmp_path / "graph.db")
    assert found.result.counts["kernels"] == 1
    assert found.result.counts["graphs"] == 1
    assert found.warnings() == {"GRAPHS_WITHOUT_KERNELS": 1}
    assert found.query("SELECT op_node_id FROM view_graph_launches") == [("MM_1",)]
    sql = "SELECT gpu_time, kernel_calls FROM view_op_nodes WHERE op_node_id = 'MM_1'"
    assert found.query(sql) == [(700, 0)]


def test_a_profile_of_graphs_alone_is_a_profile(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu()
    source = add_graphs(trace.write(tmp_path / "graphs.sqlite"), (100, 200, 0, 1), (300, 450, 0, 2))
    found = analyze_file(source, tmp_path / "graphs.db")
    assert (found.result.counts["graphs"], found.result.counts["kernels"]) == (2, 0)
    columns = "tc_duration_pct, non_tc_duration_pct, graph_duration_pct"
    (shares,) = found.query(f"SELECT {columns} FROM view_resource_usage_breakdown")
    assert shares == pytest.approx((0, 0, 100 * 250 / 450))


def test_a_graph_without_times_is_counted(tmp_path: Path) -> None:
    source = add_graphs(sample().write(tmp_path / "graphs.sqlite"), (0, 0, 0, 5))
    profile = read(source)
    assert (len(profile.graphs), profile.graphs.end_ns.tolist()) == (1, [0])


def test_a_graph_that_began_on_the_cpu_counts_for_its_processes_gpu(tmp_path: Path) -> None:
    source = sample(devices=(1,)).write(tmp_path / "graphs.sqlite")
    profile = read(add_graphs(source, (500, 600, 2**31 - 1, 5)))
    assert [device.device_id for device in profile.devices] == [1]
    assert profile.graphs.device.tolist() == [0]


# --- times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_start", [True, False])
def test_times_since_1970_count_from_the_start_of_the_session(
    tmp_path: Path, has_start: bool
) -> None:
    source = sample().write(tmp_path / "absolute.sqlite")
    tables = ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL")
    moved = f'SET "start" = "start" + {SESSION_NS}, "end" = "end" + {SESSION_NS}'
    alter(source, *(f"UPDATE {table} {moved}" for table in tables))
    if has_start:
        alter(
            source,
            f"CREATE TABLE TARGET_INFO_SESSION_START_TIME AS SELECT {SESSION_NS} AS utcEpochNs",
        )
    profile = read(source)
    shift = 0 if has_start else 100
    assert profile.ranges.start_ns.tolist() == [100 - shift]
    assert profile.api_calls.start_ns.tolist() == [110 - shift]
    assert profile.kernels.end_ns.tolist() == [122 - shift]
    assert profile.end_ns == 900 - shift


def test_one_impossible_time_moves_nothing_else(tmp_path: Path) -> None:
    trace = sample(devices=(0, 0, 0))
    trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][1]["end"] = 2**62
    found = analyze(trace, tmp_path)
    assert found.warnings() == {"IMPOSSIBLE_TIMES": 1}
    assert found.iterations() == [(0, 122)]
    sql = "SELECT kernel_duration FROM view_kernel_launches ORDER BY kernel_duration"
    assert found.query(sql) == [(0,), (10,), (10,)]


# --- texts ----------------------------------------------------------------------------------------


def test_text_that_is_no_text_is_read(tmp_path: Path) -> None:
    trace = sample()
    trace.add("TARGET_INFO_SYSTEM_ENV", name="CpuDescription", value="CPU")
    source = alter(
        trace.write(tmp_path / "bytes.sqlite"),
        "UPDATE NVTX_EVENTS SET text = CAST(text AS BLOB)",
        "UPDATE StringIds SET value = x'ff6b' WHERE value = 'conv0'",
        "UPDATE TARGET_INFO_SYSTEM_ENV SET value = CAST(x'ff43' AS TEXT)",
        "INSERT INTO StringIds VALUES (NULL, 'unused'), (999, NULL)",
    )
    found = analyze_file(source, tmp_path / "bytes.db")
    assert found.op_ids() == {"CONV2D_1": "/conv2d"}
    assert found.query("SELECT kernel_name FROM view_kernel_launches") == [("\ufffdk",)]
    assert found.query("SELECT cpu_model FROM view_system_config") == [("\ufffdC",)]


def test_ranges_that_are_no_utf8_keep_their_work(tmp_path: Path) -> None:
    source = alter(
        sample().write(tmp_path / "latin.sqlite"),
        "UPDATE NVTX_EVENTS SET text = CAST(x'6174656e3a3ae9' AS TEXT)",
    )
    found = analyze_file(source, tmp_path / "latin.db")
    assert found.query("SELECT sum(kernel_calls) FROM view_op_nodes") == [(1,)]


def test_huge_names_are_cut(tmp_path: Path) -> None:
    trace = Trace()
    thread = trace.thread()
    huge = "x" * (1 << 17)
    for step in range(3):
        thread.range(huge, 1000 * step, 1000 * step + 900)
        thread.op("conv2d", 1000 * step + 100, 1000 * step + 200, seq=step)
        thread.launch(huge, 1000 * step + 110, long_name=f"void {huge}")
    found = analyze(trace, tmp_path)
    names = set(found.op_ids().values())
    assert names == {f"/{'x' * 1000}.../conv2d"}
    # Kernels keep theirs: it is stored once.
    assert found.query("SELECT DISTINCT length(kernel_name) FROM view_kernel_launches") == [
        (1 << 17,)
    ]


def test_a_kernel_without_either_name_says_so(tmp_path: Path) -> None:
    trace = sample()
    trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][0].update(shortName=None, demangledName=None)
    found = analyze(trace, tmp_path)
    assert found.query("SELECT kernel_name FROM view_kernel_launches") == [("unknown name -1",)]


@pytest.mark.parametrize("missing", ["shortName", "demangledName"])
def test_of_two_names_of_a_kernel_one_is_enough(tmp_path: Path, missing: str) -> None:
    trace = sample()
    trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"][0][missing] = None
    found = analyze(trace, tmp_path)
    ((short, long),) = found.query("SELECT kernel_name, long_kernel_name FROM view_kernel_launches")
    assert short == long


# --- which file it is -----------------------------------------------------------------------------


def test_versions_come_from_either_table_of_them(tmp_path: Path) -> None:
    source = alter(
        sample().write(tmp_path / "old.sqlite", without=["META_DATA_EXPORT"]),
        "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT)",
        "INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_PRODUCT_VERSION', '2020.4.1')",
    )
    assert read(source).system.nsys_version == "2020.4.1"
    unknown = sample().write(tmp_path / "none.sqlite", without=["META_DATA_EXPORT"])
    assert read(unknown).system.nsys_version == ""


def test_a_file_of_nvprof_is_named(tmp_path: Path) -> None:
    path = alter(tmp_path / "old.nvvp", "CREATE TABLE StringTable (_id_ INT, value TEXT)")
    with pytest.raises(UnsupportedProfileError, match="nvprof"):
        read(path)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "missing.sqlite", "does not exist"), (tmp_path, "folder")):
        with pytest.raises(ProfileNotFoundError, match=words):
            read(path)


@pytest.mark.parametrize("name", ["a b.sqlite", "50%20.sqlite", "what?.sqlite", "no#1.sqlite"])
def test_names_with_characters_of_a_uri_are_read(tmp_path: Path, name: str) -> None:
    target = tmp_path / f"out {name}"
    assert analyze_file(sample().write(tmp_path / name), target).path.is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, target.name])


def test_any_other_sqlite_file_is_neither(tmp_path: Path) -> None:
    path = alter(tmp_path / "other.sqlite", "CREATE TABLE things (id INT)")
    with pytest.raises(UnsupportedProfileError, match="neither"):
        read(path)


# --- anything at all ------------------------------------------------------------------------------


def full_sample() -> Trace:
    """Every kind of event."""
    trace = Trace()
    trace.gpu(0)
    trace.gpu(1, "NVIDIA A100", (8, 0))
    trace.cuda_device(100, 0, 0)
    trace.add("TARGET_INFO_SYSTEM_ENV", name="CpuDescription", value="cpu")
    trace.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025")
    main = trace.thread()
    engine = main.process.thread(2)
    trace.add(
        "NVTX_EVENTS", start=0, eventType=75, text="Loop", globalTid=main.global_tid, domainId=5
    )
    for at in (0, 1000, 2000):
        main.range(f"iteration {at}", at, at + 900, registered=True)
        main.range(f"loop {at}", at, at + 950, domain=5)
        main.range("start end", at + 5, at + 600, kind=START_END)
        main.op("conv2d", at + 100, at + 200, seq=at, sizes="[[8, 3, 4, 4], [6, 3, 3, 3]]")
        main.launch("conv", at + 110)
        main.copy(at + 130, gpu=(at + 140, at + 150))
        main.set(at + 160, gpu=(at + 170, at + 180))
        engine.backward("ConvolutionBackward0", at + 300, at + 400, seq=at)
        engine.launch("dconv", at + 320)
        main.call("cudaDeviceSynchronize_v3020", at + 800, at + 850)
    return trace


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("error")
def test_whatever_stands_in_a_cell_is_no_crash(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    trace = full_sample()
    filled = [name for name, rows in trace.tables.items() if rows]
    for _ in range(chance.choice([1, 3, 10, 100])):
        table = chance.choice(filled)
        row = chance.choice(trace.tables[table])
        row[chance.choice(SCHEMA[table])] = chance.choice(ANYTHING)
    if seed % 4 == 0:
        table = chance.choice(filled)
        column, value = chance.choice(SCHEMA[table]), chance.choice(ANYTHING)
        for row in trace.tables[table]:
            row[column] = value
    with suppress(DlprofError):
        found = analyze(trace, tmp_path)
        kernels = len(trace.tables["CUPTI_ACTIVITY_KIND_KERNEL"])
        assert found.result.counts["kernels"] == kernels


def test_nccls_payloads_say_what_a_rank_puts_into_a_collective(tmp_path: Path) -> None:
    """As Nsight Systems 2026.3 exports them; those of 2025.3 have no values."""
    communicator = '"NCCL communicator ID":13429301450432826988'
    ranges = [
        ("ncclCommInitRankConfig", f'{{{communicator},"No. of ranks":4,"Rank":1}}', 0),
        ("ncclAllReduce", f'{{{communicator},"Message size [bytes]":24}}', 1),
        ("ncclReduceScatter", f'{{{communicator},"Message size [bytes]":100}}', 1),
        ("ncclReduceScatter", '{"NCCL communicator ID":5,"Message size [bytes]":100}', 1),
        ("ncclAllGather", '{"Message size [bytes]":"many"}', 1),
        ("ncclBroadcast", '{"Message size [bytes]":8}', 2),
        ("ncclSend", '{"Message size [bytes]":8}', 1),
        ("other", '{"Message size [bytes]":8}', 1),
        ("ncclReduce", "broken", 1),
    ]
    trace = Trace()
    thread = trace.thread()
    thread.range("NCCL", 0, None, domain=1, kind=75)
    for number, (name, _, kernels) in enumerate(ranges):
        start = 1_000 * (number + 1)
        thread.range(name, start, start + 500, domain=1)
        for kernel in range(kernels):
            at = start + 10 + 100 * kernel
            thread.launch("ncclDevKernel_Generic", at, gpu=(at + 20, at + 50))
    path = trace.write(tmp_path / "nccl.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE NVTX_EVENTS ADD COLUMN category INTEGER")
        connection.execute("ALTER TABLE NVTX_EVENTS ADD COLUMN jsonText TEXT")
        for number, (_, payload, _) in enumerate(ranges):
            sql = "UPDATE NVTX_EVENTS SET jsonText = ? WHERE start = ?"
            connection.execute(sql, (payload, 1_000 * (number + 1)))
    found = analyze_file(path, tmp_path / "nccl.db")
    query = "SELECT kernel, bytes FROM collective_bytes ORDER BY 1"
    # Of two kernels in a range none has the size of the message.
    assert found.query(query) == [(1, 24), (2, 4 * 100)]
