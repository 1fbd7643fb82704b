"""A database of NVIDIA's DLProf as input: read as it is, converted beside it, never changed."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from aggregator.errors import (
    CorruptProfileError,
    DatabaseWriteError,
    DldbVersionError,
    DlprofError,
    IterationRangeError,
    NoGpuActivityError,
    NotADldbError,
    UnsupportedProfileError,
    UsageError,
)
from aggregator.options import AggregationRequest, Mode
from aggregator.pipeline import aggregate, convert
from aggregator.system.progress import NullProgress
from profiler_cli.dlprof import main
from tests.builders import Analyzed, alter, analyze_file, query

MAKER_LINES = ("DLProf Version,", "DLProf Build,")
OWN_VIEWS = {"view_aggregations", "view_db_version", "view_system_config"}
"""Views that describe who made the file, not what is in the profile."""
SUFFIXES = [
    *("summary", "detailed", "kernel", "tensor_core", "op_type", "group_op", "iteration"),
    "expert_systems",
]
STEP_NS = 10_000_000_000
"""Time between the two steps of ``two_steps``."""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="session")
def golden_database(golden_dir: Path) -> Path:
    return golden_dir / "dlprof_dldb.sqlite"


@pytest.fixture
def database(golden_database: Path, tmp_path: Path) -> Path:
    """A copy of the golden database that a test may alter."""
    path = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(golden_database, path)
    return path


def loosen(path: Path, table: str, without: str = "") -> None:
    """Make a table without constraints of the same rows, maybe without one of its columns."""
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        kept = [position for position, name in enumerate(names) if name != without]
        assert len(kept) == len(names) - bool(without)
        rows = [[row[position] for position in kept] for row in cursor]
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"CREATE TABLE {table} ({', '.join(names[k] for k in kept)})")
        marks = ", ".join("?" * len(kept))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()


def columns_of(path: Path, table: str) -> list[str]:
    return [str(row[1]) for row in query(path, f"PRAGMA table_info({table})")]


def op_columns(found: Analyzed, *columns: str) -> list[tuple[object, ...]]:
    return found.query(f"SELECT {', '.join(columns)} FROM view_op_nodes ORDER BY op_node_id")


@pytest.fixture(scope="module")
def whole(golden_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Analyzed:
    """The golden database, converted; no test changes it."""
    return analyze_file(golden_database, tmp_path_factory.mktemp("whole") / "whole.sqlite")


# --- the same numbers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reports(golden_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    before = digest(golden_database)
    words = [f"--database={golden_database}", "--reports=all", f"--output_path={folder}"]
    assert main([*words, "-v=quiet"]) == 0
    assert digest(golden_database) == before
    return folder


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_reports_are_dlprofs_byte_for_byte(reports: Path, golden_dir: Path, suffix: str) -> None:
    def comparable(path: Path) -> list[bytes]:
        lines = path.read_bytes().split(b"\n")
        return [line for line in lines if not line.startswith(tuple(map(str.encode, MAKER_LINES)))]

    name = f"dlprof_{suffix}.csv"
    assert comparable(reports / name) == comparable(golden_dir / name)


def test_every_view_of_the_source_shows_the_same(golden_database: Path, whole: Analyzed) -> None:
    views = query(golden_database, "SELECT name FROM sqlite_master WHERE type = 'view'")
    assert len(views) == 23
    for (view,) in views:
        if view in OWN_VIEWS:
            continue
        names = query(golden_database, f"SELECT name FROM pragma_table_info('{view}')")
        sql = f"SELECT {', '.join(name for (name,) in names)} FROM {view}"
        theirs, ours = query(golden_database, sql), whole.query(sql)
        assert sorted(theirs, key=repr) == sorted(ours, key=repr), view


def test_every_call_is_there_and_belongs_to_its_op(golden_database: Path, whole: Analyzed) -> None:
    assert whole.result.counts["api_calls"] == 321
    sql = """
        SELECT string, op_id, api_start, api_stop - api_start FROM read_only_cuda_calls AS c
        JOIN dictionary AS d ON d.id = c.name_id JOIN read_only_ops AS o
        ON o.id = c.read_only_ops_id"""
    ours = set(
        whole.query("SELECT api_name, op_node_id, api_start, api_duration FROM view_api_calls")
    )
    assert set(query(golden_database, sql)) <= ours
    launches = {row for row in ours if row[0] == "kernel launch"}
    assert len(launches) == 59


def test_settings_and_hardware_are_kept(whole: Analyzed) -> None:
    ((memory,),) = whole.query("SELECT count(*) FROM view_memory_ops")
    assert memory == 17
    config = dict(whole.query("SELECT key, value FROM model_config"))
    assert config["emit_nvtx"] == "true"
    assert config["amp_enabled"] == "false"
    info = dict(whole.query("SELECT key, value FROM view_profile_info"))
    assert info["mode"] == "pytorch"
    assert info["converted_from"] == "dlprof_dldb.sqlite"
    assert info["converted_from_version"] == "1.8.0"
    assert whole.query("SELECT original_version FROM view_db_version") == [("1.8.0",)]
    ((framework,),) = whole.query("SELECT framework FROM view_system_config")
    assert framework == "PyTorch 1.10.1+cu102"


# --- aggregating again ----------------------------------------------------------------------------


def test_an_aggregation_goes_into_a_conversion_beside_the_original(database: Path) -> None:
    before = digest(database), database.stat().st_mtime_ns
    first = aggregate(database, AggregationRequest(key_node="CONV2D_1"), NullProgress())
    assert first.database == database.with_name("dlprof_dldb.open.sqlite")
    assert (first.aggr_id, first.reused) == (2, False)
    rows = query(first.database, "SELECT aggr_id, key_op FROM view_key_op_name ORDER BY 1")
    assert rows == [(1, ""), (2, "CONV2D_1")]
    again = aggregate(database, AggregationRequest(key_node="CONV2D_1"), NullProgress())
    assert (again.aggr_id, again.reused, again.database) == (2, True, first.database)
    whole_run = aggregate(database, AggregationRequest(), NullProgress())
    assert (whole_run.aggr_id, whole_run.reused) == (1, True)
    assert (digest(database), database.stat().st_mtime_ns) == before
    assert sorted(path.name for path in database.parent.iterdir()) == [
        "dlprof_dldb.open.sqlite",
        "dlprof_dldb.sqlite",
    ]


def test_the_conversion_of_another_original_is_left_alone(database: Path) -> None:
    first = convert(database, NullProgress())
    before = digest(first)
    alter(database, "UPDATE read_only_system_config SET profile_name = 'another'")
    second = convert(database, NullProgress())
    assert second.name == "dlprof_dldb.open_1.sqlite"
    assert digest(first) == before
    assert query(second, "SELECT profile_name FROM view_system_config") == [("another",)]
    assert convert(database, NullProgress()) == second


def test_the_command_line_of_the_original_is_kept(database: Path) -> None:
    command = "dlprof --mode=pytorch python train.py --api_key=hush"
    alter(database, f"UPDATE read_only_system_config SET original_command = '{command}'")
    ((kept,),) = query(
        convert(database, NullProgress()), "SELECT original_command FROM view_system_config"
    )
    assert kept == "dlprof --mode=pytorch python train.py --api_key=****"


def test_a_folder_that_is_a_file_is_a_clear_error(golden_database: Path, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    with pytest.raises(DatabaseWriteError, match="cannot be written"):
        analyze_file(golden_database, blocker / "dlprof_dldb.sqlite")


# --- iterations -----------------------------------------------------------------------------------


@pytest.fixture
def two_steps(database: Path) -> Path:
    """The golden run twice, one after the other, cut where CONV2D_1 ends."""
    shifted = {
        "read_only_op_instances": ("cpu_start", "cpu_stop"),
        "read_only_cuda_calls": ("api_start", "api_stop"),
        **{
            f"read_only_{kind}": ("api_start", "api_stop", "gpu_start", "gpu_stop")
            for kind in ("kernels", "memcpys", "memsets", "cuda_syncs")
        },
    }
    with closing(sqlite3.connect(database)) as connection:
        for table, times in shifted.items():
            cursor = connection.execute(f"SELECT * FROM {table} LIMIT 0")
            names = [column[0] for column in cursor.description if column[0] != "id"]
            terms = {name: f"{name} + {STEP_NS}" for name in times} | {"op_instance": "1"}
            select = ", ".join(terms.get(name, name) for name in names)
            connection.execute(
                f"INSERT INTO {table} ({', '.join(names)}) SELECT {select} FROM {table}"
            )
        ((stop,),) = connection.execute(
            "SELECT cpu_stop FROM read_only_op_instances JOIN read_only_ops AS o"
            " ON o.id = read_only_ops_id WHERE o.op_id = 'CONV2D_1' ORDER BY 1 LIMIT 1"
        )
        ((last,),) = connection.execute("SELECT stop_time FROM iteration_list")
        bounds = [0, stop, stop + STEP_NS, last + STEP_NS]
        connection.execute("DELETE FROM iteration_list")
        for number in range(3):
            end = bounds[number + 1] - (number < 2)
            connection.execute(
                "INSERT INTO iteration_list (aggr_id, iter_value, start_time, stop_time)"
                " VALUES (1, ?, ?, ?)",
                (number, bounds[number], end),
            )
        ((key,),) = connection.execute("SELECT id FROM dictionary WHERE string = 'CONV2D_1'")
        connection.execute("UPDATE model_summary SET iter_total = 3, iter_stop = 2")
        for table in ("iteration_key", "model_summary"):
            connection.execute(f"UPDATE {table} SET key_node_id = ?", (key,))
        connection.commit()
    return database


def test_the_iterations_of_the_source_are_kept(two_steps: Path, tmp_path: Path) -> None:
    assert query(two_steps, "SELECT key_op FROM view_key_op_name") == [("CONV2D_1",)]
    found = analyze_file(two_steps, tmp_path / "two.sqlite")
    theirs = query(two_steps, "SELECT start_time FROM view_iterations_all ORDER BY iter_value")
    assert [(start,) for start, _ in found.iterations()] == theirs
    assert found.result.key_node == "CONV2D_1"
    calls = dict(found.query("SELECT op_node_id, num_calls FROM view_op_nodes"))
    assert set(calls.values()) == {2}
    again = found.aggregate(iter_start=1, iter_stop=1)
    sql = "SELECT op_node_id, num_calls FROM view_op_nodes WHERE aggr_id = ?"
    assert set(dict(found.query(sql, again.aggr_id)).values()) == {1}
    with pytest.raises(IterationRangeError):
        found.aggregate(iter_start=1, iter_stop=3)


def name_key_node(path: Path, name: str) -> None:
    found = query(path, "SELECT id FROM dictionary WHERE string = ?", name)
    if not found:
        alter(path, f"INSERT INTO dictionary (string) VALUES ('{name}')")
        found = query(path, "SELECT id FROM dictionary WHERE string = ?", name)
    tables = ("iteration_key", "model_summary")
    alter(path, *(f"UPDATE {table} SET key_node_id = {found[0][0]}" for table in tables))


def test_iterations_that_no_op_marks_become_a_range(two_steps: Path, tmp_path: Path) -> None:
    name_key_node(two_steps, "global_step")
    found = analyze_file(two_steps, tmp_path / "two.sqlite")
    theirs = query(two_steps, "SELECT start_time FROM view_iterations_all ORDER BY iter_value")
    assert [(start,) for start, _ in found.iterations()] == theirs
    assert found.result.key_node == "global_step"
    assert found.aggregate(key_node="global_step").iter_stop == 2


def test_groups_of_names_without_a_leading_slash_are_those_of_the_source(
    database: Path, tmp_path: Path
) -> None:
    """Ops of TensorFlow have such names."""
    alter(
        database,
        "UPDATE OR IGNORE dictionary SET string = substr(string, 2) WHERE string LIKE '/_%'",
        "UPDATE read_only_ops SET op_name = substr(op_name, 2) WHERE op_name LIKE '/_%'",
    )
    groups = "FROM view_group_ops WHERE row_type = 1 AND row_full_name <> '/'"
    theirs = query(database, f"SELECT row_full_name, num_op_instances, gpu_time_sum {groups}")
    assert len(theirs) > 20
    assert not any(name.startswith("/") for name, *_ in theirs)
    found = analyze_file(database, tmp_path / "renamed.sqlite")
    ours = found.query(f"SELECT row_full_name, num_op_instances, gpu_time_sum {groups}")
    assert sorted(ours) == sorted(theirs)


def test_ops_without_any_kernel_are_missed_half_precision_as_in_dlprof(
    database: Path, tmp_path: Path
) -> None:
    alter(database, "DELETE FROM read_only_kernels")
    found = analyze_file(database, tmp_path / "none.sqlite")
    assert found.result.counts["kernels"] == 0
    problems = {problem for (problem,) in found.query("SELECT problem FROM view_expert_systems")}
    assert "5 ops were eligible to use tensor cores but none are using FP16" in problems


def test_iterations_found_by_dlprof_itself_have_a_name(two_steps: Path, tmp_path: Path) -> None:
    name_key_node(two_steps, "")
    found = analyze_file(two_steps, tmp_path / "two.sqlite")
    assert found.result.key_node == "DLProf iterations"
    assert len(found.iterations()) == 3


def test_an_op_that_ends_other_iterations_is_not_taken_for_them(
    two_steps: Path, tmp_path: Path
) -> None:
    name_key_node(two_steps, "LINEAR_3")
    found = analyze_file(two_steps, tmp_path / "two.sqlite")
    theirs = query(two_steps, "SELECT start_time FROM view_iterations_all ORDER BY iter_value")
    assert [(start,) for start, _ in found.iterations()] == theirs
    assert found.result.key_node == "LINEAR_3 (DLProf iterations)"


def test_all_aggregations_of_the_source_are_in_its_conversion(two_steps: Path) -> None:
    columns = [
        name
        for (name,) in query(two_steps, "SELECT name FROM pragma_table_info('model_summary')")
        if name not in {"id", "aggr_id", "iter_start", "iter_stop"}
    ]
    rest = ", ".join(columns)
    alter(
        two_steps,
        "INSERT INTO aggregations (id, server_user_name, server_host_name, start_timestamp,"
        " end_timestamp) SELECT 2, server_user_name, server_host_name, start_timestamp,"
        " end_timestamp FROM aggregations",
        "INSERT INTO iteration_key (aggr_id, key_node_id) SELECT 2, key_node_id FROM iteration_key",
        "INSERT INTO iteration_list (aggr_id, iter_value, start_time, stop_time)"
        " SELECT 2, iter_value, start_time, stop_time FROM iteration_list",
        f"INSERT INTO model_summary (aggr_id, iter_start, iter_stop, {rest})"
        f" SELECT 2, 1, 2, {rest} FROM model_summary",
    )
    wanted = query(two_steps, "SELECT aggr_id, iter_start, iter_stop FROM view_aggregations")
    assert wanted == [(1, 0, 2), (2, 1, 2)]
    converted = convert(two_steps, NullProgress())
    sql = "SELECT aggr_id, iter_start, iter_stop, key_node_name FROM view_aggregations"
    assert query(converted, sql) == [(1, 0, 2, "CONV2D_1"), (2, 1, 2, "CONV2D_1")]


@pytest.mark.parametrize("change", ["op_instance + 1", "0", "NULL", "op_instance + 700"])
def test_a_number_that_names_no_execution_is_identified_by_time(
    two_steps: Path, tmp_path: Path, change: str
) -> None:
    expected = analyze_file(two_steps, tmp_path / "expected.sqlite")
    for kind in ("kernels", "memcpys", "memsets", "cuda_syncs", "cuda_calls"):
        loosen(two_steps, f"read_only_{kind}")
        alter(two_steps, f"UPDATE read_only_{kind} SET op_instance = {change}")
    found = analyze_file(two_steps, tmp_path / "found.sqlite")
    sql = "SELECT op_node_id, gpu_time_sum, gpu_time_max, gpu_idle_sum FROM view_op_metrics"
    assert sorted(found.query(sql)) == sorted(expected.query(sql))


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1.3", "1.9.0", "new"])
def test_versions_that_cannot_be_read_are_refused(
    database: Path, tmp_path: Path, version: str
) -> None:
    alter(database, f"UPDATE db_version SET current_version = '{version}'")
    with pytest.raises(DldbVersionError) as error:
        analyze_file(database, tmp_path / "out.sqlite")
    assert error.value.exit_code == 5
    with pytest.raises(DldbVersionError):
        aggregate(database, AggregationRequest(), NullProgress())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlprof_dldb.sqlite"]


@pytest.mark.parametrize("version", ["1.2.0", "v1.4.0", "1.7.0 / r21.11"])
def test_versions_from_1_2_on_are_read(database: Path, tmp_path: Path, version: str) -> None:
    alter(database, f"UPDATE db_version SET current_version = '{version}'")
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert len(op_columns(found, "op_node_id")) == 36


@pytest.mark.parametrize(
    "views",
    [
        ["view_group_ops"],
        ["view_group_ops", "view_resource_usage_breakdown", "view_iterations_profiled"],
        ["view_iterations_all"],
    ],
)
def test_views_that_an_older_version_lacks_are_not_needed(
    database: Path, whole: Analyzed, tmp_path: Path, views: list[str]
) -> None:
    alter(database, *(f"DROP VIEW {view}" for view in views))
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert op_columns(found, "*") == op_columns(whole, "*")


@pytest.mark.parametrize(
    "table",
    [
        *("read_only_grid_block", "read_only_sub_ops", "read_only_model_config"),
        *("read_only_model_info", "read_only_cuda_syncs", "read_only_gpu_infos"),
        *("read_only_system_config", "read_only_domains", "gpu_memories", "iteration_list"),
        *("aggregations", "iteration_aggregation_list", "model_summary", "group_ops"),
    ],
)
def test_a_table_that_an_older_version_lacks_is_unknown(
    database: Path, whole: Analyzed, tmp_path: Path, table: str
) -> None:
    alter(database, f"DROP TABLE {table}")
    found = analyze_file(database, tmp_path / "out.sqlite")
    columns = ("op_node_id", "op_node_name", "gpu_time", "num_calls", "kernel_calls", "data_type")
    assert op_columns(found, *columns) == op_columns(whole, *columns)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("read_only_ops", name) for name in ("device_id", "stack_trace", "data_format_id")),
        *(("read_only_ops", name) for name in ("output_format_id", "parameters_format_id")),
        *(("read_only_op_instances", name) for name in ("output_shapes_id", "parameters_id")),
        *(("read_only_op_instances", name) for name in ("input_names_id", "thread_id")),
        *(("read_only_kernels", name) for name in ("long_name_id", "uses_tc", "grid_id")),
        *(("read_only_kernels", name) for name in ("op_instance", "device_id", "thread_id")),
        ("read_only_memcpys", "copy_kind"),
        ("read_only_gpu_infos", "sm_count"),
        ("read_only_system_config", "mode_string"),
    ],
)
def test_a_column_that_an_older_version_lacks_is_unknown(
    database: Path, whole: Analyzed, tmp_path: Path, table: str, column: str
) -> None:
    loosen(database, table, without=column)
    found = analyze_file(database, tmp_path / "out.sqlite")
    columns = ("op_node_id", "op_node_name", "gpu_time", "num_calls", "kernel_calls", "using_tc")
    assert op_columns(found, *columns) == op_columns(whole, *columns)
    assert found.result.mode == "pytorch"


# --- odd content ----------------------------------------------------------------------------------


def test_the_verdict_of_dlprof_on_tensor_cores_is_kept(database: Path, tmp_path: Path) -> None:
    alter(
        database,
        "UPDATE read_only_kernels SET uses_tc = 1 WHERE name_id ="
        " (SELECT id FROM dictionary WHERE string = 'explicit_convolve_sgemm')",
        "UPDATE read_only_ops SET tc_support_status = 0 WHERE op_id = 'RELU_1'",
    )
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert found.query(
        "SELECT DISTINCT uses_tc FROM view_kernel_metrics WHERE kernel_name = ?",
        "explicit_convolve_sgemm",
    ) == [(1,)]
    sql = "SELECT tc_eligible, using_tc FROM view_op_nodes WHERE op_node_id = ?"
    assert found.query(sql, "CONV2D_1") == [(1, 1)]
    assert found.query(sql, "RELU_1") == [(1, 0)]


def test_events_of_no_op_are_not_lost(database: Path, whole: Analyzed, tmp_path: Path) -> None:
    alter(database, "UPDATE read_only_kernels SET read_only_ops_id = 9999 WHERE id = 5")
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert found.warnings()["EVENTS_WITHOUT_OP"] == 1
    total = "SELECT total_gpu_time, total_count FROM view_kernel_summary"
    assert found.query(total) == whole.query(total)
    sql = "SELECT op_node_id, kernel_calls FROM view_op_nodes WHERE op_node_name = ?"
    assert found.query(sql, "unassociated_unknown") == [("UNKNOWN_1", 1)]


def test_ops_of_custom_domains_are_reported_and_left_out(database: Path, tmp_path: Path) -> None:
    alter(
        database,
        "INSERT INTO dictionary (string) VALUES ('Forward')",
        "INSERT INTO read_only_domains (domain_name_id) SELECT max(id) FROM dictionary",
        "UPDATE read_only_ops SET domain_id = 2 WHERE op_id IN ('RELU_1', 'RELU_2')",
    )
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert found.warnings() == {"OTHER_DOMAINS": 2}
    assert len(op_columns(found, "op_node_id")) == 34


def test_events_that_end_before_they_start_are_counted(database: Path, tmp_path: Path) -> None:
    alter(database, "UPDATE read_only_kernels SET gpu_stop = gpu_start - 5 WHERE id < 4")
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert found.warnings() == {"REVERSED_EVENTS": 3}
    assert found.result.counts["kernels"] == 59


def test_kernels_without_a_call_count_when_they_started(
    database: Path, whole: Analyzed, tmp_path: Path
) -> None:
    alter(database, "UPDATE read_only_kernels SET api_start = 0, api_stop = 0")
    found = analyze_file(database, tmp_path / "out.sqlite")
    assert op_columns(found, "op_node_id", "gpu_time") == op_columns(
        whole, "op_node_id", "gpu_time"
    )
    assert found.result.counts["api_calls"] == 321 - 59


def test_text_that_is_no_text_is_read(database: Path, tmp_path: Path) -> None:
    loosen(database, "read_only_ops")
    alter(
        database,
        "UPDATE dictionary SET string = x'ff41' WHERE string = 'conv2d'",
        "UPDATE read_only_ops SET stack_trace = x'ff42' WHERE op_id = 'CONV2D_1'",
        "UPDATE read_only_ops SET op_name = NULL WHERE op_id = 'RELU_1'",
    )
    found = analyze_file(database, tmp_path / "out.sqlite")
    sql = "SELECT op_node_type, stack_trace FROM view_op_nodes WHERE op_node_id = 'CONV2D_1'"
    assert found.query(sql) == [("\ufffdA", "\ufffdB")]


def test_a_database_without_cuda_activity_is_refused(database: Path, tmp_path: Path) -> None:
    kinds = ("kernels", "memcpys", "memsets", "cuda_syncs", "cuda_calls")
    alter(database, *(f"DELETE FROM read_only_{kind}" for kind in kinds))
    with pytest.raises(NoGpuActivityError):
        analyze_file(database, tmp_path / "out.sqlite")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_database_that_breaks_off_is_damaged(
    database: Path, tmp_path: Path, share: float
) -> None:
    content = database.read_bytes()
    database.write_bytes(content[: int(len(content) * share)])
    # The kind of the file is not always known.
    with pytest.raises((CorruptProfileError, NotADldbError), match="damaged"):
        analyze_file(database, tmp_path / "out.sqlite")
    with pytest.raises(NotADldbError, match="damaged"):
        aggregate(database, AggregationRequest(), NullProgress())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlprof_dldb.sqlite"]


def test_a_database_with_damaged_pages_is_damaged(database: Path, tmp_path: Path) -> None:
    ((page,),) = query(
        database, "SELECT rootpage FROM sqlite_master WHERE name = 'read_only_op_instances'"
    )
    ((size,),) = query(database, "PRAGMA page_size")
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(NotADldbError, match="damaged") as error:
        analyze_file(database, tmp_path / "out.sqlite")
    assert error.value.exit_code == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dlprof_dldb.sqlite"]


CELLS = [
    *("read_only_kernels", "read_only_memcpys", "read_only_memsets", "read_only_cuda_syncs"),
    *("read_only_cuda_calls", "read_only_ops", "read_only_op_instances", "read_only_gpu_infos"),
    *("read_only_system_config", "read_only_grid_block", "read_only_domains", "dictionary"),
    *("iteration_list", "model_summary", "iteration_key", "gpu_memories"),
]
ANYTHING = [None, -1, 0, 7, 2**31 - 1, 2**62, -(2**62), "text", "", b"\xff", 1.5, float("inf")]


@pytest.fixture(scope="module")
def unconstrained(golden_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unconstrained") / "dlprof_dldb.sqlite"
    shutil.copyfile(golden_database, path)
    for table in CELLS:
        loosen(path, table)
    return path


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize("column", ["start", "stop"])
def test_a_time_at_the_end_of_time_is_no_crash(
    unconstrained: Path, tmp_path: Path, column: str, value: int
) -> None:
    path = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(unconstrained, path)
    (name,) = [n for n in columns_of(path, "read_only_op_instances") if n.endswith(column)]
    alter(path, f"UPDATE read_only_op_instances SET {name} = {value} WHERE rowid = 3")
    converted = convert(path, NullProgress())
    assert query(converted, "SELECT count(*) FROM kernels") == [(59,)]
    assert query(converted, "SELECT min(cpu_overhead) >= 0 FROM op_instances") == [(1,)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("error")
def test_whatever_stands_in_a_cell_is_no_crash(
    unconstrained: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "dlprof_dldb.sqlite"
    shutil.copyfile(unconstrained, path)
    with closing(sqlite3.connect(path)) as connection:
        for _ in range(chance.choice([1, 3, 20, 100])):
            table = chance.choice(CELLS)
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            ((rows,),) = connection.execute(f"SELECT max(rowid) FROM {table}")
            everywhere = chance.random() < 0.05
            where = "" if everywhere else f"WHERE rowid = {chance.randint(1, rows)}"
            value = chance.choice(ANYTHING)
            connection.execute(f"UPDATE {table} SET {chance.choice(names)} = ? {where}", (value,))
        connection.commit()
    with suppress(DlprofError):
        kernels = query(convert(path, NullProgress()), "SELECT count(*) FROM kernels")
        assert kernels <= [(59,)]


def test_the_mode_is_that_of_the_database(golden_database: Path, tmp_path: Path) -> None:
    same = analyze_file(golden_database, tmp_path / "same.sqlite", mode=Mode.PYTORCH)
    assert same.result.mode == "pytorch"
    with pytest.raises(UsageError, match="mode pytorch"):
        analyze_file(golden_database, tmp_path / "out.sqlite", mode=Mode.SIMPLE)


def test_a_database_of_this_program_is_not_imported(whole: Analyzed, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedProfileError, match="already"):
        analyze_file(whole.path, tmp_path / "again.sqlite")
