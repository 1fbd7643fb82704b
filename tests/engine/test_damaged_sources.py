"""Files that are cut off, overwritten, or no profiles: one sentence each, never a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.errors import (
    CorruptProfileError,
    DlprofError,
    ProfileNotFoundError,
    UnsupportedProfileError,
)
from aggregator.options import AggregationRequest
from aggregator.pipeline import aggregate
from aggregator.system.progress import NullProgress
from tests.builders import analyze_file


def _failure(call: Callable[[], object]) -> DlprofError | None:
    """The error that a call ends with; anything but one of our own escapes."""
    try:
        call()
    except DlprofError as error:
        return error
    return None


def _import(source: Path, tmp_path: Path) -> str:
    """Outcome of an import: ``read`` or the error's code."""
    database = tmp_path / "out.sqlite"
    error = _failure(lambda: analyze_file(source, database))
    assert database.exists() == (error is None)
    database.unlink(missing_ok=True)
    assert error is None or (error.exit_code == 4 and error.message)
    return error.code if error else "read"


def test_export_cut_off_anywhere_crashes_no_import(sample_export: Path, tmp_path: Path) -> None:
    content = sample_export.read_bytes()
    page = 4096
    sizes = {*range(0, len(content), page), *range(1, len(content), page - 97), len(content) - 1}
    source = tmp_path / "cut.sqlite"
    outcomes = {}
    for size in sorted(sizes):
        source.write_bytes(content[:size])
        outcomes[size] = _import(source, tmp_path)
    assert outcomes[0] == "PROFILE_CORRUPT"
    assert "read" not in {outcomes[size] for size in sizes if size < len(content) - page}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.sqlite"]


def test_overwritten_export_crashes_no_import(sample_export: Path, tmp_path: Path) -> None:
    content = sample_export.read_bytes()
    chance = random.Random(7)
    source = tmp_path / "damaged.sqlite"
    for _ in range(25):
        damaged = bytearray(content)
        at = chance.randrange(len(damaged))
        damaged[at : at + 64] = chance.randbytes(len(damaged[at : at + 64]))
        source.write_bytes(bytes(damaged))
        _import(source, tmp_path)


def _aggregate(database: Path) -> DlprofError | None:
    request = AggregationRequest(iter_start=1)
    return _failure(lambda: aggregate(database, request, NullProgress()))


def test_database_cut_off_anywhere_crashes_no_import(sample_database: Path) -> None:
    content = sample_database.read_bytes()
    # Within the last page SQLite takes what is missing for zeros.
    for size in range(0, len(content) - 8192, len(content) // 40):
        sample_database.write_bytes(content[:size])
        error = _aggregate(sample_database)
        assert error is not None, f"cut at {size}"
        assert error.exit_code == 5


def test_overwritten_bytes_crash_no_import(sample_database: Path) -> None:
    content = sample_database.read_bytes()
    chance = random.Random(7)
    for _ in range(25):
        damaged = bytearray(content)
        at = chance.randrange(len(damaged))
        damaged[at : at + 64] = chance.randbytes(len(damaged[at : at + 64]))
        sample_database.write_bytes(bytes(damaged))
        error = _aggregate(sample_database)
        assert error is None or error.message


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileNotFoundError, match="does not exist"):
        analyze_file(tmp_path / "missing.sqlite", tmp_path / "out.sqlite")
    with pytest.raises(ProfileNotFoundError, match="folder"):
        analyze_file(tmp_path, tmp_path / "out.sqlite")


def test_empty_file_and_text_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "profile.sqlite"
    source.write_bytes(b"")
    with pytest.raises(CorruptProfileError):
        analyze_file(source, tmp_path / "out.sqlite")
    source.write_text("no profile")
    with pytest.raises(UnsupportedProfileError, match="not an SQLite file"):
        analyze_file(source, tmp_path / "out.sqlite")


def test_a_database_of_this_program_is_no_source(sample_database: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedProfileError) as caught:
        analyze_file(sample_database, tmp_path / "out.sqlite")
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "a b.sqlite",
        "50%20.sqlite",
        "what?.sqlite",
        "no#1.sqlite",
    ],
)
def test_names_with_characters_that_mean_something_in_a_uri(
    sample_export: Path, tmp_path: Path, name: str
) -> None:
    source = tmp_path / name
    source.write_bytes(sample_export.read_bytes())
    target = tmp_path / f"out {name}"
    assert analyze_file(source, target).path.is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, target.name])
