"""Exports as they come: renamed tables, missing columns, older versions, odd rows, several GPUs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.errors import NoFrameworkRangesError, NoGpuActivityError, UnsupportedNsysSchemaError
from aggregator.options import Mode
from tests.builders import (
    LAUNCH,
    Analyzed,
    Thread,
    Trace,
    analyze,
    analyze_file,
    global_pid,
    one_gpu,
    query,
)

FPROP = "fprop"
VIEWS = ("view_op_metrics", "view_kernel_launches", "view_api_calls", "view_memory_ops")


def _sample() -> tuple[Trace, Thread]:
    """Two steps with every kind of event."""
    trace, main = one_gpu()
    engine = main.process.thread(2)
    for step in range(2):
        at = 1000 * step
        main.range(f"iteration {step}", at, at + 900, registered=True)
        main.op("conv2d", at + 100, at + 200, seq=step, sizes="[[8, 3, 4, 4], [6, 3, 3, 3]]")
        main.launch("conv", at + 110)
        main.copy(at + 130, gpu=(at + 140, at + 150))
        main.set(at + 160, gpu=(at + 170, at + 180))
        engine.backward("ConvolutionBackward0", at + 300, at + 400, seq=step)
        engine.launch("dconv", at + 320)
        main.call("cudaDeviceSynchronize_v3020", at + 800, at + 850)
    return trace, main


def _content(database: Path, *views: str) -> dict[str, list[tuple[object, ...]]]:
    return {view: sorted(query(database, f"SELECT * FROM {view}"), key=repr) for view in views}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    """The sample with all tables and columns."""
    trace, _ = _sample()
    return analyze(trace, tmp_path_factory.mktemp("plain"))


# --- names of tables and columns ------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["_V2", "_V3"])
def test_versioned_table_names_give_the_same_result(
    plain: Analyzed, tmp_path: Path, suffix: str
) -> None:
    trace, _ = _sample()
    versioned = trace.write(tmp_path / "versioned.sqlite", suffix=suffix)
    found = analyze_file(versioned, tmp_path / "versioned.db")
    assert _content(found.path, *VIEWS) == _content(plain.path, *VIEWS)


def test_of_two_versions_of_a_table_the_newest_is_read(tmp_path: Path) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "both.sqlite", suffix="_V10")
    with closing(sqlite3.connect(source)) as connection:
        for version in ("", "_V9"):
            table = "CUPTI_ACTIVITY_KIND_KERNEL"
            columns = f'SELECT * FROM "{table}_V10" LIMIT 0'
            connection.execute(f'CREATE TABLE "{table}{version}" AS {columns}')
        connection.commit()
    assert analyze_file(source, tmp_path / "both.db").result.counts["kernels"] == 4


@pytest.mark.parametrize(
    "column",
    [
        "NVTX_EVENTS.endGlobalTid",
        "NVTX_EVENTS.domainId",
        "CUPTI_ACTIVITY_KIND_RUNTIME.eventClass",
        "CUPTI_ACTIVITY_KIND_RUNTIME.returnValue",
        *(
            f"CUPTI_ACTIVITY_KIND_{table}.{column}"
            for table in ("KERNEL", "MEMCPY", "MEMSET")
            for column in ("contextId", "deviceId", "streamId", "globalPid")
        ),
        "CUPTI_ACTIVITY_KIND_KERNEL.demangledName",
        "CUPTI_ACTIVITY_KIND_KERNEL.gridX",
        "CUPTI_ACTIVITY_KIND_MEMCPY.bytes",
        "CUPTI_ACTIVITY_KIND_MEMCPY.copyKind",
        "CUPTI_ACTIVITY_KIND_MEMSET.bytes",
        "TARGET_INFO_GPU.smCount",
        "TARGET_INFO_GPU.computeMajor",
        "TARGET_INFO_GPU.name",
    ],
)
def test_a_column_that_an_older_export_lacks_costs_no_attribution(
    plain: Analyzed, tmp_path: Path, column: str
) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=[column])
    found = analyze_file(source, tmp_path / "part.db")
    assert found.ops() == plain.ops()
    sql = "SELECT kernel_name, op_node_id, direction FROM view_kernel_launches ORDER BY row_id"
    assert found.query(sql) == plain.query(sql)
    sql = "SELECT kind, op_node_id FROM view_memory_ops ORDER BY row_id"
    assert found.query(sql) == plain.query(sql)


def test_without_registered_strings_their_ranges_have_no_name(tmp_path: Path) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=["NVTX_EVENTS.textId"])
    found = analyze_file(source, tmp_path / "part.db")
    assert set(found.ops()) >= {("/conv2d", FPROP), ("/conv2d", "bprop")}


def test_without_short_names_the_demangled_ones_are_shown(tmp_path: Path) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=["CUPTI_ACTIVITY_KIND_KERNEL.shortName"])
    found = analyze_file(source, tmp_path / "part.db")
    names = {name for (name,) in found.query("SELECT kernel_name FROM view_kernel_launches")}
    assert names == {"void conv(float*)", "void dconv(float*)"}


@pytest.mark.parametrize(
    "column",
    [
        "NVTX_EVENTS.eventType",
        "NVTX_EVENTS.globalTid",
        "NVTX_EVENTS.text",
        "CUPTI_ACTIVITY_KIND_RUNTIME.correlationId",
        "CUPTI_ACTIVITY_KIND_RUNTIME.nameId",
        "CUPTI_ACTIVITY_KIND_KERNEL.start",
        "CUPTI_ACTIVITY_KIND_KERNEL.correlationId",
        "CUPTI_ACTIVITY_KIND_MEMCPY.end",
    ],
)
def test_a_column_that_nothing_can_replace_is_named(tmp_path: Path, column: str) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=[column])
    table, _, name = column.partition(".")
    with pytest.raises(UnsupportedNsysSchemaError, match=f"{table} without {name}") as caught:
        analyze_file(source, tmp_path / "part.db")
    assert caught.value.exit_code == 4
    assert not (tmp_path / "part.db").exists()


def test_activity_of_kinds_that_are_not_read_is_counted(tmp_path: Path) -> None:
    """Newer versions of Nsight Systems add tables, as for functions that run on the host."""
    trace, _ = _sample()
    source = trace.write(tmp_path / "new.sqlite")
    with closing(sqlite3.connect(source)) as connection, connection:
        for name, rows in (("HOST_LAUNCH", 2), ("GRAPH_HOST_NODE_V2", 1), ("OVERHEAD", 5)):
            table = f"CUPTI_ACTIVITY_KIND_{name}"
            connection.execute(f"CREATE TABLE {table} (start INT, end INT)")
            connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(1, 2)] * rows)
    found = analyze_file(source, tmp_path / "new.db")
    assert found.warnings() == {"UNUSED_EVENTS": 3}
    [(message,)] = found.query("SELECT message FROM warnings")
    assert "1 GRAPH_HOST_NODE, 2 HOST_LAUNCH" in message


# --- missing tables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tables",
    [
        ["META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV"],
        ["TARGET_INFO_GPU"],
        ["META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU"],
    ],
)
def test_an_export_without_tables_on_the_system_is_read(tmp_path: Path, tables: list[str]) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=tables)
    found = analyze_file(source, tmp_path / "part.db")
    assert len(found.ops()) == 3
    (row,) = found.query("SELECT nsys_version, driver_version, cpu_model FROM view_system_config")
    assert set(row) == {""}
    assert found.query("SELECT device_id FROM view_gpu_devices") == [(0,)]


def test_without_nvtx_ranges_the_mode_is_simple(tmp_path: Path) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=["NVTX_EVENTS"])
    found = analyze_file(source, tmp_path / "part.db")
    assert found.result.mode == Mode.SIMPLE
    assert len(found.query("SELECT * FROM view_kernel_launches")) == 4
    with pytest.raises(NoFrameworkRangesError):
        analyze_file(source, tmp_path / "asked.db", mode=Mode.PYTORCH)


@pytest.mark.parametrize("work", ["MEMCPY", "MEMSET", "KERNEL"])
def test_each_table_of_work_may_be_missing(tmp_path: Path, work: str) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=[f"CUPTI_ACTIVITY_KIND_{work}"])
    found = analyze_file(source, tmp_path / "part.db")
    kinds = {"KERNEL": "kernels", "MEMCPY": "copies", "MEMSET": "sets"}
    expected = {"kernels": 4, "copies": 2, "sets": 2, kinds[work]: 0}
    assert {kind: found.result.counts[kind] for kind in expected} == expected


def test_work_without_any_recorded_call_is_kept(tmp_path: Path) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "part.sqlite", without=["CUPTI_ACTIVITY_KIND_RUNTIME"])
    found = analyze_file(source, tmp_path / "part.db")
    owners = found.query("SELECT DISTINCT op_node_name FROM view_kernel_launches")
    assert sorted(owners) == [("unassociated_conv",), ("unassociated_dconv",)]
    assert found.warnings()["WORK_WITHOUT_CALL"] == 8


def test_waits_without_any_recorded_call_are_a_profile(tmp_path: Path) -> None:
    trace, main = _sample()
    main.process.copy(170, 180, correlation=None)
    row = {"start": 190, "end": 200, "deviceId": 0, "streamId": 7, "correlationId": 9}
    row |= {"globalPid": global_pid(100), "syncType": 1, "eventId": 3}
    trace.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **row)
    missing = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("RUNTIME", "KERNEL")]
    source = trace.write(tmp_path / "part.sqlite", without=missing)
    found = analyze_file(source, tmp_path / "part.db")
    assert (found.result.counts["kernels"], found.result.counts["copies"]) == (0, 3)


@pytest.mark.parametrize("number", [None, -1])
@pytest.mark.parametrize("kinds", [("KERNEL",), ("KERNEL", "RUNTIME")])
def test_launches_lack_no_kernels_where_kernels_have_no_number(
    tmp_path: Path, number: int | None, kinds: tuple[str, ...]
) -> None:
    trace, _ = _sample()
    rows = [row for kind in kinds for row in trace.tables[f"CUPTI_ACTIVITY_KIND_{kind}"]]
    for row in rows:
        row["correlationId"] = number
    unknown = 4 if kinds == ("KERNEL",) else 8
    assert analyze(trace, tmp_path).warnings() == {"WORK_WITHOUT_CALL": unknown}


@pytest.mark.parametrize("column", ["globalTid", "eventType"])
def test_ranges_without_thread_or_kind_are_counted(tmp_path: Path, column: str) -> None:
    trace, _ = _sample()
    lost = trace.tables["NVTX_EVENTS"][::2]
    for row in lost:
        row[column] = {"globalTid": None, "eventType": "NvtxPushPopRange"}[column]
    assert analyze(trace, tmp_path).warnings()["UNUSED_EVENTS"] == len(lost)


@pytest.mark.parametrize("kind", ["MEMCPY", "MEMSET"])
def test_bytes_that_no_memory_has_are_unknown(tmp_path: Path, kind: str) -> None:
    trace, _ = _sample()
    for row in trace.tables[f"CUPTI_ACTIVITY_KIND_{kind}"]:
        row["bytes"] = 2**63 - 1
    found = analyze(trace, tmp_path)
    sql = "SELECT count(*), count(bytes) FROM view_memory_ops WHERE kind = ?"
    assert found.query(sql, kind.lower()) == [(2, 0)]
    assert found.warnings()["ODD_VALUES"] == 2


def test_work_of_two_processes_needs_no_process_id(tmp_path: Path) -> None:
    """The number of its call is one of a single process, or its GPU decides."""
    trace = Trace()
    for rank in (0, 1):
        trace.gpu(rank)
        thread = trace.thread(100 + rank)
        for step in range(3 + rank):
            at = 1_000 * step + 3 * rank
            thread.op(f"linear{rank}", at + 10, at + 500, seq=step)
            thread.launch(f"gemm{rank}", at + 20, gpu=(at + 60, at + 400), device=rank)
    source = trace.write(tmp_path / "a.sqlite", without=["CUPTI_ACTIVITY_KIND_KERNEL.globalPid"])
    found = analyze_file(source, tmp_path / "a.db")
    sql = "SELECT kernel_name, op_node_name, count(*) FROM view_kernel_launches GROUP BY 1, 2"
    assert found.query(sql) == [("gemm0", "/rank_0/linear0", 3), ("gemm1", "/rank_1/linear1", 4)]


def test_calls_without_any_work_are_a_profile(tmp_path: Path) -> None:
    trace = Trace()
    main = trace.thread()
    main.op("conv2d", 100, 200)
    main.call("cudaMalloc_v3020", 110, 150)
    found = analyze(trace, tmp_path)
    assert found.ops() == {("/conv2d", FPROP): 1}
    (row,) = found.query("SELECT wall_clock_time, gpu_utilization FROM view_performance_summary")
    assert row == (200, 0.0)  # without any work on a GPU the ranges say when the profile ends


@pytest.mark.parametrize("with_ranges", [False, True])
def test_a_profile_without_cuda_activity_is_refused(tmp_path: Path, with_ranges: bool) -> None:
    trace = Trace()
    if with_ranges:
        trace.thread().op("conv2d", 100, 200)
    with pytest.raises(NoGpuActivityError) as caught:
        analyze(trace, tmp_path)
    assert caught.value.exit_code == 4
    assert caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["profile.sqlite"]


def test_cuda_tables_without_rows_are_no_activity(tmp_path: Path) -> None:
    trace, _ = _sample()
    source = trace.write(tmp_path / "empty.sqlite")
    with closing(sqlite3.connect(source)) as connection:
        for table in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET"):
            connection.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_{table}")
        connection.commit()
    with pytest.raises(NoGpuActivityError):
        analyze_file(source, tmp_path / "empty.db")


# --- odd rows -------------------------------------------------------------------------------------


def test_an_event_that_ends_before_it_starts_counts_with_no_duration(tmp_path: Path) -> None:
    trace, main = _sample()
    number = main.call(LAUNCH, 2100, 2102)
    main.process.kernel("backwards", 2500, 2300, correlation=number)
    main.call("cudaFree_v3020", 2600, 2400)
    main.range("phase", 2200, 2150)
    found = analyze(trace, tmp_path)
    sql = "SELECT kernel_duration FROM view_kernel_launches WHERE kernel_name = 'backwards'"
    assert found.query(sql) == [(0,)]
    sql = "SELECT api_duration FROM view_api_calls WHERE api_name = 'cudaFree_v3020'"
    assert found.query(sql) == [(0,)]
    assert found.warnings()["REVERSED_EVENTS"] >= 1


@pytest.fixture(scope="module")
def with_extras(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Trace, str], Analyzed]:
    """A function from a trace and the name of its order of rows to what is found in it."""
    made: dict[str, Analyzed] = {}

    def found(trace: Trace, order: str) -> Analyzed:
        if order not in made:
            made[order] = analyze(trace, tmp_path_factory.mktemp("extras"))
        return made[order]

    return found


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("NVTX_EVENTS", "text"),
        ("NVTX_EVENTS", "globalTid"),
        ("NVTX_EVENTS", "domainId"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "end"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "start"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "end"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "start"),
        ("CUPTI_ACTIVITY_KIND_MEMCPY", "bytes"),
        ("StringIds", "value"),
        ("TARGET_INFO_GPU", "name"),
        ("TARGET_INFO_GPU", "computeMinor"),
    ],
)
@pytest.mark.parametrize("where", [0, -1])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_null_harms_no_other_row(
    with_extras: Callable[[Trace, str], Analyzed],
    tmp_path: Path,
    table: str,
    column: str,
    where: int,
) -> None:
    trace, main = _sample()
    # One more row of each kind, first and last, and it alone has the NULL.
    for at in (1, 1980):
        main.op("extra", at, at + 15)
        main.launch("extra", at + 5)
        main.copy(at + 8, gpu=(at + 10, at + 12))
    rows = trace.tables[table]
    extra = rows.pop(-1) if where == 0 else rows[-1]
    if where == 0:
        rows.insert(0, extra)
    # Where the row is the last one, it is where the trace has it: one order for all tables.
    plain = with_extras(trace, "" if where else table)
    extra[column] = None
    found = analyze_file(trace.write(tmp_path / "null.sqlite"), tmp_path / "null.db")
    assert found.result.counts["kernels"] == plain.result.counts["kernels"]
    sql = (
        "SELECT kernel_name, op_node_name, direction, kernel_timestamp, kernel_duration"
        " FROM view_kernel_launches WHERE op_node_name LIKE '%conv2d' ORDER BY row_id"
    )
    assert found.query(sql) == plain.query(sql) != []
    (wall,) = found.query("SELECT wall_clock_time, gpu_utilization FROM view_performance_summary")
    assert 0 < wall[0] <= 2100
    assert 0 <= wall[1] <= 100


def test_a_name_that_leads_nowhere_says_so(tmp_path: Path) -> None:
    trace, main = _sample()
    row = main.process.kernel("x", 50, 60, correlation=None)
    row["shortName"] = row["demangledName"] = 987_654
    found = analyze(trace, tmp_path)
    names = found.query("SELECT DISTINCT kernel_name FROM view_kernel_launches")
    assert any("987654" in name for (name,) in names)


def test_text_of_any_kind_survives(tmp_path: Path) -> None:
    trace, main = one_gpu()
    odd = "a'b\"c;--\\ \t=SUM(A1) \U0001f600 <script>&"
    main.range(odd, 10, 900)
    main.op("my_ns::op_bprop", 100, 200, seq=1)
    main.launch(odd, 110)
    main.op("my_ns::op", 300, 400, seq=2)
    main.launch("plain", 310)
    main.process.thread(2).backward("OpBackward", 500, 600, seq=2)
    found = analyze(trace, tmp_path)
    assert found.kernels()[odd][0].startswith(f"/{odd}/")  # its digit counts nothing
    ids = [row[0] for row in found.query("SELECT op_node_id FROM view_op_nodes")]
    assert len(ids) == len(set(ids)) == 3


# --- several GPUs ---------------------------------------------------------------------------------


def test_what_processes_call_their_gpu_is_mapped_to_the_gpu_of_the_host(tmp_path: Path) -> None:
    trace = Trace()
    trace.gpu(0, "A")
    trace.gpu(1, "B")
    # CUDA_VISIBLE_DEVICES=1 and =0: both call theirs 0.
    trace.cuda_device(100, 0, 1)
    trace.cuda_device(200, 0, 0)
    for pid in (100, 200):
        thread = trace.thread(pid)
        thread.op("conv2d", 100, 200)
        thread.launch(f"k{pid}", 110, gpu=(120, 120 + pid))
    found = analyze(trace, tmp_path)
    devices = dict(found.query("SELECT kernel_name, device_id FROM view_kernel_launches"))
    assert devices == {"k100": 1, "k200": 0}
    # Ranks are numbered by GPU.
    assert found.kernels()["k100"][0] == "/rank_1/conv2d"
    sql = "SELECT device_id, gpu_name, device_gpu_utilization FROM view_gpu_devices ORDER BY 1"
    assert found.query(sql) == [(0, "A", 62.5), (1, "B", 31.25)]
    mean = found.query("SELECT gpu_utilization FROM view_domain_model_gpu_utilization")
    assert mean == [(46.875,)]


def test_a_visible_gpu_without_work_counts_as_idle(tmp_path: Path) -> None:
    trace = Trace()
    for number in (0, 1):
        trace.gpu(number)
        trace.cuda_device(100, number, number)
    main = trace.thread()
    main.op("conv2d", 0, 100)
    main.launch("k", 10, gpu=(20, 100))
    found = analyze(trace, tmp_path)
    (row,) = found.query(
        "SELECT gpu_utilization, used_gpu_utilization FROM view_performance_summary"
    )
    assert row == (40.0, 80.0)
    (parts,) = found.query(
        "SELECT non_tc_duration_pct, cpu_duration_pct, other_duration_pct"
        " FROM view_resource_usage_breakdown"
    )
    assert parts == (40.0, 10.0, 50.0)
    (problem,) = found.query("SELECT problem FROM view_expert_systems WHERE problem LIKE '%IDs%'")
    assert problem[0].endswith("not being used: 1")


def test_a_gpu_that_no_process_could_see_does_not_count(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(4):
        trace.gpu(number)
    # CUDA_VISIBLE_DEVICES=2 on a host of four.
    trace.cuda_device(100, 0, 2)
    main = trace.thread()
    main.op("conv2d", 0, 100)
    main.launch("k", 10, gpu=(20, 100))
    found = analyze(trace, tmp_path)
    assert found.query("SELECT device_id FROM view_gpu_devices") == [(0,)]
    assert found.query("SELECT host_device_id FROM devices") == [(2,)]
    assert found.query("SELECT gpu_utilization FROM view_performance_summary") == [(80.0,)]
