"""The command from outside: exit codes, sentences, files. Bad input runs in its own process."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.builders import Trace
from tests.cli.forking import LIMIT_S, Forks

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = [
    sys.executable,
    "-c",
    "import sys; from profiler_cli.dlprof import main; sys.exit(main())",
]

PAUSED = Path(__file__).with_name("paused.py")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dlprof(tmp_path: Path, forks: Forks) -> Run:
    """Run the command in an empty folder."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return forks.run(list(words), tmp_path, os.environ)

    return run


@pytest.fixture
def export(profile: Callable[[str], Path]) -> Path:
    """A small export without framework ranges."""
    return profile("simple_no_nvtx")


@pytest.fixture
def training(profile: Callable[[str], Path]) -> Path:
    """A small export of a training loop: 8 iterations and what lies before them."""
    return profile("pytorch_resnet50_fp32")


def assert_one_error(done: subprocess.CompletedProcess[str], exit_code: int, words: str) -> None:
    """One sentence on standard error, at most one hint, no traceback, nothing else."""
    assert done.returncode == exit_code, done.stderr
    first, *hints = done.stderr.splitlines()
    assert first.startswith("dlprof: error: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(hints) <= 2


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# --- usage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command_line", "words"),
    [
        ("", "no application and no --database was given"),
        ("no-such-program train.py", "Program 'no-such-program' was not found"),
        ("--nonsense", "Unknown option --nonsense"),
        ("--mode=torch --database=x", "--mode expects one of"),
        ("--database=x --reports=sumary", "Did you mean summary?"),
        (f"--database={__file__},{__file__}", "twice"),
        ("--database=a.sqlite,,b.sqlite", "has an empty name"),
        ("--database=rank*.sqlite", "No file matches"),
        ("--database=x --workers=0", "--workers expects a whole number of at least 1"),
        ("--database=x --formats=xlsx", "There are: all, csv, json."),
        ("--database=x --iter_start=5 --iter_stop=2", "is less than --iter_start=5"),
    ],
)
def test_usage_errors_end_with_2(
    dlprof: Run, tmp_path: Path, command_line: str, words: str
) -> None:
    assert_one_error(dlprof(*command_line.split()), 2, words)
    assert names(tmp_path) == set()


def test_an_export_in_place_of_an_application_is_recognized(dlprof: Run, tmp_path: Path) -> None:
    (tmp_path / "my profile.sqlite").touch()
    done = dlprof("my profile.sqlite")
    assert_one_error(done, 2, "dlprof --database='my profile.sqlite'")


def test_debug_shows_the_traceback(dlprof: Run) -> None:
    done = dlprof("--debug", "--database=missing.sqlite")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


# --- the profile -----------------------------------------------------------------------------


def make_text(path: Path, export: Path) -> None:
    del export
    path.write_text("no database\n" * 100)


def make_empty(path: Path, export: Path) -> None:
    del export
    path.touch()


def make_foreign(path: Path, export: Path) -> None:
    del export
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def make_truncated(path: Path, export: Path) -> None:
    whole = export.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def make_folder(path: Path, export: Path) -> None:
    del export
    path.mkdir()


def make_nothing(path: Path, export: Path) -> None:
    del path, export


@pytest.mark.parametrize(
    "make",
    [make_nothing, make_text, make_empty, make_foreign, make_truncated, make_folder],
    ids=lambda make: make.__name__,
)
def test_a_profile_that_cannot_be_used_ends_with_4(
    dlprof: Run, tmp_path: Path, export: Path, make: Callable[[Path, Path], None]
) -> None:
    make(tmp_path / "bad.sqlite", export)
    before = names(tmp_path)
    done = dlprof("--database=bad.sqlite", "--reports=all", "--output_path=out")
    assert_one_error(done, 4, "bad.sqlite")
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ("--key_node=NO_SUCH_OP", "NO_SUCH_OP"),
        ("--iter_start=1000000", "1000000"),
        ("--iter_stop=1000000", "1000000"),
    ],
)
def test_a_request_that_the_profile_cannot_fulfil_ends_with_2(
    dlprof: Run, tmp_path: Path, training: Path, switch: str, words: str
) -> None:
    done = dlprof(f"--database={training}", switch, "--output_path=out")
    assert_one_error(done, 2, words)
    assert names(tmp_path) == set()


# --- where it cannot write -------------------------------------------------------------------


