"""Databases made to run malicious SQL, or to take all time, are refused or stopped."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aggregator import pipeline
from aggregator.costs.peaks import Peaks
from aggregator.costs.units import LINK, CostUnit
from aggregator.dldb.own_schema import holds_own_sql_only
from aggregator.dldb.reader import open_database
from aggregator.errors import DlprofError, NotADldbError
from aggregator.metrics.efficiency import _unit_times
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate, aggregate_copy, import_profile
from aggregator.system.progress import NullProgress
from aggregator.system.sqlite_uri import connect_unread
from profiler_cli.dlprof import main
from tests.builders import Trace, analyze_file, query
from tests.fuzz.exports import small_export

ENDLESS = "(WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT max(i) FROM t)"
REQUEST = AggregationRequest(iter_start=2)
#: What is endless computes; how much time passes says how busy the machine is.
CPU_LIMIT_S = 30


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    _steps().write(folder / "export.sqlite")
    analyze_file(folder / "export.sqlite", folder / "dldb.sqlite")
    return folder / "dldb.sqlite"


def _steps() -> Trace:
    """A loop of similar steps: it gets advice, which reads views."""
    trace = Trace()
    for thread, step, at in trace.steps(8):
        thread.backward("ConvolutionBackward0", at + 2_000, at + 2_900, seq=2 * step)
        thread.launch("dgrad", at + 2_010, gpu=(at + 3_000, at + 3_400))
    return trace


@pytest.fixture
def database(good: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "dldb.sqlite"
    copy.write_bytes(good.read_bytes())
    return copy


def _change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA legacy_alter_table = ON")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_statistics_that_are_computed_do_not_run_in_the_reading_process(database: Path) -> None:
    """SQLite reads them along with the schema, before the first statement."""
    computed = "instr(printf('%.000001c','a'), printf('%.000001c','a') || 'b' || n)"
    _change(
        database,
        f"CREATE TABLE made (tbl, idx, n, stat AS ({computed}))",
        "INSERT INTO made (tbl, idx, n) VALUES ('ops', 'ops_by_op_id', 1)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET name = 'sqlite_stat1', tbl_name = 'sqlite_stat1', "
        "sql = replace(sql, 'made', 'sqlite_stat1') WHERE name = 'made'",
    )
    text = database.read_bytes()
    text = text.replace(b"%.000001c','a'), ", b"%.400000c','a'), ")
    database.write_bytes(text.replace(b"%.000001c", b"%.200000c"))
    began = time.process_time()

    with closing(connect_unread(database, 5.0)) as connection:
        assert not holds_own_sql_only(connection)

    assert time.process_time() - began < 1


def test_what_analyze_makes_is_no_sql_of_others(database: Path) -> None:
    _change(database, "ANALYZE")

    with closing(connect_unread(database, 5.0)) as connection:
        assert holds_own_sql_only(connection)


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER evil AFTER INSERT ON aggregations BEGIN DELETE FROM ops; END"],
        [f"CREATE TRIGGER evil BEFORE INSERT ON aggregations BEGIN SELECT {ENDLESS}; END"],
        ["CREATE VIRTUAL TABLE evil USING fts5(x)"],
        ["ALTER TABLE ops RENAME TO o", f"CREATE VIEW ops AS SELECT {ENDLESS} AS id"],
        ["CREATE TABLE evil (a, b AS (randomblob(1000000000)))"],
        ["CREATE TABLE evil (a, b AS (hex(a)) STORED)"],
        ["CREATE INDEX evil ON iterations (hex(kind))"],
        ["CREATE INDEX evil ON iterations (kind) WHERE length(kind) > 3"],
        ["CREATE TABLE evil (a CHECK (length(a) < 9))"],
        ["CREATE TABLE evil (a DEFAULT (hex(7)))"],
        # Found however its statement is written.
        [
            "CREATE VIRTUAL TABLE evil USING fts5(x)",
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = replace(sql, 'CREATE VIRTUAL', 'CREATE  VIRTUAL')",
        ],
    ],
)
def test_a_database_that_would_run_sql_is_not_aggregated(
    statements: list[str], database: Path, tmp_path: Path
) -> None:
    try:
        _change(database, *statements)
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite cannot make it: {error}")
    before, began = database.read_bytes(), time.process_time()

    with pytest.raises(NotADldbError, match="SQL that is not ours"):
        aggregate(database, REQUEST, NullProgress())
    target = tmp_path / "copy.sqlite"
    options = ImportOptions(database, target, request=REQUEST)
    with pytest.raises(NotADldbError, match="SQL that is not ours"):
        aggregate_copy(database, options, NullProgress())

    assert database.read_bytes() == before
    assert not target.exists()
    assert time.process_time() - began < CPU_LIMIT_S


def test_views_are_not_read_while_an_aggregation_is_added(database: Path) -> None:
    """Every view fails when it is read, except the time-limited ones that identify the file."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'view'"
    views = [str(row[0]) for row in query(database, sql)]
    identifying = {"view_db_version", "view_profile_info"}
    columns = {
        view: [row[1] for row in query(database, f'PRAGMA table_info("{view}")')]
        for view in views
        if view not in identifying
    }
    failing = "abs(-9223372036854775808)"
    for view, names in columns.items():
        listed = ", ".join(f'{failing} AS "{name}"' for name in names)
        _change(database, f"DROP VIEW {view}", f"CREATE VIEW {view} AS SELECT {listed}")

    assert len(columns) > 40
    assert aggregate(database, AggregationRequest(iter_stop=6), NullProgress()).aggr_id == 3


