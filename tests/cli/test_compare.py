"""``dlprof compare``: sides, formats, exit codes, and one sentence for what cannot be compared."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from profiler_cli.dlprof import main
from tests.conftest import DEMO_PROFILE, ProfileFactory


@pytest.fixture(scope="module")
def database(imported: ProfileFactory) -> Path:
    return imported(DEMO_PROFILE)


def test_json_has_the_documented_fields_and_adds_up(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["compare", f"{database}@2-9", f"{database}@10-19", "--format=json"])
    found = json.loads(capsys.readouterr().out)
    assert code == {"cannot tell": 14, "slower": 10}.get(found["verdict"], 0)
    assert found["base"]["iterations"] == 8
    assert found["new"]["captures"] == 1
    for key in ("rows", "classes"):
        total = sum(Decimal(one["difference_ns"]) for one in found[key])
        assert total == Decimal(found["difference_ns"])
    assert {"class", "module", "op", "direction", "match", "verdict"} <= found["rows"][0].keys()


def test_a_profile_is_imported_for_the_comparison_and_nothing_is_left(
    demo_profile: Path,
    database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["compare", str(demo_profile), str(database)]) in (0, 14)
    lines = capsys.readouterr().out.splitlines()
    assert "+0.000 ms, +0.0 %" in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_captures_of_a_side_are_separated_by_commas(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [f"{database}@{first}-{first + 3}" for first in (2, 6, 10, 14)]
    sides = [f"--base={parts[0]},{parts[1]}", f"--new={parts[2]},{parts[3]}", "--format=json"]
    assert main(["compare", *sides]) in (0, 10, 14)
    found = json.loads(capsys.readouterr().out)
    assert (found["base"]["captures"], found["new"]["captures"]) == (2, 2)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["{database}"], 2, "Two captures are needed."),
        (["{database}", "{database}"], 2, "is on both sides."),
        (["{database}", "{database}@99"], 2, "has no aggregation 99."),
        (["{database}", "{database}@4-99"], 2, "lies outside the profile."),
        (["{database}", "{folder}/missing.sqlite"], 5, "No database at"),
        (["{database}", "{folder}/text.sqlite"], 4, ""),
        (["{database}", "{database}@2", "--max-slowdown=much"], 2, "is no percentage"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_sentence(
    words: list[str],
    code: int,
    message: str,
    database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.sqlite").write_text("no profile")
    words = [word.format(database=database, folder=tmp_path) for word in words]
    assert main(["compare", *words]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not shown.out