def test_a_file_in_place_of_the_folder_ends_with_5(
    dlprof: Run, tmp_path: Path, export: Path
) -> None:
    (tmp_path / "out").touch()
    done = dlprof(f"--database={export}", "--output_path=out/deeper")
    assert_one_error(done, 5, "Cannot write")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_ends_with_5(dlprof: Run, tmp_path: Path, export: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir(mode=0o555)
    assert_one_error(dlprof(f"--database={export}", "--output_path=out"), 5, "Cannot write")
    assert names(folder) == set()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small disk here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_with_5_and_leaves_nothing(
    dlprof: Run, small_disk: Path, export: Path
) -> None:
    done = dlprof(f"--database={export}", f"--output_path={small_disk}", "--reports=all")
    assert_one_error(done, 5, "full")
    assert names(small_disk) == set()


# --- overwriting -----------------------------------------------------------------------------


def test_nothing_is_overwritten_without_force(dlprof: Run, tmp_path: Path, export: Path) -> None:
    words = (f"--database={export}", "--reports=summary,kernel", "--formats=csv,json")
    # GIVEN a run, and files that the user has since changed
    assert dlprof(*words).returncode == 0
    first = names(tmp_path)
    assert first == {
        "dlprof_dldb.sqlite",
        "dlprof_summary.csv",
        "dlprof_summary.json",
        "dlprof_kernel.csv",
        "dlprof_kernel.json",
    }
    (tmp_path / "dlprof_summary.csv").write_text("mine")
    # WHEN it runs twice more
    assert dlprof(*words).returncode == 0
    assert dlprof(*words).returncode == 0
    # THEN each run has files of its own number and the user's file is as it was
    for number in (1, 2):
        numbered = {f"{Path(name).stem}_{number}{Path(name).suffix}" for name in first}
        assert numbered <= names(tmp_path)
    assert (tmp_path / "dlprof_summary.csv").read_text() == "mine"
    assert len(names(tmp_path)) == 3 * len(first)


@pytest.mark.parametrize("force", ["--force=true", "-f"])
def test_force_overwrites(dlprof: Run, tmp_path: Path, export: Path, force: str) -> None:
    (tmp_path / "dlprof_dldb.sqlite").write_text("old")
    (tmp_path / "dlprof_summary.csv").write_text("old")
    assert dlprof(f"--database={export}", "--reports=summary", force).returncode == 0
    assert names(tmp_path) == {"dlprof_dldb.sqlite", "dlprof_summary.csv"}
    assert (tmp_path / "dlprof_summary.csv").read_text().startswith("System Config\n")


def test_the_profile_is_never_written_to(dlprof: Run, tmp_path: Path, export: Path) -> None:
    copy = tmp_path / "nsys_profile.sqlite"
    shutil.copyfile(export, copy)
    copy.chmod(0o444)
    assert dlprof("--database=nsys_profile.sqlite", "--reports=all").returncode == 0
    assert copy.read_bytes() == export.read_bytes()


def test_files_carry_the_profile_name_with_underscores(
    dlprof: Run, tmp_path: Path, export: Path
) -> None:
    done = dlprof(
        f"--database={export}",
        "--profile_name=my first run",
        "--reports=summary",
        "--output_path=o",
    )
    assert done.returncode == 0
    assert names(tmp_path / "o") == {"dlprof_dldb.sqlite", "my_first_run_summary.csv"}
    lines = (tmp_path / "o" / "my_first_run_summary.csv").read_text().splitlines()
    assert lines[1] == "Profile Name,my first run"


# --- what it says ----------------------------------------------------------------------------


def test_without_reports_only_the_database_is_written(
    dlprof: Run, tmp_path: Path, export: Path
) -> None:
    done = dlprof(f"--database={export}")
    assert done.returncode == 0
    assert done.stderr == ""
    assert names(tmp_path) == {"dlprof_dldb.sqlite"}


def test_quiet_says_nothing(dlprof: Run, export: Path) -> None:
    done = dlprof(f"--database={export}", "--reports=summary", "-v", "quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_simple_mode_prints_three_totals_and_the_feedback(dlprof: Run, export: Path) -> None:
    done = dlprof(f"--database={export}", "-m", "simple", "-v=minimal")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0].strip() for line in lines[:3]] == [
        "Wall Time",
        "Total GPU Time",
        "TC GPU Time",
    ]
    assert len({len(line) for line in lines[:3]}) == 1
    assert all(line.endswith(" s") for line in lines[:3])
    assert "Expert Systems Feedback: " in done.stdout
    assert "[DLProf-" not in done.stdout


def test_normal_says_what_it_does_with_the_time_in_front(dlprof: Run, export: Path) -> None:
    done = dlprof(f"--database={export}", "--reports=summary")
    assert "Writing summary report to (./dlprof_summary.csv)\n" in done.stdout
    assert "Writing expert_systems report to (stdout)\n" in done.stdout
    assert done.stdout.startswith("[DLProf-")


