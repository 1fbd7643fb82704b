"""Leftovers of killed processes are found by their names, and nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from aggregator.system import temporary_files as leftovers
from aggregator.system.temporary_files import STRANGERS_LIMIT_S, remove_leftovers, temporary_name

MAKE = (
    "import sys; from pathlib import Path; from aggregator.system.temporary_files import *;"
    "target = Path(sys.argv[1]);"
    "[temporary_name(target, kind).touch() for kind in ('partial', 'tmp', 'partial-journal')];"
    "folder = target.with_name(f'.{target.name}.ranks.{owner()}.x'); folder.mkdir();"
    "(folder / '0.sqlite').touch();"
)


def _make(target: Path, then: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAKE + f"print('made', flush=True);{then}", str(target)],
        stdout=subprocess.PIPE,
        text=True,
    )


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "a.b.sqlite"
    target.touch()
    process = _make(target)
    process.communicate(timeout=30)
    assert len(_names(tmp_path)) == 5

    assert len(remove_leftovers(tmp_path)) == 4

    assert _names(tmp_path) == {"a.b.sqlite"}


def test_files_of_living_processes_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "db.sqlite"
    process = _make(target, "sys.stdin.read()")
    try:
        assert process.stdout is not None
        process.stdout.readline()
        mine = temporary_name(target, "partial")
        mine.touch()

        assert remove_leftovers(tmp_path) == []
        assert len(_names(tmp_path)) == 5
        # Not even by a user who may write another file.
        assert remove_leftovers(tmp_path, "other.sqlite") == []
        # But by the user who was given this one.
        assert len(remove_leftovers(tmp_path, "db.sqlite")) == 5
    finally:
        process.kill()
        process.communicate()


def test_strangers_get_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / ".db.sqlite.0badcafe-1-1.partial"
    theirs.touch()
    assert remove_leftovers(tmp_path) == []

    old = time.time() - STRANGERS_LIMIT_S - 60
    os.utime(theirs, (old, old))

    assert remove_leftovers(tmp_path) == [theirs]


def test_files_of_others_stay(tmp_path: Path) -> None:
    names = {
        ".db.sqlite.partial", ".db.sqlite.123.partial", "db.sqlite.0badcafe-1-1.partial",
        ".db.sqlite-journal", ".hidden", ".db.ranks.notours.x", ".x.0badcafe-1.tmp",
    }  # fmt: skip
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))

    assert remove_leftovers(tmp_path) == []

    assert _names(tmp_path) == names


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (tmp_path / ".db.ranks.0badcafe-1-1.aa").symlink_to(kept)
    os.utime(tmp_path / ".db.ranks.0badcafe-1-1.aa", (1, 1), follow_symlinks=False)

    remove_leftovers(tmp_path)

    assert _names(tmp_path) == {"kept"}
    assert _names(kept) == {"file"}


def test_folders_of_the_dead_in_the_temporary_folder_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = (
        "import tempfile; from aggregator.system.temporary_files import folder_prefix;"
        "[tempfile.mkdtemp(prefix=folder_prefix(name)) for name in "
        "('dlprof-nsys', 'dlprof-advise', 'dlprofviewer')]"
    )
    subprocess.run(
        [sys.executable, "-c", make], check=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    mine = Path(tempfile.mkdtemp(prefix=leftovers.folder_prefix("dlprofviewer")))
    (tmp_path / "dlprofviewer-notes").mkdir()
    assert len(_names(tmp_path)) == 5

    assert len(leftovers.remove_leftover_folders()) == 3

    assert _names(tmp_path) == {mine.name, "dlprofviewer-notes"}


def test_a_reused_process_id_is_another_owner(tmp_path: Path) -> None:
    owner = leftovers.owner()
    scope, pid, started = owner.split("-")
    (tmp_path / f".db.{scope}-{pid}-{int(started) - 1}.partial").touch()
    (tmp_path / f".db.{owner}.partial").touch()

    remove_leftovers(tmp_path)

    assert _names(tmp_path) == {f".db.{owner}.partial"}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert remove_leftovers(tmp_path / "nope") == []