ROWS = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT i FROM t"
VALUE = f"SELECT {ENDLESS} AS i"
STOPPED, TOO_MANY = "more than 0.1 s of processor time and was stopped", "more than 10,000 rows"


@pytest.mark.parametrize(
    ("words", "view", "body", "message"),
    [
        (["--reports=summary"], "view_profile_info", VALUE, STOPPED),
        (["--reports=summary"], "view_profile_info", ROWS, TOO_MANY),
        (["--reports=summary"], "view_domains", VALUE, STOPPED),
        (["--reports=summary"], "view_domains", ROWS, TOO_MANY),
        (["--reports=summary"], "view_model_summary", VALUE, STOPPED),
        (["--reports=kernel"], "view_kernel_metrics", VALUE, STOPPED),
        (["--reports=kernel"], "view_kernel_metrics", ROWS, STOPPED),
        (["--dump_model_data=true"], "view_op_instances", ROWS, STOPPED),
        ([], "view_expert_systems", VALUE, STOPPED),
        ([], "view_expert_systems", ROWS, TOO_MANY),
        (["advise"], "view_aggregations", VALUE, STOPPED),
        # To be sorted, they are all read first.
        (["advise"], "view_aggregations", ROWS, STOPPED),
        (["advise"], "view_advice", VALUE, STOPPED),
        (["advise"], "view_advice", ROWS, STOPPED),
    ],
)
def test_the_command_reads_views_without_end_for_a_limited_time(
    words: list[str],
    view: str,
    body: str,
    message: str,
    database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DLPROF_EXPORT_TIMEOUT_S", "0.1" if message == STOPPED else "20")
    monkeypatch.setattr(pipeline, "GLANCE_S", 0.1 if message == STOPPED else 20)
    names = [str(row[1]) for row in query(database, f'PRAGMA table_info("{view}")')]
    # Advice and feedback are on the steady range, reports on all iterations.
    aggregation = "2" if words in (["advise"], []) else "1"
    own = {"aggr_id": aggregation, "domain_name": "'default-domain'", "key": "'mode'"}
    own = {"view_domains": {}}.get(view, own)
    own |= {"view_profile_info": {"value": "'pytorch'"}}.get(view, {}) if body == ROWS else {}
    columns = ", ".join(f'{own.get(name, "x.i")} AS "{name}"' for name in names)
    _change(
        database, f"DROP VIEW {view}", f"CREATE VIEW {view} AS SELECT {columns} FROM ({body}) AS x"
    )
    output = [] if words == ["advise"] else [f"--output_path={tmp_path / 'out'}"]

    code = main([*words, f"--database={database}", *output])

    error = capsys.readouterr().err
    assert (code, message in error) == (5, True), error
    assert ("DLPROF_EXPORT_TIMEOUT_S" in error) == (message == STOPPED)
    assert "Traceback" not in error


@pytest.mark.parametrize("value", ["7", "x'00ff'", "NULL", "'[1'", "'[1]'", "1e999"])
def test_malformed_advice_is_reported_as_damaged(
    value: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(row[1]) for row in query(database, "PRAGMA table_info(view_advice)")]
    own = {"aggr_id": "2", "status": "'found'"}
    columns = ", ".join(f'{own.get(name, value)} AS "{name}"' for name in names)
    _change(database, "DROP VIEW view_advice", f"CREATE VIEW view_advice AS SELECT {columns}")

    code = main(["advise", f"--database={database}"])

    assert code == 5
    assert "is damaged or no DLProf database" in capsys.readouterr().err


def _expect_error(call: Callable[[], object]) -> None:
    """It works, or says in one sentence why not."""
    try:
        call()
    except DlprofError as error:
        said = error.message
    else:
        said = ""
    assert "\n" not in said


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("op_instances", "start", "NULL"),
        ("op_instances", "start", "1e300"),
        ("kernels", "duration", "9e999"),
        ("kernels", "duration", "'text'"),
    ],
)
def test_columns_of_integers_that_hold_something_else(
    table: str, column: str, value: str, database: Path
) -> None:
    """A NULL among integers must not become a large number."""
    with closing(sqlite3.connect(database)) as connection:
        columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(f"iif(rowid = 2, {value}, {c})" if c == column else c for c in columns)
        connection.executescript(
            "PRAGMA legacy_alter_table = ON;"
            f"CREATE TABLE other ({', '.join(columns)});"
            f"INSERT INTO other SELECT {values} FROM {table};"
            f"DROP TABLE {table}; ALTER TABLE other RENAME TO {table};"
        )
    with pytest.raises(NotADldbError):
        aggregate(database, REQUEST, NullProgress())


