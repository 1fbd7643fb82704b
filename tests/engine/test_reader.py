"""Opening databases: this program's, NVIDIA's, too old, too new, and other files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.dldb.reader import DB_VERSION, open_database
from aggregator.errors import DldbNotFoundError, DldbVersionError, NotADldbError
from aggregator.sources.formats import parse_version
from tests.builders import alter


def _foreign(path: Path, version: str, *, ours: bool = False) -> Path:
    """A database with the least that makes one."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW view_db_version AS SELECT '{version}' AS current_version")
        connection.execute("CREATE VIEW view_aggregations AS SELECT 1 AS aggr_id")
        connection.execute("CREATE VIEW view_op_nodes AS SELECT 1 AS aggr_id, 'x' AS op_node_id")
        if ours:
            connection.execute("CREATE TABLE dldb_meta (key, value)")
        connection.commit()
    return path


def test_database_of_this_program_is_recognized(sample_database: Path) -> None:
    with open_database(sample_database) as database:
        assert database.is_ours
        assert database.version == DB_VERSION
        assert {"view_op_nodes", "view_kernel_launches"} <= database.views
        assert database.columns("view_domains") == ("domain_name",)
        assert database.columns("no_such_view") == ()
        row = database.connection.execute("SELECT domain_name FROM view_domains").fetchone()
        assert row["domain_name"] == "default-domain"


def test_a_database_is_opened_for_reading_only(sample_database: Path) -> None:
    before = sample_database.read_bytes()
    with (
        open_database(sample_database) as database,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        database.connection.execute("DELETE FROM dldb_meta")
    assert sample_database.read_bytes() == before
    assert [path.name for path in sample_database.parent.iterdir()] == [sample_database.name]


@pytest.mark.parametrize("version", ["1.2.0", "1.5.1", "1.8.0", "v1.8.0"])
def test_versions_of_nvidias_that_are_read(tmp_path: Path, version: str) -> None:
    with open_database(_foreign(tmp_path / "x.sqlite", version)) as database:
        assert not database.is_ours
        assert database.version == version


@pytest.mark.parametrize("version", ["1.0.0", "1.1.9", "0.16", "1.9.0", "2.0.0", "", "nonsense"])
def test_versions_of_nvidias_that_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(DldbVersionError) as caught:
        open_database(_foreign(tmp_path / "x.sqlite", version))
    assert caught.value.exit_code == 5


def test_a_newer_version_is_refused_and_a_newer_patch_is_read(tmp_path: Path) -> None:
    major, minor, patch = parse_version(DB_VERSION)
    for version in (f"{major}.{minor + 1}.0", f"{major + 1}.0.0"):
        with pytest.raises(DldbVersionError, match=r"newer") as caught:
            open_database(_foreign(tmp_path / f"{version}.sqlite", version, ours=True))
        assert caught.value.hint
    newer_patch = f"{major}.{minor}.{patch + 1}"
    with open_database(_foreign(tmp_path / "patch.sqlite", newer_patch, ours=True)) as database:
        assert database.is_ours


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.sqlite", tmp_path):
        with pytest.raises(DldbNotFoundError) as caught:
            open_database(path)
        assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"SQLite", b"text\n" * 100, b"SQLite format 3\x00"])
def test_files_that_are_no_sqlite_databases(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(content)
    with pytest.raises(NotADldbError):
        open_database(path)


def test_databases_of_other_programs_are_refused(tmp_path: Path, sample_export: Path) -> None:
    alter(tmp_path / "notes.sqlite", "CREATE TABLE notes (text)")
    for path in (tmp_path / "notes.sqlite", sample_export):
        with pytest.raises(NotADldbError, match="no DLProf database"):
            open_database(path)


@pytest.mark.parametrize(
    "name", ["a b.sqlite", "50%20.sqlite", "what?.sqlite", "no#1.sqlite", "ü.sqlite"]
)
def test_names_with_characters_that_mean_something_in_a_uri(tmp_path: Path, name: str) -> None:
    with open_database(_foreign(tmp_path / name, "1.8.0")) as database:
        assert database.version == "1.8.0"