def test_a_closed_pipe_does_not_undo_the_work(tmp_path: Path, export: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, f"--database={export}", "--reports=summary"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert names(tmp_path) == {"dlprof_dldb.sqlite", "dlprof_summary.csv"}


def test_diagnostic_times_the_phases(dlprof: Run, export: Path) -> None:
    done = dlprof(f"--database={export}", "--verbosity=diagnostic")
    assert "] Phase read: " in done.stdout


def test_the_application_and_capture_switches_are_said_to_be_ignored(
    dlprof: Run, export: Path
) -> None:
    done = dlprof(f"--database={export}", "-y", "3", "--nsys_opts=-t cuda", "python", "x.py")
    assert done.returncode == 0
    assert "] The application is ignored: --database was given\n" in done.stdout
    assert "] Unused with --database: --delay, --nsys_opts\n" in done.stdout


# --- databases as input ----------------------------------------------------------------------


def test_a_copy_of_an_own_database_gets_one_more_aggregation(
    dlprof: Run, tmp_path: Path, training: Path
) -> None:
    # GIVEN a database
    assert dlprof(f"--database={training}", "-v=quiet").returncode == 0
    original = (tmp_path / "dlprof_dldb.sqlite").read_bytes()
    # WHEN it is aggregated over fewer iterations, with reports and a name
    words = ("--database=dlprof_dldb.sqlite", "--iter_start=2", "--iter_stop=4")
    done = dlprof(*words, "--reports=summary", "--profile_name=short")
    # THEN it is as it was, and a copy holds both aggregations
    assert done.returncode == 0, done.stderr
    expected = {"dlprof_dldb.sqlite", "dlprof_dldb_1.sqlite", "short_summary_1.csv"}
    assert names(tmp_path) == expected
    assert (tmp_path / "dlprof_dldb.sqlite").read_bytes() == original
    summary = (tmp_path / "short_summary_1.csv").read_text().splitlines()
    assert {"Profile Name,short", "Start Iteration,2", "Stop Iteration,4"} <= set(summary)
    connection = sqlite3.connect(tmp_path / "dlprof_dldb_1.sqlite")
    assert connection.execute("SELECT count(*) FROM view_aggregations").fetchone() == (3,)
    connection.close()


def test_the_aggregation_of_a_phase_leaves_out_the_start_of_the_program(
    dlprof: Run, tmp_path: Path
) -> None:
    trace = Trace()
    trace.gpu()
    main = trace.thread()
    at = 1_000
    for number in range(24):
        length = 5_000_000 if number < 3 else 10_000  # The first ones compile.
        text = 'dlprof.phase: decode {"tokens":4,"sequences":4}'
        main.range(text, at, at + length - 10)
        main.op("mm", at + 10, at + 30)
        main.launch("gemm", at + 20)
        at += length
    trace.write(tmp_path / "serving.sqlite")
    assert dlprof("--database=serving.sqlite", "-v=quiet").returncode == 0

    def decode(*words: str) -> tuple[int, int, int]:
        done = dlprof("--database=dlprof_dldb.sqlite", "--phase=decode", "--force", *words)
        assert done.returncode == 0, done.stderr
        with closing(sqlite3.connect(tmp_path / "dlprof_dldb_1.sqlite")) as connection:
            query = (
                "SELECT iter_start, iter_stop, phase_iterations FROM view_aggregations"
                " JOIN view_phases USING (aggr_id) WHERE view_aggregations.phase = 'decode'"
            )
            (row,) = connection.execute(query).fetchall()
        found: tuple[int, int, int] = row
        return found

    first, last, count = decode()
    assert first >= 3
    assert count == last - first + 1
    assert decode("--iter_start=0")[0] == 0


def test_a_refused_aggregation_leaves_no_copy(dlprof: Run, tmp_path: Path, training: Path) -> None:
    assert dlprof(f"--database={training}", "-v=quiet").returncode == 0
    for words in (("--iter_start=99",), ("--mode=simple",)):
        done = dlprof("--database=dlprof_dldb.sqlite", *words)
        assert done.returncode == 2
        assert names(tmp_path) == {"dlprof_dldb.sqlite"}


def test_custom_domains_have_reports_of_their_own(
    dlprof: Run, tmp_path: Path, profile: Callable[[str], Path]
) -> None:
    export = profile("nvtx_domains")
    assert dlprof(f"--database={export}", "--reports=summary", "-v=quiet").returncode == 0
    assert {
        "dlprof_summary.csv",
        "dlprof_summary_Loop.csv",
        "dlprof_summary_Forward.csv",
        "dlprof_summary_Gradient.csv",
    } <= names(tmp_path)


def test_the_domains_switch_chooses_and_an_unknown_domain_is_named(
    dlprof: Run, tmp_path: Path, profile: Callable[[str], Path]
) -> None:
    words = (f"--database={profile('nvtx_domains')}", "--reports=summary", "-v=quiet")
    assert dlprof(*words, "--domains=Forward").returncode == 0
    assert {name for name in names(tmp_path) if name.endswith(".csv")} == {
        "dlprof_summary.csv",
        "dlprof_summary_Forward.csv",
    }
    done = dlprof(*words, "--domains=Forwrad", "--output_path=other")
    assert_one_error(done, 2, "Did you mean Forward?")


# --- signals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, demo_profile: Path, number: signal.Signals, exit_code: int
) -> None:
    # GIVEN a run that writes its database
    mark = tmp_path / "mark"
    process = subprocess.Popen(
        [
            *(sys.executable, PAUSED, "phase", "index", mark),
            *(f"--database={demo_profile}", "--reports=all", "--output_path=out"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not mark.exists():
        assert process.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.01)
    # WHEN it is interrupted
    process.send_signal(number)
    _, stderr = process.communicate(timeout=LIMIT_S)
    # THEN it ends with the code of that signal and without half-written files
    assert process.returncode == exit_code, stderr
    assert "Traceback" not in stderr
    folder = tmp_path / "out"
    left = names(folder) if folder.exists() else set()
    assert left <= {"dlprof_dldb.sqlite"}
