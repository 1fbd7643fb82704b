"""File names, numbers instead of overwriting, and files that appear together or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.errors import DatabaseWriteError
from profiler_cli.outputs import (
    Batch,
    OutputPlan,
    claimed_outputs,
    display,
    file_name_part,
    output_folder,
    plan_outputs,
)

SOURCE = Path("/nowhere/nsys_profile.sqlite")


def make_plan(
    folder: Path, *, writes_database: bool = True, force: bool = False, source: Path = SOURCE
) -> OutputPlan:
    return plan_outputs(
        folder,
        "dlprof",
        [("detailed", "csv"), ("detailed", "json"), ("summary", "csv")],
        writes_database=writes_database,
        force=force,
        sources=(source,),
    )


def test_names_in_an_empty_folder_are_plain(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    assert plan.database == tmp_path / "dlprof_dldb.sqlite"
    assert plan.report("detailed", "default-domain", "csv") == tmp_path / "dlprof_detailed.csv"
    assert plan.report("detailed", "Forward", "csv") == tmp_path / "dlprof_detailed_Forward.csv"


@pytest.mark.parametrize(
    "existing",
    [
        "dlprof_dldb.sqlite",
        "dlprof_detailed.csv",
        "dlprof_detailed.json",
        "dlprof_summary_Forward.csv",
    ],
)
def test_one_existing_file_gives_all_files_the_next_number(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).touch()
    plan = make_plan(tmp_path)
    assert plan.database.name == "dlprof_dldb_1.sqlite"
    assert plan.report("summary", "", "csv").name == "dlprof_summary_1.csv"
    assert plan.report("summary", "Forward", "csv").name == "dlprof_summary_Forward_1.csv"


def test_the_number_is_the_first_that_no_file_of_the_run_has(tmp_path: Path) -> None:
    for name in ["dlprof_dldb.sqlite", "dlprof_summary_1.csv", "dlprof_detailed_2.csv"]:
        (tmp_path / name).touch()
    assert make_plan(tmp_path).number == 3


@pytest.mark.parametrize("name", ["dlprof_kernel.csv", "other_summary.csv", "dlprof_summary.txt"])
def test_files_that_this_run_does_not_write_do_not_count(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert make_plan(tmp_path).number == 0


def test_a_database_that_is_not_written_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "dlprof_dldb.sqlite").touch()
    assert make_plan(tmp_path, writes_database=False).number == 0


def test_force_keeps_the_plain_names(tmp_path: Path) -> None:
    (tmp_path / "dlprof_dldb.sqlite").touch()
    assert make_plan(tmp_path, force=True).number == 0


def test_not_even_force_replaces_the_file_that_is_read(tmp_path: Path) -> None:
    source = tmp_path / "dlprof_dldb.sqlite"
    source.touch()
    assert make_plan(tmp_path, force=True, source=source).database.name == "dlprof_dldb_1.sqlite"


@pytest.mark.parametrize(
    ("text", "part"),
    [("my model", "my_model"), ("../up", "__up"), ("a/b:c", "a_b_c"), ("tab\there", "tab_here")],
)
def test_names_cannot_leave_their_folder(text: str, part: str) -> None:
    assert file_name_part(text) == part


@pytest.mark.parametrize(
    ("path", "shown"), [("a.csv", "./a.csv"), ("/x/a.csv", "/x/a.csv"), ("../a.csv", "../a.csv")]
)
def test_relative_paths_are_shown_with_a_dot(path: str, shown: str) -> None:
    assert display(Path(path)) == shown


# --- the folder ------------------------------------------------------------------------------


def test_a_missing_folder_is_created_with_its_parents(tmp_path: Path) -> None:
    with output_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_created_folder_is_removed_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), output_folder(tmp_path / "a" / "b"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_created_folder_stays_when_it_holds_something(tmp_path: Path) -> None:
    def fail_late() -> None:
        with output_folder(tmp_path / "a"):
            (tmp_path / "a" / "dlprof_dldb.sqlite").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_late()
    assert (tmp_path / "a" / "dlprof_dldb.sqlite").exists()


def test_a_file_in_place_of_a_folder_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(DatabaseWriteError, match=r"Cannot write .*file/out: Not a directory"),
        output_folder(tmp_path / "file" / "out"),
    ):
        pass


# --- batches ---------------------------------------------------------------------------------


def stage(batch: Batch, path: Path, text: bytes = b"new") -> None:
    with batch.open(path) as stream:
        stream.write(text)


def test_files_of_a_batch_appear_with_its_commit(tmp_path: Path) -> None:
    with Batch(force=False) as batch:
        stage(batch, tmp_path / "a.csv")
        stage(batch, tmp_path / "b.csv")
        assert not (tmp_path / "a.csv").exists()
        batch.commit()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv"]


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def write_half() -> None:
        with Batch(force=False) as batch:
            stage(batch, tmp_path / "a.csv")
            with batch.open(tmp_path / "b.csv") as stream:
                stream.write(b"half")
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_meanwhile_is_kept_and_nothing_else_appears(tmp_path: Path) -> None:
    with Batch(force=False) as batch:
        stage(batch, tmp_path / "a.csv")
        stage(batch, tmp_path / "b.csv")
        (tmp_path / "b.csv").write_bytes(b"theirs")
        with pytest.raises(DatabaseWriteError, match=r"b\.csv: File exists"):
            batch.commit()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"b.csv": b"theirs"}


def test_force_replaces(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"old")
    with Batch(force=True) as batch:
        stage(batch, tmp_path / "a.csv")
        assert (tmp_path / "a.csv").read_bytes() == b"old"
        batch.commit()
    assert (tmp_path / "a.csv").read_bytes() == b"new"


def test_domains_that_share_a_file_name_get_separate_files(tmp_path: Path) -> None:
    with Batch(force=False) as batch:
        stage(batch, tmp_path / "dlprof_detailed_a_b.csv", b"a/b")
        stage(batch, tmp_path / "dlprof_detailed_a_b.csv", b"a:b")
        batch.commit()
    assert (tmp_path / "dlprof_detailed_a_b-2.csv").read_bytes() == b"a:b"


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")

    def write_until_full() -> None:
        with Batch(force=False) as batch, batch.open(tmp_path / "a.csv") as stream:
            stream.write(b"x")
            with full.open("wb", buffering=0) as device:
                device.write(b"x")

    with pytest.raises(DatabaseWriteError, match=r"a\.csv: No space left on device") as caught:
        write_until_full()
    assert "--output_path" in caught.value.hint
    assert caught.value.exit_code == 5
    assert list(tmp_path.iterdir()) == []


def test_parallel_runs_in_one_folder_take_different_numbers(tmp_path: Path) -> None:
    def choose(busy: frozenset[int]) -> OutputPlan:
        return plan_outputs(
            tmp_path, "dlprof", [], writes_database=True, force=False, sources=(SOURCE,), busy=busy
        )

    with claimed_outputs(choose) as first, claimed_outputs(choose) as second:
        assert (first.database.name, second.database.name) == (
            "dlprof_dldb.sqlite",
            "dlprof_dldb_1.sqlite",
        )
        first.database.touch()
    with claimed_outputs(choose) as third:
        assert third.number == 1
    assert [path.name for path in tmp_path.iterdir()] == ["dlprof_dldb.sqlite"]


def test_the_claim_of_a_killed_run_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".dlprof_dldb_0.claim").touch()

    def choose(busy: frozenset[int]) -> OutputPlan:
        return plan_outputs(
            tmp_path, "dlprof", [], writes_database=True, force=False, sources=(SOURCE,), busy=busy
        )

    with claimed_outputs(choose) as plan:
        assert plan.number == 0
    assert not list(tmp_path.iterdir())