def test_a_peak_of_next_to_nothing_gives_no_ideal_time() -> None:
    copy = CostUnit("copy", flops=0, num_bytes=1000, precision=LINK)
    assert _unit_times(copy, Peaks(link=50.0)) == (0.0, 0.0, 20.0, 0.0, True)
    assert _unit_times(copy, Peaks(link=1e-300)) == (0.0, 0.0, 0.0, 0.0, False)


def _with_header(database: Path, offset: int, value: bytes) -> None:
    data = bytearray(database.read_bytes())
    data[offset : offset + len(value)] = value
    database.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (28, b"\xff\xff\xff\xfe"),  # pages of the file
        (16, b"\x00\x01"),  # size of a page: 65,536
        (16, b"\x00\x03"),  # no size at all
        (32, b"\x7f\xff\xff\xff"),  # first free page
        (36, b"\x7f\xff\xff\xff"),  # free pages
        (52, b"\x00\x00\xff\xff"),  # auto vacuum
        (56, b"\x00\x00\x00\x02"),  # UTF-16
        (18, b"\x09\x09"),  # a format of the future
        (44, b"\xff\xff\xff\xff"),  # a schema of the future
    ],
)
def test_headers_that_lie(offset: int, value: bytes, database: Path, tmp_path: Path) -> None:
    _with_header(database, offset, value)
    export = tmp_path / "export.sqlite"
    small_export().write(export)
    _with_header(export, offset, value)
    began = time.process_time()

    for call in (
        lambda: aggregate(database, REQUEST, NullProgress()),
        lambda: open_database(database).close(),
        lambda: import_profile(ImportOptions(export, tmp_path / "made.sqlite"), NullProgress()),
    ):
        _expect_error(call)

    assert time.process_time() - began < CPU_LIMIT_S


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW view_db_version AS SELECT * FROM view_db_version",
        "CREATE TABLE x (y",
        "x" * 100_000,
        "CREATE VIEW v AS SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "CREATE TABLE sqlite_evil (x)",
        "",
    ],
)
def test_a_schema_that_is_no_sql(sql: str, database: Path) -> None:
    _change(
        database,
        "PRAGMA writable_schema = ON",
        "DELETE FROM sqlite_master WHERE name = 'view_domains'",
    )
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_master VALUES ('view', 'view_domains', 'view_domains', 0, ?)",
            (sql,),
        )
        connection.commit()

    for call in (
        lambda: open_database(database).close(),
        lambda: aggregate(database, REQUEST, NullProgress()),
    ):
        _expect_error(call)


def test_a_name_of_brackets_takes_no_square_of_its_length(database: Path) -> None:
    depth = 200_000
    name = "/Net/" + '{"a": ' * depth + "}" * depth
    _change(database, f"UPDATE ops SET op_name = '{name}' WHERE rowid = 1")
    began = time.process_time()
    paths = query(database, "SELECT module_path FROM view_op_metrics")
    names = query(database, "SELECT row_trimmed_name FROM view_group_ops")
    assert time.process_time() - began < CPU_LIMIT_S
    assert len(paths) > 1
    assert len(names) > 1


def test_the_path_of_a_module_is_its_name_up_to_the_last_slash(database: Path) -> None:
    long = "L" * 1_000
    for path, last in (("", "conv2d"), ("/Net/a/", "conv2d"), (f"/{long}/" * 20, f"{long}_2")):
        _change(database, f"UPDATE ops SET op_name = '{path}{last}'")
        with closing(sqlite3.connect(database)) as connection:
            found = connection.execute("SELECT DISTINCT module_path FROM view_op_metrics")
            assert found.fetchall() == [(path,)]
