"""Copies of exports without the environments and the output of processes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.errors import ProfileError, UsageError
from aggregator.sources import open_profile
from aggregator.sources.nsys.scrub import scrub
from aggregator.system.progress import NullProgress
from tests.builders import alter, contents, one_gpu, query
from tests.conftest import ProfileFactory

SECRETS = (
    *("hunter2", "sk-live-123", "printed-token", "--password=swordfish", "/home/ada"),
    *("noted-token", "secret-project", "other-token"),
)


def export(folder: Path) -> Path:
    """A small export with a secret in each place where Nsight Systems leaves one."""
    trace, main = one_gpu()
    main.op("conv2d", 100, 200, seq=1)
    main.launch("volta_sgemm", 110)
    trace.string("PATH=/bin\0API_KEY=hunter2\0HOME=/home/ada")
    trace.string("TOKEN=sk-live-123")
    output = trace.string("step 1\nprinted-token\n")
    trace.add("TARGET_INFO_SYSTEM_ENV", name="Hostname", value="node7")
    value = "HOME=/home/ada;CUDA_VISIBLE_DEVICES=0;KEY=hunter2"
    trace.add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value=value)
    path = trace.write(folder / "secret.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        connection.execute("CREATE TABLE ProcessStreams (filenameId INT, contentId INT)")
        connection.execute("INSERT INTO ProcessStreams VALUES (?, ?)", (output, output))
        connection.execute("UPDATE ProcessStreams SET filenameId = 0")
        rows = [
            ("PROCESS_0:ENVIRONMENT_VARIABLE", "API_KEY=hunter2"),
            ("PROCESS_0:COMMAND", "python"),
            ("PROCESS_0:ARGUMENT_0", "--password=swordfish"),
        ]
        connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", rows)
        connection.execute("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, text TEXT)")
        connection.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 'API_KEY=noted-token')")
        connection.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (2, 'Profiling has started.')")
        connection.execute("CREATE TABLE ANALYSIS_FILE (id TEXT, filename TEXT)")
        connection.execute("INSERT INTO ANALYSIS_FILE VALUES ('{1}', 'secret-project.log')")
        connection.execute("CREATE TABLE NEW_IN_2030 (x)")
        connection.execute("INSERT INTO NEW_IN_2030 VALUES ('A=1;TOKEN=other-token')")
        connection.execute("CREATE TABLE gone AS SELECT 'API_KEY=hunter2' AS x")
        connection.execute("DROP TABLE gone")
        connection.commit()
    return path


def test_no_secret_is_left_and_nothing_else_is_lost(tmp_path: Path) -> None:
    source = export(tmp_path)
    before = source.read_bytes()
    assert all(secret.encode() in before for secret in SECRETS)
    found = scrub(source, tmp_path / "clean.sqlite")
    after = (tmp_path / "clean.sqlite").read_bytes()
    assert [secret for secret in SECRETS if secret.encode() in after] == []
    assert (found.texts, found.settings) == (3, 8)
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.sqlite", "secret.sqlite"]
    profiles = [open_profile(path, NullProgress()) for path in (source, tmp_path / "clean.sqlite")]
    for profile in profiles:
        profile.source_name = ""
    assert contents(profiles[0]) == contents(profiles[1])
    ((kept,),) = query(
        tmp_path / "clean.sqlite",
        "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'",
    )
    notes = query(tmp_path / "clean.sqlite", "SELECT text FROM DIAGNOSTIC_EVENT")
    assert kept == "CUDA_VISIBLE_DEVICES=0"
    assert notes == [("",), ("Profiling has started.",)]


def test_the_command_line_stays_if_asked_for(tmp_path: Path) -> None:
    scrub(export(tmp_path), tmp_path / "clean.sqlite", keep_commands=True)
    after = (tmp_path / "clean.sqlite").read_bytes()
    assert b"--password=swordfish" in after
    assert b"hunter2" not in after


@pytest.mark.parametrize("name", ["nvtx_domains", "simple_no_nvtx", "liz_ddp53", "athrun"])
def test_a_real_export_is_analyzed_as_before(
    profile: ProfileFactory, tmp_path: Path, name: str
) -> None:
    target = tmp_path / f"{name}.sqlite"
    scrub(profile(name), target)
    one, other = (contents(open_profile(path, NullProgress())) for path in (profile(name), target))
    assert one == other
    assert b"QUADD_" not in target.read_bytes()


def test_what_exists_is_not_replaced_and_what_is_no_export_is_refused(tmp_path: Path) -> None:
    source, target = export(tmp_path), tmp_path / "clean.sqlite"
    target.write_text("mine")
    for path in (source, target):
        with pytest.raises(UsageError, match="exists already"):
            scrub(source, path)
    with pytest.raises(UsageError, match="exists already"):
        scrub(source, source, overwrite=True)
    with pytest.raises(ProfileError):
        scrub(target, tmp_path / "other.sqlite")
    assert target.read_text() == "mine"
    scrub(source, target, overwrite=True)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(source: Path, target: Path) -> None:
        target.touch()
        target.with_name(f"{target.name}-journal").touch()
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("aggregator.sources.nsys.scrub._copy", fill)
    source = export(tmp_path)
    with pytest.raises(OSError, match="full"):
        scrub(source, tmp_path / "clean.sqlite")
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER evil BEFORE UPDATE ON StringIds BEGIN DELETE FROM NVTX_EVENTS; END",
        "CREATE INDEX evil ON StringIds (hex(value))",
        "CREATE INDEX evil ON StringIds (value) WHERE length(value) > 3",
    ],
)
def test_an_export_in_which_a_change_runs_something_is_refused(
    statement: str, tmp_path: Path
) -> None:
    source, target = export(tmp_path), tmp_path / "clean.sqlite"
    alter(source, statement)

    with pytest.raises(ProfileError, match="trigger or an index that computes"):
        scrub(source, target)

    assert not target.exists()


def test_a_plain_index_is_copied(tmp_path: Path) -> None:
    source, target = export(tmp_path), tmp_path / "clean.sqlite"
    alter(source, "CREATE INDEX fine ON StringIds (value)")

    scrub(source, target)

    assert target.exists()
