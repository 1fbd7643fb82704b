"""All or nothing: a failure or a cancel at any moment leaves no half-written database."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import aggregator.sources.nsys.reader  # noqa: F401 - a user without privileges may not import it
from aggregator.dldb.reader import open_database
from aggregator.errors import AggregationCancelledError, DatabaseWriteError
from aggregator.options import AggregationRequest, ImportOptions
from aggregator.pipeline import aggregate, import_profile
from aggregator.system.progress import Level, NullProgress
from tests.builders import query
from tests.property.traces import scratch

UNPRIVILEGED = 65534


class Stopping:
    """Counts its calls; the n-th one raises."""

    def __init__(self, at: int = -1, error: BaseException | None = None) -> None:
        self.words = 0
        self._at = at
        self._error = error or AggregationCancelledError("Cancelled.")

    def _hear(self) -> None:
        self.words += 1
        if self.words == self._at:
            raise self._error

    def phase(self, name: str, total_rows: int | None = None) -> None:
        del name, total_rows
        self._hear()

    def advance(self, rows: int) -> None:
        del rows
        self._hear()

    def message(self, text: str, level: Level = Level.NORMAL) -> None:
        del text, level
        self._hear()


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _words_of(call: Any) -> int:
    progress = Stopping()
    call(progress)
    return progress.words


# --- import ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [AggregationCancelledError("x"), RuntimeError("x"), KeyboardInterrupt()]
)
def test_an_import_stopped_at_any_moment_leaves_nothing(
    sample_export: Path, tmp_path: Path, error: BaseException
) -> None:
    options = ImportOptions(sample_export, tmp_path / "folder" / "out.sqlite")
    words = _words_of(lambda progress: import_profile(options, progress))
    options.database.unlink()
    assert words > 20
    for at in range(1, words, 3 if isinstance(error, AggregationCancelledError) else 15):
        with pytest.raises(type(error)):
            import_profile(options, Stopping(at, error))
        assert _files(options.database.parent) == [], f"after word {at}"


def test_an_existing_database_is_replaced_only_when_asked(
    sample_export: Path, tmp_path: Path
) -> None:
    database = tmp_path / "out.sqlite"
    database.write_bytes(b"precious")
    with pytest.raises(DatabaseWriteError, match="exists already"):
        import_profile(ImportOptions(sample_export, database), NullProgress())
    assert database.read_bytes() == b"precious"
    import_profile(ImportOptions(sample_export, database, overwrite=True), NullProgress())
    assert len(query(database, "SELECT * FROM view_op_nodes WHERE aggr_id = 1")) == 20
    assert _files(tmp_path) == ["out.sqlite"]


def test_a_replacement_that_fails_leaves_the_old_database(
    sample_export: Path, tmp_path: Path
) -> None:
    database = tmp_path / "out.sqlite"
    database.write_bytes(b"precious")
    options = ImportOptions(sample_export, database, overwrite=True)
    for at in (3, 20):
        with pytest.raises(AggregationCancelledError):
            import_profile(options, Stopping(at))
        assert database.read_bytes() == b"precious"
    assert _files(tmp_path) == ["out.sqlite"]


@contextmanager
def _files_no_larger_than(size: int) -> Iterator[None]:
    """A disk that is full after that many bytes, for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_during_an_import(sample_export: Path, tmp_path: Path) -> None:
    options = ImportOptions(sample_export, tmp_path / "out.sqlite")
    import_profile(options, NullProgress())
    size = options.database.stat().st_size
    options.database.unlink()
    for limit in (0, 1, 4096, 8192, size // 4, size // 2, size - 8192, size - 1):
        with (
            _files_no_larger_than(limit),
            pytest.raises(DatabaseWriteError, match=r"cannot be written") as caught,
        ):
            import_profile(options, NullProgress())
        assert caught.value.exit_code == 5
        assert _files(tmp_path) == [], f"limit {limit}"
    with _files_no_larger_than(size):
        import_profile(options, NullProgress())


@contextmanager
def _without_privileges() -> Iterator[None]:
    """Root may write anywhere; other users may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(UNPRIVILEGED)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_that_may_not_be_written(sample_export: Path) -> None:
    with scratch() as base:
        base.chmod(0o755)
        source = base / "profile.sqlite"
        shutil.copyfile(sample_export, source)
        source.chmod(0o644)
        folder = base / "read_only"
        folder.mkdir()
        folder.chmod(0o555)
        for database in (folder / "out.sqlite", folder / "new" / "out.sqlite"):
            with (
                _without_privileges(),
                pytest.raises(DatabaseWriteError, match=r"cannot be written") as caught,
            ):
                import_profile(ImportOptions(source, database), NullProgress())
            assert caught.value.hint
        assert _files(folder) == []


def test_a_folder_that_is_a_file(sample_export: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DatabaseWriteError):
        import_profile(
            ImportOptions(sample_export, tmp_path / "file" / "out.sqlite"), NullProgress()
        )


# --- aggregation ----------------------------------------------------------------------------------

REQUEST = AggregationRequest(iter_start=1, iter_stop=2)


def test_the_same_request_twice_is_one_aggregation(sample_database: Path) -> None:
    first = aggregate(sample_database, REQUEST, NullProgress())
    content = sample_database.read_bytes()
    again = aggregate(sample_database, REQUEST, NullProgress())
    assert (first.reused, again.reused) == (False, True)
    assert (first.aggr_id, first.iter_start, first.iter_stop, first.key_node) == (
        *(again.aggr_id, again.iter_start, again.iter_stop, again.key_node),
    )
    assert sample_database.read_bytes() == content


def test_the_imports_own_request_is_found_again(sample_database: Path) -> None:
    found = aggregate(sample_database, AggregationRequest(iter_start=0), NullProgress())
    assert (found.aggr_id, found.reused) == (1, True)


def test_an_aggregation_stopped_at_any_moment_leaves_nothing(sample_database: Path) -> None:
    copy = sample_database.with_name("copy.sqlite")
    shutil.copyfile(sample_database, copy)
    words = _words_of(lambda progress: aggregate(copy, REQUEST, progress))
    copy.unlink()
    before = _dump(sample_database)
    # The last word is said when everything is written.
    for at in (*range(1, words - 1, 3), words - 1):
        with pytest.raises(AggregationCancelledError):
            aggregate(sample_database, REQUEST, Stopping(at))
        assert _dump(sample_database) == before, f"after word {at}"
        assert _files(sample_database.parent) == [sample_database.name]
    assert not aggregate(sample_database, REQUEST, NullProgress()).reused


def _dump(database: Path) -> list[tuple[Any, ...]]:
    tables = query(database, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [(name, query(database, f"SELECT * FROM {name}")) for (name,) in tables]


def test_a_disk_that_fills_up_during_an_aggregation(sample_database: Path) -> None:
    before = _dump(sample_database)
    size = sample_database.stat().st_size
    for limit in (0, 512, size // 2):
        with _files_no_larger_than(limit), pytest.raises(DatabaseWriteError):
            aggregate(sample_database, REQUEST, NullProgress())
        # Opening rolls back what could not be rolled back while the disk was full.
        open_database(sample_database).close()
        assert _dump(sample_database) == before, f"limit {limit}"
        assert _files(sample_database.parent) == [sample_database.name]
    assert not aggregate(sample_database, REQUEST, NullProgress()).reused


def test_a_database_that_may_not_be_written(sample_database: Path) -> None:
    with scratch() as base:
        copy = base / "dlprof_dldb.sqlite"
        shutil.copyfile(sample_database, copy)
        copy.chmod(0o444)
        base.chmod(0o555)
        with _without_privileges(), pytest.raises(DatabaseWriteError) as caught:
            aggregate(copy, REQUEST, NullProgress())
        base.chmod(0o755)
    # Most commands that write into a database have no --output_path.
    assert "--" not in str(caught.value.hint)


class Interrupting(Stopping):
    """At the n-th word another process commits, and has to wait for readers to finish."""

    SCRIPT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=100, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE dldb_meta SET value = value")
connection.execute("COMMIT")
"""

    def __init__(self, database: Path, at: int) -> None:
        super().__init__(at)
        self._command = [sys.executable, "-S", "-c", self.SCRIPT, str(database)]
        self.writer: subprocess.Popen[bytes] | None = None

    def _hear(self) -> None:
        self.words += 1
        if self.words == self._at:
            self.writer = subprocess.Popen(self._command)
            with suppress(subprocess.TimeoutExpired):
                self.writer.wait(timeout=0.5)


@pytest.mark.parametrize("word", [1, 2, 3, 4, 5])
def test_an_aggregation_and_the_commit_of_another_do_not_block_each_other(
    sample_database: Path, word: int
) -> None:
    # These words are said while the columns are read.
    progress = Interrupting(sample_database, word)
    assert aggregate(sample_database, REQUEST, progress).aggr_id == 2
    assert progress.writer is not None
    assert progress.writer.wait(timeout=120) == 0
