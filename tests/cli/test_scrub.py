"""``dlprof scrub``: a copy without environments, with the same analysis."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from profiler_cli.dlprof import main
from tests.builders import Trace


@pytest.fixture
def export(tmp_path: Path) -> Path:
    trace = Trace()
    list(trace.steps(3))
    trace.string("PATH=/bin\0API_KEY=hunter2")
    return trace.write(tmp_path / "run.sqlite")


def report(source: Path, folder: Path) -> bytes:
    words = [f"--database={source}", f"--output_path={folder}", "--reports=detail", "-v=quiet"]
    assert main(words) == 0
    return (folder / "dlprof_detailed.csv").read_bytes()


def test_the_copy_has_no_secret_and_the_same_report(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scrub", str(export)]) == 0
    said = capsys.readouterr().out
    copy = tmp_path / "run_scrubbed.sqlite"
    assert "run_scrubbed.sqlite: 1 texts" in said
    assert b"hunter2" in export.read_bytes()
    assert b"hunter2" not in copy.read_bytes()
    assert report(copy, tmp_path / "a") == report(export, tmp_path / "b")


def test_nothing_is_overwritten_without_force(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["scrub", str(export), f"--output={tmp_path}/copy.sqlite"]
    assert [main(words), main(words), main([*words, "--force"])] == [0, 2, 0]
    assert main(["scrub", str(export), f"--output={export}", "--force"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_full_disk_is_no_damage(
    export: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def copy(source: Path, target: Path) -> None:
        target.write_bytes(b"the beginning")
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("aggregator.sources.nsys.scrub._copy", copy)
    assert main(["scrub", str(export)]) == 5
    said = capsys.readouterr().err
    assert "disk is full" in said
    assert "damaged" not in said
    assert [path.name for path in export.parent.iterdir()] == ["run.sqlite"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "dlprof scrub --help lists the options"),
        (["{folder}/none.sqlite"], 4, "none.sqlite"),
        (["{folder}/note.txt"], 4, "note.txt"),
        (["{folder}/run.sqlite", "--output={folder}/note.txt/copy"], 5, "note.txt"),
    ],
)
def test_what_cannot_work_is_an_error(
    export: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (export.parent / "note.txt").write_text("no export")
    assert main(["scrub", *(word.format(folder=export.parent) for word in words)]) == code
    errors = capsys.readouterr().err
    assert said in errors
    assert "--output_path" not in errors
